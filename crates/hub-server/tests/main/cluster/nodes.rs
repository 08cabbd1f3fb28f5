//! Hubs that can be stopped and killed, each on a runtime of its own.

use crate::world::{ALL, Client, SECRET, STATIC, token};
use hub_core::store::EventStore;
use hub_core::testkit::FaultyStore;
use hub_core::{Bus, ClusterConfig, MemoryStore, Owner};
use hub_server::auth::{AuthConfig, Authenticator, ClusterKey, Secret};
use hub_server::{Hub, Settings};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Nothing in a test takes so long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A store, and as many hubs over it as a test wants.
#[derive(Default)]
pub struct Cluster {
    store: MemoryStore,
}

/// One of them.
pub struct Node {
    pub hub: Hub,
    pub address: SocketAddr,
    pub ops: SocketAddr,
    /// Everything of it runs here, so it can be ended at once.
    runtime: Option<Runtime>,
}

impl Cluster {
    pub fn new() -> Self {
        Self::default()
    }

    pub async fn node(&self) -> Node {
        self.node_with(Settings::default(), patient()).await
    }

    pub async fn node_with(&self, settings: Settings, cluster: ClusterConfig) -> Node {
        self.node_over(Arc::new(self.store.clone()), settings, cluster, None).await
    }

    /// One that others reach over TLS, and that trusts those with the same certificate.
    pub async fn secure_node(&self, pair: &Pair) -> Node {
        let store = Arc::new(self.store.clone());
        let secure = Secure { tls: pair.tls(), roots: pair.pem.clone(), certificate: None };
        self.node_over(store, Settings::default(), patient(), Some(secure)).await
    }

    /// One that others reach over TLS of this kind.
    pub async fn node_by(&self, secure: Secure) -> Node {
        let store = Arc::new(self.store.clone());
        self.node_over(store, Settings::default(), patient(), Some(secure)).await
    }

    /// One whose view of the store can be broken.
    pub async fn faulty_node(&self, cluster: ClusterConfig) -> (Node, FaultyStore) {
        let store = FaultyStore::new(Arc::new(self.store.clone()));
        (self.node_over(Arc::new(store.clone()), Settings::default(), cluster, None).await, store)
    }

    async fn node_over(
        &self,
        store: Arc<dyn EventStore>,
        settings: Settings,
        cluster: ClusterConfig,
        secure: Option<Secure>,
    ) -> Node {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let started = runtime.spawn(async move {
            let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let ops = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = (gateway.local_addr().unwrap(), ops.local_addr().unwrap());
            let address = match &secure {
                // Others reach it by a way of the test's own.
                _ if !cluster.address.is_empty() => cluster.address.clone(),
                Some(_) => format!("wss://localhost:{}/", at.0.port()),
                None => format!("ws://{}/", at.0),
            };
            let cluster = ClusterConfig { address, version: "test".into(), ..cluster };
            let schemas = Arc::new(hub_schema::Schemas::default());
            let bus = Bus::builder_over(store).cluster(cluster).payload_checks(schemas).open().await.unwrap();
            let auth = AuthConfig {
                secret: Some(Secret::new(SECRET)),
                static_token: Some(Secret::new(STATIC)),
                ..AuthConfig::default()
            };
            let hub = Hub::builder(bus, Authenticator::new(auth).unwrap()).settings(settings);
            let hub = hub.cluster_key(key());
            let (tls, hub) = match secure {
                Some(Secure { tls, roots, certificate }) => {
                    let hub = hub.cluster_roots(roots);
                    let hub = match certificate {
                        Some(certificate) => hub.cluster_certificate(certificate),
                        None => hub,
                    };
                    (Some(tls), hub.build())
                }
                None => (None, hub.build()),
            };
            tokio::spawn(hub_server::net::serve(gateway, hub.gateway(), tls, hub.clone()));
            tokio::spawn(hub_server::net::serve(ops, hub.ops(), None, hub.clone()));
            (hub, at)
        });
        let (hub, (address, ops)) = started.await.unwrap();
        Node { hub, address, ops, runtime: Some(runtime) }
    }
}

/// How a node is reached, whom it trusts, and what it shows.
pub struct Secure {
    pub tls: hub_server::net::Tls,
    pub roots: Vec<u8>,
    pub certificate: Option<hub_client::Certificate>,
}

/// A certificate of its own, in files.
pub struct Pair {
    dir: tempfile::TempDir,
    pub pem: Vec<u8>,
}

impl Pair {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { dir, pem: made.cert.pem().into_bytes() }
    }

    fn tls(&self) -> hub_server::net::Tls {
        let file = |name: &str| self.dir.path().join(name);
        hub_server::net::Tls::from_files(&file("cert.pem"), &file("key.pem")).unwrap()
    }
}

/// Nobody is found dead, and nobody gives up a name for want of members.
pub fn patient() -> ClusterConfig {
    ClusterConfig {
        dead_after: 60_000,
        serve_for: 50_000,
        idle_for: 600_000,
        report_for: 10_000,
        ..ClusterConfig::default()
    }
}

/// A hub that is gone is found dead soon; one that is only slow, on a busy machine, is not.
pub fn watchful() -> ClusterConfig {
    ClusterConfig {
        beat_every: 100,
        dead_after: 2_500,
        serve_for: 2_000,
        idle_for: 600_000,
        report_for: 10_000,
        ..ClusterConfig::default()
    }
}

pub fn key() -> ClusterKey {
    ClusterKey::derived(&Secret::new(SECRET))
}

impl Node {
    pub fn bus(&self) -> &Bus {
        self.hub.bus()
    }

    pub async fn client(&self) -> Client {
        self.client_with(&token(ALL)).await
    }

    pub async fn client_with(&self, token: &str) -> Client {
        let mut client = Client::open(self.address).await;
        client.ok(json!({"op": "AUTH", "token": token})).await;
        client
    }

    /// Makes this hub the owner of a group.
    pub async fn owns(&self, group: &str) {
        assert_eq!(self.bus().owner_of(group).await, Ok(Owner::Here));
    }

    pub async fn publish(&self, topic: &str, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            self.bus().publish(topic, json!(n)).await.unwrap();
        }
    }

    /// How many members a group has, as its owner knows.
    pub fn members(&self, topic: &str, group: &str) -> usize {
        self.bus().group(topic, group).map_or(0, |status| status.members)
    }

    /// As SIGTERM does.
    pub async fn stop(mut self) {
        let runtime = self.runtime.take().unwrap();
        let hub = self.hub.clone();
        let stopping = runtime.spawn(async move {
            assert_eq!(hub.drain(PATIENCE).await, 0);
            hub.bus().stop().await.unwrap();
        });
        stopping.await.unwrap();
        runtime.shutdown_background();
    }

    /// As `kill -STOP` does, until the answer is dropped: its sockets stay open, and nothing moves.
    pub async fn freeze(&self) -> impl Drop + use<> {
        struct Thaw(Option<std::sync::mpsc::Sender<()>>);
        impl Drop for Thaw {
            fn drop(&mut self) {
                drop(self.0.take());
            }
        }
        let (thaw, thawed) = std::sync::mpsc::channel::<()>();
        let (say, is_frozen) = tokio::sync::oneshot::channel();
        // There is one thread for everything.
        self.runtime.as_ref().unwrap().spawn(async move {
            say.send(()).unwrap();
            let _ = thawed.recv();
        });
        is_frozen.await.unwrap();
        Thaw(Some(thaw))
    }

    /// As `kill -9` does: nothing is said, nothing is saved, all sockets are gone.
    pub fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    /// Delivers push subscriptions, as long as it lives.
    pub fn start_push(&self) {
        let _guard = self.runtime.as_ref().unwrap().enter();
        self.hub.start_push();
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, Value::Null).await
    }

    pub async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let url = format!("http://{}{path}", self.ops);
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = reqwest::Client::new().request(method, url).bearer_auth(token(ALL));
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// The next event of a client, which has to be one.
pub async fn event(client: &mut Client) -> Value {
    let frame = client.next().await;
    assert_eq!(frame["op"], "EVENT", "{frame}");
    frame
}

pub fn seq(event: &Value) -> u64 {
    event["event"]["seq"].as_u64().unwrap()
}

pub fn ack(event: &Value) -> Value {
    json!({"op": "ACK", "topic": event["topic"], "group": event["group"], "id": event["event"]["id"]})
}

#[expect(clippy::needless_pass_by_value, reason = "it is written in place")]
pub fn subscribe(topic: &str, opts: Value) -> Value {
    json!({"op": "SUBSCRIBE", "topic": topic, "group": "g", "opts": opts})
}
