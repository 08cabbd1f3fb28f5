//! Opening: addresses, servers, indexes, versions.

use super::world::{World, append, draft, log};
use hub_store_mongo::{ConnectError, MongoStore, Names, Options};
use hub_testbed::Standalone;
use hub_testbed::mongodb::IndexModel;
use hub_testbed::mongodb::bson::{Document, doc};
use hub_testbed::mongodb::options::IndexOptions;
use std::time::Duration;

async fn refused(uri: impl Into<String>) -> ConnectError {
    let options = Options { call_limit: Duration::from_secs(6), ..Options::new(uri) };
    MongoStore::connect(options).await.unwrap_err()
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_told_without_its_password() {
    for uri in [
        "mongodb://hub:s3cret@",
        "mongodb://hub:s3cret@db/?connectTimeoutMS=soon",
        "mongodb://hub:s3cret@1@db:99999/shop",
        "postgres://hub:s3cret@db/shop",
        "mongodb+srv://hub:s3cret@db:27017/shop",
        "hub:s3cret@db",
    ] {
        let error = refused(uri).await;
        assert!(matches!(error, ConnectError::Settings(_)), "{uri}: {error:?}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains("mongodb://user:password@host"), "it says what one looks like: {text}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_can_be_waited_for() {
    // A port that was free a moment ago, and on which nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refused(format!("mongodb://hub:s3cret@127.0.0.1:{port}/shop")).await;
    assert!(error.is_unreachable(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&port.to_string()) && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_waited_for() {
    let world = World::new().await;
    let error = refused(world.database.uri().replace("mongodb://", "mongodb://hub:s3cret@")).await;
    assert!(matches!(error, ConnectError::Credentials { .. }), "{error:?}");
    assert!(!error.is_unreachable());
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_standalone_server_is_refused_with_what_to_do() {
    let server = Standalone::start().await.unwrap();
    let error = refused(server.uri()).await;
    assert!(matches!(error, ConnectError::Standalone { .. }), "{error:?}");
    assert!(error.to_string().contains("rs.initiate()"), "{error}");
}

#[tokio::test]
async fn the_database_is_that_of_the_address_or_prom() {
    let world = World::new().await;
    assert_eq!(world.store().await.database(), world.database.name());
    // Nothing is written to it, as other tests might do the same.
    let nowhere = Options::new(world.database.server());
    let Err(error) = MongoStore::connect(Options { names: names("a", "a"), ..nowhere }).await else {
        panic!("two collections of one name")
    };
    assert!(matches!(error, ConnectError::Settings(_)), "{error:?}");
}

fn names(events: &str, groups: &str) -> Names {
    Names { events: events.into(), groups: groups.into(), ..Names::default() }
}

#[tokio::test]
async fn collections_have_the_names_that_were_set() {
    let world = World::new().await;
    let names = Names {
        events: "shop.events".into(),
        groups: "shop.groups".into(),
        topics: "shop.topics".into(),
        dedupe: "shop.dedupe".into(),
        hubs: "shop.hubs".into(),
    };
    let store = MongoStore::connect(Options { names, ..world.options() }).await.unwrap();
    append(&store, vec![draft("t", "1")]).await;
    let found = world.db.list_collection_names().await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|name| name.starts_with("shop.")), "{found:?}");
}

#[tokio::test]
async fn hubs_that_start_at_once_make_the_indexes_together() {
    let world = World::new().await;
    let stores = tokio::join!(world.store(), world.store(), world.store());
    append(&stores.0, vec![draft("t", "1")]).await;
    append(&stores.1, vec![draft("t", "2")]).await;
    assert_eq!(log(&stores.2, "t").await.len(), 2);
    let indexes = world.documents("events").list_index_names().await.unwrap();
    // The server names the first of several that an insert violates.
    assert_eq!(indexes[..2], ["_id_", "topic_seq"]);
    assert_eq!(indexes.len(), 6, "{indexes:?}");
}

#[tokio::test]
async fn an_index_in_the_way_is_named_with_what_to_do() {
    let world = World::new().await;
    let mine = IndexOptions::builder().name("mine".to_owned()).unique(true).build();
    let index = IndexModel::builder().keys(doc! { "topic": 1, "seq": 1 }).options(mine).build();
    world.documents("events").create_index(index).await.unwrap();
    let error = refused(world.database.uri()).await;
    let ConnectError::Index { collection, index, remedy, .. } = &error else { panic!("{error:?}") };
    assert_eq!((collection.as_str(), index.as_str()), ("events", "topic_seq"));
    assert!(remedy.contains("getIndexes()") && remedy.contains("dropIndex"), "{error}");
    world.documents("events").drop_index("mine").await.unwrap();
    world.store().await;
}

#[tokio::test]
async fn one_of_several_indexes_in_the_way_is_named() {
    let world = World::new().await;
    let same_name = IndexOptions::builder().name("topic_id".to_owned()).build();
    let index = IndexModel::builder().keys(doc! { "topic": 1, "other": 1 }).options(same_name).build();
    world.documents("events").create_index(index).await.unwrap();
    let error = refused(world.database.uri()).await;
    let ConnectError::Index { index, .. } = &error else { panic!("{error:?}") };
    assert_eq!(index, "topic_id", "{error}");
}

#[tokio::test]
async fn documents_that_break_a_unique_index_are_told() {
    let world = World::new().await;
    let twice = [doc! { "topic": "t", "seq": 1 }, doc! { "topic": "t", "seq": 1 }];
    world.documents("events").insert_many(twice).await.unwrap();
    let error = refused(world.database.uri()).await;
    assert!(error.to_string().contains("not event-hub's"), "{error}");
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused() {
    let world = World::new().await;
    world.store().await;
    let topics = world.documents("topics");
    let found: Document = topics.find_one(doc! { "_id": "@schema" }).await.unwrap().unwrap();
    assert_eq!(found.get_i64("version").unwrap(), 1);
    topics.update_one(doc! { "_id": "@schema" }, doc! { "$set": { "version": 7 } }).await.unwrap();
    let error = refused(world.database.uri()).await;
    assert!(matches!(error, ConnectError::Schema { found: 7, known: 1, .. }), "{error:?}");
}

/// Every command that the store sends names its concern, whatever the address says: `w=1` and reads from secondaries.
#[tokio::test]
async fn an_address_cannot_weaken_what_is_written_and_read() {
    use super::world::{ALL, T0, group, topic, write};
    use hub_core::store::{CleanPolicy, EventStore, GroupRecord, HubId, HubInfo, Record, Shared};

    let world = World::new().await;
    let weak = "w=1&journal=false&readConcernLevel=local&readPreference=nearest&retryWrites=false";
    let uri = world.database.uri();
    let uri = format!("{uri}{}{weak}", if uri.contains('?') { "&" } else { "?" });
    world.db.run_command(doc! { "profile": 2, "slowms": 0 }).await.unwrap();
    let options = Options { clean_delay: Duration::ZERO, ..Options::new(uri) };
    let store = MongoStore::connect(options).await.unwrap();
    append(&store, vec![draft("t", "1"), draft("t", "2")]).await;
    let again = super::world::commit(&store, vec![draft("t", "3")]).await;
    super::world::new(again.into_iter().next().unwrap());
    let record = GroupRecord {
        topic: topic("t"),
        name: group("g"),
        options: hub_core::GroupOptions::default(),
        created: T0,
        idle_since: None,
        driven: false,
        born: 0,
    };
    write(&store, 0, vec![Record::Group(record)]).await.remove(0).unwrap();
    store.load().await.unwrap();
    store.read(&topic("t"), 0, ALL).await.unwrap();
    store.bounds(&topic("t")).await.unwrap();
    store.seq_before(&topic("t"), T0).await.unwrap();
    store.newest(&topic("t"), &["k".into()]).await.unwrap();
    store.newest_page(&topic("t"), None, ALL).await.unwrap();
    let policy = CleanPolicy { committed_before: Some(T0 + 1), ids_since: T0, ..CleanPolicy::default() };
    assert_eq!(store.clean(&topic("t"), policy).await.unwrap().removed, 2);
    let me = HubInfo { id: HubId::random(), address: String::new(), started: T0, version: String::new() };
    store.beat(&me).await.unwrap();
    store.claim("g", 0, me.id).await.unwrap();
    store.owner("g").await.unwrap();
    store.estate("g", 1).await.unwrap();
    store.set_edges("g", 1, &[]).await.unwrap();
    store.release(&[("g".into(), 1)]).await.unwrap();
    store.tails(None).await.unwrap();
    store.forget(&[me.id]).await.unwrap();
    world.db.run_command(doc! { "profile": 0 }).await.unwrap();

    let mut commands = 0;
    let mut cursor = world.documents("system.profile").find(doc! { "appName": "event-hub" }).await.unwrap();
    while cursor.advance().await.unwrap() {
        let entry = Document::try_from(cursor.current()).unwrap();
        let command = entry.get_document("command").unwrap();
        let name = command.keys().next().unwrap().as_str();
        let level = || command.get_document("readConcern").and_then(|concern| concern.get_str("level"));
        let in_transaction = command.contains_key("autocommit");
        match name {
            _ if in_transaction => {}
            // A part of a bulk write, which has its concern where this does not look.
            "insert" | "update" | "delete" if command.get_str(name).is_err() => {}
            "insert" | "update" | "delete" | "findAndModify" | "findandmodify" | "bulkWrite" => {
                let concern = command.get_document("writeConcern").unwrap_or_else(|_| panic!("{command}"));
                let majority = concern.get_str("w").is_ok_and(|w| w == "majority");
                assert!(majority && concern.get_bool("j").unwrap(), "{command}");
            }
            "find" | "aggregate" => {
                assert!(level().is_ok_and(|level| level != "local"), "{command}");
            }
            // The answer of one of those before goes on; an operation of several has entries without a command.
            "getMore" | "q" | "createIndexes" => {}
            _ => panic!("what is {command}?"),
        }
        commands += 1;
    }
    assert!(commands > 25, "{commands} commands were seen");
}
