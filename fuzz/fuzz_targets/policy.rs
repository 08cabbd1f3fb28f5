//! Rules against a model that shares no code with them: it matches segment by segment with backtracking, and knows a topic by the
//! list of its segments.
//!
//! Checked for any rules, topic, pattern and group: the rule that decides, the rights on derived topics, and that a subscription to a
//! pattern is allowed only if every topic that it covers may be read.
#![no_main]

use hub_proto::{Pattern, TopicName};
use hub_server::acl::{Action, Decision, Effect, Policy, Rule, Target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The segments of topics. The last one is in no pattern.
const SEGMENTS: [&str; 5] = ["a", "b", "dlq", "snapshot", "z"];
/// The segments of patterns.
const STEPS: [&str; 6] = ["a", "b", "dlq", "snapshot", "*", "**"];
const GROUPS: [&str; 4] = ["*", "g", "h", "unnamed"];
const ACTIONS: [Action; 3] = [Action::Publish, Action::Subscribe, Action::Admin];
const MAX_STEPS: usize = 4;

/// A topic, or a pattern, by its segments.
type Segments = Vec<&'static str>;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let group = GROUPS.get(input.below(GROUPS.len() + 1)).copied();
    let pattern = input.pattern();
    let rules: Vec<ModelRule> = (0..input.below(6)).map(|_| input.rule()).collect();
    let policy = Policy::new(rules.iter().map(ModelRule::build).collect());
    let model = Model { rules, group };
    let context = || {
        let rules: String = policy.rules().iter().map(|rule| format!("{rule} ")).collect();
        format!("{rules}for {group:?}, pattern {}", pattern.join("."))
    };
    for action in ACTIONS {
        for topic in TOPICS.iter() {
            let target = Target::Topic(&topic.text);
            let expected = model.decide_topic(action, &topic.segments);
            assert_eq!(
                policy.decide(action, target, group),
                expected,
                "{action:?} {} {}",
                topic.text,
                context()
            );
            let expected = model.allows_topic(action, &topic.segments);
            assert_eq!(
                policy.allows(action, target, group),
                expected,
                "{action:?} {} {}",
                topic.text,
                context()
            );
        }
        let built = parse(&pattern);
        let target = Target::Pattern(&built);
        let expected = model.decide_pattern(action, &pattern);
        assert_eq!(policy.decide(action, target, group), expected, "{action:?} {}", context());
        let is_allowed = policy.allows(action, target, group);
        assert_eq!(is_allowed, model.allows_pattern(action, &pattern), "{action:?} {}", context());
        for topic in TOPICS.iter() {
            let is_covered = covers(&pattern, &topic.segments);
            assert_eq!(
                built.matches_for_subscription(&topic.name),
                is_covered,
                "{} {}",
                topic.text,
                context()
            );
            if is_allowed && is_covered {
                assert!(
                    model.allows_topic(action, &topic.segments),
                    "{action:?} {} {}",
                    topic.text,
                    context()
                );
            }
            if model.denies_first(action, &pattern, &topic.segments) {
                assert!(!is_allowed, "{action:?}: a rule denies {} {}", topic.text, context());
            }
        }
    }
});

// ---- the model ----

struct ModelRule {
    allows: bool,
    actions: Vec<Action>,
    topics: Vec<Segments>,
    groups: Option<Vec<&'static str>>,
}

impl ModelRule {
    fn build(&self) -> Rule {
        Rule {
            effect: if self.allows { Effect::Allow } else { Effect::Deny },
            actions: self.actions.clone(),
            topics: self.topics.iter().map(parse).collect(),
            groups: self.groups.as_ref().map(|names| names.iter().map(|&name| name.to_owned()).collect()),
        }
    }
}

struct Model {
    rules: Vec<ModelRule>,
    group: Option<&'static str>,
}

impl Model {
    /// The rules about an action and the group of the question, with their places.
    fn rules_about(&self, action: Action) -> impl Iterator<Item = (usize, &ModelRule)> {
        self.rules.iter().enumerate().filter(move |(_, rule)| {
            let is_for_group = match (&rule.groups, self.group) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(names), Some(group)) => {
                    action == Action::Subscribe && (names.contains(&"*") || names.contains(&group))
                }
            };
            is_for_group && rule.actions.contains(&action)
        })
    }

    fn decide(&self, action: Action, decides: impl Fn(&ModelRule) -> bool) -> Decision {
        let found = self.rules_about(action).find(|(_, rule)| decides(rule));
        Decision { allowed: found.is_some_and(|(_, rule)| rule.allows), rule: found.map(|(at, _)| at) }
    }

    fn decide_topic(&self, action: Action, topic: &[&str]) -> Decision {
        self.decide(action, |rule| rule.topics.iter().any(|pattern| matches(pattern, topic)))
    }

    fn decide_pattern(&self, action: Action, pattern: &[&'static str]) -> Decision {
        self.decide(action, |rule| match rule.allows {
            true => rule.topics.iter().any(|of_rule| contains(of_rule, pattern)),
            false => rule.topics.iter().any(|of_rule| intersects(of_rule, pattern)),
        })
    }

    fn allows_topic(&self, action: Action, topic: &[&str]) -> bool {
        self.decide_topic(action, topic).allowed
            && sources(topic).into_iter().all(|source| {
                let decision = self.decide_topic(action, source);
                decision.allowed || (action != Action::Subscribe && decision.rule.is_none())
            })
    }

    fn allows_pattern(&self, action: Action, pattern: &[&'static str]) -> bool {
        self.decide_pattern(action, pattern).allowed
            && sources(pattern).into_iter().all(|source| {
                let decision = self.decide_pattern(action, source);
                decision.allowed || (action != Action::Subscribe && decision.rule.is_none())
            })
    }

    /// Whether a topic of the pattern is denied by a rule before the first allow that contains the pattern.
    fn denies_first(&self, action: Action, pattern: &[&'static str], topic: &[&str]) -> bool {
        let before = self.rules_about(action).take_while(|(_, rule)| {
            !rule.allows || !rule.topics.iter().any(|of_rule| contains(of_rule, pattern))
        });
        matches(pattern, topic)
            && before
                .filter(|(_, rule)| !rule.allows)
                .any(|(_, rule)| rule.topics.iter().any(|of_rule| matches(of_rule, topic)))
    }
}

fn matches(pattern: &[&str], topic: &[&str]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return topic.is_empty() };
    match *first {
        "**" => (0..=topic.len()).any(|skipped| matches(rest, &topic[skipped..])),
        "*" => !topic.is_empty() && matches(rest, &topic[1..]),
        literal => topic.first() == Some(&literal) && matches(rest, &topic[1..]),
    }
}

/// Whether some topic is matched by both.
fn intersects(p: &[&str], q: &[&str]) -> bool {
    match (p.split_first(), q.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) if intersects(rest, q) => true,
        (_, Some((&"**", rest))) if intersects(p, rest) => true,
        // One of them takes a segment that the other one leaves to its `**`.
        (Some((&"**", _)), Some((_, rest))) => intersects(p, rest),
        (Some((_, rest)), Some((&"**", _))) => intersects(rest, q),
        (Some((one, p)), Some((other, q))) => {
            (one == other || *one == "*" || *other == "*") && intersects(p, q)
        }
        _ => false,
    }
}

/// Whether every topic that `q` matches is matched by `p`. A wildcard of `q` that stands for a segment that `p` does not name is the
/// hardest to match, and a `**` of more segments than `p` has says no more.
fn contains(p: &[&str], q: &[&str]) -> bool {
    fn all(p: &[&str], q: &[&str], topic: &mut Vec<&'static str>) -> bool {
        let Some((first, rest)) = q.split_first() else { return topic.is_empty() || matches(p, topic) };
        let length = topic.len();
        let holds = match *first {
            "**" => (0..=p.len() + 1).all(|_| {
                let holds = all(p, rest, &mut topic.clone());
                topic.push("z");
                holds
            }),
            "*" => {
                topic.push("z");
                all(p, rest, topic)
            }
            literal => {
                topic.push(SEGMENTS.iter().find(|segment| **segment == literal).expect("a segment"));
                all(p, rest, topic)
            }
        };
        topic.truncate(length);
        holds
    }
    all(p, q, &mut Vec::new())
}

/// What a topic, or a pattern as it is written, is derived from, step by step.
fn sources<'a, 'b>(mut name: &'a [&'b str]) -> Vec<&'a [&'b str]> {
    let mut found = Vec::new();
    while name.len() > 1 {
        name = match (name[0], name[name.len() - 1]) {
            ("dlq", _) => &name[1..],
            (_, "snapshot") => &name[..name.len() - 1],
            _ => break,
        };
        found.push(name);
    }
    found
}

/// Whether a subscription to a pattern gets a topic: derived topics have to be named.
fn covers(pattern: &[&str], topic: &[&str]) -> bool {
    let (is_letters, is_derived) = (topic.len() > 1 && topic[0] == "dlq", !sources(topic).is_empty());
    let has_snapshot = topic.len() > if is_letters { 2 } else { 1 } && topic.last() == Some(&"snapshot");
    matches(pattern, topic)
        && (!is_derived
            || ((!is_letters || pattern.first() == Some(&"dlq"))
                && (!has_snapshot || pattern.last() == Some(&"snapshot"))))
}

// ---- topics, and what the input says ----

struct Topic {
    segments: Segments,
    text: String,
    name: TopicName,
}

/// Every topic of up to three segments, and what the hub derives from it.
static TOPICS: LazyLock<Vec<Topic>> = LazyLock::new(|| {
    let mut all: Vec<Segments> = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..3 {
        last =
            last.iter().flat_map(|name| SEGMENTS.map(|segment| [&name[..], &[segment]].concat())).collect();
        all.extend(last.iter().cloned());
    }
    all.retain(|name| !name.is_empty() && sources(name).is_empty());
    let derived: Vec<Segments> = all
        .iter()
        // What is derived from a topic `dlq` has a name that says something else: `dlq.snapshot` is `dlq.T` of the topic `snapshot`.
        .filter(|name| **name != ["dlq"])
        .flat_map(|name| {
            let snapshot = [&name[..], &["snapshot"]].concat();
            [[&["dlq"], &name[..]].concat(), [&["dlq"], &snapshot[..]].concat(), snapshot]
        })
        .collect();
    all.extend(derived);
    let topic = |segments: Segments| {
        let text = segments.join(".");
        Topic { name: TopicName::readable(&text).expect("a name that can be read"), segments, text }
    };
    all.into_iter().map(topic).collect()
});

fn parse(pattern: &Segments) -> Pattern {
    Pattern::parse(&pattern.join(".")).expect("a pattern")
}

/// Choices, one byte each; zeros behind the end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % limit
    }

    fn pattern(&mut self) -> Segments {
        (0..=self.below(MAX_STEPS)).map(|_| STEPS[self.below(STEPS.len())]).collect()
    }

    fn rule(&mut self) -> ModelRule {
        let (allows, actions) = (self.below(2) == 1, self.below(8));
        let actions = ACTIONS.into_iter().enumerate().filter(|(at, _)| actions & (1 << at) != 0);
        let groups = self.below(16);
        ModelRule {
            allows,
            actions: actions.map(|(_, action)| action).collect(),
            topics: (0..self.below(3)).map(|_| self.pattern()).collect(),
            groups: (groups & 8 != 0)
                .then(|| (0..3).filter(|at| groups & (1 << at) != 0).map(|at| GROUPS[at]).collect()),
        }
    }
}
