//! A bus inside one program: publish, work it off in a group, give up on what fails, go back, look at the latest state.
//!
//! `cargo run -p hub-core --example in_process`

use hub_core::{Bus, Delivery, Error, Ordering, Position};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // Everything lives in memory here; `Bus::builder(store)` takes any other store, and the rest stays as it is.
    let bus = Bus::in_memory().await?;

    work_off_orders(&bus).await?;
    look_at_dead_letters(&bus).await?;
    go_back(&bus).await?;
    follow_the_latest_state(&bus).await?;

    // A clean stop: nothing that was acked is ever delivered again.
    bus.stop().await
}

/// A group with a handler: `Ok` acks, an error hands the event back, and after three failures it is given up.
async fn work_off_orders(bus: &Bus) -> Result<(), Error> {
    println!("-- a group works off orders, those of one customer in their order");
    for (customer, item) in [("ada", "tea"), ("bob", "a broken plate"), ("ada", "milk"), ("bob", "a cup")] {
        let receipt = bus.publish("orders.placed", json!({ "item": item })).key(customer).await?;
        println!(
            "published {item} for {customer}: seq {}, durable: {}",
            receipt.seq,
            receipt.durable.as_str()
        );
    }
    let packing = bus
        .subscribe("orders.placed")
        .group("packing")
        .from(Position::Earliest)
        .ordering(Ordering::Key)
        .max_attempts(3)
        .concurrency(2)
        .handler(pack)
        .await?;
    settled(bus, "packing", 4).await?;
    packing.stop().await;
    Ok(())
}

async fn pack(delivery: Arc<Delivery>) -> Result<(), String> {
    let order: Value = delivery.event().decode().map_err(|error| error.to_string())?;
    let (customer, item) = (delivery.event().key().map_or("nobody", |key| key), &order["item"]);
    if item == "a broken plate" {
        println!("cannot pack {item} for {customer}, attempt {}", delivery.attempt());
        return Err("it fell apart".into());
    }
    println!("packed {item} for {customer}");
    Ok(())
}

/// Waits until a group has settled everything up to `seq`.
async fn settled(bus: &Bus, group: &str, seq: u64) -> Result<(), Error> {
    while bus.get_cursor("orders.placed", group).await?.is_none_or(|cursor| cursor.seq < seq) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// What failed too often is a record like any other, on `dlq.<topic>`.
async fn look_at_dead_letters(bus: &Bus) -> Result<(), Error> {
    println!("-- what could not be packed");
    for letter in bus.scan("dlq.orders.placed", Position::Earliest, None).await? {
        let letter: Value = letter.decode()?;
        let (original, err, attempts) = (&letter["original"]["payload"], &letter["err"], &letter["attempts"]);
        println!("{original} after {attempts} attempts: {err}");
    }
    Ok(())
}

/// The log stays, so a group can be placed anew. Here a consumer takes events one by one and acks them itself.
async fn go_back(bus: &Bus) -> Result<(), Error> {
    println!("-- packing goes back to the third order");
    bus.set_cursor("orders.placed", "packing", Position::AfterSeq(2)).await?;
    let mut orders = bus.subscribe("orders.placed").group("packing").open().await?;
    for _ in 0..2 {
        let delivery = orders.recv().await?;
        println!("again, seq {}: {}", delivery.event().seq(), delivery.event().decode::<Value>()?["item"]);
        delivery.ack()?;
    }
    orders.close();
    Ok(())
}

/// Events as states: only the newest of each key matters. A group that coalesces skips what was overtaken.
async fn follow_the_latest_state(bus: &Bus) -> Result<(), Error> {
    println!("-- the latest state of each room");
    for (room, light) in [("hall", json!("on")), ("attic", json!("on")), ("hall", json!("off"))] {
        bus.publish("rooms.light", light).key(room).await?;
    }
    bus.publish("rooms.light", Value::Null).key("attic").await?; // a tombstone: the room is gone
    for (room, state) in
        ["hall", "attic"].iter().zip(bus.latest_by_key("rooms.light", &["hall", "attic"]).await?)
    {
        match state {
            Some(event) => println!("{room}: {}", event.decode::<Value>()?),
            None => println!("{room}: nothing"),
        }
    }
    let lights = bus.subscribe("rooms.light").group("panel").from(Position::Earliest).coalesce(true);
    let mut lights = lights.open().await?;
    for _ in 0..2 {
        let delivery = lights.recv().await?;
        let room = delivery.event().key().map_or("nowhere", |key| key);
        println!("the panel shows {room}: {}", delivery.event().decode::<Value>()?);
        delivery.ack()?;
    }
    lights.close();
    Ok(())
}
