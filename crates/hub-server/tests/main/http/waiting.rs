//! A hub that waits for its store.

use super::world::{STATIC, read};
use hub_core::Bus;
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::http::Waiting;
use hub_server::{Hub, Settings, net};
use serde_json::json;
use tokio::net::TcpListener;

fn auth() -> Authenticator {
    let config = AuthConfig { static_token: Some(Secret::new(STATIC)), ..AuthConfig::default() };
    Authenticator::new(config).unwrap()
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn it_runs_is_not_ready_and_takes_nothing_until_the_wait_is_over() {
    let ((gateway, gateway_at), (ops, at)) = (listen().await, listen().await);
    let settings = Settings { open_metrics: true, ..Settings::default() };
    let waiting = Waiting::new(auth(), settings.clone(), "nobody has been asked yet");
    let http = reqwest::Client::new();
    let ask = async |path: &str| read(http.get(format!("{at}{path}")).send().await.unwrap()).await;
    let asked = async {
        assert_eq!(ask("/healthz").await.ok(), json!({"ok": true}));
        let ready = ask("/readyz").await;
        let store =
            json!({"available": false, "reason": "nobody has been asked yet", "warnings": [], "damaged": 0});
        assert_eq!(
            (ready.status, ready.json),
            (503, json!({"ready": false, "store": store, "draining": false}))
        );
        waiting.say("it does not answer");
        assert_eq!(ask("/readyz").await.json["store"]["reason"], "it does not answer");
        assert_eq!(ask("/readyz?x=1").await.status, 400);
        for path in ["/topics", "/metrics", "/nowhere"] {
            let got = ask(path).await;
            assert_eq!(got.refusal(), (503, "unavailable"), "{path}");
            assert_eq!(got.header("retry-after"), Some("1"));
        }
        let page = http.get(format!("{at}/")).send().await.unwrap();
        assert_eq!(
            (page.status().as_u16(), &page.headers()["content-type"]),
            (200, &"text/html; charset=utf-8".parse().unwrap())
        );
        let got = read(http.get(&gateway_at).send().await.unwrap()).await;
        assert_eq!(got.refusal(), (503, "unavailable"));
        let socket = tokio_tungstenite::connect_async(gateway_at.replace("http", "ws")).await;
        assert!(socket.unwrap_err().to_string().contains("503"));
    };
    tokio::select! {
        () = waiting.serve(&gateway, &ops, None) => panic!("it waits until somebody ends it"),
        () = asked => {}
    }
    waiting.end().await;

    let hub = Hub::builder(Bus::in_memory().await.unwrap(), auth()).settings(settings).build();
    let serving = [
        tokio::spawn(net::serve(gateway, hub.gateway(), None, hub.clone())),
        tokio::spawn(net::serve(ops, hub.ops(), None, hub.clone())),
    ];
    assert_eq!(ask("/readyz").await.status, 200, "the same port is the hub's now");
    tokio_tungstenite::connect_async(gateway_at.replace("http", "ws")).await.unwrap();
    hub.draining().cancel();
    for port in serving {
        port.await.unwrap();
    }
}

#[tokio::test]
async fn beyond_loopback_only_who_has_a_token_learns_what_it_waits_for() {
    let ((gateway, _), (ops, at)) = (listen().await, listen().await);
    let waiting = Waiting::new(auth(), Settings::default(), "MongoDB at db1 cannot be reached");
    let http = reqwest::Client::new();
    let asked = async {
        for (token, reason) in [("wrong", None), (STATIC, Some("MongoDB at db1 cannot be reached"))] {
            let got = http.get(format!("{at}/readyz")).bearer_auth(token).send().await.unwrap();
            let got = read(got).await;
            assert_eq!((got.status, got.json["store"]["reason"].as_str()), (503, reason), "{token}");
        }
    };
    tokio::select! {
        () = waiting.serve(&gateway, &ops, None) => panic!("it waits until somebody ends it"),
        () = asked => {}
    }
    waiting.end().await;
}
