//! What can be set about a hub: a file, over it the environment, over it the flags.
//!
//! | to know about | look at |
//! | --- | --- |
//! | which settings there are, their ranges and defaults | [`settings`] |
//! | how a value is written | [`value`], [`units`] |
//! | the file | `file` |
//! | environment and flags | [`sources`] |
//! | what the parts of the hub get | [`build`], [`mongo`], [`outbox`], `push`, [`quota`], `schema`, [`audit`], `tracing` |
//! | what is said when something is wrong | [`mistakes`] |

pub mod audit;
pub mod build;
mod file;
pub mod mistakes;
pub mod mongo;
pub mod outbox;
mod push;
mod quota;
mod schema;
pub mod settings;
pub mod sources;
mod tracing;
pub mod units;
mod value;

#[cfg(test)]
mod tests;

pub use self::tracing::Tracing;
use hub_core::{Pattern, TopicSettings};
use hub_server::Settings;
use hub_server::auth::AuthConfig;
use hub_server::net::TlsFiles;
use mistakes::{Mistakes, Origin};
use mongo::Mongo;
use settings::{SETTINGS, Setting};
use sources::{Environment, Flags};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use value::Value;

/// The file that `config default` prints.
pub const DEFAULT: &str = include_str!("default.toml");

/// A configuration file is at most this long.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A configuration that can be used.
pub struct Config {
    /// The address to listen on.
    pub bind: IpAddr,
    /// The WebSocket port.
    pub ws_port: u16,
    /// The HTTP port.
    pub ops_port: u16,
    /// The files of TLS.
    pub tls: Option<TlsFiles>,
    /// The data directory.
    pub data: PathBuf,
    /// Bytes of a file of the log.
    pub segment_bytes: u64,
    /// Room that is kept on the disk for records of the store.
    pub disk_reserve: u64,
    /// MongoDB, if that has the events.
    pub mongo: Option<Mongo>,
    /// The outboxes to be drained.
    pub outboxes: Vec<outbox::Outbox>,
    /// Push subscriptions.
    pub endpoints: Vec<hub_server::push::PushEndpoint>,
    /// Schemas of topics.
    pub schemas: Vec<schema::Configured>,
    /// Whose tokens hold.
    pub auth: AuthConfig,
    /// What sessions go by.
    pub settings: Settings,
    /// What the bus goes by.
    pub bus: hub_core::Config,
    /// The audit log.
    pub audit: audit::Audit,
    /// Where spans go.
    pub tracing: Option<Tracing>,
    values: Values,
}

type Values = BTreeMap<&'static str, (Value, Origin)>;

/// What was written down, wherever.
#[derive(Default)]
pub struct Found {
    values: Values,
    topics: Vec<Topic>,
    outboxes: Vec<outbox::Written>,
    quotas: Vec<quota::Written>,
    endpoints: Vec<push::Written>,
    schemas: Vec<schema::Written>,
}

/// A `[[topics]]`.
struct Topic {
    pattern: Pattern,
    settings: TopicSettings,
    origin: Origin,
}

impl Found {
    /// What comes later counts.
    fn set(&mut self, setting: &'static Setting, value: Value, origin: Origin) {
        self.values.insert(setting.name, (value, origin));
    }
}

impl Config {
    /// Reads the file that the flags name, the environment and the flags.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn load(flags: &Flags, environment: Environment<'_>) -> Result<Self, Mistakes> {
        let (mut found, mut mistakes) = (Found::default(), Mistakes::default());
        if let Some(path) = &flags.config {
            match read_file(path) {
                Ok(text) => file::read(path, &text, &mut found, &mut mistakes),
                Err(text) => mistakes.add(None, text),
            }
        }
        sources::read(environment, flags, &mut found, &mut mistakes);
        let config = build::build(found, &mut mistakes);
        if mistakes.0.is_empty() { Ok(config) } else { Err(mistakes) }
    }

    /// Files with secrets that others can read: what to do about each.
    pub fn open_files(&self) -> Vec<String> {
        let mut files: Vec<(&str, &Path)> = Vec::new();
        let holders = [
            "auth.secret_file",
            "auth.static_token_file",
            "server.tls_key",
            "mongo.url_file",
            "cluster.secret_file",
            "cluster.client_key",
        ];
        for name in holders {
            if let Some((Value::Path(path), _)) = self.values.get(name) {
                files.push((name, path));
            }
        }
        for name in ["auth.secret", "auth.static_token", "mongo.url", "cluster.secret"] {
            if let Some((_, Origin::File(path, _))) = self.values.get(name) {
                files.push((name, path));
            }
        }
        let open = |(name, path): (&str, &Path)| {
            let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
            (mode & 0o044 != 0).then(|| {
                let path = path.display();
                format!("{path} ({name}) can be read by others (mode {mode:04o}): `chmod 600 {path}`")
            })
        };
        files.into_iter().filter_map(open).collect()
    }

    /// Names of the settings that only a new start can change and that are not what they were.
    pub fn needs_restart(&self, before: &Self) -> Vec<&'static str> {
        let same = |name: &&'static str| {
            let value = |config: &Self| config.values.get(*name).map(|(value, _)| value.clone());
            value(self) == value(before)
        };
        let outboxes = |config: &Self| {
            let each =
                |outbox: &outbox::Outbox| (outbox.name.clone(), outbox.place.clone(), outbox.options.clone());
            config.outboxes.iter().map(each).collect::<Vec<_>>()
        };
        let changed = (outboxes(self) != outboxes(before)).then_some("outbox");
        let fixed = SETTINGS.iter().filter(|setting| !setting.live).map(|setting| setting.name);
        fixed.filter(|name| !same(name)).chain(changed).collect()
    }
}

fn read_file(path: &std::path::Path) -> Result<String, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    let length = std::fs::metadata(path).map_err(cannot)?.len();
    if length > MAX_FILE_BYTES {
        return Err(format!("{shown} is larger than 1 MiB; a configuration file is expected"));
    }
    std::fs::read_to_string(path).map_err(cannot)
}
