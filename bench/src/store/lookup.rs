//! Finding records that are in sealed segments: by id, by key, and by publishing what is there already.

use super::place::{Hub, Place};
use crate::load::{KEYS, fill, payload, topic};
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Report};
use anyhow::{Result, ensure};
use hub_core::store::{EventStore, ReadLimit};
use hub_core::{Config, NewEvent};
use hub_proto::{EventId, Key};

/// Events in the topic: several segments.
const EVENTS: usize = 1_000_000;
/// Lookups of each kind.
const LOOKUPS: usize = 50_000;
/// Events that are published again at once.
const AGAIN: usize = 1000;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (hub, topic) = (Hub::open(place, Config::default()).await?, topic());
    let (events, lookups) = (scale.events(EVENTS), scale.events(LOOKUPS));
    fill(&hub.bus, &topic, events).await?;
    hub.tape.settle().await;
    let mut known = Vec::with_capacity(lookups);
    let one = ReadLimit { events: 1, bytes: 1 };
    for at in 0..lookups {
        let page = hub.store.read(&topic, (at * (events / lookups)) as u64, one).await?;
        known.extend(page.first().map(|event| (event.id(), event.seq(), event.key().cloned())));
    }
    let [mut by_id, mut absent, mut by_key, mut again]: [Samples; 4] = Default::default();
    for _ in 0..Scale::TURNS {
        let stopwatch = Stopwatch::start();
        for (id, seq, _) in &known {
            ensure!(hub.store.seq_of(&topic, *id).await? == Some(*seq), "{id} is not where it was");
        }
        by_id.push(stopwatch.stop().rate(lookups));

        let stopwatch = Stopwatch::start();
        for at in 0..lookups {
            // A v4 as good as any.
            let id =
                EventId::from_bytes((0x4000_8000_0000_0000_0000_u128 | (at as u128) << 90).to_be_bytes());
            ensure!(hub.store.seq_of(&topic, id).await?.is_none(), "{id} is not there");
        }
        absent.push(stopwatch.stop().rate(lookups));

        let stopwatch = Stopwatch::start();
        for at in 0..lookups {
            let key = Key::from(format!("key-{}", at as u64 % KEYS));
            ensure!(hub.store.newest(&topic, &[key]).await?[0].is_some(), "a key is missing");
        }
        by_key.push(stopwatch.stop().rate(lookups));

        let stopwatch = Stopwatch::start();
        for known in known.chunks(AGAIN) {
            let resend = known.iter().map(|(id, _, key)| {
                let event = NewEvent::new(topic.clone(), payload()).with_id(*id);
                if let Some(key) = key { event.with_key(key.to_string()) } else { event }
            });
            for receipt in hub.bus.publish_batch(resend.collect()).await {
                ensure!(receipt?.duplicate, "it was taken for a new one");
            }
        }
        again.push(stopwatch.stop().rate(lookups));
    }
    report.figure(Figure::new("lookup: by id", &by_id, "lookups/s"));
    report.figure(Figure::new("lookup: by an id that is not there", &absent, "lookups/s"));
    report.figure(Figure::new("lookup: by key", &by_key, "lookups/s"));
    report.figure(Figure::new("lookup: published again", &again, "events/s"));
    hub.close().await
}
