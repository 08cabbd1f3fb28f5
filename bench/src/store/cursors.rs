//! Saving what groups have done: one group at a time, and a thousand in one commit.

use super::place::{Hub, Place};
use crate::load::topic;
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Report};
use anyhow::{Result, ensure};
use hub_core::store::{Commit, EventStore, GroupRecord, Progress, Record};
use hub_core::{Config, GroupOptions};
use hub_proto::{GroupName, TopicName};

/// Groups.
const GROUPS: usize = 1000;
/// Commits of one cursor, and of all.
const COMMITS: [usize; 2] = [4000, 400];

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (hub, topic) = (Hub::open(place, Config::default()).await?, topic());
    let names = (0..GROUPS).map(|group| GroupName::parse(&format!("group-{group}")));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let made = names.iter().map(|name| {
        let (topic, name, options) = (topic.clone(), name.clone(), GroupOptions::default());
        Record::Group(GroupRecord {
            topic,
            name,
            options,
            created: 1,
            idle_since: None,
            driven: false,
            born: 0,
        })
    });
    commit(&hub, made.collect()).await?;
    let (mut single, mut all) = (Samples::default(), Samples::default());
    let mut floor = 0;
    for _ in 0..Scale::TURNS {
        for (samples, (commits, groups)) in
            [&mut single, &mut all].into_iter().zip(COMMITS.into_iter().zip([1, GROUPS]))
        {
            let commits = scale.events(commits);
            let stopwatch = Stopwatch::start();
            for _ in 0..commits {
                floor += 1;
                let saved = names[..groups].iter().map(|name| progress(&topic, name, floor));
                commit(&hub, saved.collect()).await?;
            }
            samples.push(stopwatch.stop().rate(commits * groups));
        }
    }
    report.figure(Figure::new("cursors: one per commit", &single, "saves/s"));
    report.figure(Figure::new(format!("cursors: {GROUPS} per commit"), &all, "saves/s"));
    hub.close().await
}

fn progress(topic: &TopicName, group: &GroupName, floor: u64) -> Record {
    let progress =
        Progress { epoch: 0, reset: false, floor, high: floor, settled: Vec::new(), tries: Vec::new() };
    Record::Progress(topic.clone(), group.clone(), progress)
}

/// Nothing else is committed meanwhile: the bus has no event and no group.
async fn commit(hub: &Hub, records: Vec<Record>) -> Result<()> {
    let committed = hub.store.commit(Commit { records, ..Commit::default() }).await;
    for record in committed.records {
        ensure!(record.is_ok(), "{record:?}");
    }
    Ok(())
}
