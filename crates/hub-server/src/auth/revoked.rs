//! Tokens that were taken back before they expired.
//!
//! A token is named by its `jti`, or all tokens of a subject by their `sub`: those that were issued up to that moment, so that a
//! subject can come back with a new one. What is revoked is remembered on a system topic until no such token can be valid any more:
//! it holds over restarts, and every hub on the same store hears of it.

use super::Identity;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_core::{Bus, Millis, SystemEntry, SystemTopic};
use hub_proto::{Code, Error, Result};
use parking_lot::RwLock;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::OnceCell;

const DAY: Millis = 24 * 60 * 60 * 1000;
/// How long a revocation is kept: that of a token if nothing bounds how long tokens are valid, and that of a subject in any case, as
/// client certificates are often valid for years.
const KEPT: Millis = 10 * 366 * DAY;
/// A `jti` is at most this long.
pub(crate) const MAX_JTI_BYTES: usize = 256;

/// Which tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Revoked {
    /// All of a subject that were issued up to now, and its client certificates that were valid by now.
    Subject(String),
    /// The one with this `jti`.
    Token(String),
}

impl Revoked {
    fn key(&self) -> String {
        match self {
            Self::Subject(sub) => format!("sub/{sub}"),
            Self::Token(jti) => format!("jti/{jti}"),
        }
    }

    fn parse(key: &str) -> Option<Self> {
        match key.split_once('/')? {
            ("sub", sub) => Some(Self::Subject(sub.to_owned())),
            ("jti", jti) => Some(Self::Token(jti.to_owned())),
            _ => None,
        }
    }
}

/// Since when, and until when it has to be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    at: Millis,
    until: Millis,
}

/// What is revoked. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Revocations {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    spans: RwLock<HashMap<Revoked, Span, RandomState>>,
    /// How many there are, for the metrics.
    count: Gauge,
    loaded: OnceCell<()>,
}

impl Revocations {
    /// Reads what is remembered, once; nobody is let in before that.
    pub async fn load(&self, bus: &Bus) -> Result<()> {
        let load = async {
            let entries = bus.system_entries(SystemTopic::Revoked).await?;
            entries.iter().for_each(|entry| self.learn(entry));
            Ok(())
        };
        self.shared.loaded.get_or_try_init(|| load).await.map(drop)
    }

    /// Takes tokens back, now and for all hubs. `max_lifetime` is how long any token is valid.
    pub async fn revoke(&self, bus: &Bus, what: Revoked, max_lifetime: Option<Millis>) -> Result<()> {
        let at = bus.now();
        let kept = match &what {
            Revoked::Subject(_) => max_lifetime.unwrap_or(KEPT).max(KEPT),
            Revoked::Token(_) => max_lifetime.unwrap_or(KEPT),
        };
        let span = Span { at, until: at + kept };
        let value = json!({ "at": span.at, "until": span.until });
        let entry = SystemEntry { key: what.key().into(), value: Some(value) };
        bus.system_write(SystemTopic::Revoked, &entry).await?;
        self.learn(&entry);
        Ok(())
    }

    /// Takes note of an entry of the system topic.
    pub fn learn(&self, entry: &SystemEntry) {
        let Some(what) = Revoked::parse(&entry.key) else { return };
        let time = |value: &Value, name: &str| value[name].as_u64();
        let span = entry
            .value
            .as_ref()
            .and_then(|value| Some(Span { at: time(value, "at")?, until: time(value, "until")? }));
        let mut spans = self.shared.spans.write();
        match span {
            Some(span) => drop(spans.insert(what, span)),
            None => drop(spans.remove(&what)),
        }
        self.shared.count.set(i64::try_from(spans.len()).unwrap_or(i64::MAX));
    }

    /// Those that need not be remembered any longer are forgotten, here and on the system topic.
    pub async fn tidy(&self, bus: &Bus) {
        let now = bus.now();
        let over: Vec<Revoked> = {
            let spans = self.shared.spans.read();
            spans.iter().filter(|(_, span)| span.until <= now).map(|(what, _)| what.clone()).collect()
        };
        for what in over {
            let entry = SystemEntry { key: what.key().into(), value: None };
            if bus.system_write(SystemTopic::Revoked, &entry).await.is_ok() {
                self.learn(&entry);
            }
        }
    }

    /// How many are remembered, as a metric.
    pub fn gauge(&self) -> &Gauge {
        &self.shared.count
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.shared.spans.read().len()
    }

    /// Refuses a token that was taken back.
    pub fn check(&self, identity: &Identity) -> Result<()> {
        let spans = self.shared.spans.read();
        if spans.is_empty() {
            return Ok(());
        }
        let of_token =
            identity.jti.as_deref().is_some_and(|jti| spans.contains_key(&Revoked::Token(jti.to_owned())));
        let of_subject =
            identity.subject.as_deref().and_then(|sub| spans.get(&Revoked::Subject(sub.to_owned())));
        // A token counts in whole seconds.
        let is_older = |span: &Span| identity.issued.is_none_or(|issued| issued / 1000 <= span.at / 1000);
        if of_token || of_subject.is_some_and(is_older) {
            return Err(revoked("the token was revoked; get a new one"));
        }
        Ok(())
    }
}

/// The answer to a token that is not good any more.
pub(crate) fn revoked(msg: &'static str) -> Error {
    Error::new(Code::TokenRevoked, msg)
}
