//! What a setting was set to: read by its kind, from TOML or from a text.

use super::settings::Kind;
use super::units;
use hub_proto::Pattern;
use std::net::IpAddr;
use std::path::PathBuf;
use toml::de::DeValue;

/// A value that fits its setting.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// Text, a secret, a word.
    Text(String),
    /// A path.
    Path(PathBuf),
    /// An address.
    Address(IpAddr),
    /// A number in the setting's own unit: bytes, milliseconds, seconds.
    Number(u64),
    /// A rate; `None`: without one.
    Rate(Option<u32>),
    /// Yes or no.
    Switch(bool),
    /// Several texts.
    Texts(Vec<String>),
    /// Rates of topics.
    Rates(Vec<(Pattern, u32)>),
    /// A pattern.
    Pattern(Pattern),
}

impl Kind {
    /// What is allowed, for people.
    pub fn allowed(self) -> String {
        match self {
            Self::Text | Self::Secret => "a text that is not empty".into(),
            Self::Path => "a path".into(),
            Self::Address => "an address such as 127.0.0.1, 0.0.0.0 or ::1".into(),
            Self::MongoUrl => {
                "an address such as mongodb://host1,host2/database or mongodb+srv://name/database".into()
            }
            Self::Collection => {
                "a name of 1 to 100 letters, digits, dots, hyphens and underscores; system.… is MongoDB's own"
                    .into()
            }
            Self::HubUrl => "a WebSocket URL such as ws://10.0.0.5:8090/ or wss://hub-1.example.com/".into(),
            Self::HttpUrl => "an HTTP URL such as http://127.0.0.1:4318".into(),
            Self::Port => "a port, 0 to 65535; 0 picks a free one".into(),
            Self::Switch => "true or false".into(),
            Self::Count(min, max) => format!("a whole number from {min} to {max}"),
            Self::Rate => "a number of events per second, 1 or more, or \"none\"".into(),
            Self::Time(min, max) => {
                format!(
                    "a time with its unit (ms, s, m, h, d) from {} to {}",
                    units::time(min),
                    units::time(max)
                )
            }
            Self::Seconds(min, max) => format!("a number of seconds from {min} to {max}"),
            Self::Size(min, max) => {
                format!(
                    "a size with its unit (B, KiB, MiB, GiB) from {} to {}",
                    units::size(min),
                    units::size(max)
                )
            }
            Self::Word(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            Self::Texts => "a text or a list of texts, none of them empty".into(),
            Self::Networks => {
                "a list of addresses and networks such as [\"10.0.0.5\", \"10.1.0.0/16\"]".into()
            }
            Self::Origins => {
                "\"same-host\", \"any\", or a list of origins such as [\"https://app.example.com\"]".into()
            }
            Self::OriginList => "a list of origins such as [\"https://app.example.com\"]".into(),
            Self::Rates => "a list such as [{ pattern = \"metrics.**\", rate = 500 }]".into(),
            Self::AuditLog => "\"off\", \"stderr\", \"stdout\", or the path of a file".into(),
            Self::Pattern => "a topic's name or a pattern such as \"process.*\" or \"metrics.**\"".into(),
        }
    }

    /// A value written in TOML; `None` if it does not fit.
    pub fn read(self, value: &DeValue<'_>) -> Option<Value> {
        match (self, value) {
            (Self::Switch, DeValue::Boolean(value)) => Some(Value::Switch(*value)),
            (Self::Port | Self::Count(..) | Self::Rate | Self::Seconds(..), DeValue::Integer(number)) => {
                let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
                self.number(number)
            }
            // A port in quotes is most likely a slip, but what it means is clear only for texts and units.
            (Self::Switch | Self::Port | Self::Count(..) | Self::Seconds(..), DeValue::String(_)) => None,
            (Self::Rate, DeValue::String(text)) => (text == "none").then_some(Value::Rate(None)),
            (Self::Texts | Self::Networks | Self::Origins | Self::OriginList, DeValue::Array(list)) => {
                let texts = list.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                self.texts(texts.collect::<Option<_>>()?)
            }
            (Self::Rates, DeValue::Array(list)) => {
                let rates = list.iter().map(|item| {
                    let table = item.get_ref().as_table()?;
                    let known = |name: &str| super::settings::RATE.contains(&name);
                    table.keys().all(|name| known(name.get_ref())).then_some(())?;
                    let get = |name: &str| table.iter().find(|(key, _)| key.get_ref() == name);
                    let pattern = Pattern::parse(get("pattern")?.1.get_ref().as_str()?).ok()?;
                    let Value::Rate(Some(rate)) = Self::Rate.read(get("rate")?.1.get_ref())? else {
                        return None;
                    };
                    Some((pattern, rate))
                });
                rates.collect::<Option<_>>().map(Value::Rates)
            }
            // One origin alone is a list of one; a list of audiences may be a single text, too.
            (_, DeValue::String(text)) => self.read_text(text),
            _ => None,
        }
    }

    /// A value from the environment or a flag; `None` if it does not fit.
    pub fn read_text(self, text: &str) -> Option<Value> {
        match self {
            Self::Text | Self::Secret => (!text.trim().is_empty()).then(|| Value::Text(text.to_owned())),
            Self::MongoUrl => is_mongo_url(text).then(|| Value::Text(text.to_owned())),
            Self::Collection => is_collection(text).then(|| Value::Text(text.to_owned())),
            Self::HubUrl => is_hub_url(text).then(|| Value::Text(text.to_owned())),
            Self::HttpUrl => is_http_url(text).then(|| Value::Text(text.to_owned())),
            Self::AuditLog if matches!(text, "off" | "stderr" | "stdout") => {
                Some(Value::Text(text.to_owned()))
            }
            Self::Path | Self::AuditLog => (!text.is_empty()).then(|| Value::Path(text.into())),
            Self::Address => text.parse().ok().map(Value::Address),
            Self::Switch => text.parse().ok().map(Value::Switch),
            Self::Rate if text == "none" => Some(Value::Rate(None)),
            Self::Port | Self::Count(..) | Self::Rate | Self::Seconds(..) => self.number(text.parse().ok()?),
            Self::Time(..) => self.number(units::parse_time(text)?),
            Self::Size(..) => self.number(units::parse_size(text)?),
            Self::Word(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::Texts | Self::Networks | Self::OriginList => {
                self.texts(text.split(',').map(|one| one.trim().to_owned()).collect())
            }
            Self::Origins if matches!(text, "same-host" | "any") => Some(Value::Text(text.to_owned())),
            Self::Origins => self.texts(vec![text.to_owned()]),
            Self::Rates => None,
            Self::Pattern => Pattern::parse(text).ok().map(Value::Pattern),
        }
    }

    fn number(self, number: u64) -> Option<Value> {
        let (min, max) = match self {
            Self::Port => (0, u64::from(u16::MAX)),
            Self::Rate => {
                return u32::try_from(number)
                    .ok()
                    .filter(|rate| *rate > 0)
                    .map(|rate| Value::Rate(Some(rate)));
            }
            Self::Count(min, max) | Self::Time(min, max) | Self::Seconds(min, max) | Self::Size(min, max) => {
                (min, max)
            }
            _ => return None,
        };
        (min..=max).contains(&number).then_some(Value::Number(number))
    }

    fn texts(self, texts: Vec<String>) -> Option<Value> {
        let good = |text: &String| match self {
            Self::Origins => is_origin(text),
            _ => !text.trim().is_empty(),
        };
        (!texts.is_empty() && texts.iter().all(good)).then_some(Value::Texts(texts))
    }
}

/// `scheme://host` or `scheme://host:port`, as a browser sends it: without a path.
pub fn is_origin(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, host)| {
        matches!(scheme, "http" | "https")
            && !host.is_empty()
            && !host.contains(['/', ' ', '*', '?', '#', '@'])
    })
}

/// `http://host:port/path` or the same with TLS, without a query and without credentials, which logs would show.
fn is_http_url(text: &str) -> bool {
    reqwest::Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host().is_some()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// What the driver takes, as far as its beginning tells; it reads the rest itself.
fn is_mongo_url(text: &str) -> bool {
    let rest = text.strip_prefix("mongodb://").or_else(|| text.strip_prefix("mongodb+srv://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

fn is_collection(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=100).contains(&text.len()) && !text.starts_with("system.") && text.bytes().all(known)
}

/// A place to connect to: hubs show each other who they are by other means than what is in a URL.
fn is_hub_url(text: &str) -> bool {
    hub_client::Target::new(text).is_ok() && !text.contains(['@', '?', '#'])
}

/// What somebody wrote, short enough for a message.
pub fn shown(kind: Kind, value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if kind == Kind::MongoUrl => shown_text(kind, text),
        _ if matches!(kind, Kind::Secret | Kind::MongoUrl) => "a value that is not shown".into(),
        DeValue::String(text) => shown_text(kind, text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list that does not fit".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// The same for a text of the environment or a flag.
pub fn shown_text(kind: Kind, text: &str) -> String {
    if kind == Kind::MongoUrl
        && let Some(scheme) = scheme(text)
    {
        return format!("one that begins with {scheme}://");
    }
    if matches!(kind, Kind::Secret | Kind::MongoUrl) {
        return if text.trim().is_empty() { "empty".into() } else { "a value that is not shown".into() };
    }
    if text.is_empty() {
        return "empty".into();
    }
    let end = text.floor_char_boundary(60);
    let more = if end < text.len() { "…" } else { "" };
    format!("{:?}{more}", &text[..end])
}

/// What is before `://`, if it cannot be anything secret.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'+';
    ((1..=12).contains(&scheme.len()) && scheme.bytes().all(plain)).then_some(scheme)
}
