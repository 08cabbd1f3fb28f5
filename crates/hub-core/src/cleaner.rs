//! What leaves: old events, overtaken events, groups that nobody uses. And what is written down before: snapshots.

use crate::Millis;
use crate::config::{DAY, TopicSettings};
use crate::deletion;
use crate::engine::Engine;
use crate::letters;
use crate::position::refused;
use crate::snapshot;
use crate::store::{CleanPolicy, Cleaned};
use crate::subscribe::{Doomed, delete};
use crate::topic::Topic;
use hub_proto::Result;
use std::sync::Arc;
use std::time::Duration;

/// A topic in which nothing happened is looked at again after this long: age alone may have made a difference.
const IDLE: Millis = 60 * 60 * 1000;

/// Cleans for as long as the hub runs.
pub(crate) async fn run(engine: &Arc<Engine>) {
    let mut pass = Pass::default();
    // Group names that may expire are this hub's meanwhile.
    let mut stay = Vec::new();
    loop {
        tokio::time::sleep(Duration::from_millis(engine.config.clean_interval)).await;
        if let Some(cluster) = &engine.cluster {
            // One hub at a time.
            match cluster.cleans(engine).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::warn!(%error, "who cleans could not be asked, trying again later");
                    continue;
                }
            }
            stay = cluster.idle(engine).await;
        }
        pass.run(engine).await;
        if let Err(error) = engine.cleaning_time.save(engine).await {
            tracing::warn!(%error, "the time that cleaning goes by could not be stored, trying again later");
        }
        deletion::resume(engine).await;
        drop(std::mem::take(&mut stay));
    }
}

/// What one pass over all topics knows of the one before.
#[derive(Default)]
pub(crate) struct Pass {
    cleaned: std::collections::HashMap<String, (u64, Millis, Arc<TopicSettings>)>,
}

impl Pass {
    /// Cleans what is due. A failure concerns one topic, and is tried again in the next pass.
    pub async fn run(&mut self, engine: &Arc<Engine>) {
        let now = engine.clock.steady();
        for topic in engine.topics().chain(engine.system_topics()) {
            let (settings, last) = (topic.settings(), topic.last());
            if !settings.needs_cleaning() || topic.is_deleting() {
                continue;
            }
            let before = self.cleaned.get(topic.name.as_str());
            if before.is_some_and(|(upto, at, by)| *upto == last && now - at < IDLE && *by == settings) {
                continue;
            }
            match clean(engine, &topic).await {
                Ok(cleaned) if cleaned.is_partial => drop(self.cleaned.remove(topic.name.as_str())),
                Ok(_) => drop(self.cleaned.insert(topic.name.to_string(), (last, now, settings))),
                Err(error) => {
                    tracing::warn!(topic = %topic.name, %error, "cleaning failed, trying again later");
                }
            }
        }
        Self::expire_groups(engine).await;
        engine.fans.make_postponed(engine).await;
    }

    async fn expire_groups(engine: &Arc<Engine>) {
        let days = engine.config.group_expire_days;
        if days == 0 {
            return;
        }
        let trusted = match engine.cleaning_time.now(engine).await {
            Ok(trusted) => trusted,
            Err(error) => {
                tracing::warn!(%error, "idle groups could not be looked at, trying again later");
                return;
            }
        };
        // A hub that started with a clock ahead measures by it until the clock is corrected or believed.
        let lead = engine.clock.wall().saturating_sub(trusted);
        let now = engine.now_unset().saturating_sub(lead);
        let expired = |idle_since: Option<Millis>| {
            idle_since.is_some_and(|since| now.saturating_sub(since) >= Millis::from(days) * DAY)
        };
        let fans = engine.fans.records().into_iter();
        let mut gone: Vec<_> =
            fans.map(|fan| (Doomed::Subscription(fan.label), fan.group, fan.idle_since)).collect();
        for topic in engine.topics() {
            let groups: Vec<_> = topic.groups.read().values().cloned().collect();
            let records = groups.iter().map(|group| group.record()).filter(|record| !record.driven);
            gone.extend(records.map(|record| (Doomed::Group(record.topic), record.name, record.idle_since)));
        }
        for (what, group, idle_since) in gone {
            if expired(idle_since) {
                let of = what.to_string();
                match delete(engine, what, &group, true).await {
                    Ok(0) => {}
                    Ok(_) => tracing::info!(of, %group, days, "a group without members has expired"),
                    Err(error) => {
                        tracing::warn!(of, %group, %error, "an expired group could not be deleted");
                    }
                }
            }
        }
    }
}

/// Writes the snapshot of a compacted topic, then removes what its settings do not keep.
pub(crate) async fn clean(engine: &Arc<Engine>, topic: &Arc<Topic>) -> Result<Cleaned> {
    let _turn = topic.cleaning.lock().await;
    let settings = topic.settings();
    let mut keep_above = None;
    if settings.compaction && topic.name.has_snapshot() {
        // A tombstone that comes now must not go before the snapshot has it.
        keep_above = Some(snapshot::write(engine, topic).await?);
    }
    let now = engine.cleaning_time.now(engine).await?;
    let policy = CleanPolicy {
        committed_before: settings.retention_days.map(|days| now.saturating_sub(Millis::from(days) * DAY)),
        max_bytes: settings.retention_bytes,
        compact: settings.compaction,
        tombstones_before: now.saturating_sub(settings.tombstone_grace),
        keep_above,
        ids_since: now.saturating_sub(engine.config.dedupe_window),
    };
    let cleaned = engine.store.clean(&topic.name, policy).await.map_err(refused)?;
    let groups: Vec<_> = topic.groups.read().values().cloned().collect();
    for group in groups {
        group.truncate(cleaned.bounds.first);
    }
    if cleaned.removed > 0
        && let Some(source) = letters::source_of(&topic.name)
    {
        letters::forget_marks(engine, &source, cleaned.bounds.first).await?;
    }
    Ok(cleaned)
}
