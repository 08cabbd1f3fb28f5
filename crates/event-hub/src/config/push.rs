//! `[[push]]`: groups that the hub delivers by HTTP POST.

use super::build::read_secret;
use super::mistakes::{Mistakes, Origin};
use super::value::Value;
use hub_core::Ordering;
use hub_server::push::{PushDefinition, PushEndpoint, PushFrom, PushMode, SigningSecret};

/// A `[[push]]` as it was written.
pub struct Written {
    pub values: Vec<(&'static str, Value)>,
    pub origin: Origin,
}

/// What was written.
pub fn read(written: &[Written], mistakes: &mut Mistakes) -> Vec<PushEndpoint> {
    let mut endpoints: Vec<PushEndpoint> = Vec::new();
    for written in written {
        let endpoint = one(&written.values).and_then(|endpoint| {
            match endpoints.iter().any(|other| other.name() == endpoint.name()) {
                true => Err(format!(
                    "push.name {:?} is there twice; each needs a name of its own",
                    endpoint.name()
                )),
                false => Ok(endpoint),
            }
        });
        match endpoint {
            Ok(endpoint) => endpoints.push(endpoint),
            Err(text) => mistakes.add(Some(written.origin.clone()), text),
        }
    }
    endpoints
}

fn one(values: &[(&'static str, Value)]) -> Result<PushEndpoint, String> {
    let (mut name, mut topic) = (None, None);
    let (mut url, mut url_file, mut secrets, mut secrets_file) = (None, None, Vec::new(), None);
    let mut definition = PushDefinition::new("", "", Vec::new());
    for (setting, value) in values.iter().cloned() {
        match (setting, value) {
            ("push.name", Value::Text(text)) => name = Some(text),
            ("push.topic", Value::Pattern(pattern)) => topic = Some(pattern.to_string()),
            ("push.url", Value::Text(text)) => url = Some(text),
            ("push.url_file", Value::Path(path)) => url_file = Some(path),
            ("push.secrets", Value::Texts(texts)) => secrets = texts,
            ("push.secrets_file", Value::Path(path)) => secrets_file = Some(path),
            ("push.group", Value::Text(text)) => definition.group = Some(text),
            ("push.mode", Value::Text(word)) => {
                definition.mode = if word == "binary" { PushMode::Binary } else { PushMode::Structured };
            }
            ("push.concurrency", Value::Number(number)) => {
                definition.concurrency = u16::try_from(number).unwrap_or(u16::MAX);
            }
            ("push.rate", Value::Rate(rate)) => definition.rate = rate,
            ("push.ordering", Value::Text(word)) => {
                definition.ordering = if word == "key" { Ordering::Key } else { Ordering::None };
            }
            ("push.filter_tags", Value::Texts(tags)) => definition.filter.tags = tags,
            ("push.filter_key", Value::Text(key)) => definition.filter.key = Some(key),
            ("push.max_attempts", Value::Number(number)) => {
                definition.max_attempts = u32::try_from(number).unwrap_or(u32::MAX);
            }
            ("push.timeout", Value::Number(millis)) => definition.timeout_ms = millis,
            ("push.allow_private", Value::Switch(on)) => definition.allow_private = on,
            ("push.from", Value::Text(word)) => {
                definition.from = if word == "earliest" { PushFrom::Earliest } else { PushFrom::Latest };
            }
            _ => {}
        }
    }
    let name = name.ok_or("a [[push]] without `name`: it is what logs, metrics and `/push` call it")?;
    definition.topic = topic.ok_or_else(|| format!("push {name:?} has no topic: which events are sent"))?;
    definition.url = match (url, url_file) {
        (Some(url), None) => url,
        (None, Some(file)) => {
            let read = read_secret(&file).map_err(|why| format!("push.url_file of {name:?}: {why}"))?;
            read.expose().to_owned()
        }
        (Some(_), Some(_)) => return Err(format!("push {name:?} has both url and url_file; one is enough")),
        (None, None) => {
            return Err(format!("push {name:?} has neither url nor url_file: where events are sent"));
        }
    };
    if let Some(file) = secrets_file {
        if !secrets.is_empty() {
            return Err(format!("push {name:?} has both secrets and secrets_file; one is enough"));
        }
        let read = read_secret(&file).map_err(|why| format!("push.secrets_file of {name:?}: {why}"))?;
        secrets =
            read.expose().lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    }
    let secrets: Result<Vec<_>, _> = secrets.iter().map(|text| SigningSecret::parse(text)).collect();
    definition.secrets = Some(secrets.map_err(|error| format!("push.secrets of {name:?}: {}", error.msg))?);
    PushEndpoint::new(&name, definition).map_err(|error| error.msg.into_owned())
}
