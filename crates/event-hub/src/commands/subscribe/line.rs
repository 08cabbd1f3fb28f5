//! An event on one line, for people.

use crate::text::time;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::IsTerminal;

/// What is shown of an event.
#[derive(Deserialize)]
pub struct Shown<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    seq: u64,
    ts: u64,
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// The width of the terminal; `None` if it is none, and nothing is cut.
pub fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Time, topic, seq, key, payload; cut to `width`. What could steer a terminal is shown as a dot.
pub fn line(event: &Shown<'_>, width: Option<usize>) -> String {
    let key = event.key.as_deref().unwrap_or("-");
    let (at, topic, seq, payload) = (time(event.ts), &event.topic, event.seq, event.payload.get());
    let whole = format!("{at}  {topic}  {seq}  {key}  {payload}");
    let safe = |c: char| if c.is_control() { '·' } else { c };
    let mut line: String = match width.filter(|width| whole.chars().count() > *width) {
        Some(width) => whole.chars().take(width.saturating_sub(1)).map(safe).chain(['…']).collect(),
        None => whole.chars().map(safe).collect(),
    };
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str =
        r#"{"id":"i","seq":7,"ts":951827696000,"topic":"orders","key":"k\u001b[2J","payload":{"a":[1,2,3]}}"#;

    #[test]
    fn an_event_is_one_line_that_fits_and_steers_nothing() {
        let event = serde_json::from_str(EVENT).expect("an event");
        assert_eq!(line(&event, None), "2000-02-29 12:34:56  orders  7  k·[2J  {\"a\":[1,2,3]}\n");
        assert_eq!(line(&event, Some(30)), "2000-02-29 12:34:56  orders  …\n");
    }
}
