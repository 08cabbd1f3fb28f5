//! A panic in the hub: it does not go on as if nothing had happened.

use crate::hub::{Hub, Place};
use reqwest::Method;
use std::io::Write;
use std::net::TcpStream;
use tokio_tungstenite::tungstenite::http::Uri;

/// Names a topic: the committer panics when it commits an event of it. Only debug builds for tests know it.
const PANIC_TOPIC: &str = "EVENT_HUB_TEST_PANIC_TOPIC";

/// Publishes an event without waiting for an answer: the hub may end before it gives one.
fn send(hub: &Hub, topic: &str) -> TcpStream {
    let url: Uri = hub.http().parse().unwrap();
    let address = url.authority().unwrap();
    let mut stream = TcpStream::connect(address.as_str()).unwrap();
    let token = hub.token();
    write!(
        stream,
        "POST /publish/{topic} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Length: 1\r\n\r\n1"
    )
    .unwrap();
    stream
}

#[test]
fn a_committer_that_panics_ends_the_hub_with_exit_code_1() {
    let place = Place::new();
    let data = place.path("data");
    let mut hub = Hub::start(&data, &[], &[(PANIC_TOPIC, "broken")]);
    let token = hub.token().to_owned();
    let (status, body) = hub.ask(Method::POST, "publish/orders", Some(&token), "{\"n\":1}");
    assert_eq!(status, 200, "{body}");
    assert_eq!(hub.ask(Method::GET, "readyz", None, "").0, 200);
    let _stream = send(&hub, "broken");
    assert_eq!(hub.process.ended(), 1, "{}", hub.process.log());
    let log = hub.process.last_log();
    assert!(log.contains("a task panicked") && log.contains("task=\"committer\""), "{log}");
    assert!(log.contains("the bus cannot go on"), "{log}");

    // What was answered is stored, and the next start goes on.
    let hub = Hub::start(&data, &[], &[]);
    let (_, body) = hub.ask(Method::GET, "export?topic=orders&ndjson=1", Some(&token), "");
    assert!(body.contains("\"n\":1"), "{body}");
    assert_eq!(hub.ask(Method::POST, "publish/broken", Some(&token), "1").0, 200);
    hub.stop();
}
