//! What can be set about the store.

use crate::clock::SteadyClock;
use std::fmt;
use std::time::Duration;

/// Settings of a [`MongoStore`](crate::MongoStore).
///
/// ```
/// use hub_store_mongo::Options;
/// let options = Options::new("mongodb://hub:s3cret@db1,db2/shop?replicaSet=rs0");
/// assert!(!format!("{options:?}").contains("s3cret"));
/// ```
#[derive(Clone)]
pub struct Options {
    /// The connection string, `mongodb://` or `mongodb+srv://`. Hosts, credentials, TLS and sizes of the pool are taken
    /// from it, the database from its path (else `prom`). **Its read and write concerns, its read preference and its
    /// `retryWrites` are not**: every call names its own, so `?w=1` does not make a publish any less durable.
    pub uri: String,
    /// What the collections are called.
    pub names: Names,
    /// What the server's logs call this program.
    pub app_name: String,
    /// How long a commit goes on before it says `unavailable` for what is undecided. A frozen primary holds a majority
    /// write up for 13 s and more, a publish is answered within 20 s: the default of 17 s lies between.
    pub commit_limit: Duration,
    /// How long anything else may take.
    pub call_limit: Duration,
    /// How long before a delete everybody is told of it, see `clean`. With several hubs on one database nothing below the
    /// default of ten minutes is safe: what a hub knows of a topic's end may be a minute old, and an answer that comes
    /// late even older. One hub alone, as in a test, knows its own end, and may delete at once.
    pub clean_delay: Duration,
    /// The clock by which knowledge grows old.
    pub clock: SteadyClock,
}

impl Options {
    /// The defaults, for a server.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            names: Names::default(),
            app_name: "event-hub".into(),
            commit_limit: Duration::from_secs(17),
            call_limit: Duration::from_secs(10),
            clean_delay: Duration::from_secs(600),
            clock: SteadyClock::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("uri", &"…")
            .field("names", &self.names)
            .field("app_name", &self.app_name)
            .field("commit_limit", &self.commit_limit)
            .field("call_limit", &self.call_limit)
            .field("clean_delay", &self.clean_delay)
            .finish_non_exhaustive()
    }
}

/// The names of the collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The log of every topic.
    pub events: String,
    /// Groups, subscriptions, and who owns them.
    pub groups: String,
    /// What was cleaned of each topic, and the version of all this.
    pub topics: String,
    /// Ids of events that were cleaned away.
    pub dedupe: String,
    /// The hubs' heartbeats.
    pub hubs: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            events: "events".into(),
            groups: "groups".into(),
            topics: "topics".into(),
            dedupe: "dedupe".into(),
            hubs: "hubs".into(),
        }
    }
}

impl Names {
    /// Says what is wrong with them.
    pub(crate) fn check(&self) -> Result<(), String> {
        let all = [
            ("events", &self.events),
            ("groups", &self.groups),
            ("topics", &self.topics),
            ("dedupe", &self.dedupe),
            ("hubs", &self.hubs),
        ];
        for (at, (what, name)) in all.iter().enumerate() {
            if name.is_empty() || name.len() > 100 || name.starts_with("system.") {
                return Err(format!(
                    "the collection of {what} is called {name:?}; a name has 1 to 100 bytes and does not begin with \
                     system."
                ));
            }
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
                return Err(format!(
                    "the collection of {what} is called {name:?}; letters, digits, dots, hyphens and underscores are \
                     allowed"
                ));
            }
            if let Some((other, _)) = all[..at].iter().find(|(_, other)| other == name) {
                return Err(format!(
                    "the collections of {other} and {what} are both called {name:?}; each needs its own"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_that_collide_or_that_the_server_refuses_are_told() {
        Names::default().check().unwrap();
        let called = |name: &str| Names { events: name.into(), ..Names::default() }.check();
        called("shop.events-2_a").unwrap();
        for bad in ["", "system.views", "a$b", "a\0", "a b", &"x".repeat(101)] {
            assert!(called(bad).unwrap_err().contains("collection of events"), "{bad:?}");
        }
        assert!(called("groups").unwrap_err().contains("events and groups are both called \"groups\""));
    }
}
