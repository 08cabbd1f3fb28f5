//! Reads the topic from its beginning, without a group, at whichever hub is there.

use super::TOPIC;
use super::load::Load;
use hub_client::{Client, Position, Received, SubscribeOptions, WhenFull};
use std::sync::Arc;
use std::time::Duration;

pub async fn watch(load: Arc<Load>, me: usize, home: usize) {
    let hubs = load.addresses.urls.len();
    let (first, longest) = (Duration::from_millis(20), Duration::from_millis(500));
    let builder = Client::builder(load.addresses.target(home)).token(&*load.addresses.token);
    let others = (home + 1..hubs).chain(0..home);
    let builder = builder.backoff(first, longest).reconnect_within(first);
    let builder = others.fold(builder, |it, hub| it.also(load.addresses.target(hub)));
    let client = builder.connect().await.unwrap();
    let options = SubscribeOptions {
        from: Some(Position::Earliest),
        when_full: WhenFull::Wait,
        ..SubscribeOptions::default()
    };
    let mut events = client.subscribe(TOPIC, None, options).await.unwrap();
    let mut over = load.over();
    loop {
        tokio::select! {
            received = events.recv() => match received {
                Ok(Received::Event(message)) => {
                    let seen = (message.event().seq(), message.event().id());
                    load.ledger.with(|records| records.watched[me].seen.push(seen));
                }
                // Its hub was away, or it was slow itself. It is told of how many it missed.
                Ok(Received::Lagged { missed, .. }) => {
                    load.ledger.with(|records| records.watched[me].missed += missed);
                }
                other => return load.ledger.is_wrong(format!("watcher {me}: {other:?}")),
            },
            _ = over.changed() => return client.close().await,
        }
    }
}
