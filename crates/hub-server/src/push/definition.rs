//! What a push subscription is, as its owner wrote it.

use super::address::{is_public, literal};
use super::secret::{SigningSecret, one_or_several};
use hub_core::{Filter, GroupRequest, Millis, Ordering, Position};
use hub_proto::{Error, GroupName, Pattern, Result, TopicName, shown};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The longest name of an endpoint.
const NAME_BYTES: usize = 100;
/// The longest address.
const URL_BYTES: usize = 2048;

/// How an event is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PushMode {
    /// The body is a CloudEvent in JSON.
    #[default]
    Structured,
    /// Attributes are headers, the body is the data.
    Binary,
}

/// Where a new group begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PushFrom {
    /// With the first event that is kept.
    Earliest,
    /// With what is published from then on.
    #[default]
    Latest,
}

impl From<PushFrom> for Position {
    fn from(from: PushFrom) -> Self {
        match from {
            PushFrom::Earliest => Self::Earliest,
            PushFrom::Latest => Self::Latest,
        }
    }
}

/// A push subscription. The names in JSON are those of a PUT.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushDefinition {
    /// A topic, or a pattern.
    pub topic: String,
    /// Where events are sent.
    pub url: String,
    /// What they are signed with. `None`: those that are stored.
    #[serde(default, deserialize_with = "one_or_several")]
    pub secrets: Option<Vec<SigningSecret>>,
    /// The group; `push.` and the name unless given.
    #[serde(default)]
    pub group: Option<String>,
    /// How an event is sent.
    #[serde(default)]
    pub mode: PushMode,
    /// Requests at a time.
    #[serde(default = "concurrency")]
    pub concurrency: u16,
    /// Requests per second.
    #[serde(default)]
    pub rate: Option<u32>,
    /// See [`GroupRequest::ordering`].
    #[serde(default)]
    pub ordering: Ordering,
    /// See [`GroupRequest::filter`].
    #[serde(default)]
    pub filter: Filter,
    /// See [`GroupRequest::max_attempts`].
    #[serde(default = "max_attempts")]
    pub max_attempts: u32,
    /// How long an endpoint has to answer.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: Millis,
    /// Whether it may be at an address that is not public.
    #[serde(default)]
    pub allow_private: bool,
    /// Where a new group begins.
    #[serde(default)]
    pub from: PushFrom,
    /// The subject that made it: its group counts for the subject's quota. Set by the hub.
    #[serde(skip)]
    pub maker: Option<String>,
}

const fn concurrency() -> u16 {
    16
}

const fn max_attempts() -> u32 {
    5
}

const fn timeout_ms() -> Millis {
    15_000
}

impl PushDefinition {
    /// A definition with everything but these left at its default.
    pub fn new(topic: impl Into<String>, url: impl Into<String>, secrets: Vec<SigningSecret>) -> Self {
        Self {
            topic: topic.into(),
            url: url.into(),
            secrets: Some(secrets),
            group: None,
            mode: PushMode::default(),
            concurrency: concurrency(),
            rate: None,
            ordering: Ordering::default(),
            filter: Filter::default(),
            max_attempts: max_attempts(),
            timeout_ms: timeout_ms(),
            allow_private: false,
            from: PushFrom::default(),
            maker: None,
        }
    }

    /// As it is stored, secrets included.
    pub(super) fn to_stored(&self) -> Value {
        let secrets: Vec<&str> = self.secrets.iter().flatten().map(SigningSecret::expose).collect();
        json!({
            "definition": {
                "topic": self.topic, "url": self.url, "secrets": secrets, "group": self.group, "mode": self.mode,
                "concurrency": self.concurrency, "rate": self.rate, "ordering": self.ordering, "filter": self.filter,
                "maxAttempts": self.max_attempts, "timeoutMs": self.timeout_ms, "allowPrivate": self.allow_private,
                "from": self.from,
            },
            "maker": self.maker,
        })
    }

    pub(super) fn from_stored(value: &Value) -> Option<Self> {
        let definition = Self::deserialize(value.get("definition")?).ok()?;
        let maker = value.get("maker").and_then(Value::as_str).map(str::to_owned);
        Some(Self { maker, ..definition })
    }
}

/// What an endpoint is subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PushTarget {
    Topic(TopicName),
    Pattern(Pattern),
}

impl PushTarget {
    pub fn parse(text: &str) -> Result<Self> {
        match text.contains('*') {
            true => Pattern::parse(text).map(Self::Pattern),
            false => TopicName::readable(text).map(Self::Topic),
        }
    }
}

/// A push subscription that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushEndpoint {
    pub(crate) name: String,
    pub(crate) target: PushTarget,
    pub(crate) url: Url,
    pub(crate) group: GroupName,
    pub(crate) definition: PushDefinition,
}

impl PushEndpoint {
    /// Checks a definition.
    ///
    /// # Errors
    /// `bad_request` with what is wrong and what is allowed. Nothing of the secrets or of the address is in it.
    pub fn new(name: &str, definition: PushDefinition) -> Result<Self> {
        let wrong = |text: String| Err(Error::bad_request(format!("push {}: {text}", shown(name))));
        let default_group = GroupName::parse(&format!("push.{name}"));
        if name.is_empty() || name.len() > NAME_BYTES || default_group.is_err() {
            return Err(Error::bad_request(format!(
                "the name of a push subscription is {}; it must be 1 to {NAME_BYTES} letters, digits, dots, hyphens and \
                 underscores",
                shown(name)
            )));
        }
        let target = PushTarget::parse(&definition.topic)?;
        let group = match &definition.group {
            Some(group) => GroupName::parse(group)?,
            None => default_group?,
        };
        let url = match checked_url(&definition.url, definition.allow_private) {
            Ok(url) => url,
            Err(why) => return wrong(format!("url {why}")),
        };
        if definition.secrets.as_ref().is_none_or(Vec::is_empty) {
            return wrong("it has no signing secret; give one in secrets".into());
        }
        let numbers = [
            ("concurrency", u64::from(definition.concurrency), 1, 256),
            ("rate", definition.rate.map_or(1, u64::from), 1, 100_000),
            ("maxAttempts", u64::from(definition.max_attempts), 1, 1000),
            ("timeoutMs", definition.timeout_ms, 100, 300_000),
        ];
        for (setting, value, least, most) in numbers {
            if !(least..=most).contains(&value) {
                return wrong(format!("{setting} is {value}; it must be {least} to {most}"));
            }
        }
        let endpoint = Self { name: name.to_owned(), target, url, group, definition };
        endpoint.request().check()?;
        Ok(endpoint)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options of its group.
    pub(super) fn request(&self) -> GroupRequest {
        GroupRequest {
            filter: Some(self.definition.filter.clone()),
            ordering: Some(self.definition.ordering),
            coalesce: None,
            max_attempts: Some(self.definition.max_attempts),
        }
    }

    pub(super) fn secrets(&self) -> &[SigningSecret] {
        self.definition.secrets.as_deref().unwrap_or_default()
    }

    /// Its address for people: a query may have a key in it.
    pub(crate) fn shown_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        let more = if self.url.query().is_some() { "?…" } else { "" };
        format!("{url}{more}")
    }

    /// Its host, for logs: a path may have a key in it.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

/// An address that events may be sent to, or why they may not.
fn checked_url(text: &str, allow_private: bool) -> Result<Url, String> {
    if text.len() > URL_BYTES {
        return Err(format!("has {} bytes; at most {URL_BYTES} are allowed", text.len()));
    }
    let mut url = Url::parse(text).map_err(|error| format!("cannot be read: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("is neither http:// nor https://".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has credentials in it; endpoints know the hub by its signature".into());
    }
    if url.port() == Some(0) {
        return Err("has port 0".into());
    }
    match literal(&url) {
        Some(address) if !allow_private && !is_public(address) => Err(format!(
            "is at {address}, which is no public address; set allow_private if it may be in a private network"
        )),
        _ => {
            url.set_fragment(None);
            Ok(url)
        }
    }
}
