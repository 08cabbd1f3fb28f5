//! The hub that subjects share.

use super::{ask, enter};
use crate::child;
use crate::store::place::Place;
use anyhow::{Context, Result, ensure};
use hub_core::{Bus, Config, NewEvent, Payload, Quota, QuotaOf};
use hub_server::auth::mint::{Claims, mint};
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::limits::{Limits, SubjectQuota};
use hub_server::{Hub, Settings};
use hub_store_embedded::{EmbeddedStore, Options};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// The word on the command line.
pub const SERVER: &str = "tenants-server";
const SECRET: &str = "the secret of the benchmark, as long as it has to be";

#[derive(Debug, Serialize, Deserialize)]
struct Ports {
    ws: u16,
    http: u16,
}

/// The areas that topics are spread over.
pub const AREAS: usize = 10;

/// Serves until its parent is gone, with so many topics.
pub async fn serve(data: &str, topics: usize) -> Result<()> {
    let every =
        Quota { of: QuotaOf::EverySubject, topics: Some(1_000), groups: Some(10_000), stored_bytes: None };
    let config = Config { quotas: vec![every], ..Config::default() };
    let bus =
        Bus::builder(EmbeddedStore::open(Path::new(data), Options::default())?).config(config).open().await?;
    let names: Vec<String> = (0..topics).map(|n| format!("area{}.t{n}", n % AREAS)).collect();
    for names in names.chunks(1000) {
        let event = |name: &String| Ok(NewEvent::new(name.parse()?, Payload::of(&1)?));
        let events = names.iter().map(event).collect::<hub_core::Result<Vec<_>>>()?;
        bus.publish_batch(events).await.into_iter().collect::<hub_core::Result<Vec<_>>>()?;
    }
    let auth = AuthConfig { secret: Some(Secret::new(SECRET)), ..AuthConfig::default() };
    // Everybody is on one machine here.
    let limits = Limits {
        connections_per_address: 30_000,
        unauthenticated_per_address: 1_000,
        subject_quotas: vec![SubjectQuota {
            subject: None,
            connections: Some(1_000),
            bytes_in: Some(64 << 20),
            bytes_out: Some(256 << 20),
            subscriptions: Some(20_000),
        }],
        ..Limits::beyond_loopback()
    };
    let settings = Settings { limits, ..Settings::default() };
    let hub = Hub::builder(bus.clone(), Authenticator::new(auth)?).settings(settings).build();
    let (ws, http) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let ports = Ports { ws: ws.local_addr()?.port(), http: http.local_addr()?.port() };
    let gateway = tokio::spawn(hub_server::net::serve(ws, hub.gateway(), None, hub.clone()));
    let ops = tokio::spawn(hub_server::net::serve(http, hub.ops(), None, hub.clone()));
    println!("{}", serde_json::to_string(&ports)?);
    // Its parent says when: by closing this.
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await??;
    hub.drain(Duration::from_secs(3)).await;
    gateway.abort();
    ops.abort();
    Ok(bus.stop().await?)
}

/// A running server; it goes with this.
pub struct Server {
    child: Child,
    ports: Ports,
    created: AtomicUsize,
    _directory: TempDir,
}

impl Server {
    pub fn start(place: &Place, topics: usize) -> Result<Self> {
        let directory = place.fresh()?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SERVER)
            .arg(directory.path().join("data"))
            .arg(topics.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it was piped")?).read_line(&mut line)?;
        let ports = serde_json::from_str(&line).context("the server did not start")?;
        Ok(Self { child, ports, created: AtomicUsize::new(0), _directory: directory })
    }

    pub fn ws(&self) -> String {
        format!("ws://127.0.0.1:{}/", self.ports.ws)
    }

    /// Host and port of HTTP.
    pub fn http(&self) -> String {
        format!("127.0.0.1:{}", self.ports.http)
    }

    /// A token of a subject that may publish and subscribe everything.
    pub fn token(&self, subject: &str) -> String {
        self.token_for(subject, &["publish:**", "subscribe:**"])
    }

    pub fn token_for(&self, subject: &str, scopes: &[&str]) -> String {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let ttl = Some(Duration::from_secs(3600));
        mint(&Secret::new(SECRET), &Claims { sub: Some(subject.into()), scopes, ttl, ..Claims::default() })
    }

    /// The one who is attacked makes a topic and a group.
    pub fn create(&self) -> Result<()> {
        let mut socket = enter(&self.ws(), &self.token("ada"))?;
        let n = self.created.fetch_add(1, Relaxed);
        let topic = format!("victim.new{n}");
        for frame in [
            format!(r#"{{"op":"PUBLISH","topic":"{topic}","payload":1}}"#),
            format!(r#"{{"op":"SUBSCRIBE","topic":"{topic}","group":"g"}}"#),
        ] {
            let answer = ask(&mut socket, &frame)?;
            ensure!(answer.contains("\"OK\""), "a topic or a group could not be made: {answer}");
        }
        Ok(())
    }

    /// Memory of its own, file cache aside.
    pub fn anonymous_mib(&self) -> Result<f64> {
        child::anonymous_mib(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        child::end(&mut self.child);
    }
}
