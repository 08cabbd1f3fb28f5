//! Proxies that say in a PROXY header whose connection it is.

use super::*;
use crate::certificates::Authority;
use crate::net::IMPATIENT;
use crate::world::{ALL, token};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header that names a client at an address of IPv4, with an extension behind the addresses.
fn of_client(ip: [u8; 4]) -> Vec<u8> {
    let addresses = [&ip[..], &[127, 0, 0, 1], &[0x12, 0x34], &[0x1f, 0x92]].concat();
    [SIGNATURE, &[0x21, 0x11, 0, 16], &addresses, &[0x04, 0, 1, 0]].concat()
}

const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

async fn proxied(front: &Front, header: &[u8]) -> TcpStream {
    let mut stream = front.connect(PROXY).await;
    soon(stream.write_all(header)).await.unwrap();
    stream
}

#[tokio::test]
async fn a_header_names_the_client_of_the_whole_connection() {
    let front = Front::new(Limits::default(), true).await;
    let mut stream = proxied(&front, &of_client([192, 0, 2, 1])).await;
    for headers in ["", &xff("203.0.113.9")] {
        assert_eq!(client(&mut stream, headers).await, "192.0.2.1 forwarded");
    }
    assert_eq!(status(&mut stream, "/metrics", "").await, 401, "nobody behind a proxy is local");
    // A proxy behind a proxy, both trusted.
    let mut stream = proxied(&front, &of_client(OTHER_PROXY)).await;
    assert_eq!(client(&mut stream, &xff("192.0.2.1")).await, "192.0.2.1 forwarded");
    let mut stream = proxied(&front, LOCAL).await;
    assert_eq!(client(&mut stream, "").await, "127.0.0.2 direct");
}

#[tokio::test]
async fn a_peer_that_is_not_trusted_sends_no_header() {
    let front = Front::new(Limits::default(), true).await;
    assert_eq!(front.client(STRANGER, "").await, "127.0.0.4 direct");
    let mut stream = front.connect(STRANGER).await;
    soon(stream.write_all(&of_client([192, 0, 2, 1]))).await.unwrap();
    send(&mut stream, "GET /client HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await;
    assert!(!rest(&mut stream).await.contains(" 200 "));
}

#[tokio::test]
async fn a_trusted_proxy_without_a_good_header_is_hung_up_on() {
    let front = Front::with(Limits::default(), true, None, IMPATIENT).await;
    let mut version = of_client([192, 0, 2, 1]);
    version[12] = 0x11;
    let long = [SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat();
    for bad in [&b"GET /client HTTP/1.1\r\nhost: hub\r\n\r\n"[..], b"\x16\x03\x01", &version, &long] {
        let mut stream = proxied(&front, bad).await;
        assert_eq!(rest(&mut stream).await, "", "{bad:?}");
    }
    // Half a header, and none.
    for half in [&of_client([192, 0, 2, 1])[..20], &[]] {
        assert_eq!(rest(&mut proxied(&front, half).await).await, "", "{half:?}");
    }
}

#[tokio::test]
async fn a_header_may_stand_before_tls() {
    let authority = Authority::new("tests");
    let server = authority.server();
    let tls = Tls::from_files(&server.cert, &server.key).unwrap();
    let front = Front::with(Limits::default(), true, Some(tls), PATIENT).await;
    let stream = proxied(&front, &of_client([192, 0, 2, 1])).await;
    let connector = authority.connector(None);
    let mut stream = soon(connector.connect("localhost".try_into().unwrap(), stream)).await.unwrap();
    assert_eq!(client(&mut stream, "").await, "192.0.2.1 forwarded");
}

#[tokio::test]
async fn a_header_may_stand_before_a_websocket() {
    let limits = Limits { unauthenticated_per_address: 1, ..Limits::default() };
    let front = Front::new(limits, true).await;
    let open = async |ip| {
        let stream = proxied(&front, &of_client(ip)).await;
        soon(client_async(format!("ws://{}/", front.at), stream)).await.map(|(socket, _)| socket)
    };
    let mut socket = open([192, 0, 2, 1]).await.unwrap();
    assert!(open([192, 0, 2, 1]).await.is_err(), "one that has not said who it is per client");
    open([192, 0, 2, 2]).await.unwrap();
    socket.send(Message::text(json!({"op": "AUTH", "token": token(ALL)}).to_string())).await.unwrap();
    let Some(Ok(Message::Text(text))) = soon(socket.next()).await else { panic!("no answer") };
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["op"], "OK", "{answer}");
    open([192, 0, 2, 1]).await.unwrap();
}

#[tokio::test]
async fn connections_are_counted_by_the_client_that_the_header_names() {
    let front = Front::new(per_address(1), true).await;
    let mut one = proxied(&front, &of_client([192, 0, 2, 1])).await;
    assert_eq!(status(&mut one, "/client", "").await, 200);
    let mut two = proxied(&front, &of_client([192, 0, 2, 2])).await;
    assert_eq!(status(&mut two, "/client", "").await, 200);
    let told = rest(&mut proxied(&front, &of_client([192, 0, 2, 1])).await).await;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    let mut local = proxied(&front, LOCAL).await;
    assert_eq!(status(&mut local, "/client", "").await, 200);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_header() {
    let front = Front::new(Limits::default(), true).await;
    let mut silent = front.connect(PROXY).await;
    // The silent one was accepted before this one.
    front.client(STRANGER, "").await;
    assert_eq!(front.hub.drain(crate::net::LONG).await, 0);
    assert_eq!(rest(&mut silent).await, "");
}
