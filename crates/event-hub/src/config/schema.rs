//! `[[schema]]`: what payloads of topics have to look like.

use super::mistakes::{Mistakes, Origin};
use super::value::Value;
use hub_schema::{Schema, SchemaTarget, bounds};
use std::path::Path;
use std::sync::Arc;

/// A `[[schema]]` as it was written.
pub struct Written {
    pub values: Vec<(&'static str, Value)>,
    pub origin: Origin,
}

/// A topic or a pattern, with its schema.
pub type Configured = (SchemaTarget, Arc<Schema>);

/// What was written: each topic or pattern with its schema.
pub fn read(written: &[Written], mistakes: &mut Mistakes) -> Vec<Configured> {
    let mut schemas: Vec<Configured> = Vec::new();
    for written in written {
        let schema = one(&written.values).and_then(|(target, schema)| {
            match schemas.iter().any(|(other, _)| *other == target) {
                true => {
                    Err(format!("schema.topic {target} is there twice; a topic or a pattern has one schema"))
                }
                false => Ok((target, schema)),
            }
        });
        match schema {
            Ok(schema) => schemas.push(schema),
            Err(text) => mistakes.add(Some(written.origin.clone()), text),
        }
    }
    schemas
}

fn one(values: &[(&'static str, Value)]) -> Result<Configured, String> {
    let (mut topic, mut file, mut schema) = (None, None, None);
    for (setting, value) in values.iter().cloned() {
        match (setting, value) {
            ("schema.topic", Value::Pattern(pattern)) => topic = Some(pattern.to_string()),
            ("schema.file", Value::Path(path)) => file = Some(path),
            ("schema.schema", Value::Text(text)) => schema = Some(text),
            _ => {}
        }
    }
    let topic = topic.ok_or("a [[schema]] without `topic`: it says whose payloads are checked")?;
    let target = SchemaTarget::parse(&topic).map_err(|error| format!("schema.topic: {}", error.msg))?;
    let text = match (file, schema) {
        (Some(file), None) => read_file(&file).map_err(|why| format!("schema.file of {topic}: {why}"))?,
        (None, Some(schema)) => schema,
        (Some(_), Some(_)) => {
            return Err(format!("the schema of {topic} has both file and schema; one is enough"));
        }
        (None, None) => return Err(format!("the schema of {topic} has neither file nor schema")),
    };
    let schema = Schema::compile(text.as_bytes());
    let schema = schema.map_err(|error| format!("the schema of {topic} is refused: {}", error.msg))?;
    Ok((target, Arc::new(schema)))
}

fn read_file(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if text.len() > bounds::SCHEMA_BYTES {
        return Err(format!(
            "{shown} has {} bytes; at most {} are allowed",
            text.len(),
            bounds::SCHEMA_BYTES
        ));
    }
    String::from_utf8(text).map_err(|_| format!("{shown} is not UTF-8 text"))
}
