//! Which events a tail shows: equality and substrings, never code.

use hub_core::{Event, Filter};
use hub_proto::limits;
use std::borrow::Cow;

/// See the module.
pub(super) struct Matcher {
    key: Option<String>,
    /// Text that the key, the id or the payload has, in lower case.
    text: Option<Needle>,
}

/// A text that is looked for without regard to case.
struct Needle {
    lower: String,
    is_ascii: bool,
}

impl Matcher {
    /// The longest text that is looked for.
    pub const MAX_TEXT_BYTES: usize = limits::KEY_BYTES;

    pub fn new(key: Option<&str>, text: Option<&str>) -> Self {
        let needle = |text: &str| Needle { lower: text.to_lowercase(), is_ascii: text.is_ascii() };
        Self { key: key.map(str::to_owned), text: text.map(needle) }
    }

    /// What of it the bus can filter by.
    pub fn filter(&self) -> Filter {
        Filter { key: self.key.clone(), ..Filter::default() }
    }

    pub fn matches(&self, event: &Event) -> bool {
        let is_key = |wanted: &String| event.key().is_some_and(|key| **key == **wanted);
        self.key.as_ref().is_none_or(is_key) && self.text.as_ref().is_none_or(|text| text.is_in_event(event))
    }
}

impl Needle {
    fn is_in_event(&self, event: &Event) -> bool {
        self.is_in(event.payload())
            || event.key().is_some_and(|key| self.is_in(key.as_bytes()))
            || self.is_in(event.id().to_string().as_bytes())
    }

    fn is_in(&self, hay: &[u8]) -> bool {
        match self.is_ascii {
            true => has_ascii(hay, self.lower.as_bytes()),
            false => {
                let hay: Cow<'_, str> = String::from_utf8_lossy(hay);
                hay.to_lowercase().contains(&self.lower)
            }
        }
    }
}

/// Whether a text has another one, which is in lower case and of ASCII.
fn has_ascii(hay: &[u8], lower: &[u8]) -> bool {
    let Some(&first) = lower.first() else { return true };
    let Some(last_start) = hay.len().checked_sub(lower.len()) else { return false };
    let upper = first.to_ascii_uppercase();
    let mut from = 0;
    while from <= last_start {
        let Some(at) = hay[from..=last_start].iter().position(|byte| *byte == first || *byte == upper) else {
            return false;
        };
        from += at;
        if hay[from..from + lower.len()].eq_ignore_ascii_case(lower) {
            return true;
        }
        from += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_whatever_its_case() {
        for (hay, needle, found) in [
            (r#"{"status":"Running"}"#, "RUNNING", true),
            (r#"{"status":"Running"}"#, "runnings", false),
            ("aaab", "aab", true),
            ("aaa", "aaaa", false),
            ("", "a", false),
            ("xÄy", "ä", true),
            ("xAy", "ä", false),
        ] {
            let lower = Needle { lower: needle.to_lowercase(), is_ascii: needle.is_ascii() };
            assert_eq!(lower.is_in(hay.as_bytes()), found, "{needle} in {hay}");
        }
    }
}
