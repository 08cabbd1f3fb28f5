//! Processes that the benchmark starts: one fills a store and is killed, another opens what is left.

use crate::load::{fill, topic};
use anyhow::{Context, Result, ensure};
use hub_core::Bus;
use hub_core::store::{EventStore, Health};
use hub_store_embedded::{EmbeddedStore, Options};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The word on the command line.
pub const VICTIM: &str = "store-victim";

/// What the process is for.
#[derive(Debug)]
pub enum Victim {
    /// Publishes so many events, says so, and waits to be killed.
    Fill(PathBuf, usize),
    /// Opens the store and tells [`Opened`].
    Open(PathBuf),
}

/// What opening a store took.
#[derive(Debug, Serialize, Deserialize)]
pub struct Opened {
    /// Until it took commits.
    pub seconds: f64,
    /// Memory of its own afterwards, file cache aside.
    pub anonymous_mib: f64,
    /// Events found.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Victim {
    /// Reads the words after [`VICTIM`].
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let words: Vec<String> = words.collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["fill", directory, count] => match count.parse() {
                Ok(count) => Ok(Self::Fill(directory.into(), count)),
                Err(_) => Err(format!("{count} is no number of events")),
            },
            ["open", directory] => Ok(Self::Open(directory.into())),
            _ => Err(format!("{VICTIM} is for the benchmark itself")),
        }
    }

    /// Does it.
    pub async fn run(self) -> Result<()> {
        match self {
            Self::Fill(directory, count) => {
                let bus = Bus::builder(EmbeddedStore::open(&directory, Options::default())?).open().await?;
                fill(&bus, &topic(), count).await?;
                println!("{count}");
                // Until it is killed, or its parent is gone.
                let _ = std::io::stdin().read(&mut [0]);
            }
            Self::Open(directory) => {
                let started = Instant::now();
                let store = EmbeddedStore::open(&directory, Options::default())?;
                let seconds = started.elapsed().as_secs_f64();
                // The keeper may still be sealing what the kill has left; that is part of opening, and of its memory.
                let anonymous_mib = anonymous_mib()?;
                let bounds = store.bounds(&topic()).await?;
                ensure!(store.health() == Health::default(), "{:?}", store.health());
                let opened = Opened { seconds, anonymous_mib, events: bounds.events, bytes: bounds.bytes };
                println!("{}", serde_json::to_string(&opened)?);
                store.close().await?;
            }
        }
        Ok(())
    }
}

fn anonymous_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// Fills a store in another process and kills that with SIGKILL.
pub fn kill_after(directory: &Path, events: usize) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([VICTIM, "fill"])
        .arg(directory)
        .arg(events.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("it was piped")?).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    ensure!(line.trim() == events.to_string(), "the process that fills the store came to an early end");
    Ok(())
}

/// Opens a store in another process.
pub fn open(directory: &Path) -> Result<Opened> {
    let output = Command::new(std::env::current_exe()?)
        .args([VICTIM, "open"])
        .arg(directory)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the store does not open");
    Ok(serde_json::from_slice(&output.stdout)?)
}
