//! From values to what the parts of the hub take, and what can only be checked together.

use super::audit::{Audit, AuditLog};
use super::mistakes::{Mistakes, Origin};
use super::settings::SETTINGS;
use super::value::{Value, is_origin};
use super::{Config, Found};
use hub_core::{Config as BusConfig, Pattern, TopicSettings};
use hub_server::acl::Policy;
use hub_server::acl::sib::Sib;
use hub_server::auth::{AuthConfig, Secret};
use hub_server::limits::Limits;
use hub_server::net::{ClientAuthorities, Proxies, Tls, TlsError, TlsFiles, TrustedProxies};
use hub_server::{Origins, Settings};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

const HOUR: u64 = 60 * 60 * 1000;

/// A shorter secret than the hash of HS256 can be guessed offline from any one token.
const MIN_SECRET_BYTES: usize = 32;

/// A secret in a file is at most this long.
const MAX_SECRET_BYTES: usize = 64 * 1024;

/// What a value becomes.
pub trait FromValue: Sized {
    /// `None` if it is of another kind.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Number(number) => Self::try_from(*number).ok(),
                    _ => None,
                }
            }
        }
    )*};
}
numbers!(u16, u32, u64, usize);

macro_rules! plain {
    ($($type:ty: $variant:ident),*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }
    )*};
}
plain!(
    String: Text,
    PathBuf: Path,
    IpAddr: Address,
    bool: Switch,
    Option<u32>: Rate,
    Vec<String>: Texts,
    Vec<(Pattern, u32)>: Rates
);

impl Found {
    /// Takes a value over `into`, if it was set.
    pub(super) fn take<T: FromValue>(&self, name: &str, into: &mut T) {
        debug_assert!(SETTINGS.iter().any(|setting| setting.name == name), "{name} is no setting");
        if let Some(value) = self.get(name) {
            *into = value;
        }
    }

    pub(super) fn get<T: FromValue>(&self, name: &str) -> Option<T> {
        self.values.get(name).and_then(|(value, _)| T::from_value(value))
    }

    pub(super) fn origin(&self, name: &str) -> Option<Origin> {
        self.values.get(name).map(|(_, origin)| origin.clone())
    }
}

/// Everything that was found, put together.
pub fn build(found: Found, mistakes: &mut Mistakes) -> Config {
    let mut config = Config {
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        ws_port: 8090,
        ops_port: 8082,
        tls: tls(&found, mistakes),
        data: PathBuf::from("./event-hub-data"),
        segment_bytes: hub_store_embedded::Options::default().segment_bytes,
        disk_reserve: hub_store_embedded::Options::default().disk_reserve,
        mongo: None,
        outboxes: Vec::new(),
        endpoints: Vec::new(),
        schemas: Vec::new(),
        auth: auth(&found, mistakes),
        settings: Settings::default(),
        bus: BusConfig::default(),
        audit: Audit { log: AuditLog::Off, rate: 0 },
        tracing: super::tracing::read(&found, mistakes),
        values: Default::default(),
    };
    found.take("server.bind", &mut config.bind);
    found.take("server.ws_port", &mut config.ws_port);
    found.take("server.ops_port", &mut config.ops_port);
    found.take("store.data", &mut config.data);
    found.take("store.segment_size", &mut config.segment_bytes);
    found.take("store.disk_reserve", &mut config.disk_reserve);
    if config.ws_port == config.ops_port && config.ws_port != 0 {
        let text =
            format!("server.ws_port and server.ops_port are both {}; they must differ", config.ws_port);
        mistakes.add(found.origin("server.ops_port").or_else(|| found.origin("server.ws_port")), text);
    }
    let loopback = is_loopback(config.bind);
    config.auth.exposed = !loopback;
    if !loopback && !config.auth.is_real() {
        let bind = config.bind;
        let only =
            if config.auth.static_token.is_some() { " (auth.static_token alone is not enough)" } else { "" };
        mistakes.add(
            found.origin("server.bind"),
            format!(
                "server.bind is {bind}, which others can reach, and nothing says whose tokens hold{only}; set \
                 auth.jwks_url (JWT_JWKS_URL) or auth.secret (JWT_SECRET), or bind to 127.0.0.1"
            ),
        );
    }
    if !loopback {
        exposed(&found, &config, mistakes);
    }
    config.bus = bus(&found, mistakes);
    config.audit = super::audit::read(&found, loopback, mistakes);
    let quotas = super::quota::read(&found.quotas, loopback, mistakes);
    config.bus.quotas = quotas.kept;
    config.settings = Settings {
        policy: policy(&found, mistakes),
        limits: Limits {
            subject_quotas: quotas.open,
            topic_quotas: quotas.topics,
            ..limits(&found, loopback)
        },
        origins: origins(&found),
        cors_origins: cors_origins(&found, mistakes),
        open_metrics: loopback,
        open_groups: found.get("auth.open_groups").unwrap_or(false),
        proxies: proxies(&found, mistakes),
    };
    let (frame, payload) = (config.settings.limits.frame_bytes, config.bus.max_payload);
    if payload > frame {
        let text = format!(
            "limits.max_payload is {}, more than the {} of limits.frame_bytes that carry it; make that one larger",
            super::units::size(payload as u64),
            super::units::size(frame as u64),
        );
        mistakes.add(found.origin("limits.max_payload").or_else(|| found.origin("limits.frame_bytes")), text);
    }
    config.mongo = super::mongo::read(&found, &config, mistakes);
    let drain_own = found.get("mongo.drain_outbox").unwrap_or(true);
    config.outboxes = super::outbox::read(&found.outboxes, config.mongo.as_ref(), drain_own, mistakes);
    config.endpoints = super::push::read(&found.endpoints, mistakes);
    config.schemas = super::schema::read(&found.schemas, mistakes);
    config.values = found.values;
    config
}

/// What a hub that others can reach must have.
fn exposed(found: &Found, config: &Config, mistakes: &mut Mistakes) {
    let wants_plain = found.get::<String>("server.tls").is_some_and(|word| word == "off");
    if config.tls.is_none() && !wants_plain {
        let bind = config.bind;
        let text = format!(
            "server.bind is {bind}, which others can reach, and without TLS anybody in between reads tokens and events; \
             set server.tls_cert and server.tls_key, or server.tls (TLS) to \"off\" if a proxy in front speaks it"
        );
        mistakes.add(found.origin("server.bind"), text);
    }
    let auth = &config.auth;
    for (name, secret) in [("auth.secret", &auth.secret), ("auth.static_token", &auth.static_token)] {
        if let Some(secret) = secret.as_ref().filter(|secret| secret.expose().len() < MIN_SECRET_BYTES) {
            let length = secret.expose().len();
            let text = format!(
                "{name} has {length} bytes; a hub that others can reach needs at least {MIN_SECRET_BYTES}, such as \
                 `openssl rand -hex 32` prints"
            );
            mistakes.add(found.origin(name).or_else(|| found.origin(&format!("{name}_file"))), text);
        }
    }
}

/// Whether only this machine reaches an address.
pub fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        }
    }
}

fn tls(found: &Found, mistakes: &mut Mistakes) -> Option<TlsFiles> {
    both(found, ("server.tls_cert", "server.tls_key"), "TLS", mistakes);
    let clients = client_authorities(found, mistakes);
    let files = TlsFiles { cert: found.get("server.tls_cert")?, key: found.get("server.tls_key")?, clients };
    if let Err(error) = Tls::new(&files) {
        let name = name_of(&error, &files);
        mistakes.add(found.origin(name), format!("{name}: {error}"));
    }
    Some(files)
}

/// Says so if one of two settings is there without the other; `what` needs both.
pub(super) fn both(found: &Found, (one, other): (&str, &str), what: &str, mistakes: &mut Mistakes) {
    for (has, lacks) in [(one, other), (other, one)] {
        if found.values.contains_key(has) && !found.values.contains_key(lacks) {
            mistakes.add(found.origin(has), format!("{has} is set and {lacks} is not; {what} needs both"));
        }
    }
}

fn client_authorities(found: &Found, mistakes: &mut Mistakes) -> Option<ClientAuthorities> {
    let required = found.get::<String>("server.tls_client_auth").is_some_and(|word| word == "required");
    let file: Option<PathBuf> = found.get("server.tls_client_ca");
    let is_set = |name: &str| found.values.contains_key(name);
    if file.is_some() && !is_set("server.tls_cert") {
        let text = "server.tls_client_ca is set and server.tls_cert is not; certificates of clients need TLS, so set \
                    server.tls_cert and server.tls_key, too";
        mistakes.add(found.origin("server.tls_client_ca"), text);
    }
    if file.is_none() && is_set("server.tls_client_auth") {
        let text = "server.tls_client_auth is set and server.tls_client_ca is not; set that to the file of the authorities \
                    whose certificates count";
        mistakes.add(found.origin("server.tls_client_auth"), text);
    }
    if found.get("auth.certificate_binds_subject").unwrap_or(false) && !(required && file.is_some()) {
        // A thief of a token would show no certificate.
        let text = "auth.certificate_binds_subject is true and certificates are not required; set server.tls_client_ca, and \
                    server.tls_client_auth to \"required\"";
        mistakes.add(found.origin("auth.certificate_binds_subject"), text);
    }
    file.map(|file| ClientAuthorities { file, required })
}

/// Which setting an error is about.
fn name_of(error: &TlsError, files: &TlsFiles) -> &'static str {
    let of_file = |file: &PathBuf| match file {
        file if *file == files.cert => "server.tls_cert",
        file if *file == files.key => "server.tls_key",
        _ => "server.tls_client_ca",
    };
    match error {
        TlsError::NoKey(_) | TlsError::EncryptedKey(_) => "server.tls_key",
        TlsError::BadKey { .. } | TlsError::NoPair { .. } => "server.tls_key",
        TlsError::Read { file, .. } | TlsError::NotPem { file, .. } | TlsError::NoCertificate(file) => {
            of_file(file)
        }
        TlsError::BadAuthority { .. } => "server.tls_client_ca",
        _ => "server.tls_cert",
    }
}

fn auth(found: &Found, mistakes: &mut Mistakes) -> AuthConfig {
    let mut auth = AuthConfig {
        jwks_url: found.get("auth.jwks_url"),
        secret: secret(found, "auth.secret", "auth.secret_file", mistakes),
        audience: found.get("auth.audience").unwrap_or_default(),
        issuer: found.get("auth.issuer"),
        static_token: secret(found, "auth.static_token", "auth.static_token_file", mistakes),
        ..AuthConfig::default()
    };
    found.take("auth.leeway", &mut auth.leeway_secs);
    found.take("auth.allow_no_exp", &mut auth.allow_no_exp);
    found.take("auth.certificate_binds_subject", &mut auth.certificate_binds_subject);
    auth.max_lifetime_secs = found.get::<u64>("auth.max_token_lifetime").map(|millis| millis / 1000);
    let mut checked = auth.clone();
    if !auth.is_real() {
        // `serve` makes one.
        checked.secret = Some(Secret::new("a secret that is made at the start"));
    }
    if let Err(error) = checked.check() {
        let (origin, text) = of_auth(found, &error.msg);
        mistakes.add(origin, text);
    }
    auth
}

/// A mistake that begins with the name of a variable, with the setting of that name.
fn of_auth(found: &Found, msg: &str) -> (Option<Origin>, String) {
    let env = msg.split([' ', ':']).next().unwrap_or_default();
    let Some(setting) = SETTINGS.iter().find(|setting| setting.env == Some(env)) else {
        return (None, msg.to_owned());
    };
    let name = setting.name;
    let origin = found.origin(name).or_else(|| found.origin(&format!("{name}_file")));
    (origin, msg.replacen(env, &format!("{name} ({env})"), 1))
}

/// A secret as it is, or from its file. One of the environment counts more than a file's.
pub(super) fn secret(found: &Found, plain: &str, file: &str, mistakes: &mut Mistakes) -> Option<Secret> {
    let in_file = |name: &str| matches!(found.origin(name), Some(Origin::File(..)));
    if in_file(plain) && in_file(file) {
        mistakes.add(found.origin(file), format!("{plain} and {file} are both set; leave one out"));
        return None;
    }
    if let Some(text) = found.get::<String>(plain) {
        return Some(Secret::new(text));
    }
    let path: PathBuf = found.get(file)?;
    match read_secret(&path) {
        Ok(secret) => Some(secret),
        Err(what) => {
            mistakes.add(found.origin(file), format!("{file}: {what}"));
            None
        }
    }
}

/// A secret from a file; the line's end is not part of it.
pub fn read_secret(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if text.len() > MAX_SECRET_BYTES {
        return Err(format!("{shown} is larger than 64 KiB; a file with one secret is expected"));
    }
    let text = String::from_utf8(text).map_err(|_| format!("{shown} is not UTF-8 text"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("{shown} is empty")),
        text => Ok(Secret::new(text)),
    }
}

fn origins(found: &Found) -> Origins {
    match found.values.get("server.origins") {
        Some((Value::Texts(list), _)) => Origins::Listed(list.clone()),
        Some((Value::Text(word), _)) if word == "any" => Origins::Any,
        _ => Origins::SameHost,
    }
}

fn cors_origins(found: &Found, mistakes: &mut Mistakes) -> Vec<String> {
    let name = "server.cors_origins";
    let list: Vec<String> = found.get(name).unwrap_or_default();
    for bad in list.iter().filter(|origin| !is_origin(origin)) {
        let text = format!(
            "{name} has {}, which is no origin; an origin is http:// or https:// with a host and perhaps a port, such as \
             https://app.example.com, without a path or *",
            hub_proto::shown(bad)
        );
        mistakes.add(found.origin(name), text);
    }
    list
}

fn proxies(found: &Found, mistakes: &mut Mistakes) -> Proxies {
    let protocol = found.get("server.proxy_protocol").unwrap_or(false);
    let Some(list) = found.get::<Vec<String>>("server.trusted_proxies") else {
        if protocol {
            let text = "server.proxy_protocol is true and server.trusted_proxies names nobody; set it to the addresses or \
                        networks of the proxies that send the header";
            mistakes.add(found.origin("server.proxy_protocol"), text);
        }
        return Proxies::default();
    };
    match TrustedProxies::parse(&list) {
        Ok(trusted) => Proxies { trusted, protocol },
        Err(error) => {
            let name = "server.trusted_proxies";
            mistakes.add(found.origin(name), format!("{name}: {error}"));
            Proxies::default()
        }
    }
}

fn limits(found: &Found, loopback: bool) -> Limits {
    let mut limits = if loopback { Limits::default() } else { Limits::beyond_loopback() };
    found.take("limits.connection_rate", &mut limits.connection_rate);
    found.take("limits.subject_rate", &mut limits.subject_rate);
    // What was set holds for everybody; what was not holds for those who are not local.
    found.take("limits.connection_rate", &mut limits.forwarded_connection_rate);
    found.take("limits.subject_rate", &mut limits.forwarded_subject_rate);
    found.take("limits.topic_rates", &mut limits.topic_rates);
    found.take("limits.connections", &mut limits.connections);
    found.take("limits.connections_per_address", &mut limits.connections_per_address);
    found.take("limits.unauthenticated", &mut limits.unauthenticated);
    found.take("limits.unauthenticated_per_address", &mut limits.unauthenticated_per_address);
    found.take("limits.failed_auth_per_address", &mut limits.failed_auth_per_address);
    found.take("limits.frame_bytes", &mut limits.frame_bytes);
    found.take("limits.batch_events", &mut limits.batch_events);
    found.take("limits.subscriptions", &mut limits.subscriptions);
    found.take("limits.auth_timeout", &mut limits.auth_timeout);
    found.take("limits.idle_timeout", &mut limits.idle_timeout);
    found.take("limits.body_timeout", &mut limits.body_timeout);
    found.take("limits.expiry_grace", &mut limits.expiry_grace);
    found.take("limits.reconnect_grace", &mut limits.reconnect_grace);
    limits
}

fn bus(found: &Found, mistakes: &mut Mistakes) -> BusConfig {
    let mut bus = BusConfig::default();
    found.take("limits.max_payload", &mut bus.max_payload);
    found.take("limits.max_topics", &mut bus.max_topics);
    found.take("limits.max_groups", &mut bus.max_groups);
    found.take("limits.max_parked", &mut bus.max_parked);
    found.take("limits.ack_timeout", &mut bus.ack_timeout);
    found.take("limits.publish_timeout", &mut bus.publish_timeout);
    found.take("limits.group_expire_days", &mut bus.group_expire_days);
    found.take("limits.clean_interval", &mut bus.clean_interval);
    found.take("limits.clock_jump_wait", &mut bus.clock_jump_wait);
    found.take("limits.tail_bytes", &mut bus.tail_bytes);
    found.take("limits.member_bytes", &mut bus.member_bytes);
    found.take("limits.queue_bytes", &mut bus.queue_bytes);
    found.take("limits.metric_labels", &mut bus.metric_labels);
    if let Some(hours) = found.get::<u64>("limits.dedupe_window_hours") {
        bus.dedupe_window = hours * HOUR;
    }
    bus.topics = found.topics.iter().map(|topic| (topic.pattern.clone(), topic.settings.clone())).collect();
    for (at, topic) in found.topics.iter().enumerate() {
        if found.topics[..at].iter().any(|before| before.pattern == topic.pattern) {
            let text = format!("topics.pattern {} is there twice; the first would count", topic.pattern);
            mistakes.add(Some(topic.origin.clone()), text);
        }
    }
    if let Some(sib) = sib(found, "topics_file", mistakes) {
        let topics: Vec<(Pattern, TopicSettings)> = sib.topics;
        bus.topics.extend(topics);
    }
    if let Err(error) = bus.check() {
        mistakes.add(found.origin("topics_file"), error.msg);
    }
    bus
}

fn policy(found: &Found, mistakes: &mut Mistakes) -> Policy {
    sib(found, "auth.policy_file", mistakes).map(|sib| sib.policy).unwrap_or_default()
}

fn sib(found: &Found, name: &str, mistakes: &mut Mistakes) -> Option<Sib> {
    let path: PathBuf = found.get(name)?;
    let shown = path.display();
    let read = std::fs::read(&path).map_err(|error| format!("{name}: {shown} cannot be read: {error}"));
    let read =
        read.and_then(|bytes| Sib::from_bytes(&bytes).map_err(|error| format!("{name}: {shown}:{error}")));
    read.map_err(|text| mistakes.add(found.origin(name), text)).ok()
}
