use std::io::ErrorKind;

use hub_testbed::mongodb::bson::{Document, doc};
use hub_testbed::mongodb::{Client, Collection};
use hub_testbed::{Proxy, TestDatabase, database};
use tokio::net::TcpStream;

async fn through(proxy: &Proxy, database: &TestDatabase) -> Collection<Document> {
    let client = Client::with_uri_str(proxy.database_uri(database.name())).await.unwrap();
    client.default_database().unwrap().collection("things")
}

#[tokio::test]
async fn a_cut_drops_connections_and_refuses_new_ones_until_it_is_healed() {
    let database = database().await.unwrap();
    let proxy = Proxy::start(database.server()).await.unwrap();
    let things = through(&proxy, &database).await;
    things.insert_one(doc! { "_id": 1 }).await.unwrap();

    let open = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.cut().await.unwrap();
    open.readable().await.unwrap();
    let ended = open.try_read(&mut [0; 1]);
    assert!(matches!(&ended, Ok(0)) || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    proxy.heal().await.unwrap();
    things.insert_one(doc! { "_id": 2 }).await.unwrap();
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test]
async fn in_silence_nothing_comes_through_and_afterwards_all_of_it() {
    let database = database().await.unwrap();
    let proxy = Proxy::start(database.server()).await.unwrap();
    let through = through(&proxy, &database).await;
    through.insert_one(doc! { "_id": 1 }).await.unwrap();
    let beside = database.connect().await.unwrap().collection::<Document>("things");

    proxy.silence().await.unwrap();
    let waiting = tokio::spawn(async move { through.insert_one(doc! { "_id": 2 }).await });
    // New connections are taken, and get no answer either.
    TcpStream::connect(proxy.address()).await.unwrap();
    // The insert has had every chance to arrive: others have gone and come meanwhile.
    for id in 10..30 {
        beside.insert_one(doc! { "_id": id }).await.unwrap();
    }
    assert_eq!(beside.count_documents(doc! { "_id": 2 }).await.unwrap(), 0);
    assert!(!waiting.is_finished());

    proxy.heal().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(beside.count_documents(doc! { "_id": 2 }).await.unwrap(), 1);
}
