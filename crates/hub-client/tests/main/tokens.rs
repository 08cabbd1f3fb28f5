//! Tokens that run out.

use crate::hub::{FakeHub, soon};
use crate::requests::event;
use hub_client::{Code, ErrorKind, State, SubscribeOptions};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{SystemTime, UNIX_EPOCH};

#[tokio::test]
async fn a_token_function_is_asked_for_every_connection_and_when_a_token_has_run_out() {
    let hub = FakeHub::start().await;
    let made = Arc::new(AtomicUsize::new(0));
    let builder = hub.builder().token_from({
        let made = made.clone();
        move || {
            let n = made.fetch_add(1, SeqCst) + 1;
            async move {
                // The third time there is none.
                if n == 3 { Err("the issuer is away".into()) } else { Ok(format!("token-{n}")) }
            }
        }
    });
    let greet = async {
        let mut peer = hub.accept().await;
        assert_eq!(peer.welcome().await, "token-1");
        peer
    };
    let (client, mut peer) = soon(async { tokio::join!(builder.connect(), greet) }).await;
    // It runs out on the open connection.
    peer.send(json!({"op": "ERR", "code": "token_expired", "msg": "m"})).await;
    assert_eq!(peer.welcome().await, "token-2");
    // On a new connection, and again because there was none.
    drop(peer);
    let mut peer = hub.accept().await;
    assert_eq!(peer.welcome().await, "token-4");
    drop(client);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_runs_out() {
    let hub = FakeHub::start().await;
    let builder = hub.builder().token_from(|| async { Ok("t".to_owned()) });
    let greet = async {
        let mut peer = hub.accept().await;
        let frame = peer.expect("AUTH").await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        peer.ok(&frame, json!({"exp": now + 2})).await;
        peer
    };
    let (client, mut peer) = soon(async { tokio::join!(builder.connect(), greet) }).await;
    let frame = peer.expect("AUTH").await;
    peer.err(&frame, "unavailable", json!({})).await;
    // It tries until it is taken.
    let frame = peer.expect("AUTH").await;
    peer.ok(&frame, json!({})).await;
    drop(client.unwrap());
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn without_another_token_the_client_is_at_its_end_and_says_so_to_all() {
    let hub = FakeHub::start().await;
    let (client, mut peer) = hub.client(hub.builder()).await;
    let (orders, _) = soon(async {
        tokio::join!(client.subscribe("t", Some("g"), SubscribeOptions::default()), peer.subscribed())
    })
    .await;
    let mut orders = orders.unwrap();
    let publishing = client.submit(event(1)).await.unwrap();
    peer.expect("PUBLISH").await;
    peer.close(1008, "the token has expired").await;
    let mut peer = hub.accept().await;
    let frame = peer.expect("AUTH").await;
    peer.err(&frame, "token_expired", json!({})).await;
    assert_eq!(soon(publishing).await.unwrap_err().code(), Some(Code::TokenExpired));
    assert_eq!(soon(orders.recv()).await.unwrap_err().code(), Some(Code::TokenExpired));
    let state = soon(client.state().wait_for(State::is_closed)).await.unwrap().clone();
    assert!(matches!(state, State::Closed(error) if error.code() == Some(Code::TokenExpired)));
    assert_eq!(soon(client.submit(event(2))).await.unwrap_err().code(), Some(Code::TokenExpired));
    let again = soon(client.subscribe("t", None, SubscribeOptions::default())).await;
    assert_eq!(again.err().unwrap().kind(), ErrorKind::Refused);
}

#[tokio::test]
async fn no_token_is_in_any_text() {
    let hub = FakeHub::start().await;
    let builder = hub.builder().token("hunter2");
    assert!(!format!("{builder:?}").contains("hunter2"));
    let (client, _peer) = hub.client(builder).await;
    assert!(!format!("{client:?}").contains("hunter2"));
}
