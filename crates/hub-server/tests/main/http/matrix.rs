//! Every request by every kind of token: the status, and that no answer has what the token may not see.
//!
//! A new path needs a row in [`ROWS`]; a test compares them with the router.

use super::world::{World, read};
use Needs::*;
use hub_server::Settings;
use hub_server::auth::Revoked;
use reqwest::Response;
use std::time::Duration;

/// What only some may see.
const TOPIC: &str = "vault.orders";
const GROUP: &str = "vault-group";
const KEY: &str = "vault-key";
const PAYLOAD: &str = "vault-payload";
const MAKER: &str = "vault-maker";

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Needs {
    Nothing,
    AnyToken,
    /// Any right on the topic.
    AnyRight,
    Publish,
    Subscribe,
    Admin,
    /// The right to read the dead letters of the topic, which `dlq.vault.orders` and the topic have to allow.
    ReadLetters,
    /// An admin right on something.
    AdminOfAny,
    AdminOfAll,
}

/// A request: method, path, body, what it needs, and the status if that is there.
pub(super) type Row = (&'static str, &'static str, &'static str, Needs, u16);

pub(super) const ROWS: &[Row] = &[
    ("POST", "/publish/vault.orders", "1", Publish, 200),
    ("GET", "/cursors?topic=vault.orders", "", Subscribe, 200),
    ("GET", "/lag?topic=vault.orders&group=vault-group", "", Subscribe, 200),
    ("GET", "/export?topic=vault.orders", "", Subscribe, 200),
    ("GET", "/replay?topic=vault.orders", "", Subscribe, 200),
    ("GET", "/replay?topic=vault.orders&correlationId=c", "", Subscribe, 200),
    ("GET", "/replay?topic=vault.orders&traceId=4bf92f3577b34da6a3ce929d0e0e4736", "", Subscribe, 200),
    ("GET", "/latest-by-key?topic=vault.orders", "", Subscribe, 200),
    ("GET", "/latest-by-key?topic=vault.orders&key=k", "", Subscribe, 200),
    ("GET", "/events?topic=vault.orders&from=earliest", "", Subscribe, 200),
    ("POST", "/ticket", "", AnyToken, 200),
    ("POST", "/ticket", r#"{"topic":"vault.orders"}"#, Subscribe, 200),
    ("GET", "/ws", "", Nothing, 426),
    ("GET", "/topics", "", AnyToken, 200),
    ("DELETE", "/topics?topic=vault.orders", "", Admin, 200),
    ("GET", "/groups", "", AnyToken, 200),
    ("GET", "/groups?topic=vault.orders", "", AnyRight, 200),
    ("DELETE", "/groups?topic=vault.orders&group=vault-group", "", Admin, 200),
    ("POST", "/groups/seek", r#"{"topic":"vault.orders","group":"vault-group","to":"latest"}"#, Admin, 200),
    ("GET", "/whoami", "", AnyToken, 200),
    ("GET", "/connections", "", AnyToken, 200),
    ("GET", "/audit", "", AdminOfAll, 200),
    ("GET", "/hubs", "", AdminOfAny, 200),
    ("GET", "/quotas", "", AnyToken, 200),
    ("GET", "/quotas?subject=someone", "", AdminOfAny, 200),
    ("GET", "/quotas?all=1", "", AdminOfAny, 200),
    ("POST", "/revoke", r#"{"sub":"someone"}"#, AdminOfAll, 200),
    ("POST", "/backup", "", AdminOfAll, 400),
    ("GET", "/outbox", "", AnyToken, 200),
    ("POST", "/outbox/retry", r#"{"outbox":"none"}"#, AdminOfAll, 404),
    ("GET", "/healthz", "", Nothing, 200),
    ("GET", "/readyz", "", Nothing, 200),
    ("GET", "/metrics", "", AnyToken, 200),
    ("GET", "/openapi.json", "", AnyToken, 200),
    ("GET", "/event?topic=vault.orders&seq=1", "", Subscribe, 200),
    ("GET", "/event/find?id=018bcfe5-6800-7000-8000-000000000001", "", AnyToken, 200),
    ("GET", "/event/search?traceId=4bf92f3577b34da6a3ce929d0e0e4736", "", AnyToken, 200),
    ("GET", "/event/search?correlationId=c", "", AnyToken, 200),
    ("GET", "/stats", "", AnyToken, 200),
    ("GET", "/stats?topic=vault.orders", "", AnyRight, 200),
    ("GET", "/live?view=overview", "", AnyToken, 200),
    ("GET", "/live?view=topics", "", AnyToken, 200),
    ("GET", "/live?view=groups", "", AnyToken, 200),
    ("GET", "/live?view=groups&topic=vault.orders", "", AnyRight, 200),
    ("GET", "/live?view=group&topic=vault.orders&group=vault-group", "", Subscribe, 200),
    ("GET", "/live?view=topic&topic=vault.orders", "", Subscribe, 200),
    ("GET", "/live?view=state&topic=vault.orders", "", Subscribe, 200),
    ("GET", "/history?topic=vault.orders", "", Subscribe, 200),
    ("GET", "/groups/detail?topic=vault.orders&group=vault-group", "", Subscribe, 200),
    ("GET", "/dlq", "", AnyToken, 200),
    ("GET", "/dlq?topic=vault.orders", "", ReadLetters, 200),
    ("DELETE", "/dlq?topic=vault.orders&ids=018bcfe5-6800-7000-8000-000000000001", "", Admin, 200),
    ("GET", "/dlq/show?topic=vault.orders&id=018bcfe5-6800-7000-8000-000000000001", "", ReadLetters, 400),
    ("GET", "/dlq/summary?topic=vault.orders", "", ReadLetters, 200),
    ("POST", "/dlq/replay", r#"{"topic":"vault.orders","dryRun":true}"#, Admin, 200),
    ("POST", "/dlq/delete", r#"{"topic":"vault.orders","all":true,"dryRun":true}"#, Admin, 200),
    ("GET", "/jobs", "", AnyToken, 200),
    ("GET", "/jobs/018bcfe5-6800-7000-8000-000000000001", "", AnyToken, 404),
    ("DELETE", "/jobs/018bcfe5-6800-7000-8000-000000000001", "", AnyToken, 404),
    ("GET", "/push", "", AnyToken, 200),
    ("GET", "/push/hook", "", AdminOfAny, 404),
    ("PUT", "/push/hook", PUSH, Admin, 200),
    ("DELETE", "/push/hook", "", AdminOfAny, 404),
    ("POST", "/push/hook/resume", "", AdminOfAny, 404),
    ("GET", "/schemas", "", AnyToken, 200),
    ("GET", "/schemas/vault.orders", "", AnyRight, 404),
    ("PUT", "/schemas/vault.orders", r#"{"type":"string"}"#, Admin, 200),
    ("DELETE", "/schemas/vault.orders", "", Admin, 404),
];

/// A push subscription. Nothing is delivered: this hub does not run them.
const PUSH: &str = r#"{"topic":"vault.orders","url":"https://hooks.example/","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#;

/// A kind of token.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    None,
    Nonsense,
    Expired,
    Revoked,
    NoRights,
    OtherTopic,
    SubscribeOnly,
    PublishOnly,
    AdminElsewhere,
    AllOfTopic,
    Everything,
}

const TOKENS: [Token; 11] = [
    Token::None,
    Token::Nonsense,
    Token::Expired,
    Token::Revoked,
    Token::NoRights,
    Token::OtherTopic,
    Token::SubscribeOnly,
    Token::PublishOnly,
    Token::AdminElsewhere,
    Token::AllOfTopic,
    Token::Everything,
];

impl Token {
    fn scopes(self) -> &'static [&'static str] {
        match self {
            Self::None | Self::Nonsense | Self::NoRights => &[],
            Self::OtherTopic => &["publish:other", "subscribe:other"],
            Self::SubscribeOnly => &["subscribe:vault.orders"],
            Self::PublishOnly => &["publish:vault.orders"],
            Self::AdminElsewhere => &["admin:other"],
            Self::AllOfTopic => &["publish:vault.orders", "subscribe:vault.orders", "admin:vault.orders"],
            // With these two it is not for want of rights.
            Self::Expired | Self::Revoked | Self::Everything => &["publish:**", "subscribe:**", "admin:**"],
        }
    }

    fn is_valid(self) -> bool {
        !matches!(self, Self::None | Self::Nonsense | Self::Expired | Self::Revoked)
    }

    fn has(self, needs: Needs) -> bool {
        use Token::{AdminElsewhere, AllOfTopic, Everything, PublishOnly, SubscribeOnly};
        match needs {
            Nothing => true,
            AnyToken => self.is_valid(),
            AnyRight => matches!(self, SubscribeOnly | PublishOnly | AllOfTopic | Everything),
            Publish => matches!(self, PublishOnly | AllOfTopic | Everything),
            Subscribe => matches!(self, SubscribeOnly | AllOfTopic | Everything),
            Admin => matches!(self, AllOfTopic | Everything),
            AdminOfAny => matches!(self, AdminElsewhere | AllOfTopic | Everything),
            ReadLetters | AdminOfAll => self == Everything,
        }
    }

    /// The token, in a world where it is what it should be.
    async fn of(self, world: &World) -> String {
        let token = world.token_of("ada", self.scopes());
        match self {
            Self::None => String::new(),
            Self::Nonsense => "nonsense".to_owned(),
            Self::Expired => {
                world.clock.jump(2 * 3600 * 1000);
                token
            }
            Self::Revoked => {
                world.hub.revoke(Revoked::Subject("ada".into())).await.unwrap();
                token
            }
            _ => token,
        }
    }

    fn expected(self, needs: Needs, allowed: u16) -> u16 {
        match self.has(needs) {
            true => allowed,
            false if self.is_valid() => 403,
            false => 401,
        }
    }
}

pub(super) async fn world() -> World {
    let world = World::with(Settings::default()).await;
    let event = hub_core::NewEvent::new(TOPIC.parse().unwrap(), hub_core::Payload::of(&PAYLOAD).unwrap());
    world.bus().send_for(MAKER, event.with_key(KEY)).await.unwrap();
    world.group(TOPIC, GROUP).await;
    world.fill("other", 1).await;
    world
}

/// The text of an answer; of a stream, that of its beginning.
async fn text(mut answer: Response) -> String {
    let is_stream = answer.headers()["content-type"] == "text/event-stream";
    let mut text = Vec::new();
    let whole = async {
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text.extend_from_slice(&chunk);
            if is_stream && text.windows(5).any(|part| part == b"data:") {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), whole).await.expect("an answer in time");
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn every_token_gets_what_it_may_and_sees_no_more() {
    for row @ (method, path, body, needs, allowed) in ROWS {
        for token in TOKENS {
            let world = world().await;
            let request = world.request(method, path, &token.of(&world).await).body(*body);
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            let text = text(answer).await;
            assert_eq!(status, token.expected(*needs, *allowed), "{row:?} with {token:?}: {text}");
            let asked = format!("{path} {body}");
            let hidden = [
                (PAYLOAD, token.has(Subscribe)),
                (KEY, token.has(Subscribe)),
                (GROUP, token.has(Subscribe) || token.has(Admin)),
                (TOPIC, token.has(AnyRight)),
                (MAKER, token.has(AdminOfAny)),
            ];
            // A name that the client sent tells it nothing. Metrics have the names of topics and groups for every token.
            for (name, may_see) in hidden {
                let is_told = asked.contains(name) || (*path == "/metrics" && [GROUP, TOPIC].contains(&name));
                assert!(
                    may_see || is_told || !text.contains(name),
                    "{row:?} shows {name} to {token:?}: {text}"
                );
            }
        }
    }
}

#[tokio::test]
async fn what_is_shown_is_there_to_be_hidden() {
    let world = world().await;
    let token = world.token(&["publish:**", "subscribe:**", "admin:**"]);
    for (path, shows) in [
        ("/export?topic=vault.orders", &[PAYLOAD, KEY][..]),
        ("/replay?topic=vault.orders", &[PAYLOAD, KEY]),
        ("/latest-by-key?topic=vault.orders", &[PAYLOAD, KEY]),
        ("/events?topic=vault.orders&from=earliest", &[PAYLOAD, KEY]),
        ("/topics", &[TOPIC, MAKER]),
        ("/groups", &[TOPIC, GROUP]),
        ("/quotas?all=1", &[MAKER]),
    ] {
        let text = text(world.request("GET", path, &token).send().await.unwrap()).await;
        assert!(shows.iter().all(|name| text.contains(name)), "{path}: {text}");
    }
}

#[tokio::test]
async fn whether_a_topic_exists_is_not_told_to_who_may_not_see_it() {
    for (method, path, body, needs, _) in ROWS {
        if !path.contains(TOPIC) && !body.contains(TOPIC) {
            continue;
        }
        for token in TOKENS.into_iter().filter(|token| !token.has(*needs)) {
            let world = world().await;
            let token = token.of(&world).await;
            let ask = async |topic: &str| {
                let (path, body) = (path.replace(TOPIC, topic), body.replace(TOPIC, topic));
                let got = read(world.request(method, &path, &token).body(body).send().await.unwrap()).await;
                (got.status, got.json.to_string().replace(topic, "…"))
            };
            assert_eq!(ask(TOPIC).await, ask("vault.nothing").await, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_operation_of_the_api_has_a_row() {
    let world = World::new().await;
    let document = world.get("/openapi.json").await.ok();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let fixed = path.split('{').next().unwrap();
        for method in methods.as_object().unwrap().keys() {
            let has = |row: &Row| {
                let asked = row.1.split('?').next().unwrap();
                let is_path = asked == path || (fixed != path && asked.starts_with(fixed));
                is_path && row.0.eq_ignore_ascii_case(method)
            };
            assert!(ROWS.iter().any(has), "{method} {path} has no row in the matrix of tokens");
        }
    }
}
