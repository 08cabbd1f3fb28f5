//! Clients that show certificates: who gets in, who they are, and what they may do.

use crate::certificates::{Authority, Leaf, client};
use crate::net::soon;
use crate::world::{ALL, SECRET, STATIC, Wall, signed};
use hub_client::{Code, Connection, Error, NewEvent, Payload, Target};
use hub_core::Bus;
use hub_server::acl::Policy;
use hub_server::auth::{AuthConfig, Authenticator, Revoked, Secret};
use hub_server::net::{Tls, TlsFiles, serve};
use hub_server::{Hub, Settings};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::HandshakeKind;

const ADA: &str = "spiffe://tests/ada";

/// A hub behind TLS, with a gateway and HTTP.
struct World {
    hub: Hub,
    tls: Tls,
    gateway: SocketAddr,
    ops: SocketAddr,
    /// Signs certificates of servers, and unless a test says otherwise those of clients.
    authority: Authority,
    wall: Wall,
}

impl World {
    /// Anybody may publish to `allowed`, by the hub's own rules.
    async fn new(required: bool) -> Self {
        Self::with(required, AuthConfig::default(), &["publish:allowed"]).await
    }

    async fn with(required: bool, auth: AuthConfig, policy: &[&str]) -> Self {
        let (authority, wall) = (Authority::new("tests"), Wall::new());
        let tls = authority.tls(&authority, required);
        let auth =
            AuthConfig { secret: Some(Secret::new(SECRET)), static_token: Some(Secret::new(STATIC)), ..auth };
        let auth = Authenticator::with_clock(auth, std::sync::Arc::new(wall.clone())).unwrap();
        let settings = Settings { policy: Policy::from_scopes(policy).unwrap(), ..Settings::default() };
        let bus = Bus::builder(hub_core::MemoryStore::new()).clock(wall.clone()).open().await.unwrap();
        let hub = Hub::builder(bus, auth).settings(settings).build();
        let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (gateway, ops) = (listen().await, listen().await);
        let at = (gateway.local_addr().unwrap(), ops.local_addr().unwrap());
        tokio::spawn(serve(gateway, hub.gateway(), Some(tls.clone()), hub.clone()));
        tokio::spawn(serve(ops, hub.ops(), Some(tls.clone()), hub.clone()));
        Self { hub, tls, gateway: at.0, ops: at.1, authority, wall }
    }

    async fn connect(&self, leaf: Option<&Leaf>) -> Result<Connection, Error> {
        let target = Target::new(format!("wss://localhost:{}/", self.gateway.port())).unwrap();
        let target = target.root_certificates(self.authority.pem()).unwrap();
        let target = match leaf {
            Some(leaf) => target.client_certificate(leaf.shown()),
            None => target,
        };
        soon(Connection::connect(&target)).await
    }

    /// A connection that says who it is by a certificate.
    async fn by_certificate(&self, leaf: &Leaf) -> Connection {
        let connection = self.connect(Some(leaf)).await.unwrap();
        soon(connection.authenticate_by_certificate()).await.unwrap();
        connection
    }

    /// A client over HTTP that shows this certificate.
    fn http(&self, leaf: Option<&Leaf>) -> reqwest::Client {
        let root = reqwest::Certificate::from_pem(self.authority.pem()).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([root]);
        let http = match leaf {
            Some(leaf) => {
                let pem = [std::fs::read(&leaf.key).unwrap(), std::fs::read(&leaf.cert).unwrap()].concat();
                http.identity(reqwest::Identity::from_pem(&pem).unwrap())
            }
            None => http,
        };
        http.build().unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.ops.port())
    }

    /// `POST /publish/{topic}` over HTTP, with these headers.
    async fn post(&self, leaf: Option<&Leaf>, topic: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut request = self.http(leaf).post(self.url(&format!("/publish/{topic}"))).body("1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = soon(request.send()).await.unwrap();
        (answer.status().as_u16(), serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap())
    }
}

async fn publish(connection: &Connection, topic: &str) -> Result<(), Code> {
    let event = NewEvent::new(topic.parse().unwrap(), Payload::of(&1).unwrap());
    soon(connection.publish(&event)).await.map(drop).map_err(|error| error.code().unwrap())
}

fn code<T: std::fmt::Debug>(refused: Result<T, Error>) -> Code {
    let error = refused.unwrap_err();
    error.code().unwrap_or_else(|| panic!("{error}"))
}

#[tokio::test]
async fn an_optional_certificate_is_who_a_client_without_a_token_is() {
    let world = World::new(false).await;
    let mut params = client(ADA);
    params.not_after = rcgen::date_time_ymd(2090, 1, 1);
    let ada = world.authority.sign(&params);
    let connection = world.connect(Some(&ada)).await.unwrap();
    let identity = connection.authenticate_by_certificate().await.unwrap();
    assert_eq!((identity.sub.as_deref(), identity.exp), (Some(ADA), Some(3_786_912_000)));
    // What the hub's own rules allow, and nothing else.
    assert_eq!(publish(&connection, "allowed").await, Ok(()));
    assert_eq!(publish(&connection, "other").await, Err(Code::Forbidden));
    assert_eq!(world.post(Some(&ada), "allowed", &[]).await.0, 200);
    assert_eq!(world.post(Some(&ada), "other", &[]).await.1["code"], "forbidden");

    let bare = world.connect(None).await.unwrap();
    assert_eq!(code(bare.authenticate_by_certificate().await), Code::NoToken);
    assert_eq!(world.post(None, "allowed", &[]).await.1["code"], "no_token");
    bare.authenticate(&signed(Some("bob"), ALL)).await.unwrap();
    assert_eq!(publish(&bare, "other").await, Ok(()));
}

#[tokio::test]
async fn without_rules_of_the_hub_a_certificate_may_do_nothing() {
    let world = World::with(false, AuthConfig::default(), &[]).await;
    let ada = world.authority.client(ADA);
    let connection = world.by_certificate(&ada).await;
    assert_eq!(publish(&connection, "allowed").await, Err(Code::Forbidden));
    assert_eq!(world.post(Some(&ada), "allowed", &[]).await.1["code"], "forbidden");
}

#[tokio::test]
async fn a_token_counts_more_than_the_certificate() {
    let world = World::new(false).await;
    let ada = world.authority.client(ADA);
    let connection = world.connect(Some(&ada)).await.unwrap();
    let identity = connection.authenticate(&signed(Some("bob"), ALL)).await.unwrap();
    assert_eq!(identity.sub.as_deref(), Some("bob"));
    assert_eq!(publish(&connection, "other").await, Ok(()));
    assert_eq!(code(connection.authenticate_by_certificate().await), Code::JwtInvalid, "the subject stays");
    let bearer = format!("Bearer {}", signed(Some("bob"), ALL));
    assert_eq!(world.post(Some(&ada), "other", &[("authorization", &bearer)]).await.0, 200);
    // A token that is bad is not made good by a certificate, and an empty one is none.
    let connection = world.connect(Some(&ada)).await.unwrap();
    assert_eq!(code(connection.authenticate("bad").await), Code::JwtInvalid);
    assert_eq!(code(connection.authenticate("").await), Code::NoToken);
    assert_eq!(world.post(Some(&ada), "allowed", &[("authorization", "Bearer bad")]).await.0, 401);
}

#[tokio::test]
async fn a_required_certificate_is_asked_of_everybody() {
    let world = World::new(true).await;
    assert!(world.connect(None).await.is_err());
    let connection = world.by_certificate(&world.authority.client(ADA)).await;
    assert_eq!(publish(&connection, "allowed").await, Ok(()));
}

#[tokio::test]
async fn a_certificate_that_does_not_verify_ends_the_handshake() {
    let stranger = Authority::new("somebody else");
    for required in [false, true] {
        let world = World::new(required).await;
        let mut expired = client(ADA);
        (expired.not_before, expired.not_after) =
            (rcgen::date_time_ymd(2019, 1, 1), rcgen::date_time_ymd(2020, 1, 1));
        let mut for_servers = client(ADA);
        for_servers.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        for (what, bad) in [
            ("of another authority", stranger.client(ADA)),
            ("expired", world.authority.sign(&expired)),
            ("for servers", world.authority.sign(&for_servers)),
        ] {
            assert!(world.connect(Some(&bad)).await.is_err(), "{what}, required: {required}");
        }
        world.connect(Some(&world.authority.client(ADA))).await.unwrap();
    }
}

#[tokio::test]
async fn a_certificate_without_a_name_is_nobody() {
    let world = World::new(true).await;
    let mut params = client(ADA);
    (params.subject_alt_names, params.distinguished_name) = (vec![], rcgen::DistinguishedName::new());
    let nobody = world.authority.sign(&params);
    let connection = world.connect(Some(&nobody)).await.unwrap();
    assert_eq!(code(connection.authenticate_by_certificate().await), Code::NoToken);
    connection.authenticate(&signed(None, ALL)).await.unwrap();
}

#[tokio::test]
async fn a_bound_token_is_good_with_a_certificate_of_its_subject_only() {
    let auth = AuthConfig { certificate_binds_subject: true, ..AuthConfig::default() };
    let world = World::with(false, auth, &["publish:allowed"]).await;
    let (ada, eve) = (world.authority.client(ADA), world.authority.client("spiffe://tests/eve"));
    let token = signed(Some(ADA), ALL);
    world.connect(Some(&ada)).await.unwrap().authenticate(&token).await.unwrap();
    for (leaf, token) in
        [(Some(&eve), &*token), (None, &*token), (Some(&ada), &*signed(None, ALL)), (Some(&ada), STATIC)]
    {
        let connection = world.connect(leaf).await.unwrap();
        assert_eq!(code(connection.authenticate(token).await), Code::JwtInvalid);
        let bearer = format!("Bearer {token}");
        let refused = world.post(leaf, "allowed", &[("authorization", &bearer)]).await;
        assert_eq!(refused.1["code"], "jwt_invalid");
    }
    world.by_certificate(&eve).await;
}

#[tokio::test]
async fn a_revoked_subject_loses_its_certificates_until_it_has_a_newer_one() {
    let world = World::new(false).await;
    let ada = world.authority.client(ADA);
    let connection = world.by_certificate(&ada).await;
    let other = world.by_certificate(&world.authority.client("spiffe://tests/eve")).await;
    let mut notices = connection.notices();
    world.hub.revoke(Revoked::Subject(ADA.to_owned())).await.unwrap();
    assert_eq!(soon(notices.recv()).await.unwrap().code(), Some(Code::TokenRevoked));
    soon(connection.closed()).await;
    let again = world.connect(Some(&ada)).await.unwrap();
    assert_eq!(code(again.authenticate_by_certificate().await), Code::TokenRevoked);
    assert_eq!(world.post(Some(&ada), "allowed", &[]).await.1["code"], "token_revoked");
    assert_eq!(publish(&other, "allowed").await, Ok(()));
    // A certificate is as old as its notBefore says. This one is of the next second.
    let mut newer = client(ADA);
    let next = hub_core::Clock::wall(&world.wall) / 1000 + 1;
    newer.not_before = rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(next);
    let newer = world.authority.sign(&newer);
    soon(async {
        while world.connect(Some(&newer)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    world.by_certificate(&newer).await;
}

#[tokio::test]
async fn an_identity_ends_with_its_certificate() {
    let world = World::new(false).await;
    let mut params = client(ADA);
    params.not_after = rcgen::date_time_ymd(2090, 1, 1);
    let ada = world.authority.sign(&params);
    // The handshake goes by the machine's clock, the identity by the hub's.
    world.wall.advance(3_786_912_001_000 - hub_core::Clock::wall(&world.wall));
    let connection = world.connect(Some(&ada)).await.unwrap();
    assert_eq!(code(connection.authenticate_by_certificate().await), Code::TokenExpired);
}

#[tokio::test]
async fn a_reload_of_the_authorities_ends_who_is_not_covered_any_more() {
    let world = World::new(false).await;
    let ada = world.authority.client(ADA);
    let (connection, mut notices) = {
        let connection = world.by_certificate(&ada).await;
        let notices = connection.notices();
        (connection, notices)
    };
    let with_token = world.connect(Some(&ada)).await.unwrap();
    with_token.authenticate(&signed(Some("bob"), ALL)).await.unwrap();
    let settings = || (*world.hub.settings()).clone();

    // The same authority beside another one.
    let other = Authority::new("another");
    let both = [world.authority.pem(), other.pem()].concat();
    std::fs::write(other.file(), both).unwrap();
    let wide: TlsFiles = world.authority.files(&other, false);
    world.tls.reload(&wide).unwrap();
    world.hub.apply(settings());
    assert_eq!(publish(&connection, "allowed").await, Ok(()));
    world.by_certificate(&other.client("spiffe://other/eve")).await;

    std::fs::write(other.file(), other.pem()).unwrap();
    world.tls.reload(&wide).unwrap();
    world.hub.apply(settings());
    assert_eq!(soon(notices.recv()).await.unwrap().code(), Some(Code::TokenRevoked));
    soon(connection.closed()).await;
    assert!(world.connect(Some(&ada)).await.is_err());
    world.by_certificate(&other.client("spiffe://other/eve")).await;
    assert_eq!(publish(&with_token, "allowed").await, Ok(()), "a token is not the authority's matter");
}

#[tokio::test]
async fn a_web_page_cannot_use_the_certificate_of_its_visitor() {
    let world = World::new(false).await;
    let ada = world.authority.client(ADA);
    let evil = ("origin", "https://evil.example");
    let refused = world.post(Some(&ada), "allowed", &[evil]).await;
    assert_eq!((refused.0, &refused.1["code"]), (403, &json!("forbidden")), "{refused:?}");
    let same = ("origin", "https://localhost");
    assert_eq!(world.post(Some(&ada), "allowed", &[same]).await.0, 200);
    let bearer = format!("Bearer {}", signed(Some("bob"), ALL));
    let with_token = [evil, ("authorization", &*bearer)];
    assert_eq!(
        world.post(Some(&ada), "allowed", &with_token).await.0,
        200,
        "a page with a token has it from somebody"
    );
}

#[tokio::test]
async fn a_bound_token_s_ticket_is_good_with_a_certificate_of_its_subject_only() {
    let auth = AuthConfig { certificate_binds_subject: true, ..AuthConfig::default() };
    let world = World::with(false, auth, &["publish:allowed"]).await;
    let (ada, eve) = (world.authority.client(ADA), world.authority.client("spiffe://tests/eve"));
    assert_eq!(world.post(Some(&ada), "allowed", &[]).await.0, 200);
    let token = signed(Some(ADA), ALL);
    for (leaf, status) in [(Some(&eve), 401), (None, 401), (Some(&ada), 200)] {
        let asked = world.http(Some(&ada)).post(world.url("/ticket")).bearer_auth(&token);
        let answer = soon(asked.send()).await.unwrap().bytes().await.unwrap();
        let ticket = serde_json::from_slice::<Value>(&answer).unwrap()["ticket"].as_str().unwrap().to_owned();
        let export = world.http(leaf).get(world.url(&format!("/export?topic=allowed&ticket={ticket}")));
        assert_eq!(soon(export.send()).await.unwrap().status().as_u16(), status);
    }
}

#[tokio::test]
async fn an_answer_to_a_certificate_is_not_compressed_as_a_page_can_ask_for_it() {
    let world = World::with(false, AuthConfig::default(), &["publish:allowed", "subscribe:allowed"]).await;
    let ada = world.authority.client(ADA);
    world.hub.bus().publish("allowed", json!("x".repeat(10_000))).key("k").await.unwrap();
    for path in ["/replay?topic=allowed", "/export?topic=allowed", "/latest-by-key?topic=allowed&key=k"] {
        let ask = || world.http(Some(&ada)).get(world.url(path)).header("accept-encoding", "gzip");
        let by_certificate = soon(ask().send()).await.unwrap();
        assert_eq!(by_certificate.status(), 200, "{path}");
        assert!(by_certificate.headers().get("content-encoding").is_none(), "{path}");
        let by_token = soon(ask().bearer_auth(STATIC).send()).await.unwrap();
        assert_eq!(by_token.headers()["content-encoding"], "gzip", "{path}");
    }
}

#[tokio::test]
async fn every_connection_shows_its_certificate_anew() {
    let world = World::new(true).await;
    let connector = world.authority.connector(Some(&world.authority.client(ADA)));
    for _ in 0..2 {
        let stream = TcpStream::connect(world.ops).await.unwrap();
        let mut stream = soon(connector.connect("localhost".try_into().unwrap(), stream)).await.unwrap();
        // An answer comes behind any ticket for the next session.
        crate::net::send(&mut stream, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        crate::net::answer(&mut stream).await;
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
    }
}
