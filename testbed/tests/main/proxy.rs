//! The proxy before a server that says everything back.

use std::io::ErrorKind;

use hub_testbed::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An echo server's address. Its tasks end with the test's runtime.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("mongodb://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = client.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    uri
}

async fn connected(proxy: &Proxy) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    assert_eq!(hear(&mut stream, 5).await, b"hello");
    stream
}

async fn hear(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut heard = vec![0; count];
    stream.read_exact(&mut heard).await.unwrap();
    heard
}

#[tokio::test]
async fn what_is_said_comes_through_whole_and_so_does_the_end() {
    let proxy = Proxy::start(&echo().await).await.unwrap();
    let (mut from, mut to) = connected(&proxy).await.into_split();
    let said: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let copy = said.clone();
    let saying = tokio::spawn(async move {
        to.write_all(&copy).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut heard = Vec::new();
    from.read_to_end(&mut heard).await.unwrap();
    saying.await.unwrap();
    assert!(heard == said);
}

#[tokio::test]
async fn a_cut_drops_connections_and_refuses_new_ones_until_it_is_healed() {
    let proxy = Proxy::start(&echo().await).await.unwrap();
    let mut open = connected(&proxy).await;
    proxy.cut().await.unwrap();
    let ended = open.read(&mut [0; 1]).await;
    assert!(matches!(&ended, Ok(0)) || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // Twice is as good as once.
    proxy.cut().await.unwrap();
    proxy.heal().await.unwrap();
    proxy.heal().await.unwrap();
    connected(&proxy).await;
}

#[tokio::test]
async fn in_silence_nothing_comes_through_and_afterwards_all_of_it() {
    let server = echo().await;
    let (proxy, beside) = (Proxy::start(&server).await.unwrap(), Proxy::start(&server).await.unwrap());
    let (mut old, mut other) = (connected(&proxy).await, connected(&beside).await);
    proxy.silence().await.unwrap();
    old.write_all(b"old").await.unwrap();
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    new.write_all(b"new").await.unwrap();
    // The words have had every chance to arrive: others have gone and come meanwhile.
    for _ in 0..100 {
        other.write_all(b"x").await.unwrap();
        hear(&mut other, 1).await;
    }
    for stream in [&old, &new] {
        assert_eq!(stream.try_read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    proxy.heal().await.unwrap();
    assert_eq!(hear(&mut old, 3).await, b"old");
    assert_eq!(hear(&mut new, 3).await, b"new");
}

#[tokio::test]
async fn a_proxy_that_is_dropped_ends_its_connections() {
    let proxy = Proxy::start(&echo().await).await.unwrap();
    let mut open = connected(&proxy).await;
    drop(proxy);
    let ended = open.read(&mut [0; 1]).await;
    assert!(matches!(&ended, Ok(0)) || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
}
