use hub_testbed::mongodb::bson::{Document, doc};
use hub_testbed::mongodb::{Client, Collection};
use hub_testbed::{Proxy, TestDatabase, database};

async fn through(proxy: &Proxy, database: &TestDatabase) -> Collection<Document> {
    let client = Client::with_uri_str(proxy.database_uri(database.name())).await.unwrap();
    client.default_database().unwrap().collection("things")
}

#[tokio::test]
async fn a_client_goes_on_when_a_cut_is_healed() {
    let database = database().await.unwrap();
    let proxy = Proxy::start(database.server()).await.unwrap();
    let things = through(&proxy, &database).await;
    things.insert_one(doc! { "_id": 1 }).await.unwrap();
    proxy.cut().await.unwrap();
    // It would wait for half a minute; nothing can come of it while there is no way.
    let cut_off = tokio::spawn({
        let things = things.clone();
        async move { things.insert_one(doc! { "_id": 2 }).await }
    });
    let beside = database.connect().await.unwrap().collection::<Document>("things");
    for id in 10..30 {
        beside.insert_one(doc! { "_id": id }).await.unwrap();
    }
    assert_eq!(beside.count_documents(doc! { "_id": 2 }).await.unwrap(), 0);
    proxy.heal().await.unwrap();
    cut_off.await.unwrap().unwrap();
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 22);
}

#[tokio::test]
async fn in_silence_an_insert_waits_and_is_done_afterwards() {
    let database = database().await.unwrap();
    let proxy = Proxy::start(database.server()).await.unwrap();
    let through = through(&proxy, &database).await;
    through.insert_one(doc! { "_id": 1 }).await.unwrap();
    let beside = database.connect().await.unwrap().collection::<Document>("things");

    proxy.silence().await.unwrap();
    let waiting = tokio::spawn(async move { through.insert_one(doc! { "_id": 2 }).await });
    for id in 10..30 {
        beside.insert_one(doc! { "_id": id }).await.unwrap();
    }
    assert_eq!(beside.count_documents(doc! { "_id": 2 }).await.unwrap(), 0);
    proxy.heal().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(beside.count_documents(doc! { "_id": 2 }).await.unwrap(), 1);
}
