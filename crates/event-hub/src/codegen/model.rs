//! What a schema says about types.

use super::names::{Scope, pascal};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Anything, or something that types cannot say.
    Unknown,
    /// Nothing.
    Never,
    Null,
    Bool,
    /// Whether it is at least 0.
    Integer(bool),
    Number,
    String,
    /// One value.
    Literal(Value),
    Array(Box<Type>),
    /// The first items, how many of them are there in any case, and the others.
    Tuple(Vec<Type>, usize, Box<Type>),
    /// An object with any names.
    Map(Box<Type>),
    Object(Object),
    Union(Vec<Type>),
    Both(Vec<Type>),
    /// A type with a name.
    Named(String),
}

/// An object with members that are named.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub fields: Vec<Field>,
    /// Whether members with other names have a type of their own.
    pub has_others: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub of: Type,
    pub is_required: bool,
    pub about: String,
}

/// A type that has a name because something refers to it.
pub struct Definition {
    pub name: String,
    pub of: Type,
    pub about: String,
}

/// The types of one schema.
pub struct Model {
    pub root: Type,
    pub about: String,
    /// By name.
    pub definitions: BTreeMap<String, Definition>,
}

/// Nesting that is read; what is deeper is unknown.
const DEPTH: usize = 64;

/// Reads a schema. `named`: how to call what is referred to, by its own name.
pub fn read(schema: &Value, scope: &mut Scope, mut named: impl FnMut(&str) -> String) -> Model {
    let mut reader = Reader { root: schema, names: BTreeMap::new(), open: Vec::new() };
    let root = reader.of(schema, 0);
    let mut definitions = BTreeMap::new();
    let mut done = BTreeSet::new();
    // Reading one may name others.
    while let Some(place) = reader.open.pop() {
        if !done.insert(place.clone()) {
            continue;
        }
        let at = resolve(schema, &place);
        let of = at.map_or(Type::Unknown, |at| reader.of_here(at, 0));
        let about = at.map(about).unwrap_or_default();
        definitions.insert(place, (of, about));
    }
    // Names are given in the order of places, not in that in which they were found.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for place in definitions.keys() {
        let own = place.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("root");
        names.insert(place.clone(), scope.claim(named(&pascal(own))));
    }
    let rename = |of: &Type| renamed(of, &names);
    let definitions = definitions
        .iter()
        .map(|(place, (of, about))| {
            let name = names[place].clone();
            (name.clone(), Definition { name, of: rename(of), about: about.clone() })
        })
        .collect();
    Model { root: rename(&root), about: about(schema), definitions }
}

/// Title and description.
fn about(schema: &Value) -> String {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("title"), text("description")) {
        ("", text) | (text, "") => text.to_owned(),
        (title, description) => format!("{title}\n\n{description}"),
    }
}

/// What stands at a JSON pointer.
fn resolve<'s>(root: &'s Value, pointer: &str) -> Option<&'s Value> {
    if pointer.is_empty() { Some(root) } else { root.pointer(pointer) }
}

/// Puts names in the places of pointers.
fn renamed(of: &Type, names: &BTreeMap<String, String>) -> Type {
    let all = |types: &[Type]| types.iter().map(|of| renamed(of, names)).collect();
    match of {
        Type::Named(place) => Type::Named(names.get(place).cloned().unwrap_or_default()),
        Type::Array(item) => Type::Array(Box::new(renamed(item, names))),
        Type::Map(value) => Type::Map(Box::new(renamed(value, names))),
        Type::Tuple(items, least, rest) => Type::Tuple(all(items), *least, Box::new(renamed(rest, names))),
        Type::Union(types) => Type::Union(all(types)),
        Type::Both(types) => Type::Both(all(types)),
        Type::Object(object) => Type::Object(Object {
            fields: object
                .fields
                .iter()
                .map(|field| Field { of: renamed(&field.of, names), ..field.clone() })
                .collect(),
            has_others: object.has_others,
        }),
        other => other.clone(),
    }
}

struct Reader<'s> {
    root: &'s Value,
    /// Places of anchors, once they are looked for.
    names: BTreeMap<String, String>,
    /// Places that something refers to.
    open: Vec<String>,
}

impl Reader<'_> {
    fn of(&mut self, schema: &Value, depth: usize) -> Type {
        match depth > DEPTH {
            true => Type::Unknown,
            false => self.of_here(schema, depth),
        }
    }

    fn of_here(&mut self, schema: &Value, depth: usize) -> Type {
        let Value::Object(rules) = schema else {
            return if schema == &Value::Bool(false) { Type::Never } else { Type::Unknown };
        };
        let mut parts = vec![self.own(rules, depth)];
        if let Some(reference) = rules.get("$ref").and_then(Value::as_str) {
            parts.push(self.referred(reference));
        }
        for part in rules.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            parts.push(self.of(part, depth + 1));
        }
        for list in ["anyOf", "oneOf"] {
            if let Some(branches) = rules.get(list).and_then(Value::as_array) {
                parts.push(union(branches.iter().map(|branch| self.of(branch, depth + 1)).collect()));
            }
        }
        both(parts)
    }

    fn referred(&mut self, reference: &str) -> Type {
        let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        let place = match fragment.is_empty() || fragment.starts_with('/') {
            true => percent_decoded(fragment),
            false => self.anchor(fragment),
        };
        self.open.push(place.clone());
        Type::Named(place)
    }

    /// Where an anchor is.
    fn anchor(&mut self, name: &str) -> String {
        if self.names.is_empty() {
            let mut open = vec![(String::new(), self.root)];
            while let Some((place, value)) = open.pop() {
                if let Some(anchor) = value.get("$anchor").and_then(Value::as_str) {
                    self.names.insert(anchor.to_owned(), place.clone());
                }
                let step = |step: &str| format!("{place}/{}", step.replace('~', "~0").replace('/', "~1"));
                match value {
                    Value::Object(members) => {
                        open.extend(members.iter().map(|(name, value)| (step(name), value)));
                    }
                    Value::Array(items) => {
                        open.extend(
                            items.iter().enumerate().map(|(at, value)| (step(&at.to_string()), value)),
                        );
                    }
                    _ => {}
                }
            }
        }
        self.names.get(name).cloned().unwrap_or_default()
    }

    /// What the keywords of one schema say, without those for other schemas of the same value.
    fn own(&mut self, rules: &Map<String, Value>, depth: usize) -> Type {
        if let Some(value) = rules.get("const") {
            return Type::Literal(value.clone());
        }
        if let Some(values) = rules.get("enum").and_then(Value::as_array) {
            return union(values.iter().cloned().map(Type::Literal).collect());
        }
        let kinds: Vec<&str> = match rules.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            // Rules for objects say nothing of values that are none; most who write them mean objects.
            _ => return Type::Unknown,
        };
        union(kinds.into_iter().map(|kind| self.of_kind(kind, rules, depth)).collect())
    }

    fn of_kind(&mut self, kind: &str, rules: &Map<String, Value>, depth: usize) -> Type {
        match kind {
            "null" => Type::Null,
            "boolean" => Type::Bool,
            "integer" => Type::Integer(is_unsigned(rules)),
            "number" => Type::Number,
            "string" => Type::String,
            "array" => self.array(rules, depth),
            "object" => self.object(rules, depth),
            _ => Type::Unknown,
        }
    }

    fn array(&mut self, rules: &Map<String, Value>, depth: usize) -> Type {
        let rest = rules.get("items").map_or(Type::Unknown, |items| self.of(items, depth + 1));
        let prefix = rules.get("prefixItems").and_then(Value::as_array);
        let Some(prefix) = prefix.filter(|prefix| prefix.len() <= 32) else {
            return Type::Array(Box::new(if prefix.is_some() { Type::Unknown } else { rest }));
        };
        let least = rules.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let least = usize::try_from(least).unwrap_or(usize::MAX).min(prefix.len());
        let items = prefix.iter().map(|item| self.of(item, depth + 1)).collect();
        Type::Tuple(items, least, Box::new(rest))
    }

    fn object(&mut self, rules: &Map<String, Value>, depth: usize) -> Type {
        let required: BTreeSet<&str> = rules
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = rules.get("properties").and_then(Value::as_object);
        let additional = rules.get("additionalProperties");
        let has_patterns = rules.contains_key("patternProperties");
        let mut fields: Vec<Field> = Vec::new();
        for (name, schema) in properties.into_iter().flatten() {
            let is_required = required.contains(name.as_str());
            let of = self.of(schema, depth + 1);
            fields.push(Field { name: name.clone(), of, is_required, about: about(schema) });
        }
        for name in &required {
            if !fields.iter().any(|field| field.name == *name) {
                let (of, about) = (Type::Unknown, String::new());
                fields.push(Field { name: (*name).to_owned(), of, is_required: true, about });
            }
        }
        let others = match additional {
            Some(Value::Bool(false)) if !has_patterns => None,
            Some(schema) if !has_patterns => Some(self.of(schema, depth + 1)),
            _ => Some(Type::Unknown),
        };
        match (fields.is_empty(), others) {
            (true, Some(of)) => Type::Map(Box::new(of)),
            (true, None) => Type::Map(Box::new(Type::Never)),
            (false, others) => Type::Object(Object {
                fields,
                has_others: others.is_some()
                    && (additional.is_some_and(|of| of != &Value::Bool(true)) || has_patterns),
            }),
        }
    }
}

fn is_unsigned(rules: &Map<String, Value>) -> bool {
    let bound = |name: &str| rules.get(name).and_then(Value::as_f64);
    bound("minimum").is_some_and(|least| least >= 0.0)
        || bound("exclusiveMinimum").is_some_and(|least| least >= -1.0)
}

/// One of several types.
pub fn union(types: Vec<Type>) -> Type {
    let mut flat: Vec<Type> = Vec::new();
    for of in types {
        let parts = match of {
            Type::Union(parts) => parts,
            other => vec![other],
        };
        for part in parts.into_iter().filter(|part| *part != Type::Never) {
            if part == Type::Unknown {
                return Type::Unknown;
            }
            if !flat.contains(&part) {
                flat.push(part);
            }
        }
    }
    match flat.len() {
        0 => Type::Never,
        1 => flat.remove(0),
        _ => Type::Union(flat),
    }
}

/// All of several types.
pub fn both(types: Vec<Type>) -> Type {
    let mut flat: Vec<Type> = Vec::new();
    for of in types {
        let parts = match of {
            Type::Both(parts) => parts,
            other => vec![other],
        };
        for part in parts {
            match part {
                Type::Never => return Type::Never,
                Type::Unknown => {}
                part if flat.contains(&part) => {}
                part => flat.push(part),
            }
        }
    }
    match flat.len() {
        0 => Type::Unknown,
        1 => flat.remove(0),
        _ => Type::Both(flat),
    }
}

fn percent_decoded(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let code =
            rest.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match code.filter(|_| *first == b'%') {
            Some(code) => {
                out.push(code);
                rest = &rest[2..];
            }
            None => out.push(*first),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
