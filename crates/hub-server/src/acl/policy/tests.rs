//! Questions in tables, and what has to hold for any rules.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::acl::sib::Sib;
use hub_proto::TopicName;
use proptest::prelude::*;
use proptest::sample::select;

fn policy(rules: &str) -> Policy {
    Sib::parse(rules).unwrap_or_else(|error| panic!("{error}: {rules}")).policy
}

/// `publish a.b`, `subscribe a.* @group`.
fn ask(policy: &Policy, question: &str) -> Decision {
    let mut words = question.split(' ');
    let action = match words.next().unwrap() {
        "publish" => Action::Publish,
        "subscribe" => Action::Subscribe,
        "admin" => Action::Admin,
        other => panic!("{other}"),
    };
    let topic = Pattern::parse(words.next().unwrap()).unwrap();
    let target = if topic.is_literal() { Target::Topic(topic.as_str()) } else { Target::Pattern(&topic) };
    policy.decide(action, target, words.next().map(|group| group.strip_prefix('@').unwrap()))
}

/// Each question with the rule that decides, from 1; `yes` and `no` are what that rule says, 0 is no rule.
#[track_caller]
fn table(rules: &str, questions: &[(&str, &str, usize)]) {
    let policy = policy(rules);
    for (question, answer, rule) in questions {
        let expected = Decision { allowed: *answer == "yes", rule: rule.checked_sub(1) };
        assert_eq!(ask(&policy, question), expected, "{question} of {rules}");
    }
}

#[test]
fn the_first_rule_that_matches_decides_and_none_means_no() {
    table(
        r#"(deny publish "a.secret") (allow publish "a.*") (deny publish "a.b") (allow publish "a.**")"#,
        &[
            ("publish a.secret", "no", 1),
            ("publish a.b", "yes", 2),
            ("publish a.b.c", "yes", 4),
            ("publish a", "yes", 4),
            ("publish b", "no", 0),
            ("subscribe a.b", "no", 0),
        ],
    );
    table("", &[("publish a", "no", 0), ("subscribe a", "no", 0), ("admin a", "no", 0)]);
}

/// What is allowed, the sources of derived topics included.
#[track_caller]
fn allowed(rules: &str, questions: &[(&str, bool)]) {
    let policy = policy(rules);
    for (question, expected) in questions {
        let (_, rest) = question.split_once(' ').unwrap();
        let (topic, group) =
            rest.split_once(" @").map_or((rest, None), |(topic, group)| (topic, Some(group)));
        let action = if question.starts_with("admin") { Action::Admin } else { Action::Subscribe };
        let pattern = Pattern::parse(topic).unwrap();
        let target = if pattern.is_literal() { Target::Topic(topic) } else { Target::Pattern(&pattern) };
        assert_eq!(policy.allows(action, target, group), *expected, "{question} of {rules}");
    }
}

#[test]
fn a_deny_on_a_topic_covers_what_is_derived_from_it() {
    allowed(
        r#"(deny subscribe "secret.**") (deny admin "secret.**") (allow subscribe "**") (allow admin "**")"#,
        &[
            ("subscribe secret.x", false),
            ("subscribe dlq.secret.x", false),
            ("subscribe dlq.secret.x @ops", false),
            ("subscribe secret.x.snapshot", false),
            ("subscribe dlq.secret.x.snapshot", false),
            ("admin dlq.secret.x", false),
            ("subscribe dlq.**", false),
            ("subscribe **.snapshot", false),
            ("subscribe dlq.orders.**", true),
            ("subscribe dlq.orders", true),
            ("subscribe dlq", true),
            ("subscribe orders.snapshot", true),
            ("admin dlq.orders", true),
        ],
    );
}

#[test]
fn a_derived_topic_needs_the_right_on_itself_and_on_its_source() {
    allowed(
        r#"(allow subscribe "orders.*")"#,
        &[("subscribe dlq.orders.new", false), ("subscribe orders.snapshot", false)],
    );
    allowed(
        r#"(allow subscribe "dlq.orders.*")"#,
        &[("subscribe dlq.orders.new", false), ("subscribe dlq.orders.*", false)],
    );
    allowed(
        r#"(allow subscribe "dlq.orders.*" "orders.*")"#,
        &[("subscribe dlq.orders.new", true), ("subscribe dlq.orders.*", true), ("subscribe dlq.**", false)],
    );
    allowed(
        r#"(allow admin "dlq.**")"#,
        &[("admin dlq.orders", true), ("admin dlq.**", true), ("admin orders", false)],
    );
    allowed(
        r#"(allow subscribe "dlq.orders" :groups ["ops"]) (allow subscribe "orders" :groups ["billing"])"#,
        &[("subscribe dlq.orders @ops", false), ("subscribe orders @billing", true)],
    );
}

#[test]
fn a_star_is_publish_and_subscribe_and_never_admin() {
    table(
        r#"(allow * "a")"#,
        &[
            ("publish a", "yes", 1),
            ("subscribe a", "yes", 1),
            ("subscribe a @g", "yes", 1),
            ("admin a", "no", 0),
        ],
    );
    table(
        r#"(deny * "a") (allow [publish subscribe admin] "a")"#,
        &[("publish a", "no", 1), ("subscribe a", "no", 1), ("admin a", "yes", 2)],
    );
    let open = Policy::open();
    for question in ["publish a", "subscribe **", "subscribe dlq.a @g", "admin **"] {
        assert!(ask(&open, question).allowed, "{question}");
    }
}

#[test]
fn a_pattern_is_permitted_only_by_a_rule_that_contains_all_of_it() {
    table(
        r#"(allow subscribe "a.*" "a.*.**") (allow subscribe "b") (allow subscribe "b.*.**") (allow subscribe "c.**")"#,
        &[
            ("subscribe a.*", "yes", 1),
            ("subscribe a.*.c", "yes", 1),
            ("subscribe a.**.c", "yes", 1),
            ("subscribe a.**", "no", 0),
            ("subscribe *.b", "no", 0),
            // Two rules are not put together, although there is no topic that neither of them allows.
            ("subscribe b.**", "no", 0),
            ("subscribe c.**", "yes", 4),
            ("subscribe c.x.*", "yes", 4),
            ("subscribe **", "no", 0),
        ],
    );
}

#[test]
fn a_pattern_is_forbidden_by_any_part_of_it() {
    table(
        r#"(deny subscribe "secret.**" "*.private") (allow subscribe "**")"#,
        &[
            ("subscribe secret.a", "no", 1),
            ("subscribe secret.*", "no", 1),
            ("subscribe **", "no", 1),
            ("subscribe *", "no", 1),
            ("subscribe a.*", "no", 1),
            ("subscribe a.b.*", "yes", 2),
            ("subscribe a.b", "yes", 2),
            ("subscribe **.private", "no", 1),
            ("subscribe a.b.private", "yes", 2),
        ],
    );
    // What stands before the deny is not asked again.
    table(
        r#"(allow subscribe "a.**") (deny subscribe "a.b") (allow subscribe "**")"#,
        &[("subscribe a.*", "yes", 1), ("subscribe *.b", "no", 2), ("subscribe b.**", "yes", 3)],
    );
    // An ACL speaks of all topics there could be, those that a subscription passes over included.
    table(
        r#"(deny subscribe "dlq.**") (allow subscribe "**")"#,
        &[("subscribe **", "no", 1), ("subscribe orders.**", "yes", 2)],
    );
}

#[test]
fn a_rule_with_groups_is_about_subscribing_with_one_of_them() {
    table(
        r#"(allow subscribe "a.**" :groups ["ops" "dev"])"#,
        &[
            ("subscribe a.b @ops", "yes", 1),
            ("subscribe a.b @dev", "yes", 1),
            ("subscribe a.b @qa", "no", 0),
            ("subscribe a.b", "no", 0),
            ("subscribe a.* @ops", "yes", 1),
            ("subscribe a.* @qa", "no", 0),
            ("subscribe a.*", "no", 0),
        ],
    );
    table(
        r#"(allow subscribe "a" :groups ["*"])"#,
        &[("subscribe a @any", "yes", 1), ("subscribe a", "no", 0), ("publish a", "no", 0)],
    );
    table(
        r#"(allow * "a" :groups ["ops"])"#,
        &[("subscribe a @ops", "yes", 1), ("publish a", "no", 0), ("publish a @ops", "no", 0)],
    );
}

#[test]
fn a_deny_with_groups_leaves_the_others_to_the_rules_behind_it() {
    table(
        r#"(deny subscribe "a.b" :groups ["ops"]) (allow subscribe "a.**")"#,
        &[
            ("subscribe a.b @ops", "no", 1),
            ("subscribe a.* @ops", "no", 1),
            ("subscribe a.c @ops", "yes", 2),
            ("subscribe a.c.* @ops", "yes", 2),
            ("subscribe a.* @dev", "yes", 2),
            ("subscribe a.*", "yes", 2),
            ("subscribe a.b", "yes", 2),
        ],
    );
    table(
        r#"(deny subscribe "a" :groups ["*"]) (allow subscribe "**")"#,
        &[("subscribe * @any", "no", 1), ("subscribe *", "yes", 2), ("subscribe a", "yes", 2)],
    );
}

#[test]
fn a_rule_without_topics_matches_nothing() {
    let rule = Rule { effect: Effect::Allow, actions: vec![Action::Publish], topics: vec![], groups: None };
    assert_eq!(ask(&Policy::new(vec![rule]), "publish a"), Decision { allowed: false, rule: None });
}

#[test]
fn a_rule_says_why_it_does_not_decide() {
    let rules = policy(r#"(allow [subscribe admin] "a" "b.*" :groups ["ops"])"#);
    let rule = &rules.rules()[0];
    let topic = Target::Topic("b.c");
    assert_eq!(rule.verdict(Action::Publish, topic, None), Verdict::OtherAction);
    assert_eq!(rule.verdict(Action::Admin, topic, Some("ops")), Verdict::NeedsGroup);
    assert_eq!(rule.verdict(Action::Subscribe, topic, None), Verdict::NeedsGroup);
    assert_eq!(rule.verdict(Action::Subscribe, topic, Some("dev")), Verdict::OtherGroup);
    assert_eq!(rule.verdict(Action::Subscribe, Target::Topic("c"), Some("ops")), Verdict::OtherTopics);
    assert_eq!(rule.verdict(Action::Subscribe, topic, Some("ops")), Verdict::Decides(1));
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let segment = select(vec!["a", "b", "*", "**"]);
    prop::collection::vec(segment, 1..5).prop_map(|segments| Pattern::parse(&segments.join(".")).unwrap())
}

fn groups() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![None, Some("ops"), Some("dev")])
}

fn rules() -> impl Strategy<Value = Rule> {
    use Action::{Admin, Publish, Subscribe};
    let actions = select(vec![
        vec![Subscribe],
        vec![Subscribe],
        vec![Publish],
        vec![Publish, Subscribe],
        vec![Subscribe, Admin],
        vec![Publish, Subscribe, Admin],
    ]);
    let groups = select(vec![None, None, Some(vec!["ops"]), Some(vec!["dev", "qa"]), Some(vec!["*"])]);
    let effect = select(vec![Effect::Allow, Effect::Allow, Effect::Deny]);
    (effect, actions, prop::collection::vec(patterns(), 1..3), groups).prop_map(
        |(effect, actions, topics, groups)| {
            let subscribes = actions.contains(&Subscribe);
            let groups = groups.filter(|_| subscribes);
            let groups = groups.map(|names| names.iter().map(ToString::to_string).collect());
            Rule { effect, actions, topics, groups }
        },
    )
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::collection::vec(rules(), 0..6).prop_map(Policy::new)
}

/// Every topic of up to seven segments, of those the patterns name and one that they do not. Where one pattern of at most
/// four segments does not contain another, one of these shows it.
fn topics() -> &'static [String] {
    static TOPICS: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    TOPICS.get_or_init(|| {
        let mut topics: Vec<String> = ["a", "b", "x"].map(String::from).to_vec();
        let mut from = 0;
        for _ in 1..7 {
            let longer: Vec<String> = topics[from..]
                .iter()
                .flat_map(|topic| ["a", "b", "x"].map(|segment| format!("{topic}.{segment}")))
                .collect();
            from = topics.len();
            topics.extend(longer);
        }
        topics
    })
}

/// The rules for one topic, in the words of the contract and nothing else.
fn by_the_book(policy: &Policy, action: Action, topic: &str, group: Option<&str>) -> bool {
    fn matches(pattern: &[&str], topic: &[&str]) -> bool {
        match (pattern, topic) {
            ([], []) => true,
            (["**", rest @ ..], _) => {
                matches(rest, topic) || (!topic.is_empty() && matches(pattern, &topic[1..]))
            }
            ([first, rest @ ..], [segment, more @ ..]) => {
                (*first == "*" || first == segment) && matches(rest, more)
            }
            _ => false,
        }
    }
    let topic: Vec<&str> = topic.split('.').collect();
    for rule in policy.rules() {
        let of_group = match &rule.groups {
            None => true,
            Some(groups) => {
                action == Action::Subscribe
                    && group.is_some_and(|group| groups.iter().any(|name| name == "*" || name == group))
            }
        };
        let of_topic = rule
            .topics
            .iter()
            .any(|pattern| matches(&pattern.as_str().split('.').collect::<Vec<_>>(), &topic));
        if rule.actions.contains(&action) && of_group && of_topic {
            return rule.effect == Effect::Allow;
        }
    }
    false
}

/// Patterns that name derived topics, and some that do not.
fn derived_patterns() -> impl Strategy<Value = Pattern> {
    let segments = proptest::collection::vec(select(vec!["dlq", "snapshot", "a", "*", "**"]), 1..5);
    segments.prop_map(|segments| Pattern::parse(&segments.join(".")).unwrap())
}

fn derived_policies() -> impl Strategy<Value = Policy> {
    let rule = (any::<bool>(), derived_patterns()).prop_map(|(allow, pattern)| Rule {
        effect: if allow { Effect::Allow } else { Effect::Deny },
        actions: vec![Action::Subscribe],
        topics: vec![pattern],
        groups: None,
    });
    proptest::collection::vec(rule, 1..5).prop_map(Policy::new)
}

/// Every name of up to four segments that a reader may name.
fn readable_topics() -> &'static [TopicName] {
    static TOPICS: std::sync::LazyLock<Vec<TopicName>> = std::sync::LazyLock::new(|| {
        let segments = ["dlq", "snapshot", "a", "b"];
        let mut names: Vec<String> = segments.map(str::to_owned).to_vec();
        let mut longest = names.clone();
        for _ in 0..3 {
            longest =
                longest.iter().flat_map(|name| segments.map(|segment| format!("{name}.{segment}"))).collect();
            names.extend(longest.iter().cloned());
        }
        names.iter().filter_map(|name| TopicName::readable(name).ok()).collect()
    });
    &TOPICS
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The whole rule of derived topics, against a model that knows one topic and one rule at a time.
    #[test]
    fn reading_needs_the_right_on_the_topic_and_on_all_that_it_is_derived_from(
        policy in derived_policies(), pattern in derived_patterns(),
    ) {
        let may = |topic: &TopicName| {
            let mut names = std::iter::once(topic.as_str()).chain(Derived::sources(topic));
            names.all(|name| by_the_book(&policy, Action::Subscribe, name, None))
        };
        for topic in readable_topics() {
            prop_assert_eq!(policy.allows(Action::Subscribe, Target::Topic(topic), None), may(topic), "{}", topic);
        }
        if policy.allows(Action::Subscribe, Target::Pattern(&pattern), None) {
            for topic in readable_topics().iter().filter(|topic| pattern.matches_for_subscription(topic)) {
                prop_assert!(may(topic), "{pattern} is allowed, {topic} is not");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// This is what lets the gateway ask once per subscription and not once per event.
    #[test]
    fn whoever_may_subscribe_to_a_pattern_may_read_every_topic_of_it(
        policy in policies(), pattern in patterns(), group in groups(),
    ) {
        if policy.allows(Action::Subscribe, Target::Pattern(&pattern), group) {
            for topic in topics().iter().filter(|topic| pattern.matches(topic)) {
                prop_assert!(
                    policy.allows(Action::Subscribe, Target::Topic(topic), group),
                    "{pattern} is allowed, {topic} is not",
                );
            }
        }
    }

    /// And the answer is no more often only where it has to be: one rule alone, or a deny alone, is exact.
    #[test]
    fn one_allow_permits_a_pattern_exactly_if_it_permits_all_its_topics(
        allow in patterns(), pattern in patterns(), group in groups(),
    ) {
        let policy = policy(&format!("(allow subscribe \"{allow}\")"));
        let all = topics().iter().filter(|topic| pattern.matches(topic)).all(|topic| allow.matches(topic));
        prop_assert_eq!(policy.allows(Action::Subscribe, Target::Pattern(&pattern), group), all);
    }

    #[test]
    fn a_topic_is_decided_by_the_book(policy in policies(), group in groups(), topic in select(topics().to_vec())) {
        for action in [Action::Publish, Action::Subscribe, Action::Admin] {
            let expected = by_the_book(&policy, action, &topic, group);
            prop_assert_eq!(policy.allows(action, Target::Topic(&topic), group), expected);
            let literal = Pattern::parse(&topic).unwrap();
            prop_assert_eq!(policy.allows(action, Target::Pattern(&literal), group), expected);
        }
    }

    #[test]
    fn rules_that_stand_before_others_are_asked_first(
        first in policies(), second in policies(), pattern in patterns(), group in groups(),
    ) {
        let target = Target::Pattern(&pattern);
        let both = first.before(&second).decide(Action::Subscribe, target, group);
        let alone = first.decide(Action::Subscribe, target, group);
        if alone.rule.is_some() {
            prop_assert_eq!(both, alone);
        } else {
            let second = second.decide(Action::Subscribe, target, group);
            let rule = second.rule.map(|at| at + first.rules().len());
            prop_assert_eq!(both, Decision { rule, ..second });
        }
    }

    #[test]
    fn a_rule_is_written_as_it_is_read(policy in policies()) {
        let written: String = policy.rules().iter().map(|rule| format!("{rule}\n")).collect();
        let read = Sib::parse(&written).unwrap();
        prop_assert_eq!(&read.policy, &policy);
        prop_assert!(read.places.iter().enumerate().all(|(at, place)| place.line == at + 1 && place.column == 1));
    }
}
