//! Rules, and how they decide.

use hub_proto::{Error, Pattern, Result};
use serde::Deserialize;
use std::sync::Arc;

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Bring an event into a topic.
    Publish,
    /// Read a topic, with a group or without.
    Subscribe,
    /// Seek and delete groups, replay dead letters.
    Admin,
}

impl Action {
    /// The word in scopes, rules and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Admin => "admin",
        }
    }
}

/// Whether a rule permits or forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It permits.
    Allow,
    /// It forbids.
    Deny,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it permits.
    pub effect: Effect,
    /// What it is about. `*` in writing is publish and subscribe, never admin.
    pub actions: Vec<Action>,
    /// Which topics.
    pub topics: Vec<Pattern>,
    /// With these, it is about subscribing with one of them, and never about a read without a group.
    pub groups: Option<Vec<String>>,
}

/// What an action is about.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// One topic, by name.
    Topic(&'a str),
    /// All that a pattern matches.
    Pattern(&'a Pattern),
}

/// The rule that decides, by its place in the list, and how; without one the answer is no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The rule that says so.
    pub rule: Option<usize>,
}

/// An ordered list of rules. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Arc<[Rule]>,
}

impl Policy {
    /// A policy of these rules.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules: rules.into() }
    }

    /// Everything is allowed.
    pub fn open() -> Self {
        let every = Pattern::parse("**").expect("a pattern");
        let actions = vec![Action::Publish, Action::Subscribe, Action::Admin];
        Self::new(vec![Rule { effect: Effect::Allow, actions, topics: vec![every], groups: None }])
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// These rules, and behind them those of `other`.
    #[must_use]
    pub fn before(&self, other: &Self) -> Self {
        match (self.rules.is_empty(), other.rules.is_empty()) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => Self { rules: self.rules.iter().chain(other.rules.iter()).cloned().collect() },
        }
    }

    /// Who decides about `action` on `target`, for a subscribe with the group it is for.
    pub fn decide(&self, action: Action, target: Target<'_>, group: Option<&str>) -> Decision {
        for (at, rule) in self.rules.iter().enumerate() {
            if rule.decides(action, target, group) {
                return Decision { allowed: rule.effect == Effect::Allow, rule: Some(at) };
            }
        }
        Decision { allowed: false, rule: None }
    }

    /// Whether `action` on `target` is allowed.
    pub fn allows(&self, action: Action, target: Target<'_>, group: Option<&str>) -> bool {
        self.decide(action, target, group).allowed
    }
}

impl Rule {
    fn decides(&self, action: Action, target: Target<'_>, group: Option<&str>) -> bool {
        self.actions.contains(&action)
            && self.is_for_group(action, group)
            && self.topics.iter().any(|topics| match (target, self.effect) {
                (Target::Topic(topic), _) => topics.matches(topic),
                // A part of the pattern is enough to forbid it, and only all of it is enough to permit it.
                (Target::Pattern(pattern), Effect::Deny) => topics.intersects(pattern),
                (Target::Pattern(pattern), Effect::Allow) => topics.contains(pattern),
            })
    }

    fn is_for_group(&self, action: Action, group: Option<&str>) -> bool {
        match (&self.groups, group) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(groups), Some(group)) => {
                action == Action::Subscribe && groups.iter().any(|name| name == "*" || name == group)
            }
        }
    }
}

/// A rule as it is written in a token.
#[derive(Deserialize)]
struct Written {
    effect: Effect,
    action: Words,
    topics: Vec<Pattern>,
    #[serde(default)]
    groups: Option<Vec<String>>,
}

/// One word or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

impl Policy {
    /// The policy of a token: its `policy` if it has one, else its `scopes` and its `scope`; with none of them nothing is
    /// allowed.
    ///
    /// # Errors
    /// `jwt_invalid` if one of them cannot be understood. A rule that is misspelt would not forbid what it means to.
    pub fn from_claims(claims: &serde_json::Map<String, serde_json::Value>) -> Result<Self> {
        let present = |name: &str| claims.get(name).filter(|value| !value.is_null());
        let invalid = |what: &str| Error::new(hub_proto::Code::JwtInvalid, format!("the token's {what}"));
        if let Some(policy) = present("policy") {
            #[derive(Deserialize)]
            struct Rules {
                rules: Vec<Written>,
            }
            let rules =
                Rules::deserialize(policy).map_err(|error| invalid(&format!("policy: {error}")))?.rules;
            let rules = rules.into_iter().map(Rule::read).collect::<Result<_>>();
            return rules.map(Self::new).map_err(|error| invalid(&format!("policy: {}", error.msg)));
        }
        let mut scopes = Vec::new();
        if let Some(listed) = present("scopes") {
            scopes = Vec::<String>::deserialize(listed)
                .map_err(|_| invalid("scopes are not a list of strings"))?;
        }
        if let Some(line) = present("scope") {
            let line = line.as_str().ok_or_else(|| invalid("scope is not a string"))?;
            scopes.extend(line.split_ascii_whitespace().map(str::to_owned));
        }
        Self::from_scopes(&scopes).map_err(|error| invalid(&format!("scopes: {}", error.msg)))
    }

    /// The policy of scopes such as `publish:heartbeat.*`; one without a pattern means `**`. Scopes of other systems, whose
    /// first word is no action of the hub, are passed over.
    ///
    /// # Errors
    /// `bad_request` if a pattern is none.
    pub fn from_scopes<S: AsRef<str>>(scopes: &[S]) -> Result<Self> {
        let mut rules = Vec::new();
        for scope in scopes {
            let (action, pattern) = scope.as_ref().split_once(':').unwrap_or((scope.as_ref(), "**"));
            let Ok(actions) = actions(action) else { continue };
            let topics = vec![Pattern::parse(pattern)?];
            rules.push(Rule { effect: Effect::Allow, actions, topics, groups: None });
        }
        Ok(Self::new(rules))
    }
}

impl Rule {
    fn read(written: Written) -> Result<Self> {
        let Written { effect, action, topics, groups } = written;
        let words = match action {
            Words::One(word) => vec![word],
            Words::Several(words) => words,
        };
        let actions = words.iter().map(|word| actions(word)).collect::<Result<Vec<_>>>()?.concat();
        Ok(Self { effect, actions, topics, groups })
    }
}

/// The actions that a word stands for.
pub(super) fn actions(word: &str) -> Result<Vec<Action>> {
    match word {
        "publish" => Ok(vec![Action::Publish]),
        "subscribe" => Ok(vec![Action::Subscribe]),
        "admin" => Ok(vec![Action::Admin]),
        "*" => Ok(vec![Action::Publish, Action::Subscribe]),
        _ => Err(Error::bad_request(format!("action {word:?} is none of publish, subscribe, admin, *"))),
    }
}
