//! What a schema says, keyword by keyword, ready to be checked.

use crate::canonical::Canonical;
use crate::number::{Divisor, Number};
use crate::pattern::Pattern;
use crate::value::Value;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// The place of a schema in its [`Schema`](crate::Schema).
pub(crate) type NodeId = usize;

/// Kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(pub u8);

impl Kinds {
    pub const NONE: Self = Self(0);
    pub const NULL: Self = Self(1);
    pub const BOOLEAN: Self = Self(2);
    /// Numbers without a fraction.
    pub const INTEGER: Self = Self(4);
    /// Numbers with a fraction.
    pub const FRACTION: Self = Self(8);
    pub const STRING: Self = Self(16);
    pub const ARRAY: Self = Self(32);
    pub const OBJECT: Self = Self(64);
    pub const NUMBER: Self = Self(12);
    pub const ALL: Self = Self(127);

    /// Each name that a schema may use, with what it stands for.
    pub const NAMED: [(&'static str, Self); 7] = [
        ("null", Self::NULL),
        ("boolean", Self::BOOLEAN),
        ("number", Self::NUMBER),
        ("integer", Self::INTEGER),
        ("string", Self::STRING),
        ("array", Self::ARRAY),
        ("object", Self::OBJECT),
    ];

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, all_of: Self) -> bool {
        self.0 & all_of.0 == all_of.0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Of a value.
    pub fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number { is_integer: true, .. } => Self::INTEGER,
            Value::Number { is_integer: false, .. } => Self::FRACTION,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Names for people: `"integer" or "null"`.
    pub fn names(self) -> String {
        let is_named = |kinds: Self| self.has(kinds) && !(kinds == Self::INTEGER && self.has(Self::NUMBER));
        let names: Vec<String> = Self::NAMED
            .iter()
            .filter(|(_, kinds)| is_named(*kinds))
            .map(|(name, _)| format!("{name:?}"))
            .collect();
        match names.is_empty() {
            true => "nothing".to_owned(),
            false => names.join(" or "),
        }
    }
}

/// One schema: `true` has no rules, `false` is [`Node::never`].
#[derive(Debug)]
pub(crate) struct Node {
    /// Where it stands in the text, as a JSON pointer.
    pub at: Box<str>,
    pub never: bool,
    pub kinds: Kinds,
    /// `enum` and `const`, as canonical values in their order.
    pub values: Option<Vec<Value<'static>>>,
    /// The same values in the form that checks compare, in the order of that form.
    pub canonical_values: Vec<Canonical<'static>>,
    pub number: Option<Box<NumberRules>>,
    pub string: Option<Box<StringRules>>,
    pub array: Option<Box<ArrayRules>>,
    pub object: Option<Box<ObjectRules>>,
    pub reference: Option<NodeId>,
    pub all_of: Vec<NodeId>,
    pub any_of: Option<Vec<NodeId>>,
    pub one_of: Option<Vec<NodeId>>,
    pub not: Option<NodeId>,
    pub condition: Option<Condition>,
}

impl Node {
    pub fn new(at: &str) -> Self {
        Self {
            at: at.into(),
            never: false,
            kinds: Kinds::ALL,
            values: None,
            canonical_values: Vec::new(),
            number: None,
            string: None,
            array: None,
            object: None,
            reference: None,
            all_of: Vec::new(),
            any_of: None,
            one_of: None,
            not: None,
            condition: None,
        }
    }

    /// Whether it has rules for members or items that nothing else has looked at.
    pub fn has_unevaluated(&self) -> bool {
        self.array.as_ref().is_some_and(|rules| rules.unevaluated.is_some())
            || self.object.as_ref().is_some_and(|rules| rules.unevaluated.is_some())
    }

    /// Schemas that are applied to the same value.
    pub fn in_place(&self) -> impl Iterator<Item = NodeId> + '_ {
        let condition = self.condition.iter().flat_map(Condition::all);
        let dependent =
            self.object.iter().flat_map(|rules| rules.dependent_schemas.iter().map(|(_, node)| *node));
        let lists = [&self.any_of, &self.one_of].into_iter().flatten().flatten().copied();
        self.reference
            .into_iter()
            .chain(self.all_of.iter().copied())
            .chain(lists)
            .chain(self.not)
            .chain(condition)
            .chain(dependent)
    }
}

/// `if`, `then` and `else`.
#[derive(Debug)]
pub(crate) struct Condition {
    pub test: NodeId,
    pub then: Option<NodeId>,
    pub otherwise: Option<NodeId>,
}

impl Condition {
    fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        [Some(self.test), self.then, self.otherwise].into_iter().flatten()
    }
}

/// A bound of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub number: Number,
    pub is_exclusive: bool,
    /// As it is written.
    pub text: Box<str>,
}

#[derive(Debug, Default)]
pub(crate) struct NumberRules {
    pub minimum: Vec<Bound>,
    pub maximum: Vec<Bound>,
    pub multiple_of: Option<(Divisor, Box<str>)>,
}

#[derive(Debug, Default)]
pub(crate) struct StringRules {
    pub min_length: u64,
    pub max_length: Option<u64>,
    pub pattern: Option<Pattern>,
}

#[derive(Debug, Default)]
pub(crate) struct ArrayRules {
    pub prefix: Vec<NodeId>,
    pub items: Option<NodeId>,
    pub contains: Option<Contains>,
    pub min_items: u64,
    pub max_items: Option<u64>,
    pub unique: bool,
    pub unevaluated: Option<NodeId>,
}

impl ArrayRules {
    /// The schema of an item.
    pub fn item(&self, at: usize) -> Option<NodeId> {
        self.prefix.get(at).copied().or(self.items)
    }
}

#[derive(Debug)]
pub(crate) struct Contains {
    pub node: NodeId,
    pub min: u64,
    pub max: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct ObjectRules {
    /// Everything that is said about names one by one, in the order of the text.
    pub slots: Vec<Slot>,
    /// Their places.
    pub by_name: HashMap<Box<str>, usize, RandomState>,
    /// How many names are required.
    pub required: usize,
    /// Whether a check visits every member: see [`must_visit_members`](Self::must_visit_members).
    pub visits_members: bool,
    pub patterns: Vec<(Pattern, NodeId)>,
    pub additional: Option<NodeId>,
    pub names: Option<NodeId>,
    pub min_members: u64,
    pub max_members: Option<u64>,
    pub dependent_required: Vec<(Box<str>, Vec<Box<str>>)>,
    pub dependent_schemas: Vec<(Box<str>, NodeId)>,
    pub unevaluated: Option<NodeId>,
}

/// What is said about a name.
#[derive(Debug)]
pub(crate) struct Slot {
    pub name: Box<str>,
    /// In `properties`.
    pub node: Option<NodeId>,
    pub is_required: bool,
}

impl ObjectRules {
    /// What is said about a name. `hint`: where it may be.
    pub fn slot(&self, name: &str, hint: usize) -> Option<usize> {
        if self.slots.get(hint).is_some_and(|slot| *slot.name == *name) {
            return Some(hint);
        }
        self.by_name.get(name).copied()
    }

    pub fn slot_mut(&mut self, name: &str) -> &mut Slot {
        let at = self.by_name.get(name).copied().unwrap_or_else(|| {
            let at = self.slots.len();
            self.slots.push(Slot { name: name.into(), node: None, is_required: false });
            self.by_name.insert(name.into(), at);
            at
        });
        &mut self.slots[at]
    }

    /// The schema of a name in `properties`.
    pub fn property(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).and_then(|at| self.slots[*at].node)
    }

    pub fn requires(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|at| self.slots[*at].is_required)
    }

    /// Whether a check has to visit every member: there are rules about members, or so many names are required that one visit is
    /// cheaper than a search for each name.
    pub fn must_visit_members(&self) -> bool {
        const FEW_REQUIRED: usize = 2;
        self.required > FEW_REQUIRED
            || self.additional.is_some()
            || !self.patterns.is_empty()
            || self.slots.iter().any(|slot| slot.node.is_some())
    }

    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().filter(|slot| slot.is_required).map(|slot| &*slot.name)
    }

    /// The schemas of a member.
    pub fn of_member<'a>(&'a self, name: &'a str) -> impl Iterator<Item = NodeId> + 'a {
        let property = self.property(name);
        let mut patterns = self
            .patterns
            .iter()
            .filter(|(pattern, _)| pattern.is_match(name))
            .map(|(_, node)| *node)
            .peekable();
        let additional = self.additional.filter(|_| property.is_none() && patterns.peek().is_none());
        property.into_iter().chain(patterns).chain(additional)
    }
}
