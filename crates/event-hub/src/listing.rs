//! Lists of the hub that come in pages, and single entries of them.

use crate::http::{HttpHub, has_status};
use crate::text::count;
use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Entries of one page.
const PAGE: usize = 1000;

/// The entries of a list, over all pages, at most `max`; and whether there are more.
pub async fn entries(
    hub: &HttpHub,
    path: &str,
    list: &str,
    query: &[(&str, &str)],
    max: usize,
) -> Result<(Vec<Value>, bool)> {
    let mut entries: Vec<Value> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let limit = (max - entries.len()).clamp(1, PAGE).to_string();
        let mut all: Vec<(&str, &str)> = query.to_vec();
        all.push(("limit", &limit));
        all.extend(after.as_deref().map(|after| ("after", after)));
        let mut page = hub.get(path, &all).await?;
        if let Some(Value::Array(found)) = page.get_mut(list).map(Value::take) {
            entries.extend(found);
        }
        let next = match &page["next"] {
            Value::String(next) => Some(next.clone()),
            Value::Number(next) => Some(next.to_string()),
            _ => None,
        };
        match next {
            Some(_) if entries.len() >= max => return Ok((entries, true)),
            // A page that leads nowhere would be asked for again and again.
            Some(next) if after.as_ref() != Some(&next) => after = Some(next),
            _ => return Ok((entries, false)),
        }
    }
}

/// All topics that the token may see.
pub async fn topics(hub: &HttpHub) -> Result<Vec<Value>> {
    Ok(entries(hub, "/topics", "topics", &[], usize::MAX).await?.0)
}

/// All groups that the token may see, of one topic or of all.
pub async fn groups(hub: &HttpHub, topic: Option<&str>) -> Result<Vec<Value>> {
    let query: Vec<_> = topic.map(|topic| ("topic", topic)).into_iter().collect();
    Ok(entries(hub, "/groups", "groups", &query, usize::MAX).await?.0)
}

/// One topic of the list; `None` if there is none that the token may see.
pub async fn topic(hub: &HttpHub, name: &str) -> Result<Option<Value>> {
    let page = hub.get("/topics", &[("after", &before(name)), ("limit", "1")]).await?;
    Ok(page["topics"].get(0).filter(|topic| topic["name"] == name).cloned())
}

/// One group of the list; `None` if there is none that the token may see.
pub async fn group(hub: &HttpHub, topic: &str, name: &str) -> Result<Option<Value>> {
    let after = format!("{topic}/{}", before(name));
    let page = hub.get("/groups", &[("topic", topic), ("after", &after), ("limit", "1")]).await;
    match page {
        Ok(page) => Ok(page["groups"].get(0).filter(|group| group["group"] == name).cloned()),
        Err(error) if has_status(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Pages of a summary that are asked for: a million dead letters.
const SUMMARY_PAGES: usize = 50;

/// The dead letters of one topic, without those that were removed.
#[derive(Debug, Default, Serialize)]
pub struct LetterCount {
    pub topic: String,
    pub letters: u64,
    pub replayed: u64,
    /// When the newest of them was given up, in milliseconds since 1970.
    pub newest: u64,
}

/// How many dead letters the topics have that the token may see, by name; and whether there are more than were counted.
pub async fn letter_counts(hub: &HttpHub, query: &[(&str, &str)]) -> Result<(Vec<LetterCount>, bool)> {
    let mut counts: BTreeMap<String, LetterCount> = BTreeMap::new();
    let mut after: Option<String> = None;
    let mut is_cut = false;
    for _ in 0..SUMMARY_PAGES {
        let mut all: Vec<(&str, &str)> = query.to_vec();
        all.extend(after.as_deref().map(|after| ("after", after)));
        let page = hub.get("/dlq/summary", &all).await?;
        for group in page["groups"].as_array().into_iter().flatten() {
            let number = |name: &str| group[name].as_u64().unwrap_or(0);
            let topic = text(&group["topic"]);
            let count =
                counts.entry(topic.clone()).or_insert(LetterCount { topic, ..LetterCount::default() });
            count.letters += number("count");
            count.replayed += number("replayed");
            count.newest = count.newest.max(number("lastTs"));
        }
        is_cut |= page["otherGroups"].as_u64().is_some_and(|others| others > 0);
        match page["next"].as_str() {
            Some(next) if after.as_deref() != Some(next) => after = Some(next.to_owned()),
            _ => return Ok((counts.into_values().collect(), is_cut)),
        }
    }
    Ok((counts.into_values().collect(), true))
}

/// A text that sorts before a name, and behind every other name that sorts before it: lists have no way to ask for one entry.
fn before(name: &str) -> String {
    let mut bytes = name.as_bytes().to_vec();
    match bytes.pop() {
        // `~` sorts behind everything that names are made of.
        Some(last @ 1..=0x7f) => bytes.extend([last - 1, b'~']),
        _ => return String::from("!"),
    }
    String::from_utf8(bytes).unwrap_or_else(|_| "!".into())
}

/// A number of an answer; `-` if the hub does not say.
pub fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), count)
}

/// Over how long a hub measures.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    Second,
    Minute,
}

/// What a hub measured of a topic or a group in the last second or minute, such as `published`.
pub fn measured<'a>(entry: &'a Value, span: Span, what: &str) -> &'a Value {
    let span = match span {
        Span::Second => "second",
        Span::Minute => "minute",
    };
    &entry["rates"][span][what]
}

/// A measured rate, per second; `-` if the hub does not say.
pub fn rate(entry: &Value, span: Span, what: &str) -> String {
    measured(entry, span, what).as_f64().map_or_else(|| "-".to_owned(), per_second)
}

/// `0`, `0.25`, `12`, `1,234`.
pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 9.95 => {
            let text = format!("{rate:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        rate => count(rate.round() as u64),
    }
}

/// A text of an answer; `-` if there is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

/// Objects of an answer, one per line.
pub fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_behind_the_text_before_it() {
        for (name, earlier) in
            [("orders", "orderr.zzz"), ("a", "Z"), ("a.b", "a.a.z"), ("a-", "a"), ("b", "a.z")]
        {
            let before = before(name);
            assert!(before.as_str() < name, "{before:?} {name:?}");
            assert!(earlier < before.as_str(), "{earlier:?} {before:?}");
        }
    }

    #[test]
    fn rates_are_short() {
        assert_eq!([0.0, 0.254, 1.0, 12.4, 1234.5].map(per_second), ["0", "0.25", "1", "12", "1,235"]);
        let entry = serde_json::json!({"rates": {"minute": {"published": 2.5}}});
        assert_eq!(rate(&entry, Span::Minute, "published"), "2.5");
        assert_eq!(rate(&entry, Span::Second, "published"), "-");
    }
}
