//! A JSON value over the text that it was read from.

mod read;

use crate::number::Number;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A JSON value. Numbers stay the text that they are; names of an object are all different.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// `is_integer` is computed once, when the value is read: numbers may be long, and many schemas may be applied to one.
    Number {
        text: Cow<'a, str>,
        is_integer: bool,
    },
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        match self {
            Self::Object(members) => members.iter().find(|(there, _)| there == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The same value with the names of all objects in order, which owns its text: values that are equal as JSON compare as equal.
    pub fn to_canonical(&self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number { text, is_integer } => {
                Value::Number { text: Cow::Owned(text.to_string()), is_integer: *is_integer }
            }
            Self::String(text) => Value::String(Cow::Owned(text.to_string())),
            Self::Array(items) => Value::Array(items.iter().map(Value::to_canonical).collect()),
            Self::Object(members) => {
                let mut members: Vec<(Cow<'static, str>, Value<'static>)> = members
                    .iter()
                    .map(|(name, value)| (Cow::Owned(name.to_string()), value.to_canonical()))
                    .collect();
                members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                Value::Object(members)
            }
        }
    }

    /// The order of canonical values: by kind, then by content.
    pub fn cmp_canonical(&self, other: &Value<'_>) -> Ordering {
        match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Number { text: left, .. }, Value::Number { text: right, .. }) => match left == right {
                true => Ordering::Equal,
                false => Number::parse(left).cmp(&Number::parse(right)),
            },
            (Value::String(left), Value::String(right)) => left.as_ref().cmp(right.as_ref()),
            (Value::Array(left), Value::Array(right)) => left.len().cmp(&right.len()).then_with(|| {
                let pairs = left.iter().zip(right).map(|(left, right)| left.cmp_canonical(right));
                first_difference(pairs)
            }),
            (Value::Object(left), Value::Object(right)) => left.len().cmp(&right.len()).then_with(|| {
                let pairs = left.iter().zip(right).map(|((left_name, left), (right_name, right))| {
                    left_name.as_ref().cmp(right_name.as_ref()).then_with(|| left.cmp_canonical(right))
                });
                first_difference(pairs)
            }),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Number { .. } => 2,
            Self::String(_) => 3,
            Self::Array(_) => 4,
            Self::Object(_) => 5,
        }
    }

    /// What people call it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number { .. } => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

fn first_difference(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
