//! An event on one line, for people.

use crate::text::time;
use hub_proto::Event;

/// Time, topic, seq, key, payload; cut to `width`. What could steer a terminal is shown as a dot.
pub fn line(event: &Event, width: Option<usize>) -> String {
    let key = event.key().map_or("-", |key| key);
    let payload = String::from_utf8_lossy(event.payload());
    let (at, topic, seq) = (time(event.ts()), event.topic(), event.seq());
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

    const EVENT: &str = r#"{"id":"0190a1b2-0000-7000-8000-000000000001","seq":7,"ts":951827696000,"topic":"orders","key":"k\u001b[2J","payload":{"a":[1,2,3]}}"#;

    #[test]
    fn an_event_is_one_line_that_fits_and_steers_nothing() {
        let event = Event::from_json(EVENT.into(), 0).expect("an event");
        assert_eq!(line(&event, None), "2000-02-29 12:34:56  orders  7  k·[2J  {\"a\":[1,2,3]}\n");
        assert_eq!(line(&event, Some(30)), "2000-02-29 12:34:56  orders  …\n");
    }
}
