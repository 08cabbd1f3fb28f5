//! The process that is measured.

use anyhow::{Context, Result};
use std::process::Child;
use std::time::Duration;

/// Memory of its own, file cache aside.
pub fn anonymous_mib(child: &Child) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// Processor time that it has taken, of all its threads.
pub fn cpu(child: &Child) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    // Behind the name, which may have anything in it: the state, and eleven numbers before the two that count.
    let fields = stat.rsplit_once(')').context("no name in the process's state")?.1;
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Closes its standard input, which tells it to end, and kills it after ten seconds.
pub fn end(child: &mut Child) {
    drop(child.stdin.take());
    for _ in 0..1000 {
        if let Ok(Some(_)) = child.try_wait() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}
