//! A hub that is started before its MongoDB.

use super::{Bed, get, ops_of, publish};
use crate::hub::{Hub, Place, Running};
use hub_testbed::Proxy;
use serde_json::Value;

fn start(place: &Place, url: &str) -> Running {
    let args = ["serve", "--json", "--ws-port", "0", "--ops-port", "0", "--data", &place.text("data")];
    Running::start(&args, &[("MONGO_URL", url)])
}

#[test]
fn it_waits_says_so_and_goes_on_when_mongodb_comes() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let proxy = bed.get(Proxy::start(database.server()));
    bed.get(proxy.cut());
    let mut process = start(&place, &proxy.database_uri(database.name()));
    let ops = ops_of(&mut process);
    assert_eq!(get(&format!("{ops}/healthz")).0, 200);
    let (status, ready) = get(&format!("{ops}/readyz"));
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((status, &ready["ready"]), (503, &false.into()), "{ready}");
    let reason = ready["store"]["reason"].as_str().unwrap();
    assert!(
        reason.contains(&proxy.address().to_string()) && reason.contains("cannot be reached"),
        "{reason}"
    );
    let (status, refused) = get(&format!("{ops}/topics"));
    assert!(status == 503 && refused.contains("\"unavailable\""), "{status} {refused}");

    bed.get(proxy.heal());
    let ready = serde_json::from_str(&process.line()).unwrap();
    let hub = Hub { process, ready };
    assert_eq!(format!("{ops}/"), hub.http(), "the port stays the same");
    assert_eq!(get(&format!("{ops}/readyz")).0, 200);
    let (status, answer) = publish(&hub, "orders", "1");
    assert_eq!((status, &answer["durable"]), (200, &"majority".into()), "{answer}");
    let log = hub.stop();
    assert!(log.contains("MongoDB is there"), "{log}");
}

#[test]
fn a_signal_ends_the_wait() {
    let (bed, place) = (Bed::new(), Place::new());
    let proxy = bed.get(async { Proxy::start(&hub_testbed::mongo().await?).await });
    bed.get(proxy.cut());
    let mut process = start(&place, &proxy.database_uri("never"));
    ops_of(&mut process);
    process.signal("TERM");
    assert_eq!(process.ended(), 0);
    process.logs("stopped before it was ready");
}

#[test]
fn one_that_comes_and_will_not_do_ends_the_wait_and_no_password_is_told() {
    let (bed, place) = (Bed::new(), Place::new());
    let proxy = bed.get(async { Proxy::start(&hub_testbed::mongo().await?).await });
    bed.get(proxy.cut());
    let url = format!("mongodb://hub:hunter2@{}/shop?directConnection=true", proxy.address());
    let mut process = start(&place, &url);
    let ops = ops_of(&mut process);
    let (_, ready) = get(&format!("{ops}/readyz"));
    assert!(!ready.contains("hunter2"), "{ready}");
    bed.get(proxy.heal());
    assert_eq!(process.ended(), 1);
    process.logs("refuses the credentials");
    assert!(!process.log().contains("hunter2"), "{}", process.log());
}
