//! Strangers that take their time.

use super::*;

#[tokio::test]
async fn a_client_that_says_nothing_is_cut_off() {
    let server = server(Limits::default(), None, IMPATIENT).await;
    let mut client = server.connect().await;
    assert!(!rest(&mut client).await.contains(" 200 "));
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let server = server(Limits::default(), None, IMPATIENT).await;
    let (mut from, mut to) = server.connect().await.into_split();
    // Bytes go on until the server hangs up: each of them alone is in time.
    let trickle = tokio::spawn(async move {
        let _ = to.write_all(b"GET /who HTTP/1.1\r\nhost: hub\r\nx-slow: ").await;
        while to.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(!rest(&mut from).await.contains(" 200 "));
    soon(trickle).await.unwrap();
}

#[tokio::test]
async fn a_second_head_that_never_ends_is_cut_off_too() {
    let server = server(Limits::default(), None, IMPATIENT).await;
    let mut client = server.connect().await;
    ask(&mut client, "/who").await;
    send(&mut client, "GET /who HTTP/1.1\r\n").await;
    assert!(!rest(&mut client).await.contains(" 200 "));
}

#[tokio::test]
async fn a_handler_may_take_longer_than_a_head() {
    let server = server(Limits::default(), None, IMPATIENT).await;
    let mut client = server.connect().await;
    send(&mut client, "GET /wait HTTP/1.1\r\nhost: hub\r\n\r\n").await;
    soon(server.asked.notified()).await;
    // Another client that is cut off meanwhile shows that the time for a head has passed.
    rest(&mut server.connect().await).await;
    server.go.notify_one();
    assert_eq!(answer(&mut client).await, "waited");
}

#[tokio::test]
async fn an_upgraded_connection_may_be_silent_for_longer_than_a_head() {
    let server = server(Limits::default(), None, IMPATIENT).await;
    let mut client = server.connect().await;
    upgraded(&mut client).await;
    rest(&mut server.connect().await).await;
    send(&mut client, "still here").await;
    until(&mut client, "still here").await;
}

/// Asks for more than any buffer holds, and reads nothing of it. The server gives up when its patience does.
pub(super) async fn never_reads(client: &mut (impl AsyncRead + AsyncWrite + Unpin), server: &Server) {
    let request = b"GET /who HTTP/1.1\r\nhost: hub\r\n\r\n".repeat(1024);
    // As soon as the server has no room for answers it reads no more, so this waits; then the server hangs up.
    soon(async { while client.write_all(&request).await.is_ok() {} }).await;
    server.hub.sessions().close();
    soon(server.hub.sessions().wait()).await;
}

/// Patient with everything but a write.
const UNREAD: Patience = Patience { write: Duration::from_millis(100), ..PATIENT };

#[tokio::test]
async fn a_client_that_asks_and_never_reads_is_cut_off() {
    let server = server(Limits::default(), None, UNREAD).await;
    never_reads(&mut server.connect().await, &server).await;
}

#[tokio::test]
async fn an_upgraded_client_that_never_reads_is_cut_off_too() {
    let server = server(Limits::default(), None, UNREAD).await;
    let mut client = server.connect().await;
    upgraded(&mut client).await;
    never_reads(&mut client, &server).await;
}
