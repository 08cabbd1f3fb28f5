use hub_testbed::Sharded;
use hub_testbed::mongodb::Client;
use hub_testbed::mongodb::bson::{Document, doc};

#[tokio::test]
async fn what_goes_through_the_router_is_spread_over_two_shards() {
    let cluster = Sharded::start(2).await.unwrap();
    let client = Client::with_uri_str(cluster.uri()).await.unwrap();
    let shard = doc! { "shardCollection": "test.things", "key": { "topic": "hashed" } };
    client.database("admin").run_command(shard).await.unwrap();
    let things = client.database("test").collection::<Document>("things");
    let documents = (0..200).map(|number| doc! { "topic": format!("t{number}") });
    things.insert_many(documents).await.unwrap();
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 200);

    let mut found = Vec::new();
    for shard in cluster.shards() {
        let direct = Client::with_uri_str(shard.uri()).await.unwrap();
        found.push(
            direct.database("test").collection::<Document>("things").count_documents(doc! {}).await.unwrap(),
        );
    }
    assert!(found.iter().all(|count| *count > 0), "{found:?}");
    assert_eq!(found.iter().sum::<u64>(), 200);
    cluster.stop();
}
