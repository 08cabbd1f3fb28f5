//! Every frame that a hub sends in the fixtures of the protocol can be read, as what it is.

use std::path::Path;

use hub_proto::{Event, EventId};
use serde_json::{Value, json};

use super::{Incoming, read};
use crate::connection::{Acked, Answer, Identity, batch_results};
use crate::{ErrorKind, Receipt};

/// A value that a hub could have sent in the place of a placeholder.
fn plausible(value: &Value) -> Value {
    let id = || json!(EventId::from_bytes([7; 16]));
    match value {
        Value::String(text) => {
            match text.strip_prefix('$').map(|name| name.split(':').next().unwrap_or(name)) {
                None => value.clone(),
                Some("uuid") => id(),
                Some("number" | "exp") => json!(5),
                Some("durable") => json!("fsync"),
                Some("text" | "any") => json!("text"),
                Some(other) => panic!("a placeholder that is not known: {other}"),
            }
        }
        Value::Array(list) => list.iter().map(plausible).collect(),
        Value::Object(members) if members.len() == 1 && members.contains_key("$text") => {
            json!(
                members["$text"]
                    .as_array()
                    .expect("parts")
                    .iter()
                    .filter_map(Value::as_str)
                    .collect::<String>()
            )
        }
        Value::Object(members) if members.len() == 1 && members.contains_key("$repeat") => {
            let repeat = &members["$repeat"];
            json!(repeat[0].as_str().expect("a text").repeat(repeat[1].as_u64().expect("a number") as usize))
        }
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), plausible(value))).collect()
        }
        other => other.clone(),
    }
}

/// The frames of all fixtures that are expected of a hub.
fn frames() -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol");
    let mut frames = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the fixtures are there") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(path).expect("readable");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        for fixture in file["fixtures"].as_array().expect("a list") {
            for step in fixture["steps"].as_array().expect("a list") {
                frames.extend(step.get("expect").map(plausible));
                frames.extend(
                    step.get("any_order").and_then(Value::as_array).into_iter().flatten().map(plausible),
                );
            }
        }
    }
    frames
}

#[test]
fn every_frame_of_the_fixtures_is_read_as_what_it_is() {
    let frames = frames();
    assert!(frames.len() > 100, "{} are few", frames.len());
    let mut kinds = [0; 4];
    for frame in frames {
        let text = frame.to_string();
        match read(&text).unwrap_or_else(|error| panic!("{error}: {text}")) {
            Incoming::Ok { .. } => {
                kinds[0] += 1;
                answer(&frame, &Answer::of(&text));
            }
            Incoming::Err { error, of, .. } => {
                kinds[1] += 1;
                assert_eq!((error.kind(), error.code_text()), (ErrorKind::Refused, frame["code"].as_str()));
                assert_eq!(error.code().map(hub_proto::Code::as_str), frame["code"].as_str(), "a known code");
                assert_eq!(of.is_some(), frame.get("topic").is_some());
                let refusal = error.refusal().expect("it is one");
                assert_eq!(refusal.msg, frame["msg"].as_str().expect("a text"));
                assert_eq!(refusal.id.is_some(), frame.get("id").is_some(), "{text}");
                assert_eq!(refusal.retry_after_ms.is_some(), frame.get("retry_after_ms").is_some(), "{text}");
            }
            Incoming::Events { of, events } => {
                kinds[2] += 1;
                assert_eq!(
                    (Some(&*of.0), of.1.as_deref()),
                    (frame["topic"].as_str(), frame["group"].as_str())
                );
                for delivery in events {
                    let event = Event::from_hub(delivery.event.to_owned().into(), None);
                    event.unwrap_or_else(|error| panic!("{error}: {text}"));
                    assert_eq!(delivery.ctx.is_some(), of.1.is_some(), "{text}");
                }
            }
            Incoming::Lagged { missed, .. } => {
                kinds[3] += 1;
                assert_eq!(Some(missed), frame["missed"].as_u64());
            }
            Incoming::Other => panic!("{text}"),
        }
    }
    assert!(kinds[..3].iter().all(|&count| count > 10), "{kinds:?}");
}

/// Reads an answer as the one it looks like.
fn answer(frame: &Value, answer: &Answer) {
    let has = |name: &str| frame.get(name).is_some();
    if has("seq") {
        let receipt: Receipt = answer.read().expect("a receipt");
        assert_eq!(receipt.duplicate, has("duplicate"));
    } else if let Some(written) = frame["results"].as_array() {
        // What does not matter to a fixture can be anything.
        if !written.iter().all(Value::is_object) {
            return;
        }
        let results = batch_results(answer).expect("results");
        for (result, written) in results.iter().zip(written) {
            assert_eq!(result.is_err(), written.get("code").is_some(), "{written}");
        }
    } else if has("acked") {
        let acked: Acked = answer.read().expect("acks");
        assert_eq!(acked.acked as u64, frame["acked"].as_u64().expect("a number"));
    } else {
        let identity: Identity = answer.read().expect("whom it takes us for, or nothing");
        assert_eq!((identity.sub.is_some(), identity.exp.is_some()), (has("sub"), has("exp")));
    }
}
