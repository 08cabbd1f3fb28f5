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
