//! A hub that loses its MongoDB while it runs.

use super::{Bed, get, publish, until};
use crate::hub::{Hub, Place};
use crate::socket::Socket;
use hub_testbed::Proxy;
use serde_json::{Value, json};

/// The next event of a group's member, acked.
async fn acked(socket: &mut Socket) -> Value {
    let frame = socket.next().await.unwrap();
    assert_eq!(frame["op"], "EVENT", "{frame}");
    let id = &frame["event"]["id"];
    socket.send(&json!({"op": "ACK", "topic": "orders", "group": "billing", "id": id})).await.unwrap();
    frame["event"]["payload"].clone()
}

/// Loses it, and gets it back.
fn lose(break_it: impl AsyncFnOnce(&Proxy) -> anyhow::Result<()>) {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let proxy = bed.get(Proxy::start(database.server()));
    let config = place.write("hub.toml", "[limits]\npublish_timeout = \"3s\"\n");
    let url = proxy.database_uri(database.name());
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[("MONGO_URL", &url)]);
    let ready = format!("{}readyz", hub.http());
    let mut member = bed.0.block_on(Socket::open(hub.ws(), hub.token()));
    let subscribe =
        json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": {"from": "earliest"}});
    bed.0.block_on(member.ok(subscribe));
    assert_eq!(publish(&hub, "orders", "1").0, 200);
    assert_eq!(bed.0.block_on(acked(&mut member)), 1);

    bed.get(break_it(&proxy));
    let (status, answer) = publish(&hub, "orders", "2");
    assert_eq!((status, &answer["code"]), (503, &json!("unavailable")), "{answer}");
    let id = answer["id"].as_str().expect("the id is told, so that it can be sent again").to_owned();
    until("a hub that is not ready", || get(&ready).0 == 503);
    assert_eq!(get(&format!("{}healthz", hub.http())).0, 200);

    bed.get(proxy.heal());
    until("a hub that is ready", || get(&ready).0 == 200);
    let (status, answer) = publish(&hub, &format!("orders?id={id}"), "2");
    assert_eq!((status, &answer["seq"]), (200, &json!(2)), "whether or not it was there: {answer}");
    assert_eq!(publish(&hub, "orders", "3").0, 200);
    let rest = [bed.0.block_on(acked(&mut member)), bed.0.block_on(acked(&mut member))];
    assert_eq!(rest, [json!(2), json!(3)], "the member is still connected, and gets all of it");
    hub.stop();
}

#[test]
fn connections_that_break_are_made_again_and_everything_goes_on() {
    lose(async |proxy| proxy.cut().await);
}

#[test]
fn connections_that_hang_are_given_up_in_time_and_everything_goes_on() {
    lose(async |proxy| proxy.silence().await);
}
