//! A door for the fuzzer: what it may assume of any frame.

use super::answer::Writer;
use super::request::{self, Allowed};
use bytes::Bytes;
use hub_proto::Error;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

/// Reads `bytes` as a frame, as a session does, and writes what a session would answer.
///
/// # Panics
/// If reading does, if a `corr` is not the text of a JSON string, or if an answer is not a JSON object that has it.
pub fn frame(bytes: &[u8]) {
    for peer in [false, true] {
        read(bytes, Allowed { batch_events: 1000, peer });
    }
}

fn read(bytes: &[u8], allowed: Allowed) {
    let frame = Bytes::copy_from_slice(bytes);
    let (corr, _, request) = request::read(&frame, allowed);
    let sent: Option<Value> = corr.0.as_ref().map(|text| {
        let value = serde_json::from_slice(text).expect("a corr is JSON");
        assert!(matches!(value, Value::String(_)), "a corr is a string");
        value
    });
    let mut writer = Writer::default();
    let answers = match request {
        Ok(_) => vec![writer.ok(&corr)],
        Err(error) => {
            assert!(error.msg.len() < 4096, "a message of {} bytes", error.msg.len());
            vec![
                writer.failed(&corr, &error),
                writer.unknown(&corr, &Error::internal(error.msg.clone()), &[]),
            ]
        }
    };
    for answer in answers {
        let Message::Text(text) = answer else { panic!("an answer is text") };
        let answer: Value = serde_json::from_str(&text).expect("an answer is JSON");
        assert_eq!(answer.get("corr"), sent.as_ref(), "the corr comes back");
    }
}
