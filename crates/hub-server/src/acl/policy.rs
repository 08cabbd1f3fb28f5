//! Rules, and how they decide.
//!
//! An action on one topic is decided by the first rule that is about the action and matches the topic. A subscription to a
//! pattern is decided as a whole: a deny decides if a part of the pattern is its matter, an allow only if all of it is.
//! Several allows are not put together: `a.**` is not allowed by `a` and `a.*.**` in two rules.
//!
//! A derived topic (`dlq.T`, `T.snapshot`) shows what its source has: reading it needs the right on it and on its source, for the
//! same group, and so does a pattern that names derived topics. Whatever the action, a deny on `T` covers what is derived from `T`.
//!
//! A rule with groups is about subscribing with one of them, whether it permits or forbids, for a topic as for a pattern. So a
//! deny with groups leaves the other groups, and reading without one, to the rules behind it. To forbid every reader,
//! leave the groups out.

use hub_proto::{Derived, Pattern};
use serde::Deserialize;
use std::fmt;
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
    /// Which topics; with none it matches nothing.
    pub topics: Vec<Pattern>,
    /// With these, it is about subscribing with one of them (`*`: any), and never about a read without a group. [`SUBJECT`] in one
    /// stands for the token's subject.
    pub groups: Option<Vec<String>>,
}

/// Stands for the token's subject in the groups of a rule.
pub const SUBJECT: &str = "{sub}";

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

    /// The rules as they count for a subject: [`SUBJECT`] in the name of a group stands for it. Without a subject such a name
    /// matches no group.
    #[must_use]
    pub fn for_subject(self, subject: Option<&str>) -> Self {
        let names_subject = |rule: &Rule| rule.groups.iter().flatten().any(|group| group.contains(SUBJECT));
        if !self.rules.iter().any(names_subject) {
            return self;
        }
        let rules = self.rules.iter().cloned().map(|mut rule| {
            for group in rule.groups.iter_mut().flatten().filter(|group| group.contains(SUBJECT)) {
                // No group is called by what it becomes without a subject, nor with one that is no part of a name.
                *group = subject.map_or_else(String::new, |subject| group.replace(SUBJECT, subject));
                if group == "*" {
                    group.clear();
                }
            }
            rule
        });
        Self { rules: rules.collect() }
    }

    /// Which rule decides about `action` on `target` alone, for a subscribe with the group it is for. What the target is
    /// derived from is asked about by [`allows`](Self::allows).
    pub fn decide(&self, action: Action, target: Target<'_>, group: Option<&str>) -> Decision {
        for (at, rule) in self.rules.iter().enumerate() {
            if let Verdict::Decides(_) = rule.verdict(action, target, group) {
                return Decision { allowed: rule.effect == Effect::Allow, rule: Some(at) };
            }
        }
        Decision { allowed: false, rule: None }
    }

    /// Whether `action` is allowed on `target`, and what it is derived from does not forbid it.
    pub fn allows(&self, action: Action, target: Target<'_>, group: Option<&str>) -> bool {
        let permits = |source: Target<'_>| self.permits_source(action, source, group);
        self.decide(action, target, group).allowed
            && match target {
                Target::Topic(name) => Derived::sources(name).all(|source| permits(Target::Topic(source))),
                Target::Pattern(pattern) => pattern.sources().all(|source| permits(Target::Pattern(&source))),
            }
    }

    /// Whether an admin right on `target` is a right to read it. A derived topic shows what its source has, so the source has to be
    /// one that may be read or administrated, too.
    pub fn administrator_reads(&self, target: Target<'_>) -> bool {
        let may_read = |source: Target<'_>| {
            [Action::Admin, Action::Subscribe]
                .into_iter()
                .any(|action| self.decide(action, source, None).allowed)
        };
        self.allows(Action::Admin, target, None)
            && match target {
                Target::Topic(name) => Derived::sources(name).all(|source| may_read(Target::Topic(source))),
                Target::Pattern(pattern) => {
                    pattern.sources().all(|source| may_read(Target::Pattern(&source)))
                }
            }
    }

    /// Whether `action` on something that is derived from `source` is permitted by what is allowed on `source`: reading needs the
    /// right to read it, for other actions it is enough that no rule forbids them there.
    pub fn permits_source(&self, action: Action, source: Target<'_>, group: Option<&str>) -> bool {
        let decision = self.decide(action, source, group);
        decision.allowed || (action != Action::Subscribe && decision.rule.is_none())
    }
}

/// What one rule says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It decides, by the pattern at this place among its topics.
    Decides(usize),
    /// It is about other actions.
    OtherAction,
    /// It has groups, and none was named, or the action knows none.
    NeedsGroup,
    /// It is about other groups.
    OtherGroup,
    /// It is about other topics.
    OtherTopics,
}

impl Rule {
    /// What this rule says, asked alone.
    pub fn verdict(&self, action: Action, target: Target<'_>, group: Option<&str>) -> Verdict {
        if !self.actions.contains(&action) {
            return Verdict::OtherAction;
        }
        if let Some(groups) = &self.groups {
            let Some(group) = group.filter(|_| action == Action::Subscribe) else {
                return Verdict::NeedsGroup;
            };
            if !groups.iter().any(|name| name == "*" || name == group) {
                return Verdict::OtherGroup;
            }
        }
        let at = self.topics.iter().position(|topics| match (target, self.effect) {
            (Target::Topic(topic), _) => topics.matches(topic),
            // A part of the pattern is enough to forbid it, and only all of it is enough to permit it.
            (Target::Pattern(pattern), Effect::Deny) => topics.intersects(pattern),
            (Target::Pattern(pattern), Effect::Allow) => topics.contains(pattern),
        });
        at.map_or(Verdict::OtherTopics, Verdict::Decides)
    }
}

/// As it is written in a [`.sib`](super::sib) file, which reads it back.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.effect {
            Effect::Allow => "(allow ",
            Effect::Deny => "(deny ",
        })?;
        match self.actions.as_slice() {
            [one] => f.write_str(one.as_str())?,
            [Action::Publish, Action::Subscribe] => f.write_str("*")?,
            several => {
                let words: Vec<_> = several.iter().map(|action| action.as_str()).collect();
                write!(f, "[{}]", words.join(" "))?;
            }
        }
        for pattern in &self.topics {
            write!(f, " \"{pattern}\"")?;
        }
        if let Some(groups) = &self.groups {
            let names: Vec<_> = groups.iter().map(|name| format!("{name:?}")).collect();
            write!(f, " :groups [{}]", names.join(" "))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests;
