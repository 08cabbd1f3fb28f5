//! Types of Rust, for serde.

use super::Source;
use super::comments;
use super::model::{self, Definition, Field, Object, Type};
use super::names::{Scope, pascal, rust_name, snake};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DERIVE: &str = "    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]\n";
const VALUE: &str = "serde_json::Value";
/// Names that types may not have: those that the generated code uses.
const TAKEN: &[&str] = &["Option", "Vec", "String", "Box", "Self", "Some", "None", "Ok", "Err"];

/// A file with a module for each schema.
pub fn generate(sources: &[Source]) -> String {
    let mut text = String::from(
        "// Made by `event-hub codegen rust` from the schemas of a hub. Do not edit: run it again.\n\n\
         #![allow(clippy::all, clippy::pedantic, dead_code, missing_docs)]\n",
    );
    let mut modules = Scope::default();
    for source in sources {
        let module = rust_name(modules.claim(snake(source.target.as_str())));
        text += &module_of(source, &module);
    }
    text
}

fn module_of(source: &Source, module: &str) -> String {
    let mut scope = Scope::new(TAKEN);
    let root = scope.claim("Payload".into());
    let model = model::read(&source.schema, &mut scope, str::to_owned);
    let of: BTreeMap<&str, &Type> =
        model.definitions.values().map(|definition| (definition.name.as_str(), &definition.of)).collect();
    let mut writer = Writer { scope, types: String::new(), recursive: recursive(&of) };
    writer.define(&root, &model.root, &model.about);
    for Definition { name, of, about } in model.definitions.values() {
        writer.define(name, of, about);
    }
    let (target, types) = (&source.target, writer.types);
    let (constant, what) =
        if target.is_literal() { ("TOPIC", "topic") } else { ("PATTERN", "pattern of topics") };
    format!(
        "\n/// Payloads of `{target}`.\npub mod {module} {{\n    /// The {what}.\n    pub const {constant}: &str = {:?};\n{types}}}\n",
        target.as_str()
    )
}

/// The names of types that have themselves in them.
fn recursive(of: &BTreeMap<&str, &Type>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in of.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), Vec::new());
        named_in(of[name], &mut open);
        while let Some(next) = open.pop() {
            if let Some(inner) = of.get(next.as_str()).filter(|_| seen.insert(next.clone())) {
                named_in(inner, &mut open);
            }
        }
        if seen.contains(*name) {
            found.insert((*name).to_owned());
        }
    }
    found
}

fn named_in(of: &Type, names: &mut Vec<String>) {
    match of {
        Type::Named(name) => names.push(name.clone()),
        Type::Array(of) | Type::Map(of) => named_in(of, names),
        Type::Union(types) | Type::Both(types) => types.iter().for_each(|of| named_in(of, names)),
        Type::Object(object) => object.fields.iter().for_each(|field| named_in(&field.of, names)),
        _ => {}
    }
}

struct Writer {
    scope: Scope,
    types: String,
    recursive: BTreeSet<String>,
}

impl Writer {
    /// Defines a type with a name.
    fn define(&mut self, name: &str, of: &Type, about: &str) {
        let about = comments::rust(about, "    ");
        match self.flat(of) {
            Type::Object(object) => self.define_struct(name, &object, &about),
            Type::Union(types) => self.define_enum(name, &types, &about),
            Type::Literal(Value::String(text)) => self.define_words(name, &[text], &about),
            other => {
                let other = self.name_of(&other, name, false);
                self.types += &match self.recursive.contains(name) {
                    // A name for a type cannot be in the type itself; a type of its own can.
                    true => format!(
                        "\n{about}{DERIVE}    #[serde(transparent)]\n    pub struct {name}(pub {other});\n"
                    ),
                    false => format!("\n{about}    pub type {name} = {other};\n"),
                };
            }
        }
    }

    /// A type as it is written. `name`: what it is called if it needs a definition. `is_direct`: nothing is between it and what
    /// has it, so one that has itself in it needs a box.
    fn name_of(&mut self, of: &Type, name: &str, is_direct: bool) -> String {
        match self.flat(of) {
            Type::Null => "()".into(),
            Type::Bool => "bool".into(),
            Type::Integer(true) => "u64".into(),
            Type::Integer(false) => "i64".into(),
            Type::Number => "f64".into(),
            Type::String => "String".into(),
            Type::Array(item) => format!("Vec<{}>", self.name_of(&item, &format!("{name}Item"), false)),
            Type::Map(of) if *of == Type::Never => self.map_of(VALUE),
            Type::Map(of) => {
                let of = self.name_of(&of, &format!("{name}Value"), false);
                self.map_of(&of)
            }
            Type::Named(named) if is_direct && self.recursive.contains(&named) => format!("Box<{named}>"),
            Type::Named(named) => named,
            Type::Union(types) => match or_null(&types) {
                Some(of) => format!("Option<{}>", self.name_of(&of, name, is_direct)),
                None => self.defined(&Type::Union(types), name),
            },
            Type::Object(object) => self.defined(&Type::Object(object), name),
            Type::Literal(Value::String(text)) => self.defined(&Type::Literal(Value::String(text)), name),
            Type::Literal(Value::Bool(_)) => "bool".into(),
            Type::Literal(Value::Null) => "()".into(),
            Type::Literal(_) | Type::Tuple(..) | Type::Both(_) | Type::Unknown | Type::Never => VALUE.into(),
        }
    }

    fn map_of(&self, of: &str) -> String {
        format!("std::collections::BTreeMap<String, {of}>")
    }

    fn defined(&mut self, of: &Type, name: &str) -> String {
        let name = self.scope.claim(name.to_owned());
        let (before, mut own) = (std::mem::take(&mut self.types), String::new());
        self.define(&name, of, "");
        std::mem::swap(&mut own, &mut self.types);
        self.types = before + &own;
        name
    }

    /// Several types at once as one, where that can be said.
    fn flat(&self, of: &Type) -> Type {
        let Type::Both(types) = of else { return of.clone() };
        let mut all: Option<Object> = None;
        for of in types {
            let Type::Object(object) = of else { return Type::Unknown };
            let Some(merged) = &mut all else {
                all = Some(object.clone());
                continue;
            };
            merged.has_others |= object.has_others;
            for field in &object.fields {
                match merged.fields.iter_mut().find(|there| there.name == field.name) {
                    Some(there) => {
                        there.is_required |= field.is_required;
                        there.of = model::both(vec![there.of.clone(), field.of.clone()]);
                    }
                    None => merged.fields.push(field.clone()),
                }
            }
        }
        all.map_or(Type::Unknown, Type::Object)
    }

    fn define_struct(&mut self, name: &str, object: &Object, about: &str) {
        let mut names = Scope::new(if object.has_others { &["other"] } else { &[] });
        let mut text = format!("\n{about}{DERIVE}    pub struct {name} {{\n");
        for Field { name: member, of, is_required, about } in &object.fields {
            let field = rust_name(names.claim(snake(member)));
            let written = self.name_of(of, &format!("{name}{}", pascal(member)), true);
            text += &comments::rust(about, "        ");
            text += &format!("        #[serde(rename = {}", quoted(member));
            let written = match (is_required, written.starts_with("Option<")) {
                (true, _) => written,
                (false, is_option) => {
                    text += ", default, skip_serializing_if = \"Option::is_none\"";
                    if is_option { written } else { format!("Option<{written}>") }
                }
            };
            text += &format!(")]\n        pub {field}: {written},\n");
        }
        if object.has_others {
            text += &format!(
                "        /// Members with other names.\n        #[serde(flatten)]\n        pub other: {},\n",
                self.map_of(VALUE)
            );
        }
        self.types += &(text + "    }\n");
    }

    /// An enum of words, or of types of which the first that fits counts.
    fn define_enum(&mut self, name: &str, types: &[Type], about: &str) {
        let words: Option<Vec<String>> = types
            .iter()
            .map(|of| if let Type::Literal(Value::String(text)) = of { Some(text.clone()) } else { None })
            .collect();
        if let Some(words) = words {
            return self.define_words(name, &words, about);
        }
        let mut variants = Scope::new(&["Self"]);
        let mut text = format!("\n{about}{DERIVE}    #[serde(untagged)]\n    pub enum {name} {{\n");
        let mut written = BTreeSet::new();
        // Words together are one type.
        let (words, mut rest): (Vec<Type>, Vec<Type>) =
            types.iter().cloned().partition(|of| matches!(of, Type::Literal(Value::String(_))));
        if !words.is_empty() {
            rest.insert(0, model::union(words));
        }
        // Numbers as such would take integers first, and anything everything.
        rest.sort_by_key(|of| match of {
            Type::Number => 1,
            Type::Unknown | Type::Both(_) | Type::Tuple(..) | Type::Literal(_) => 2,
            _ => 0,
        });
        for (at, of) in rest.iter().enumerate() {
            let variant = variants.claim(variant_of(of, at));
            let of = self.name_of(of, &format!("{name}{variant}"), true);
            if written.insert(of.clone()) {
                text += &format!("        {variant}({of}),\n");
            }
        }
        self.types += &(text + "    }\n");
    }

    fn define_words(&mut self, name: &str, words: &[String], about: &str) {
        let mut variants = Scope::new(&["Self"]);
        let derive =
            DERIVE.replace("Clone, ", "Clone, Copy, ").replace("PartialEq, ", "PartialEq, Eq, Hash, ");
        let mut text = format!("\n{about}{derive}    pub enum {name} {{\n");
        for word in words {
            let variant = variants.claim(pascal(word));
            text += &format!("        #[serde(rename = {})]\n        {variant},\n", quoted(word));
        }
        self.types += &(text + "    }\n");
    }
}

/// The one type beside null.
fn or_null(types: &[Type]) -> Option<Type> {
    let is_null = |of: &&Type| matches!(of, Type::Null | Type::Literal(Value::Null));
    let rest: Vec<Type> = types.iter().filter(|of| !is_null(of)).cloned().collect();
    (rest.len() < types.len() && !rest.is_empty()).then(|| model::union(rest))
}

/// What one of several types is called.
fn variant_of(of: &Type, at: usize) -> String {
    match of {
        Type::Null => "Null".into(),
        Type::Bool => "Bool".into(),
        Type::Integer(_) => "Integer".into(),
        Type::Number => "Number".into(),
        Type::String => "Text".into(),
        Type::Array(_) | Type::Tuple(..) => "List".into(),
        Type::Map(_) => "Map".into(),
        Type::Named(name) => name.clone(),
        Type::Union(_) | Type::Literal(Value::String(_)) => "Word".into(),
        _ => format!("Variant{}", at + 1),
    }
}

/// A text as Rust writes it.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|character| match character {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            ' '..='~' => character.to_string(),
            other => format!("\\u{{{:x}}}", u32::from(other)),
        })
        .collect();
    format!("\"{escaped}\"")
}
