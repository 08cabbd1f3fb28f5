//! Why a payload was refused, in a few words: never more of the payload than fits on a line.

use crate::bounds::VIOLATION_BYTES;
use crate::value::Value;
use hub_proto::{Code, Error};
use std::fmt;

/// Bytes of a value, of a name or of a pattern in a message.
const SHOWN_BYTES: usize = 48;
/// Bytes of a path.
const PATH_BYTES: usize = 120;

/// What is wrong with a payload: the first rule that it breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    path: String,
    rule: String,
}

impl Violation {
    /// About the value at a path.
    pub(crate) fn new(path: &[Step<'_>], rule: String) -> Self {
        let mut text = String::new();
        for step in path {
            match step {
                Step::Member(name) => {
                    text.push('/');
                    text.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
                Step::Item(at) => {
                    text.push('/');
                    text.push_str(&at.to_string());
                }
            }
            if text.len() > PATH_BYTES {
                break;
            }
        }
        if text.is_empty() {
            text.push('/');
        }
        let mut violation = Self { path: printable(&text, PATH_BYTES), rule };
        let rest = VIOLATION_BYTES - violation.path.len() - 2;
        if violation.rule.len() > rest {
            violation.rule.truncate(violation.rule.floor_char_boundary(rest - 3));
            violation.rule.push('…');
        }
        violation
    }

    /// Where, as a JSON pointer that is cut if it is long.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value and the rule that it breaks.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// As publishers get it. `of` is the topic or pattern that has the schema.
    pub fn to_error(&self, of: &str) -> Error {
        Error::new(Code::SchemaViolation, format!("{self} (schema of {})", printable(of, SHOWN_BYTES)))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.rule)
    }
}

/// A step from a value to one in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'v> {
    Member(&'v str),
    Item(usize),
}

/// A text without control characters, cut.
fn printable(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        if shown.len() + character.len_utf8() + 3 > most {
            shown.push('…');
            break;
        }
        match character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            true => shown.push('\u{fffd}'),
            false => shown.push(character),
        }
    }
    shown
}

/// A text in quotes, cut.
pub(crate) fn quoted(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(SHOWN_BYTES)];
    format!("\"{}{}\"", printable(cut, 2 * SHOWN_BYTES), if cut.len() < text.len() { "…" } else { "" })
}

/// A value, cut: what is in an array or an object is not shown.
pub(crate) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number { text, .. } => shown_number(text),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("an array of {}", counted(items.len(), "item")),
        Value::Object(members) => format!("an object of {}", counted(members.len(), "member")),
    }
}

/// A number, cut.
pub(crate) fn shown_number(text: &str) -> String {
    match text.len() {
        0..=SHOWN_BYTES => text.to_owned(),
        _ => format!("{}…", &text[..SHOWN_BYTES]),
    }
}

/// `1 item`, `2 items`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
