//! The rules that a token carries.
//!
//! Who signs tokens is trusted, and yet may err. What could be meant to forbid and would not do so is refused, never passed
//! over: a field, an effect or an action that is not known, a pattern or a group that is none, an empty list of groups, groups on
//! a rule that is not about subscribing. Scopes only ever permit, and may belong to other systems; so those whose first word is no action of
//! the hub are passed over. A scope with an empty pattern, such as `publish:`, is refused: it is what a template leaves that
//! was not filled in, and must not mean every topic.

use super::policy::SUBJECT;
use super::{Action, Effect, Policy, Rule};
use hub_proto::{Code, Error, GroupName, Pattern, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Most rules of one policy, as well as most scopes of a token.
pub const MAX_RULES: usize = 1000;
/// Most patterns in all rules of one policy together: each may be looked at for every event that is published.
pub const MAX_PATTERNS: usize = 1000;
/// Most groups in all rules of one policy together.
pub const MAX_GROUPS: usize = 1000;

impl Policy {
    /// The policy of a token: its `policy` if it has one, else its `scopes` and its `scope`; with none of them nothing is
    /// allowed.
    ///
    /// # Errors
    /// `jwt_invalid` if one of them cannot be understood or is too large. A rule that is misspelt would not forbid what it
    /// means to.
    pub fn from_claims(claims: &Map<String, Value>) -> Result<Self> {
        let present = |name: &str| claims.get(name).filter(|value| !value.is_null());
        if let Some(policy) = present("policy") {
            return Self::from_rules(policy).map_err(|error| invalid("policy", &error));
        }
        let mut scopes = Vec::new();
        if let Some(listed) = present("scopes") {
            let not_strings = |_| invalid("scopes", &Error::bad_request("they are not a list of strings"));
            scopes = Vec::<String>::deserialize(listed).map_err(not_strings)?;
        }
        if let Some(line) = present("scope") {
            let line =
                line.as_str().ok_or_else(|| invalid("scope", &Error::bad_request("it is not a string")))?;
            scopes.extend(line.split_ascii_whitespace().map(str::to_owned));
        }
        Self::from_scopes(&scopes).map_err(|error| invalid("scopes", &error))
    }

    /// The policy that is written as `{"rules":[{"effect","action","topics","groups"?}]}`.
    ///
    /// # Errors
    /// `bad_request`, with the place of the rule, counted from 1.
    pub fn from_rules(policy: &Value) -> Result<Self> {
        let Written { rules: listed } = read(policy)?;
        let mut rules = Vec::with_capacity(listed.len().min(MAX_RULES));
        for (at, written) in listed.into_iter().enumerate().take(MAX_RULES + 1) {
            let rule = read::<WrittenRule>(&written).and_then(Rule::read);
            rules.push(rule.map_err(|error| Error::bad_request(format!("rule {}: {}", at + 1, error.msg)))?);
        }
        check_size(&rules)?;
        Ok(Self::new(rules))
    }

    /// The policy of scopes such as `publish:heartbeat.*`; one without a pattern means `**`. Scopes of other systems, whose
    /// first word is no action of the hub, are passed over.
    ///
    /// # Errors
    /// `bad_request` if a pattern is none, an empty one included, or there are too many.
    pub fn from_scopes<S: AsRef<str>>(scopes: &[S]) -> Result<Self> {
        if scopes.len() > MAX_RULES {
            return Err(too_many(scopes.len(), "scopes", MAX_RULES));
        }
        let mut rules = Vec::new();
        for scope in scopes {
            rules.extend(scope_rule(scope.as_ref())?);
        }
        Ok(Self::new(rules))
    }
}

/// The rule of one scope, or none if its first word is no action.
///
/// # Errors
/// `bad_request` if its pattern is none.
pub(super) fn scope_rule(scope: &str) -> Result<Option<Rule>> {
    let (word, pattern) = scope.split_once(':').unwrap_or((scope, "**"));
    let Ok(actions) = actions(word) else { return Ok(None) };
    if pattern.is_empty() {
        let msg =
            format!("scope {scope:?} has an empty pattern; write {word:?} or \"{word}:**\" for every topic");
        return Err(Error::bad_request(msg));
    }
    let topics = vec![Pattern::parse(pattern)?];
    Ok(Some(Rule { effect: Effect::Allow, actions: actions.to_vec(), topics, groups: None }))
}

/// The actions that a word stands for.
pub(super) fn actions(word: &str) -> Result<&'static [Action]> {
    match word {
        "publish" => Ok(&[Action::Publish]),
        "subscribe" => Ok(&[Action::Subscribe]),
        "admin" => Ok(&[Action::Admin]),
        "*" => Ok(&[Action::Publish, Action::Subscribe]),
        _ => Err(Error::bad_request(format!(
            "action {:?} is none of publish, subscribe, admin, *",
            cut(word, 48)
        ))),
    }
}

/// Refuses what a rule may not have as a group: a name that no group can have, such as `ops-*`, would never match.
pub(super) fn check_group(name: &str) -> Result<()> {
    if name == "*" {
        return Ok(());
    }
    let hint = if name.contains('*') { "; \"*\" alone stands for any group" } else { "" };
    // Any subject will do for the question whether it can be part of a name.
    GroupName::parse(&name.replace(SUBJECT, "s"))
        .map(drop)
        .map_err(|error| Error::bad_request(format!("{}{hint}", error.msg)))
}

/// Refuses rules that would never match, and those of which nobody can say what they mean.
pub(super) fn check_rule(rule: &Rule) -> Result<()> {
    if rule.actions.is_empty() {
        return Err(Error::bad_request("no action is named; publish, subscribe, admin or * is expected"));
    }
    if rule.groups.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::bad_request(
            "groups is empty; leave it out to mean every reader, or name some, or \"*\" for any group",
        ));
    }
    if rule.groups.is_some() && !rule.actions.contains(&Action::Subscribe) {
        return Err(Error::bad_request(
            "groups go with subscribe only: a rule about other actions that has them would never match",
        ));
    }
    Ok(())
}

/// Refuses more rules, patterns or groups than a policy may have.
pub(super) fn check_size<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Result<()> {
    let [mut count, mut patterns, mut groups] = [0; 3];
    for rule in rules {
        count += 1;
        patterns += rule.topics.len();
        groups += rule.groups.as_ref().map_or(0, Vec::len);
    }
    for (count, what, max) in
        [(count, "rules", MAX_RULES), (patterns, "patterns", MAX_PATTERNS), (groups, "groups", MAX_GROUPS)]
    {
        if count > max {
            return Err(too_many(count, what, max));
        }
    }
    Ok(())
}

fn too_many(count: usize, what: &str, max: usize) -> Error {
    // Counting stops soon behind the limit, so the figure is a lower bound.
    Error::bad_request(format!("{count} {what} or more; a policy may have at most {max}"))
}

/// The first `max` bytes or so of a text that came from outside.
pub(super) fn cut(text: &str, max: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= max {
        text.into()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(max)]).into()
    }
}

fn invalid(what: &str, error: &Error) -> Error {
    Error::new(Code::JwtInvalid, format!("the token's {what}: {}", error.msg))
}

fn read<'a, T: Deserialize<'a>>(value: &'a Value) -> Result<T> {
    // serde quotes what it does not like in full.
    T::deserialize(value).map_err(|error| Error::bad_request(cut(&error.to_string(), 200).into_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rules: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    effect: Effect,
    action: Words,
    topics: Vec<Pattern>,
    #[serde(default)]
    groups: Option<Vec<String>>,
}

/// One word or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "action: a string or a list of strings is expected")]
enum Words {
    One(String),
    Several(Vec<String>),
}

impl Rule {
    fn read(written: WrittenRule) -> Result<Self> {
        let WrittenRule { effect, action, topics, groups } = written;
        let words = match action {
            Words::One(word) => vec![word],
            Words::Several(words) => words,
        };
        let actions = all_actions(words.iter().map(String::as_str))?;
        groups.iter().flatten().try_for_each(|name| check_group(name))?;
        let rule = Self { effect, actions, topics, groups };
        check_rule(&rule)?;
        Ok(rule)
    }
}

/// What several words stand for, each action once and in one order.
pub(super) fn all_actions<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Vec<Action>> {
    let mut named = Vec::new();
    for word in words {
        for action in actions(word)? {
            if !named.contains(action) {
                named.push(*action);
            }
        }
    }
    named.sort_by_key(|action| *action as u8);
    Ok(named)
}

#[cfg(test)]
mod tests;
