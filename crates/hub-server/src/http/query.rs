//! Parameters of a request: each known, each once, each readable.

use super::error::{Failure, shown};
use hub_proto::{GroupName, TopicName};
use std::str::FromStr;

/// The longest query: room for every parameter at its longest, with every byte escaped.
const QUERY_BYTES: usize = 16 << 10;

/// The parameters of one request.
#[derive(Debug)]
pub(super) struct Params {
    given: Vec<(&'static str, String)>,
}

impl Params {
    /// Reads a query. Refused are names that are not `allowed`, names that come twice, empty values, and what is no text.
    pub fn read(query: Option<&str>, allowed: &[&'static str]) -> Result<Self, Failure> {
        let query = query.unwrap_or_default();
        if query.len() > QUERY_BYTES {
            let bytes = query.len();
            return Err(Failure::bad_request(format!(
                "the query has {bytes} bytes; at most {QUERY_BYTES} are allowed"
            )));
        }
        let mut given: Vec<(&'static str, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name)?;
            let Some(&name) = allowed.iter().find(|allowed| **allowed == name) else {
                let known = match allowed {
                    [] => "none are".to_owned(),
                    _ => format!("allowed: {}", allowed.join(", ")),
                };
                return Err(Failure::bad_request(format!("unknown parameter {}; {known}", shown(&name))));
            };
            if given.iter().any(|(other, _)| *other == name) {
                return Err(Failure::bad_request(format!("parameter {name} is there twice; give it once")));
            }
            let value = decoded(value)?;
            if value.is_empty() {
                return Err(Failure::bad_request(format!("parameter {name} is empty; leave it out")));
            }
            given.push((name, value));
        }
        Ok(Self { given })
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    pub fn required(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Failure::bad_request(format!("parameter {name} is missing")))
    }

    /// The topic that somebody wants to read.
    pub fn topic(&self) -> Result<TopicName, Failure> {
        Ok(TopicName::readable(self.required("topic")?)?)
    }

    pub fn group(&self) -> Result<Option<GroupName>, Failure> {
        Ok(self.get("group").map(GroupName::parse).transpose()?)
    }

    /// A whole number, of which `what` says which are allowed.
    pub fn number<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // `parse` also takes a plus sign.
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(Failure::bad_request(format!("{name} is {}; it must be {what}", shown(text)))),
        }
    }

    /// `1` or `0`.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some("1") => Ok(Some(true)),
            Some("0") => Ok(Some(false)),
            Some(other) => {
                Err(Failure::bad_request(format!("{name} is {}; it must be 1 or 0", shown(other))))
            }
        }
    }
}

/// Undoes the escapes of a query. Unlike lenient readers it refuses what is no UTF-8 or no escape: a key that became
/// another key on the way would be worse.
fn decoded(text: &str) -> Result<String, Failure> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = (rest.next().and_then(hex), rest.next().and_then(hex));
                let (Some(high), Some(low)) = digits else {
                    return Err(Failure::bad_request(format!(
                        "the query has {} with a % that no two hex digits follow; write % as %25",
                        shown(text)
                    )));
                };
                high << 4 | low
            }
            other => other,
        });
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::bad_request(format!("the query has {}, which is not UTF-8", shown(text))))
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}
