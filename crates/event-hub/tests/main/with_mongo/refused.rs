//! Servers and databases that will not do.

use super::Bed;
use crate::hub::{Place, run_with};
use crate::world::Ran;
use hub_testbed::mongodb::bson::doc;
use hub_testbed::mongodb::options::IndexOptions;
use hub_testbed::mongodb::{Database, IndexModel};

/// What `serve` says.
fn serve(url: &str) -> Ran {
    let place = Place::new();
    let args = ["serve", "--ws-port", "0", "--ops-port", "0", "--data", &place.text("data")];
    run_with(&args, &[("MONGO_URL", url)])
}

/// What it says of a database that somebody has prepared.
fn prepared(prepare: impl AsyncFnOnce(Database) -> anyhow::Result<()>) -> Ran {
    let bed = Bed::new();
    let database = bed.get(hub_testbed::database());
    bed.get(async { prepare(database.connect().await?).await });
    serve(&database.uri())
}

#[test]
fn wrong_credentials_end_the_start_and_are_not_shown() {
    let server = Bed::new().get(hub_testbed::mongo());
    let url = server.replace("mongodb://", "mongodb://hub:hunter2@");
    let ran = serve(&url);
    ran.ends_with(1);
    for expected in ["refuses the credentials", "check user, password and authSource"] {
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}

#[test]
fn a_standalone_server_ends_the_start_with_what_to_do() {
    let bed = Bed::new();
    let server = bed.get(hub_testbed::Standalone::start());
    let ran = serve(&server.uri());
    ran.ends_with(1);
    assert!(ran.err.contains("is a standalone server") && ran.err.contains("rs.initiate()"), "{}", ran.err);
}

#[test]
fn a_database_of_a_later_version_is_left_alone() {
    let ran = prepared(async |database| {
        let topics = database.collection("topics");
        topics.insert_one(doc! { "_id": "@schema", "version": 99_i64 }).await?;
        Ok(())
    });
    ran.ends_with(1);
    assert!(ran.err.contains("has schema version 99"), "{}", ran.err);
}

#[test]
fn an_index_in_the_way_is_named() {
    let ran = prepared(async |database| {
        let events = database.collection::<hub_testbed::mongodb::bson::Document>("events");
        let mine = IndexOptions::builder().name("mine".to_owned()).unique(true).build();
        let index = IndexModel::builder().keys(doc! { "topic": 1, "seq": 1 }).options(mine);
        events.create_index(index.build()).await?;
        Ok(())
    });
    ran.ends_with(1);
    assert!(ran.err.contains("index topic_seq of collection events cannot be made"), "{}", ran.err);
}
