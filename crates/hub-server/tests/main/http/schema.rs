//! A checker for the part of JSON Schema that `/openapi.json` uses. A word that it does not know is a failure of the test, so that nothing in
//! the document goes unchecked.

use hub_proto::{GroupName, Pattern, TopicName};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The places of a schema that a value had: `Event.key`, `topics.topics[]`.
pub type Places = BTreeSet<String>;

/// The document whose components schemas refer to.
#[derive(Clone, Copy)]
pub struct Schemas<'a>(pub &'a Value);

impl<'a> Schemas<'a> {
    /// What `$ref` refers to, with its name; the value itself without one.
    pub fn resolve(self, value: &'a Value) -> (Option<&'a str>, &'a Value) {
        let Some(reference) = value["$ref"].as_str() else { return (None, value) };
        let pointer = reference.strip_prefix('#').expect("a reference into the document");
        let target = self.0.pointer(pointer).unwrap_or_else(|| panic!("{reference} refers to nothing"));
        (pointer.rsplit('/').next(), target)
    }

    /// Checks a value. Answers the places that it had, or what does not fit.
    pub fn check(self, schema: &'a Value, value: &Value, place: &str) -> Result<Places, String> {
        if let (Some(name), target) = self.resolve(schema) {
            return self.check(target, value, name);
        }
        let mut places = Places::new();
        for (word, rule) in schema.as_object().expect("a schema is an object") {
            match word.as_str() {
                "description" | "contentEncoding" | "required" | "additionalProperties" => {}
                "anyOf" => places.extend(self.check_any(rule, value, place)?),
                "allOf" => {
                    for part in rule.as_array().unwrap() {
                        places.extend(self.check(part, value, place)?);
                    }
                }
                "properties" => places.extend(self.check_fields(schema, value, place)?),
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        places.insert(format!("{place}[]"));
                        places.extend(self.check(rule, item, &format!("{place}[]"))?);
                    }
                }
                _ if fits(word, rule, value) => {}
                _ => return Err(format!("{place}: {value} has not {word} {rule}")),
            }
        }
        if schema.get("properties").is_none() && schema.get("additionalProperties").is_some() {
            places.extend(self.check_fields(schema, value, place)?);
        }
        Ok(places)
    }

    fn check_any(self, schemas: &'a Value, value: &Value, place: &str) -> Result<Places, String> {
        let mut mismatches = Vec::new();
        for schema in schemas.as_array().unwrap() {
            match self.check(schema, value, place) {
                Ok(places) => return Ok(places),
                Err(mismatch) => mismatches.push(mismatch),
            }
        }
        Err(mismatches.join(" | "))
    }

    fn check_fields(self, schema: &'a Value, value: &Value, place: &str) -> Result<Places, String> {
        let (none, mut places) = (Map::new(), Places::new());
        let Some(fields) = value.as_object() else { return Ok(places) };
        let named = schema["properties"].as_object().unwrap_or(&none);
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                return Err(format!("{place}: {name} is missing in {value}"));
            }
        }
        for (name, field) in fields {
            let (schema, place) = match (named.get(name), schema.get("additionalProperties")) {
                (Some(schema), _) => (schema, format!("{place}.{name}")),
                (None, None) => continue,
                (None, Some(Value::Bool(false))) => {
                    return Err(format!("{place}: {name} is not described, in {value}"));
                }
                (None, Some(schema)) => (schema, format!("{place}{{}}")),
            };
            places.extend(self.check(schema, field, &place)?);
            places.insert(place);
        }
        Ok(places)
    }

    /// Every schema within one, with its place. References are followed once each.
    pub fn within(self, schema: &'a Value, place: &str, visit: &mut impl FnMut(&str, &'a Value)) {
        visit(place, schema);
        for part in ["anyOf", "allOf"].iter().flat_map(|word| schema[word].as_array()).flatten() {
            self.within(part, place, visit);
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            self.within(field, &format!("{place}.{name}"), visit);
        }
        for (word, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if let Some(part) = schema.get(word).filter(|part| part.is_object()) {
                self.within(part, &format!("{place}{mark}"), visit);
            }
        }
    }
}

/// Whether a value fits a rule about itself, not about its parts.
fn fits(word: &str, rule: &Value, value: &Value) -> bool {
    let length = |count: fn(&Value) -> Option<usize>| count(value).map(|count| count as u64);
    let characters = || length(|value| value.as_str().map(|text| text.chars().count()));
    let entries = || length(|value| value.as_array().map(Vec::len));
    let at_least = |count: Option<u64>| count.is_none_or(|count| count >= rule.as_u64().unwrap());
    let at_most = |count: Option<u64>| count.is_none_or(|count| count <= rule.as_u64().unwrap());
    match word {
        "type" => match rule.as_array() {
            Some(types) => types.iter().any(|name| is_of(name.as_str().unwrap(), value)),
            None => is_of(rule.as_str().unwrap(), value),
        },
        "enum" => rule.as_array().unwrap().contains(value),
        "const" => rule == value,
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "minLength" => at_least(characters()),
        "maxLength" => at_most(characters()),
        "minItems" => at_least(entries()),
        "maxItems" => at_most(entries()),
        "format" => value.as_str().is_none_or(|text| has_format(rule.as_str().unwrap(), text)),
        "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().unwrap(), text)),
        "propertyNames" => {
            let pattern = rule["pattern"].as_str().unwrap();
            value.as_object().into_iter().flatten().all(|(name, _)| matches(pattern, name))
        }
        _ => panic!("the checker does not know {word}"),
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    }
}

fn has_format(format: &str, text: &str) -> bool {
    match format {
        "uuid" => text.len() == 36 && hub_proto::EventId::parse(text).is_ok(),
        // As the hub writes it.
        "date-time" => {
            let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            shape.starts_with("0000-00-00T00:00:00") && shape.ends_with('Z')
        }
        other => panic!("format {other}"),
    }
}

/// Whether a text matches one of the document's patterns. Each is read by the code that it describes.
fn matches(pattern: &str, text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match pattern {
        "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" => TopicName::stored(text).is_ok(),
        "^(\\*\\*?|[A-Za-z0-9_-]+)(\\.(\\*\\*?|[A-Za-z0-9_-]+))*$" => Pattern::parse(text).is_ok(),
        "^[A-Za-z0-9_.-]+$" => GroupName::parse(text).is_ok(),
        "^[0-9]+$" => digits(text),
        "^[0-9a-f]{32}$" => text.len() == 32 && u128::from_str_radix(text, 16).is_ok(),
        "^[0-9]+-[0-9]+$" => text.split_once('-').is_some_and(|(a, b)| digits(a) && digits(b)),
        "^whsec_[A-Za-z0-9+/]+=*$" => text.starts_with("whsec_") && text.len() > 6,
        "^([a-z0-9]+|data_base64)$" => {
            let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            text == "data_base64" || !text.is_empty() && text.bytes().all(is_name)
        }
        other => panic!("pattern {other}"),
    }
}
