//! Delivery out of memory, with an ack per event. Publishing is no part of it: events are published while every member is
//! paused, into a tail that holds them all.

use super::hub::{Hub, Memory};
use crate::consume::{Team, drain};
use crate::load::{fill, topic};
use crate::measure::{Cost, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use anyhow::{Result, ensure};
use hub_core::Ordering;

/// Groups of the fan-out.
const GROUPS: usize = 100;

/// Who consumes.
#[derive(Clone, Copy)]
struct Setup {
    groups: usize,
    members: usize,
    ordering: Ordering,
    events: usize,
}

/// What repetitions of one setup gave.
#[derive(Default)]
struct Series {
    /// Deliveries per second.
    rate: Samples,
    /// Microseconds of processor time per delivery.
    cpu: Samples,
}

/// Measures and reports.
pub async fn run(scale: Scale, report: &mut Report) -> Result<()> {
    let one = Setup { groups: 1, members: 1, ordering: Ordering::None, events: scale.events(200_000) };
    let many = Setup { groups: GROUPS, events: scale.events(50_000), ..one };
    let ordered = Setup { ordering: Ordering::Key, ..one };
    let competing = Setup { members: 4, ..one };
    let setups = [one, many, ordered, competing];
    let mut series: [Series; 4] = Default::default();
    for _ in 0..Scale::TURNS {
        for (setup, series) in setups.into_iter().zip(&mut series) {
            series.add(setup, measure(setup).await?);
        }
    }
    let [one, many, ordered, competing] = series;

    let figure = Figure::new("tail: one group", &one.rate, "events/s");
    report.figure(figure.limit(Limit::AtLeast(700_000.0)));
    report.figure(Figure::new("tail: one group, CPU per delivery", &one.cpu, "us"));

    report.figure(Figure::new(format!("tail: {GROUPS} groups"), &many.rate, "deliveries/s"));
    report.figure(Figure::new(format!("tail: {GROUPS} groups, CPU per delivery"), &many.cpu, "us"));
    let figure =
        Figure::ratio(format!("tail: CPU per delivery, {GROUPS} groups to one"), &many.cpu, &one.cpu);
    report.figure(figure.limit(Limit::AtMost(1.3)));
    // Time per delivery is the inverse of the rate. Several groups can use several cores, so this says more about those.
    report.figure(Figure::ratio(
        format!("tail: time per delivery, {GROUPS} groups to one"),
        &one.rate,
        &many.rate,
    ));

    report.figure(Figure::new("tail: key order", &ordered.rate, "events/s"));
    let figure = Figure::ratio("tail: key order to unordered", &ordered.rate, &one.rate);
    report.figure(figure.limit(Limit::AtLeast(0.6)));

    report.figure(Figure::new("tail: 4 members of one group", &competing.rate, "events/s"));
    report.figure(Figure::ratio("tail: 4 members to one", &competing.rate, &one.rate));
    Ok(())
}

impl Series {
    fn add(&mut self, setup: Setup, cost: Cost) {
        let deliveries = setup.groups * setup.events;
        self.rate.push(cost.rate(deliveries));
        self.cpu.push(cost.cpu_each(deliveries));
    }
}

async fn measure(setup: Setup) -> Result<Cost> {
    let Setup { groups, members, ordering, events } = setup;
    let (hub, topic) = (Hub::open(Memory::Tail).await?, topic());
    let names: Vec<String> = (0..groups).map(|group| format!("group-{group}")).collect();
    let mut teams = Vec::with_capacity(groups);
    for name in &names {
        teams.push(Team::join(&hub.bus, &topic, name, members, ordering).await?.paused());
    }
    fill(&hub.bus, &topic, events).await?;
    hub.bus.flush().await?;
    let cost = drain(teams, events).await?;
    for name in &names {
        hub.check_settled(&topic, name, events)?;
    }
    ensure!(hub.store_reads()? == 0, "events had left the tail; the figure would be of something else");
    hub.bus.stop().await?;
    Ok(cost)
}
