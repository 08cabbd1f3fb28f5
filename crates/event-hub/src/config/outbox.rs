//! `[[outbox]]`: outboxes of services that the hub drains.

use super::build::read_secret;
use super::mistakes::{Mistakes, Origin};
use super::mongo::Mongo;
use super::value::Value;
use crate::outbox::Place;
use hub_core::outbox::{DrainerOptions, OnError};
use hub_server::auth::Secret;

const HOUR: u64 = 60 * 60 * 1000;

/// An outbox, and how it is drained.
#[derive(Clone)]
pub struct Outbox {
    /// What it is called in logs, metrics, and `/outbox`.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// How it is drained.
    pub options: DrainerOptions,
}

/// A `[[outbox]]` as it was written.
pub struct Written {
    pub values: Vec<(&'static str, Value)>,
    pub origin: Origin,
}

/// What was written, and the one in the hub's own MongoDB.
pub fn read(
    written: &[Written],
    mongo: Option<&Mongo>,
    drain_own: bool,
    mistakes: &mut Mistakes,
) -> Vec<Outbox> {
    let own = mongo.filter(|_| drain_own).map(|mongo| Outbox {
        name: mongo.outbox().to_owned(),
        place: mongo.outbox_place(),
        options: DrainerOptions::default(),
    });
    let mut outboxes: Vec<Outbox> = own.into_iter().collect();
    for written in written {
        let Some(outbox) = one(written, mistakes) else { continue };
        if outboxes.iter().any(|other| other.name == outbox.name) {
            let text = format!(
                "outbox.name {:?} is there twice{}; each needs a name of its own",
                outbox.name,
                if mongo.is_some() { " (the one of mongo.outbox counts)" } else { "" }
            );
            mistakes.add(Some(written.origin.clone()), text);
            continue;
        }
        outboxes.push(outbox);
    }
    outboxes
}

fn one(written: &Written, mistakes: &mut Mistakes) -> Option<Outbox> {
    let (mut name, mut url, mut url_file, mut table) = (None, None, None, "outbox".to_owned());
    let mut options = DrainerOptions::default();
    for (setting, value) in &written.values {
        match (*setting, value.clone()) {
            ("outbox.name", Value::Text(text)) => name = Some(text),
            ("outbox.url", Value::Text(text)) => url = Some(Secret::new(text)),
            ("outbox.url_file", Value::Path(path)) => url_file = Some(path),
            ("outbox.table", Value::Text(text)) => table = text,
            ("outbox.worker_id", Value::Text(text)) => options.worker = text,
            ("outbox.batch_size", Value::Number(number)) => options.batch_size = number as usize,
            ("outbox.lease", Value::Number(millis)) => options.lease = millis,
            ("outbox.interval", Value::Number(millis)) => options.interval = millis,
            ("outbox.max_attempts", Value::Number(number)) => {
                options.max_attempts = u32::try_from(number).unwrap_or(u32::MAX);
            }
            ("outbox.keep_sent_hours", Value::Number(hours)) => options.keep_sent = hours * HOUR,
            ("outbox.on_error", Value::Text(word)) => {
                options.on_error = if word == "skip" { OnError::Skip } else { OnError::Hold };
            }
            _ => {}
        }
    }
    let mut wrong = |text: String| {
        mistakes.add(Some(written.origin.clone()), text);
        None
    };
    let Some(name) = name else {
        return wrong("an [[outbox]] without `name`: it is what logs and metrics call it".into());
    };
    let url = match (url, url_file) {
        (Some(url), None) => url,
        (None, Some(file)) => match read_secret(&file) {
            Ok(url) => url,
            Err(why) => return wrong(format!("outbox.url_file of {name:?}: {why}")),
        },
        (Some(_), Some(_)) => {
            return wrong(format!("outbox {name:?} has both url and url_file; one is enough"));
        }
        (None, None) => {
            return wrong(format!("outbox {name:?} has neither url nor url_file: where its database is"));
        }
    };
    match Place::parse(url.expose(), &table) {
        Ok(place) => Some(Outbox { name, place, options }),
        Err(why) => wrong(format!("outbox.url of {name:?}: {why}")),
    }
}
