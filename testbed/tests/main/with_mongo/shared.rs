use hub_testbed::database;
use hub_testbed::mongodb::Client;
use hub_testbed::mongodb::bson::{Document, doc};

#[tokio::test]
async fn a_database_is_empty_and_gone_in_the_end() {
    let database = database().await.unwrap();
    let connected = database.connect().await.unwrap();
    assert!(connected.list_collection_names().await.unwrap().is_empty());
    connected.collection::<Document>("things").insert_one(doc! { "a": 1 }).await.unwrap();

    let server = Client::with_uri_str(database.server()).await.unwrap();
    let name = database.name().to_owned();
    assert!(server.list_database_names().await.unwrap().contains(&name));
    drop(database);
    assert!(!server.list_database_names().await.unwrap().contains(&name));
}

#[tokio::test]
async fn the_address_of_a_database_names_it() {
    let database = database().await.unwrap();
    let client = Client::with_uri_str(database.uri()).await.unwrap();
    assert_eq!(client.default_database().unwrap().name(), database.name());
}

#[tokio::test]
async fn two_tests_have_two_databases_on_one_server() {
    let (one, other) = (database().await.unwrap(), database().await.unwrap());
    assert_eq!(one.server(), other.server());
    assert_ne!(one.name(), other.name());
}

#[tokio::test]
async fn a_transaction_commits() {
    let database = database().await.unwrap();
    let connected = database.connect().await.unwrap();
    let things = connected.collection::<Document>("things");
    let mut session = connected.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    things.insert_one(doc! { "a": 1 }).session(&mut session).await.unwrap();
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 0);
    session.commit_transaction().await.unwrap();
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 1);
}
