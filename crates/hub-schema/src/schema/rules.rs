//! Keywords that are about values of one kind.

use super::compile::{Compiled, Compiler, wrong};
use crate::canonical::Canonical;
use crate::node::{ArrayRules, Bound, Contains, Kinds, Node, NumberRules, ObjectRules, StringRules};
use crate::number::{Divisor, Number};
use crate::value::Value;
use hub_proto::shown;

/// Reads one keyword. One that is none of the draft's is an annotation.
pub(super) fn read<'v, 'a>(
    compiler: &mut Compiler<'v, 'a>,
    node: &mut Node,
    keyword: &str,
    value: &'v Value<'a>,
) -> Compiled<()> {
    match keyword {
        "type" => node.kinds = kinds(node, value)?,
        "enum" | "const" => allow(node, keyword, value)?,
        "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" | "multipleOf" => {
            let rules = read_number(node, keyword, value)?;
            node.number = Some(rules);
        }
        "minLength" | "maxLength" | "pattern" => {
            let rules = read_string(compiler, node, keyword, value)?;
            node.string = Some(rules);
        }
        "prefixItems" | "items" | "contains" | "minContains" | "maxContains" | "minItems" | "maxItems"
        | "uniqueItems" | "unevaluatedItems" => {
            let rules = read_array(compiler, node, keyword, value)?;
            node.array = Some(rules);
        }
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "propertyNames"
        | "required"
        | "dependentRequired"
        | "dependentSchemas"
        | "minProperties"
        | "maxProperties"
        | "unevaluatedProperties" => {
            let rules = read_object(compiler, node, keyword, value)?;
            node.object = Some(rules);
        }
        _ => {}
    }
    Ok(())
}

/// What is left when all keywords were read.
pub(super) fn finish(node: &mut Node) -> Compiled<()> {
    if let Some(rules) = &mut node.array
        && rules.contains.as_ref().is_some_and(|contains| contains.node == NOWHERE)
    {
        // Bounds without `contains` mean nothing.
        rules.contains = None;
    }
    if let Some(rules) = &mut node.object {
        rules.required = rules.required().count();
        rules.visits_members = rules.must_visit_members();
    }
    if let Some(values) = &node.values {
        node.canonical_values = values.iter().map(|value| Canonical::of(value).into_owned()).collect();
        node.canonical_values.sort_unstable();
    }
    Ok(())
}

/// Stands for `contains` until it is read: its bounds may come first.
const NOWHERE: usize = usize::MAX;

fn kinds(node: &Node, value: &Value<'_>) -> Compiled<Kinds> {
    let one = |value: &Value<'_>| {
        let Value::String(name) = value else {
            return Err(wrong(node, "type", "it must be a name or a list of names"));
        };
        let found = Kinds::NAMED.iter().find(|(named, _)| named == name);
        found.map(|(_, kinds)| *kinds).ok_or_else(|| {
            let names: Vec<&str> = Kinds::NAMED.iter().map(|(name, _)| *name).collect();
            wrong(node, "type", &format!("{} is no type; there are {}", shown(name), names.join(", ")))
        })
    };
    match value {
        Value::Array(names) if names.is_empty() => {
            Err(wrong(node, "type", "the list is empty; leave it out"))
        }
        Value::Array(names) => names.iter().try_fold(Kinds::NONE, |kinds, name| Ok(kinds.or(one(name)?))),
        name => one(name),
    }
}

/// Adds `enum` or `const`: with both, a value has to be in both.
fn allow(node: &mut Node, keyword: &str, value: &Value<'_>) -> Compiled<()> {
    let mut values: Vec<Value<'static>> = match (keyword, value) {
        ("const", value) => vec![value.to_canonical()],
        (_, Value::Array(values)) => values.iter().map(Value::to_canonical).collect(),
        _ => return Err(wrong(node, keyword, "it must be an array of values")),
    };
    values.sort_by(|a, b| a.cmp_canonical(b));
    values.dedup_by(|a, b| a.cmp_canonical(b).is_eq());
    if let Some(before) = &node.values {
        values.retain(|value| before.binary_search_by(|there| there.cmp_canonical(value)).is_ok());
    }
    node.values = Some(values);
    Ok(())
}

fn number(node: &Node, keyword: &str, value: &Value<'_>) -> Compiled<(Number, Box<str>)> {
    match value {
        Value::Number { text, .. } => Ok((Number::parse(text), cut(text).into())),
        _ => Err(wrong(node, keyword, "it must be a number")),
    }
}

/// A number of a schema in a message.
fn cut(text: &str) -> &str {
    &text[..text.len().min(40)]
}

fn count(node: &Node, keyword: &str, value: &Value<'_>) -> Compiled<u64> {
    let wrong = || wrong(node, keyword, "it must be an integer of at least 0");
    number(node, keyword, value).ok().and_then(|(number, _)| number.to_count()).ok_or_else(wrong)
}

fn read_number(node: &mut Node, keyword: &str, value: &Value<'_>) -> Compiled<Box<NumberRules>> {
    let mut rules = node.number.take().unwrap_or_default();
    let (number, text) = number(node, keyword, value)?;
    let is_exclusive = keyword.starts_with("exclusive");
    match keyword {
        "multipleOf" => {
            let most = Divisor::DIGITS;
            let refused = || wrong(node, keyword, &format!("it must be above 0, with at most {most} digits"));
            rules.multiple_of = Some((Divisor::new(number).ok_or_else(refused)?, text));
        }
        "minimum" | "exclusiveMinimum" => rules.minimum.push(Bound { number, is_exclusive, text }),
        _ => rules.maximum.push(Bound { number, is_exclusive, text }),
    }
    Ok(rules)
}

fn read_string<'v, 'a>(
    compiler: &mut Compiler<'v, 'a>,
    node: &mut Node,
    keyword: &str,
    value: &'v Value<'a>,
) -> Compiled<Box<StringRules>> {
    let mut rules = node.string.take().unwrap_or_default();
    match (keyword, value) {
        ("pattern", Value::String(text)) => rules.pattern = Some(compiler.pattern(node, keyword, text)?),
        ("pattern", _) => return Err(wrong(node, keyword, "it must be a string")),
        ("minLength", value) => rules.min_length = count(node, keyword, value)?,
        (_, value) => rules.max_length = Some(count(node, keyword, value)?),
    }
    Ok(rules)
}

fn read_array<'v, 'a>(
    compiler: &mut Compiler<'v, 'a>,
    node: &mut Node,
    keyword: &str,
    value: &'v Value<'a>,
) -> Compiled<Box<ArrayRules>> {
    let mut rules = node.array.take().unwrap_or_default();
    let contains = |rules: &mut ArrayRules| {
        rules.contains.take().unwrap_or(Contains { node: NOWHERE, min: 1, max: None })
    };
    match keyword {
        "prefixItems" => rules.prefix = compiler.children(node, keyword, value)?,
        "items" => rules.items = Some(compiler.child(node, &[keyword], value)?),
        "unevaluatedItems" => rules.unevaluated = Some(compiler.child(node, &[keyword], value)?),
        "contains" => {
            let id = compiler.child(node, &[keyword], value)?;
            rules.contains = Some(Contains { node: id, ..contains(&mut rules) });
        }
        "minContains" => {
            let min = count(node, keyword, value)?;
            rules.contains = Some(Contains { min, ..contains(&mut rules) });
        }
        "maxContains" => {
            let max = Some(count(node, keyword, value)?);
            rules.contains = Some(Contains { max, ..contains(&mut rules) });
        }
        "minItems" => rules.min_items = count(node, keyword, value)?,
        "maxItems" => rules.max_items = Some(count(node, keyword, value)?),
        _ => match value {
            Value::Bool(unique) => rules.unique = *unique,
            _ => return Err(wrong(node, keyword, "it must be true or false")),
        },
    }
    Ok(rules)
}

fn read_object<'v, 'a>(
    compiler: &mut Compiler<'v, 'a>,
    node: &mut Node,
    keyword: &str,
    value: &'v Value<'a>,
) -> Compiled<Box<ObjectRules>> {
    let mut rules = node.object.take().unwrap_or_default();
    match keyword {
        "properties" => {
            for (name, id) in compiler.named(node, keyword, value)? {
                rules.slot_mut(name).node = Some(id);
            }
        }
        "patternProperties" => {
            for (text, id) in compiler.named(node, keyword, value)? {
                rules.patterns.push((compiler.pattern(node, keyword, text)?, id));
            }
        }
        "additionalProperties" => rules.additional = Some(compiler.child(node, &[keyword], value)?),
        "propertyNames" => rules.names = Some(compiler.child(node, &[keyword], value)?),
        "unevaluatedProperties" => rules.unevaluated = Some(compiler.child(node, &[keyword], value)?),
        "required" => {
            for name in names(node, keyword, value)? {
                rules.slot_mut(&name).is_required = true;
            }
        }
        "dependentRequired" => {
            let Value::Object(members) = value else {
                return Err(wrong(node, keyword, "it must be an object of arrays of names"));
            };
            for (name, value) in members {
                rules.dependent_required.push((name.as_ref().into(), names(node, keyword, value)?));
            }
        }
        "dependentSchemas" => {
            for (name, id) in compiler.named(node, keyword, value)? {
                rules.dependent_schemas.push((name.as_ref().into(), id));
            }
        }
        "minProperties" => rules.min_members = count(node, keyword, value)?,
        _ => rules.max_members = Some(count(node, keyword, value)?),
    }
    Ok(rules)
}

fn names(node: &Node, keyword: &str, value: &Value<'_>) -> Compiled<Vec<Box<str>>> {
    let wrong = || wrong(node, keyword, "it must be an array of names");
    let Value::Array(items) = value else { return Err(wrong()) };
    let name = |item: &Value<'_>| match item {
        Value::String(name) => Ok(name.as_ref().into()),
        _ => Err(wrong()),
    };
    items.iter().map(name).collect()
}
