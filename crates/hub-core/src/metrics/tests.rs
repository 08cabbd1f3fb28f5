//! Who has labels, and how large the answer to a scrape can get.

use super::*;
use crate::MemoryStore;
use prometheus_client::encoding::text::encode;

/// The largest answer to a scrape with 1,000 labels, whatever the names are: 1,101 slots of 61 lines, each at most 154 bytes
/// with its names, and the topics. Topics that the configuration names come on top, with a line each.
const LARGEST_SCRAPE: usize = 11 << 20;

struct World {
    registry: Registry,
    metrics: Metrics,
}

fn world(max_labels: usize) -> World {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, &store, max_labels);
    World { registry, metrics }
}

fn subject(name: &str) -> LabelOwner {
    LabelOwner::Subject(name.into())
}

impl World {
    fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("it is text");
        text
    }

    fn topic(&self, name: &str, owner: LabelOwner) -> (TopicName, TopicMetrics) {
        let name = TopicName::stored(name).expect("a name");
        let metrics = self.metrics.topic(&name, owner);
        metrics.published.inc();
        (name, metrics)
    }

    fn group(&self, topic: &(TopicName, TopicMetrics), name: &str, owner: &LabelOwner) -> GroupMetrics {
        let name = GroupName::parse(name).expect("a name");
        let metrics = self.metrics.group(&topic.0, &topic.1, &name, owner);
        metrics.delivered.inc();
        metrics
    }

    fn has(&self, labels: &str) -> bool {
        self.text().contains(&format!("{{{labels}}}"))
    }

    /// What was published to a topic, or to all without a label.
    fn published(&self, topic: &str) -> Option<u64> {
        let start = format!("events_published_total{{topic=\"{topic}\"}} ");
        self.text()
            .lines()
            .find_map(|line| line.strip_prefix(&start))
            .map(|value| value.parse().expect("a number"))
    }

    fn delivered(&self, topic: &str, group: &str) -> Option<u64> {
        let start = format!("events_delivered_total{{topic=\"{topic}\",group=\"{group}\"}} ");
        self.text()
            .lines()
            .find_map(|line| line.strip_prefix(&start))
            .map(|value| value.parse().expect("a number"))
    }
}

#[test]
fn a_subject_has_a_tenth_of_the_topics_with_labels() {
    let world = world(100);
    for n in 0..50 {
        world.topic(&format!("eve.{n}"), subject("eve"));
    }
    world.topic("ada", subject("ada"));
    assert_eq!(world.published("eve.9"), Some(1));
    assert_eq!(world.published("eve.10"), None);
    assert_eq!(world.published("_other"), Some(40));
    assert_eq!(world.published("ada"), Some(1));
}

#[test]
fn a_subject_has_a_tenth_of_the_groups_with_labels() {
    let world = world(100);
    let topic = world.topic("t", LabelOwner::Program);
    for n in 0..50 {
        world.group(&topic, &format!("eve-{n}"), &subject("eve"));
    }
    world.group(&topic, "ada", &subject("ada"));
    assert_eq!(world.delivered("t", "eve-9"), Some(1));
    assert_eq!(world.delivered("t", "eve-10"), None);
    assert_eq!(world.delivered("t", "_other"), Some(40));
    assert_eq!(world.delivered("t", "ada"), Some(1));
}

#[test]
fn topics_of_no_subject_are_bounded_by_the_total_only() {
    let world = world(100);
    for n in 0..150 {
        world.topic(&format!("t{n}"), LabelOwner::Program);
    }
    assert_eq!((world.published("t99"), world.published("t100")), (Some(1), None));
    assert_eq!(world.published("_other"), Some(50));
}

#[test]
fn a_topic_from_the_reserve_has_a_label_when_all_are_used_up() {
    let world = world(10);
    for n in 0..20 {
        world.topic(&format!("t{n}"), LabelOwner::Program);
    }
    world.topic("named", LabelOwner::Reserve);
    assert_eq!(world.published("named"), Some(1));
    world.metrics.forget_topic("named");
    world.topic("t20", LabelOwner::Program);
    assert_eq!(world.published("t20"), None, "the reserve is no room for others");
}

#[test]
fn a_deleted_topic_frees_its_labels_and_other_keeps_its_counts() {
    let world = world(10);
    let topics: Vec<_> = (0..12).map(|n| world.topic(&format!("t{n}"), LabelOwner::Program)).collect();
    for n in 0..12 {
        world.group(&topics[0], &format!("g{n}"), &LabelOwner::Program);
    }
    assert!(world.has("topic=\"t0\",group=\"g9\"") && world.has("topic=\"t0\",group=\"_other\""));
    world.metrics.forget_topic("t0");
    assert!(!world.text().contains("\"t0\""), "{}", world.text());
    assert_eq!(world.published("_other"), Some(2));
    let late = world.topic("late", LabelOwner::Program);
    for n in 0..10 {
        world.group(&late, &format!("g{n}"), &LabelOwner::Program);
    }
    assert_eq!((world.published("late"), world.delivered("late", "g9")), (Some(1), Some(1)));
}

#[test]
fn a_deleted_group_frees_its_label_in_the_share_of_its_subject() {
    let world = world(20);
    let topic = world.topic("t", LabelOwner::Program);
    let groups: Vec<_> = (0..3).map(|n| world.group(&topic, &format!("g{n}"), &subject("eve"))).collect();
    assert_eq!(world.delivered("t", "g2"), None);
    world.metrics.forget_group(&groups[0]);
    world.metrics.forget_group(&groups[2]);
    assert!(!world.text().contains("group=\"g0\""));
    assert_eq!(world.delivered("t", "_other"), Some(1), "what was counted together stays");
    world.group(&topic, "g3", &subject("eve"));
    assert_eq!(world.delivered("t", "g3"), Some(1));
}

#[test]
fn a_group_that_is_forgotten_late_does_not_take_the_label_of_its_successor() {
    let world = world(10);
    let topic = world.topic("t", LabelOwner::Program);
    let first = world.group(&topic, "g", &LabelOwner::Program);
    world.metrics.forget_topic("t");
    let topic = world.topic("t", LabelOwner::Program);
    world.group(&topic, "g", &LabelOwner::Program);
    world.metrics.forget_group(&first);
    assert_eq!(world.delivered("t", "g"), Some(1));
}

#[test]
fn groups_of_one_name_on_topics_without_labels_count_together_until_the_last_is_gone() {
    let world = world(1);
    world.topic("first", LabelOwner::Program);
    let groups: Vec<_> = (0..3)
        .map(|n| {
            let topic = world.topic(&format!("t{n}"), LabelOwner::Program);
            world.group(&topic, "g", &LabelOwner::Program)
        })
        .collect();
    assert_eq!(world.delivered("_other", "g"), Some(3));
    world.metrics.forget_group(&groups[0]);
    world.metrics.forget_group(&groups[1]);
    assert_eq!(world.delivered("_other", "g"), Some(3));
    world.metrics.forget_group(&groups[2]);
    assert_eq!(world.delivered("_other", "g"), None);
}

#[test]
fn a_topic_and_a_group_that_are_called_other_have_no_label_of_their_own() {
    let world = world(100);
    let topic = world.topic("_other", LabelOwner::Program);
    let group = world.group(&topic, "_other", &LabelOwner::Program);
    world.metrics.forget_group(&group);
    world.metrics.forget_topic("_other");
    assert_eq!((world.published("_other"), world.delivered("_other", "_other")), (Some(1), Some(1)));
}

#[test]
fn topics_of_other_hubs_share_labels_until_their_subject_is_known() {
    let world = world(100);
    let of_remote = |n: u32| world.topic(&format!("t{n}"), LabelOwner::UnknownSubject).0;
    let topics: Vec<_> = (0..11).map(of_remote).collect();
    assert_eq!((world.published("t9"), world.published("t10")), (Some(1), None));
    for topic in &topics {
        world.metrics.set_topic_owner(topic, &subject("eve"));
    }
    world.topic("t11", LabelOwner::UnknownSubject);
    assert_eq!(world.published("t11"), Some(1), "the labels are taken from the share of the subject now");
    world.topic("eve", subject("eve"));
    assert_eq!(world.published("eve"), None, "whose share is used up");
}

#[test]
fn a_scrape_is_bounded_however_many_and_long_the_names_are() {
    for length in [20, 32, 33, 100, 200] {
        let world = world(1000);
        let name = |n: u32| format!("{n:x>length$}");
        let topics: Vec<_> = (0..5000).map(|n| world.topic(&name(n), LabelOwner::Program)).collect();
        for (topic, n) in topics.iter().zip(0..) {
            let group = world.group(topic, &name(n), &LabelOwner::Program);
            group.delivered.inc_by(u64::MAX / 2);
            group.waited(u64::MAX / 4000, 1);
        }
        for topic in &topics {
            world.group(topic, "past-the-limit", &LabelOwner::Program);
        }
        let (bytes, lines) = (world.text().len(), world.text().lines().count());
        println!("names of {length} bytes: {bytes} bytes in {lines} lines");
        assert!(bytes <= LARGEST_SCRAPE, "names of {length} bytes: {bytes} bytes");
    }
}

#[test]
fn one_subject_adds_little_to_a_scrape() {
    let world = world(1000);
    let name = |n: u32| format!("{n:x>200}");
    for n in 0..5000 {
        let topic = world.topic(&name(n), subject("eve"));
        world.group(&topic, &name(n), &subject("eve"));
    }
    let bytes = world.text().len();
    assert!(bytes <= LARGEST_SCRAPE / 10, "{bytes} bytes");
}
