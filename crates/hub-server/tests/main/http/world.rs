//! A hub on a free port, and a client.

use hub_core::prometheus_client::registry::Registry;
use hub_core::testkit::FaultyStore;
use hub_core::{Bus, Clock, Config, MemoryStore, Millis, Position, SystemClock};
use hub_server::audit::Audit;
use hub_server::auth::mint::{Claims, mint_at};
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::{Hub, Settings};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Nothing in a test takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The token that may do everything.
pub const STATIC: &str = "a-static-token-for-tests";

/// The system's clock, set forward by hand.
#[derive(Clone)]
pub struct TestClock {
    system: Arc<SystemClock>,
    ahead: Arc<AtomicU64>,
}

impl TestClock {
    pub fn jump(&self, millis: Millis) {
        self.ahead.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn wall(&self) -> Millis {
        self.system.wall() + self.ahead.load(Ordering::SeqCst)
    }

    fn steady(&self) -> Millis {
        self.system.steady()
    }
}

pub struct World {
    pub hub: Hub,
    pub store: FaultyStore,
    pub clock: TestClock,
    pub at: String,
    pub http: reqwest::Client,
    secret: Secret,
    server: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// What came back.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub json: Value,
}

impl Got {
    /// Status and code of a refusal, whose shape is checked.
    #[track_caller]
    pub fn refusal(&self) -> (u16, &str) {
        let error = self.json["error"].as_str().unwrap_or_else(|| panic!("no error in {self:?}"));
        assert!(!error.is_empty() && error.len() < 400, "{error}");
        (self.status, self.json["code"].as_str().unwrap())
    }

    #[track_caller]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.json);
        self.json
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(Settings { open_metrics: true, ..Settings::default() }).await
    }

    pub async fn with(settings: Settings) -> Self {
        Self::configured(settings, Config::default()).await
    }

    pub async fn configured(settings: Settings, config: Config) -> Self {
        Self::build(settings, config, Audit::off()).await
    }

    /// One with an audit log.
    pub async fn audited(audit: Audit) -> Self {
        Self::build(Settings::default(), Config::default(), audit).await
    }

    async fn build(settings: Settings, config: Config, audit: Audit) -> Self {
        let clock = TestClock { system: Arc::new(SystemClock::new()), ahead: Arc::default() };
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let mut registry = Registry::default();
        let bus = Bus::builder(store.clone()).clock(clock.clone()).config(config);
        let bus = bus.payload_checks(Arc::new(hub_schema::Schemas::default()));
        let bus = bus.open_with(&mut registry).await.unwrap();
        let secret = Secret::new("0123456789abcdef0123456789abcdef");
        let auth = AuthConfig {
            secret: Some(secret.clone()),
            static_token: Some(Secret::new(STATIC)),
            leeway_secs: 0,
            ..AuthConfig::default()
        };
        let auth = Authenticator::with_clock(auth, Arc::new(clock.clone())).unwrap();
        let hub = Hub::builder(bus, auth).settings(settings).registry(registry).audit(audit).build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let router = hub.ops();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { hub, store, clock, at, http: reqwest::Client::new(), secret, server }
    }

    pub fn bus(&self) -> &Bus {
        self.hub.bus()
    }

    /// Has tokens of another secret be valid, and those of before not any more.
    pub fn rotate_secret(&self) {
        let config = AuthConfig {
            secret: Some(Secret::new("another secret that is long enough")),
            ..AuthConfig::default()
        };
        self.hub.auth().reload(config).unwrap();
        self.hub.apply(Settings::default());
    }

    /// A token for an hour.
    pub fn token(&self, scopes: &[&str]) -> String {
        self.token_of("ada", scopes)
    }

    /// A token of a subject, for an hour.
    pub fn token_of(&self, subject: &str, scopes: &[&str]) -> String {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        self.mint(Claims { sub: Some(subject.into()), scopes, ..Claims::default() })
    }

    pub fn ruled(&self, rules: &Value) -> String {
        self.mint(Claims { policy: Some(json!({"rules": rules})), ..Claims::default() })
    }

    fn mint(&self, claims: Claims) -> String {
        let ttl = Some(Duration::from_secs(3600));
        mint_at(&self.secret, &Claims { ttl, ..claims }, self.clock.wall())
    }

    pub fn request(&self, method: &str, path: &str, token: &str) -> reqwest::RequestBuilder {
        let url = format!("http://{}{path}", self.at);
        let request = self.http.request(Method::from_bytes(method.as_bytes()).unwrap(), url);
        if token.is_empty() { request } else { request.bearer_auth(token) }
    }

    /// Asks, with a body if there is one.
    pub async fn ask(&self, method: &str, path: &str, token: &str, body: &str) -> Got {
        let request = self.request(method, path, token);
        let request = if body.is_empty() { request } else { request.body(body.to_owned()) };
        read(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Got {
        self.ask("GET", path, STATIC, "").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Got {
        self.ask("POST", path, STATIC, body).await
    }

    /// Publishes numbers from 1 on.
    pub async fn fill(&self, topic: &str, count: u64) {
        for n in 1..=count {
            self.bus().publish(topic, json!(n)).await.unwrap();
        }
    }

    /// Makes a group at the beginning of a topic, without members.
    pub async fn group(&self, topic: &str, group: &str) {
        self.bus().subscribe(topic).group(group).from(Position::Earliest).open().await.unwrap().close();
    }
}

/// An answer, which is JSON and says that it is not to be kept.
pub async fn read(response: Response) -> Got {
    let (status, headers) = (response.status(), response.headers().clone());
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(!headers.contains_key("access-control-allow-origin"));
    let body =
        tokio::time::timeout(PATIENCE, response.bytes()).await.expect("a whole answer in time").unwrap();
    let json = match status {
        StatusCode::OK if headers["content-type"] != "application/json" => Value::Null,
        _ => {
            assert_eq!(headers["content-type"], "application/json");
            serde_json::from_slice(&body).unwrap()
        }
    };
    Got { status: status.as_u16(), headers, json }
}
