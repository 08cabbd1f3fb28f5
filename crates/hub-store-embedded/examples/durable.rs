//! A bus that remembers. Run it twice, kill it in between: `cargo run -p hub-store-embedded --example durable -- DIR`.

use hub_core::{Bus, Position};
use hub_store_embedded::{EmbeddedStore, Options};
use serde_json::json;
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "event-hub-data".into());
    let bus = Bus::builder(EmbeddedStore::open(&directory, Options::default())?).open().await?;

    // On disk when this returns.
    let receipt = bus.publish("visits", json!({"from": "example"})).key("example").await?;
    println!("visit {} is in {directory}", receipt.seq);

    // The group goes on where it was, in whatever process.
    let mut counting = bus.subscribe("visits").group("counting").from(Position::Earliest).open().await?;
    let delivery = counting.recv().await?;
    println!("counting got visit {}, attempt {}", delivery.event().seq(), delivery.attempt());
    delivery.ack()?;

    println!("the store: {:?}", bus.health());
    bus.stop().await?;
    Ok(())
}
