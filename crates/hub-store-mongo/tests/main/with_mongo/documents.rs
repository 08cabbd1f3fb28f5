//! What people find in the database.

use super::world::{T0, World, append, draft, fresh_id, log, topic};
use hub_core::store::{EventStore, Shared};
use hub_proto::{Draft, NewEvent, Payload};
use hub_testbed::mongodb::bson::{Bson, Document, doc};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_can_be_queried_whatever_their_spelling() {
    let world = World::new().await;
    let store = world.store().await;
    append(
        &store,
        vec![
            draft("orders", r#"{"total":12,"lines":[{"sku":"a"}]}"#),
            draft("orders", r#"{ "total" : 12.0 }"#),
            draft("orders", r#"{"total":12,"total":13}"#),
        ],
    )
    .await;
    let twelve = doc! { "topic": "orders", "payload.total": 12 };
    assert_eq!(world.documents("events").count_documents(twelve).await.unwrap(), 2);
    let found = world.documents("events").find_one(doc! { "payload.lines.sku": "a" }).await.unwrap().unwrap();
    assert_eq!(found.get_i64("seq").unwrap(), 1);
    assert!(!found.contains_key("payload_json"));
    let text = world.documents("events").find_one(doc! { "seq": 3 }).await.unwrap().unwrap();
    assert_eq!(text.get_str("payload_json").unwrap(), r#"{"total":12,"total":13}"#);
    assert!(!text.contains_key("payload"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_json_allows_comes_back_as_it_was() {
    let world = World::new().await;
    let store = world.store().await;
    let deep = format!("{}1{}", "{\"a\":".repeat(99), "}".repeat(99));
    let deeper = format!("{}1{}", "[".repeat(128), "]".repeat(128));
    let texts = [
        r#"{"$set":{"a.b":1},"$ref":"x","$id":1,"":2,"$":3,".":4,"_id":5}"#,
        r#"{"$ref":1}"#,
        r#"{"$db":{"$id":null}}"#,
        r#"[[],{},[{}]]"#,
        r#""\u0000""#,
        r#"{"a\u0000":1}"#,
        r#""\ud800""#,
        "-0",
        "1e400",
        "18446744073709551615",
        "0.1e-5",
        &deep,
        &deeper,
    ];
    append(&store, texts.iter().map(|text| draft("t", text)).collect()).await;
    let read: Vec<_> = log(&store, "t").await.iter().map(|event| event.payload().to_vec()).collect();
    let read: Vec<_> = read.iter().map(|payload| std::str::from_utf8(payload).unwrap()).collect();
    assert_eq!(read, texts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_have_any_names() {
    let world = World::new().await;
    let store = world.store().await;
    let headers: Vec<(String, String)> =
        [("correlationId", "c-1"), ("a.b", "1"), ("$set", "2"), ("é", "\"3\"\n"), ("z", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    let odd: Vec<(String, String)> = vec![("a\0b".into(), "1".into()), ("c".into(), "2".into())];
    let with = |headers: &Vec<(String, String)>| {
        let mut event = NewEvent::new(topic("t"), Payload::null());
        event.options.headers.clone_from(headers);
        Draft::encode(event, fresh_id(), T0)
    };
    append(&store, vec![with(&headers), with(&odd)]).await;
    let events = log(&store, "t").await;
    assert_eq!(events[0].headers(), headers);
    assert_eq!(events[1].headers(), odd);
    let found = world.documents("events").find_one(doc! { "headers.correlationId": "c-1" }).await.unwrap();
    assert_eq!(found.unwrap().get_i64("seq").unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_uuids_that_every_driver_reads() {
    let world = World::new().await;
    let store = world.store().await;
    let one = draft("t", "1");
    let id = one.id();
    append(&store, vec![one]).await;
    let uuid = hub_testbed::mongodb::bson::Uuid::parse_str(id.to_string()).unwrap();
    let found = world.documents("events").find_one(doc! { "id": uuid }).await.unwrap().unwrap();
    assert_eq!(found.get("committed"), Some(&Bson::Int64(T0 as i64)));
}

/// However long the logs are, the ends of all topics cost a jump per topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ends_of_topics_are_found_without_walking_over_their_logs() {
    let world = World::new().await;
    let store = world.store().await;
    append(&store, (0..600).map(|n| draft(&format!("t.{}", n % 3), "1")).collect()).await;
    world.db.run_command(doc! { "profile": 2, "slowms": 0 }).await.unwrap();
    assert_eq!(store.tails(None).await.unwrap().len(), 3);
    assert_eq!(store.tails(Some(&[topic("t.0"), topic("t.2")])).await.unwrap().len(), 2);
    store.load().await.unwrap();
    world.db.run_command(doc! { "profile": 0 }).await.unwrap();
    let mut cursor =
        world.documents("system.profile").find(doc! { "command.aggregate": "events" }).await.unwrap();
    let mut seen = 0;
    while cursor.advance().await.unwrap() {
        let entry = Document::try_from(cursor.current()).unwrap();
        let examined = entry.get_i32("keysExamined").unwrap_or_else(|_| panic!("{entry}"));
        assert!(examined < 20, "{examined} keys: {entry}");
        assert!(entry.get_str("planSummary").unwrap().starts_with("DISTINCT_SCAN"), "{entry}");
        seen += 1;
    }
    assert_eq!(seen, 4);
}
