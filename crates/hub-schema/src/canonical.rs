//! Values in a form that compares fast: numbers are parsed once, and the members of objects are in the order of their names.

use crate::number::Number;
use crate::value::Value;
use std::borrow::Cow;

/// A value whose order is the same for every spelling of it. Strings are borrowed from the payload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Canonical<'v> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'v, str>),
    Array(Vec<Self>),
    Object(Vec<(Cow<'v, str>, Self)>),
}

impl<'v> Canonical<'v> {
    pub fn of(value: &'v Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number { text, .. } => Self::Number(Number::parse(text)),
            Value::String(text) => Self::String(Cow::Borrowed(text)),
            Value::Array(items) => Self::Array(items.iter().map(Self::of).collect()),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (Cow::Borrowed(&**name), Self::of(value)));
                let mut members: Vec<_> = members.collect();
                members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                Self::Object(members)
            }
        }
    }

    /// The same value without a borrow.
    pub fn into_owned(self) -> Canonical<'static> {
        match self {
            Self::Null => Canonical::Null,
            Self::Bool(value) => Canonical::Bool(value),
            Self::Number(number) => Canonical::Number(number),
            Self::String(text) => Canonical::String(Cow::Owned(text.into_owned())),
            Self::Array(items) => Canonical::Array(items.into_iter().map(Self::into_owned).collect()),
            Self::Object(members) => Canonical::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (Cow::Owned(name.into_owned()), value.into_owned()))
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_are_equal() {
        let read = |text| Value::read(text).expect("JSON").0;
        let left = read(r#"{"a": [1.0, "\u0041"], "b": 10e-1}"#);
        let right = read(r#"{"b": 1, "a": [1, "A"]}"#);
        assert_eq!(Canonical::of(&left), Canonical::of(&right));
        assert_ne!(Canonical::of(&left), Canonical::of(&read(r#"{"b": 1, "a": [1, "B"]}"#)));
    }
}
