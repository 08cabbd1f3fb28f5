use super::{node, python};
use hub_testbed::mongodb::bson::{Document, doc};
use hub_testbed::{TestDatabase, database};

async fn sevens(database: &TestDatabase) -> u64 {
    let things = database.connect().await.unwrap().collection::<Document>("things");
    things.count_documents(doc! { "a": 7 }).await.unwrap()
}

#[tokio::test]
async fn pymongo_writes_and_reads() {
    let database = database().await.unwrap();
    let program = r#"
import sys, pymongo
things = pymongo.MongoClient(sys.argv[1]).get_default_database().things
things.insert_one({"a": 7})
print(things.count_documents({}))
"#;
    let Some(printed) = python(program, database.uri()).await else { return };
    assert_eq!((printed.as_str(), sevens(&database).await), ("1", 1));
}

#[tokio::test]
async fn mongodb_for_node_writes_and_reads() {
    let database = database().await.unwrap();
    let program = r#"
const { MongoClient } = require('mongodb');
(async () => {
    const client = new MongoClient(process.argv[1]);
    await client.db().collection('things').insertOne({ a: 7 });
    await client.close();
})().catch((error) => { console.error(error); process.exit(1); });
"#;
    if node(program, database.uri()).await.is_some() {
        assert_eq!(sevens(&database).await, 1);
    }
}
