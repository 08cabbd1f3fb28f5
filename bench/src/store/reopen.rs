//! Opening a store after its process was killed: time, memory, and what the records take on disk.

use super::place::Place;
use super::victim::{kill_after, open};
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Limit, Report};
use anyhow::{Result, ensure};
use std::path::Path;

/// Seconds, with a million events.
const SECONDS: f64 = 0.5;
/// Bytes on disk to bytes of records.
const DISK: f64 = 1.25;

/// How many events, how often, and the memory it may take in MiB.
struct Size {
    events: usize,
    name: &'static str,
    turns: usize,
    memory: f64,
}

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, full: bool, report: &mut Report) -> Result<()> {
    let mut sizes = vec![Size { events: scale.events(1_000_000), name: "1M", turns: 3, memory: 60.0 }];
    if full {
        sizes.push(Size { events: scale.events(10_000_000), name: "10M", turns: 1, memory: 120.0 });
    }
    for size in sizes {
        let (mut seconds, mut memory, mut disk): (Samples, Samples, Samples) = Default::default();
        for _ in 0..size.turns {
            let directory = place.fresh()?;
            let data = directory.path().join("data");
            kill_after(&data, size.events)?;
            let used = used_bytes(&data)?;
            let opened = open(&data)?;
            ensure!(opened.events == size.events as u64, "{} of {} are there", opened.events, size.events);
            seconds.push(opened.seconds);
            memory.push(opened.anonymous_mib);
            disk.push(used as f64 / opened.bytes as f64);
        }
        let (name, million) = (size.name, size.events == 1_000_000);
        let figure = Figure::new(format!("reopen: {name} events"), &seconds, "s");
        report.figure(figure.limited(million.then_some(Limit::AtMost(SECONDS))));
        let figure = Figure::new(format!("reopen: {name} events, memory"), &memory, "MiB");
        report.figure(figure.limit(Limit::AtMost(size.memory)));
        let figure = Figure::new(format!("reopen: {name} events, disk to records"), &disk, "x");
        report.figure(figure.limit(Limit::AtMost(DISK)));
    }
    Ok(())
}

/// Bytes of everything in the directory, but for zeros that wait to be written over.
fn used_bytes(directory: &Path) -> Result<u64> {
    let mut used = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let sealed = directory.join(format!("{name}.idx")).exists();
        if name.ends_with(".new") || !entry.file_type()?.is_file() {
            continue;
        }
        used += match name.starts_with("log-") && !name.ends_with(".idx") && !sealed {
            true => {
                let bytes = std::fs::read(entry.path())?;
                bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
            }
            false => entry.metadata()?.len(),
        };
    }
    Ok(used)
}
