//! Types of TypeScript.

use super::Source;
use super::comments;
use super::model::{self, Definition, Field, Model, Object, Type};
use super::names::{Scope, pascal};
use super::topics_map::topics_map;
use hub_proto::Pattern;
use serde_json::Value;

/// Names that would hide what the language has, or what this file is about.
const TAKEN: &[&str] = &[
    "Topics", "Array", "Object", "String", "Number", "Boolean", "Symbol", "Function", "Promise", "Record",
    "Date", "Map", "Set",
];

/// What a target is called: its schema's type and what was said about it.
struct Named {
    target: Pattern,
    name: String,
    model: Model,
}

/// A module with a type for each schema and the map of topics.
pub fn generate(sources: &[Source]) -> String {
    let mut scope = Scope::new(TAKEN);
    let names: Vec<String> =
        sources.iter().map(|source| scope.claim(pascal(source.target.as_str()))).collect();
    let all: Vec<Named> = sources
        .iter()
        .zip(names)
        .map(|(source, name)| {
            let model = model::read(&source.schema, &mut scope, |own| format!("{name}{own}"));
            Named { target: source.target.clone(), name, model }
        })
        .collect();
    let mut text = String::from(
        "// Made by `event-hub codegen typescript` from the schemas of a hub. Do not edit: run it again.\n\n\
         /** What the payloads of each topic look like. */\nexport interface Topics {\n",
    );
    let about = |key: &str| all.iter().find(|named| format!("{:?}", named.target.as_str()) == key);
    let targets: Vec<(Pattern, Type)> =
        all.iter().map(|named| (named.target.clone(), Type::Named(named.name.clone()))).collect();
    for (key, of) in topics_map(&targets) {
        let key = key.text();
        if let Some(named) = about(&key) {
            text += &comments::typescript(&named.model.about, "  ");
        }
        text += &format!("  {key}: {};\n", write(&of, 1));
    }
    text += "}\n";
    for Named { target, name, model } in all {
        let about = match model.about.as_str() {
            "" => format!("Payloads of `{target}`."),
            about => format!("Payloads of `{target}`.\n\n{about}"),
        };
        text += &declaration(&name, &model.root, &about);
        for Definition { name, of, about } in model.definitions.values() {
            text += &declaration(name, of, about);
        }
    }
    text
}

/// An interface, or a type if it is none.
fn declaration(name: &str, of: &Type, about: &str) -> String {
    let about = comments::typescript(about, "");
    match of {
        Type::Object(object) => format!("\n{about}export interface {name} {}\n", members(object, 0)),
        of => format!("\n{about}export type {name} = {};\n", write(of, 0)),
    }
}

fn members(object: &Object, depth: usize) -> String {
    let indent = "  ".repeat(depth + 1);
    let mut text = String::from("{\n");
    for Field { name, of, is_required, about } in &object.fields {
        text += &comments::typescript(about, &indent);
        let mark = if *is_required { "" } else { "?" };
        text += &format!("{indent}{}{mark}: {};\n", quoted(name), write(of, depth + 1));
    }
    if object.has_others {
        text += &format!("{indent}[name: string]: unknown;\n");
    }
    text + &"  ".repeat(depth) + "}"
}

/// A text as TypeScript writes it.
fn quoted(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn write(of: &Type, depth: usize) -> String {
    let list = |types: &[Type], between: &str| {
        types.iter().map(|of| in_brackets(of, depth)).collect::<Vec<_>>().join(between)
    };
    match of {
        Type::Unknown => "unknown".into(),
        Type::Never => "never".into(),
        Type::Null => "null".into(),
        Type::Bool => "boolean".into(),
        Type::Integer(_) | Type::Number => "number".into(),
        Type::String => "string".into(),
        Type::Literal(value) => literal(value),
        Type::Array(item) => format!("{}[]", in_brackets(item, depth)),
        Type::Tuple(items, least, rest) => tuple(items, *least, rest, depth),
        Type::Map(of) => format!("{{ [name: string]: {} }}", write(of, depth)),
        Type::Object(object) => members(object, depth),
        Type::Union(types) => list(types, " | "),
        Type::Both(types) => list(types, " & "),
        Type::Named(name) => name.clone(),
    }
}

fn in_brackets(of: &Type, depth: usize) -> String {
    let text = write(of, depth);
    let needs =
        matches!(of, Type::Union(_) | Type::Both(_)) || matches!(of, Type::Literal(_)) && text.contains('|');
    if needs { format!("({text})") } else { text }
}

fn tuple(items: &[Type], least: usize, rest: &Type, depth: usize) -> String {
    let mark = |at: usize| if at < least { "" } else { "?" };
    let mut parts: Vec<String> =
        items.iter().enumerate().map(|(at, of)| format!("{}{}", in_brackets(of, depth), mark(at))).collect();
    if *rest != Type::Never {
        parts.push(format!("...{}[]", in_brackets(rest, depth)));
    }
    format!("[{}]", parts.join(", "))
}

/// A value as a type. A number that TypeScript would round is any number.
fn literal(value: &Value) -> String {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.abs() <= SAFE && (number.is_f64() || float.fract() == 0.0) => {
                number.to_string()
            }
            _ => "number".into(),
        },
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(members) if members.is_empty() => "{ [name: string]: never }".into(),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{}: {}", quoted(name), literal(value))).collect();
            format!("{{ {} }}", members.join("; "))
        }
        other => other.to_string(),
    }
}
