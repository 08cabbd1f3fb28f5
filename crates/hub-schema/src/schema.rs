//! A schema that can be checked against.

mod compile;
mod references;
mod rules;

use crate::bounds::{SCHEMA_BYTES, SCHEMA_DEPTH};
use crate::node::{Node, NodeId};
use crate::value::Value;
use hub_proto::{Error, Payload, Result};
use std::fmt;

/// A JSON Schema of the draft 2020-12, compiled.
pub struct Schema {
    text: Box<str>,
    nodes: Vec<Node>,
    root: NodeId,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// ```
    /// use hub_schema::Schema;
    /// let schema = Schema::compile(br#"{"type": "object", "properties": {"price": {"type": "integer"}}}"#)?;
    /// assert!(schema.check(br#"{"price": 12}"#).is_ok());
    /// let violation = schema.check(br#"{"price": 12.5}"#).expect_err("it has a fraction");
    /// assert_eq!(violation.to_string(), r#"/price: 12.5 is not of type "integer""#);
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_json` if the text is no JSON, `too_large` if it is too long, `bad_request` with the path and the rule for everything else.
    pub fn compile(text: &[u8]) -> Result<Self> {
        if text.len() > SCHEMA_BYTES {
            return Err(Error::too_large(format!(
                "the schema has {} bytes; at most {SCHEMA_BYTES} are allowed",
                text.len()
            )));
        }
        let payload = Payload::from_json(text.to_vec())
            .map_err(|error| Error { msg: error.msg.replacen("payload", "the schema", 1).into(), ..error })?;
        let text = std::str::from_utf8(payload.as_bytes())
            .map_err(|_| Error::bad_json("the schema is not UTF-8"))?;
        let wrong = |why: String| Error::bad_request(format!("schema: {why}"));
        let (value, _) = Value::read(text).map_err(|why| wrong(why.to_string()))?;
        if depth(&value) > SCHEMA_DEPTH {
            return Err(wrong(format!("it is nested deeper than {SCHEMA_DEPTH}, which is the limit")));
        }
        let (nodes, root) = compile::compile(&value).map_err(wrong)?;
        Ok(Self { text: text.into(), nodes, root })
    }

    /// The text that it was compiled from, without whitespace around it, in one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether two texts are the same JSON: the order of names, whitespace and the spelling of numbers do not matter.
    pub fn is_same_text(&self, other: &Self) -> bool {
        match (Value::read(&self.text), Value::read(&other.text)) {
            (Ok((left, _)), Ok((right, _))) => {
                left.to_canonical().cmp_canonical(&right.to_canonical()).is_eq()
            }
            _ => false,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(crate) fn root(&self) -> NodeId {
        self.root
    }
}

fn depth(value: &Value<'_>) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 0,
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({} bytes, {} subschemas)", self.text.len(), self.nodes.len())
    }
}

#[cfg(test)]
mod tests;
