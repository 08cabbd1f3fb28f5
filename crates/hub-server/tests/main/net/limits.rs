//! Strangers that are many.

use super::*;

fn at_most(connections: usize, connections_per_address: usize) -> Limits {
    Limits { connections, connections_per_address, ..Limits::default() }
}

async fn from(server: &Server, ip: [u8; 4]) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((ip, 0).into()).unwrap();
    soon(socket.connect(server.at)).await.unwrap()
}

async fn is_refused(client: &mut TcpStream) {
    let answer = rest(client).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer:?}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["code"], "unavailable");
}

/// Connects until there is a seat: the server learns of a close a moment later.
async fn is_let_in(server: &Server, ip: [u8; 4]) -> TcpStream {
    soon(async {
        loop {
            let mut client = from(server, ip).await;
            let _ = client.write_all(b"GET /who HTTP/1.1\r\nhost: hub\r\n\r\n").await;
            if until(&mut client, "\r\n\r\n").await.contains(" 200 ") {
                return client;
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_others_are_not_its_matter() {
    let server = server(at_most(100, 2), None, PATIENT).await;
    let (mut one, mut two) = (from(&server, [127, 0, 0, 1]).await, from(&server, [127, 0, 0, 1]).await);
    ask(&mut one, "/who").await;
    ask(&mut two, "/who").await;
    is_refused(&mut from(&server, [127, 0, 0, 1]).await).await;
    ask(&mut from(&server, [127, 0, 0, 2]).await, "/who").await;
    drop(one);
    is_let_in(&server, [127, 0, 0, 1]).await;
}

#[tokio::test]
async fn there_are_so_many_connections_in_all() {
    let server = server(at_most(2, 100), None, PATIENT).await;
    let (mut one, mut two) = (from(&server, [127, 0, 0, 1]).await, from(&server, [127, 0, 0, 2]).await);
    ask(&mut one, "/who").await;
    ask(&mut two, "/who").await;
    is_refused(&mut from(&server, [127, 0, 0, 3]).await).await;
    drop(two);
    is_let_in(&server, [127, 0, 0, 3]).await;
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_seat_until_it_ends() {
    let server = server(at_most(1, 1), None, PATIENT).await;
    let mut session = server.connect().await;
    upgraded(&mut session).await;
    // The echo comes from the session, so the task that served HTTP has nothing more to do with it.
    send(&mut session, "ping").await;
    until(&mut session, "ping").await;
    is_refused(&mut server.connect().await).await;
    drop(session);
    is_let_in(&server, [127, 0, 0, 1]).await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_has_a_seat_until_it_is_cut_off() {
    let server = server(at_most(1, 1), None, IMPATIENT).await;
    let mut silent = server.connect().await;
    is_refused(&mut server.connect().await).await;
    rest(&mut silent).await;
    is_let_in(&server, [127, 0, 0, 1]).await;
}

#[tokio::test]
async fn limits_can_change_while_the_server_runs() {
    let server = server(at_most(1, 1), None, PATIENT).await;
    let mut one = server.connect().await;
    ask(&mut one, "/who").await;
    is_refused(&mut server.connect().await).await;
    server.hub.apply(Settings { limits: at_most(2, 2), ..Settings::default() });
    let mut two = server.connect().await;
    ask(&mut two, "/who").await;
    server.hub.apply(Settings { limits: at_most(1, 1), ..Settings::default() });
    ask(&mut one, "/who").await;
    ask(&mut two, "/who").await;
}

#[tokio::test]
async fn a_port_that_is_full_takes_nothing_from_another() {
    let mut full = server(at_most(1, 1), None, PATIENT).await;
    let mut one = full.connect().await;
    ask(&mut one, "/who").await;
    is_refused(&mut full.connect().await).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    full.at = listener.local_addr().unwrap();
    let router = router(full.hub.clone(), full.go.clone(), full.asked.clone());
    let _other = tokio::spawn(net::serve_with(listener, router, None, full.hub.clone(), PATIENT));
    let mut two = full.connect().await;
    ask(&mut two, "/who").await;
    is_refused(&mut full.connect().await).await;
}
