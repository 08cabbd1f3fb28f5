#![allow(clippy::unwrap_used)]
use super::*;
use hub_core::{Filter, Ordering};
use proptest::prelude::*;
use std::fmt::Write as _;

fn topic() -> impl Strategy<Value = TopicName> {
    "[A-Za-z0-9_-]{1,9}(\\.[A-Za-z0-9_-]{1,9}){0,3}".prop_map(|name| TopicName::stored(&name).unwrap())
}

fn group_name() -> impl Strategy<Value = GroupName> {
    "[A-Za-z0-9_.-]{1,20}".prop_map(|name| GroupName::parse(&name).unwrap())
}

/// Any text, quotes and control characters too.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter)
}

/// Headers are an object in JSON: in order, and one value for each.
fn filter() -> impl Strategy<Value = Filter> {
    (
        prop::collection::vec(text(), 0..3),
        prop::option::of(text()),
        prop::collection::btree_map(text(), text(), 0..3),
    )
        .prop_map(|(tags, key, headers)| Filter { tags, key, headers: headers.into_iter().collect() })
}

fn options() -> impl Strategy<Value = GroupOptions> {
    let ordering = prop_oneof![Just(Ordering::None), Just(Ordering::Key)];
    (filter(), ordering, any::<bool>(), any::<u32>()).prop_map(
        |(filter, ordering, coalesce, max_attempts)| GroupOptions {
            filter,
            ordering,
            coalesce,
            max_attempts,
        },
    )
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let close = (0u64..100, 0u64..10).prop_map(|(from, more)| (from, from + more));
    prop_oneof![close, any::<(u64, u64)>().prop_map(|(a, b)| (a.min(b), a.max(b)))]
}

fn tries() -> impl Strategy<Value = Tries> {
    any::<(u32, u32)>().prop_map(|(attempts, failures)| Tries { attempts, failures })
}

fn group() -> impl Strategy<Value = GroupRecord> {
    (topic(), group_name(), options(), any::<(u64, Option<u64>, bool, u64)>()).prop_map(
        |(topic, name, options, (created, idle_since, driven, born))| GroupRecord {
            topic,
            name,
            options,
            created,
            idle_since,
            driven,
            born,
        },
    )
}

fn stored_group() -> impl Strategy<Value = StoredGroup> {
    let settled = prop::collection::vec(range(), 0..5);
    let tries = prop::collection::btree_map(any::<u64>(), tries(), 0..5);
    (group(), any::<(u64, u64, u64)>(), settled, tries).prop_map(
        |(record, (epoch, floor, high), settled, tries)| StoredGroup {
            record,
            state: GroupState { epoch, floor, high, settled: settled.into_iter().collect(), tries },
        },
    )
}

fn subscription() -> impl Strategy<Value = SubscriptionRecord> {
    let topics = prop::collection::vec(topic(), 0..4);
    (text(), group_name(), topics, options(), any::<(u64, Option<u64>)>()).prop_map(
        |(label, group, topics, options, (created, idle_since))| SubscriptionRecord {
            label,
            group,
            topics,
            options,
            created,
            idle_since,
        },
    )
}

fn progress() -> impl Strategy<Value = Progress> {
    let settled = prop::collection::vec(range(), 0..5);
    let tries = prop::collection::vec((any::<u64>(), tries()), 0..5);
    (any::<(u64, bool, u64, u64)>(), settled, tries).prop_map(
        |((epoch, reset, floor, high), settled, tries)| Progress {
            epoch,
            reset,
            floor,
            high,
            settled,
            tries,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        group().prop_map(Record::Group),
        (topic(), group_name(), progress())
            .prop_map(|(topic, group, progress)| Record::Progress(topic, group, progress)),
        (topic(), group_name()).prop_map(|(topic, group)| Record::GroupGone(topic, group)),
        subscription().prop_map(Record::Subscription),
        (text(), group_name()).prop_map(|(label, group)| Record::SubscriptionGone(label, group)),
    ]
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written(record in record(), before in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = before.clone();
        let kind = write(&record, &mut bytes);
        prop_assert_eq!(&bytes[..before.len()], &before, "what is in the buffer stays");
        prop_assert_eq!(read(kind, &bytes[before.len()..]), Ok(record));
    }

    #[test]
    fn a_record_that_is_cut_off_or_goes_on_is_refused(record in record(), more in any::<u8>()) {
        let mut bytes = Vec::new();
        let kind = write(&record, &mut bytes);
        for len in 0..bytes.len() {
            prop_assert!(read(kind, &bytes[..len]).is_err(), "{} of {} bytes", len, bytes.len());
        }
        bytes.push(more);
        prop_assert!(read(kind, &bytes).is_err());
    }

    #[test]
    fn the_manifest_has_groups_and_subscriptions_one_after_the_other(
        groups in prop::collection::vec(stored_group(), 0..4),
        subscriptions in prop::collection::vec(subscription(), 0..4),
    ) {
        let mut bytes = Vec::new();
        groups.iter().for_each(|group| write_group(group, &mut bytes));
        subscriptions.iter().for_each(|subscription| write_subscription(subscription, &mut bytes));
        let mut from = Take(&bytes);
        for group in groups {
            prop_assert_eq!(read_group(&mut from), Ok(group));
        }
        for subscription in subscriptions {
            prop_assert_eq!(read_subscription(&mut from), Ok(subscription));
        }
        prop_assert_eq!(from.end(), Ok(()));
    }

    #[test]
    fn a_group_or_subscription_of_the_manifest_that_is_cut_off_is_refused(
        group in stored_group(),
        subscription in subscription(),
    ) {
        let mut bytes = Vec::new();
        write_group(&group, &mut bytes);
        for len in 0..bytes.len() {
            prop_assert!(read_group(&mut Take(&bytes[..len])).is_err(), "{} of {} bytes", len, bytes.len());
        }
        bytes.clear();
        write_subscription(&subscription, &mut bytes);
        for len in 0..bytes.len() {
            let read = read_subscription(&mut Take(&bytes[..len]));
            prop_assert!(read.is_err(), "{} of {} bytes", len, bytes.len());
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(kind in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in (GROUP..=SUBSCRIPTION_GONE).chain([kind]) {
            let _ = read(kind, &bytes);
        }
        let _ = read_group(&mut Take(&bytes));
        let _ = read_subscription(&mut Take(&bytes));
    }

    /// Random bytes end at the first length. Damage to a real record gets further in; what is still read is written
    /// and read again as the same.
    #[test]
    fn no_damage_makes_the_reader_panic(
        record in record(),
        group in stored_group(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Vec::new();
        let kind = write(&record, &mut bytes);
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        for kind in GROUP..=SUBSCRIPTION_GONE {
            let _ = read(kind, &bytes);
        }
        if let Ok(damaged) = read(kind, &bytes) {
            let mut again = Vec::new();
            prop_assert_eq!(write(&damaged, &mut again), kind);
            prop_assert_eq!(read(kind, &again), Ok(damaged));
        }
        bytes.clear();
        write_group(&group, &mut bytes);
        for (at, byte) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let _ = read_group(&mut Take(&bytes));
    }
}

fn topic_named(name: &str) -> TopicName {
    TopicName::stored(name).unwrap()
}

fn named(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

fn a_group() -> GroupRecord {
    let filter = Filter {
        tags: vec!["eu".into()],
        key: Some("k\"1".into()),
        headers: vec![("x-a".into(), "1".into()), ("x-b".into(), "ü".into())],
    };
    GroupRecord {
        topic: topic_named("orders.placed"),
        name: named("billing"),
        options: GroupOptions { filter, ordering: Ordering::Key, coalesce: true, max_attempts: 7 },
        created: 0x0102_0304_0506_0708,
        idle_since: Some(0x1112_1314_1516_1718),
        driven: true,
        born: 3,
    }
}

fn a_progress() -> Progress {
    Progress {
        epoch: 2,
        reset: true,
        floor: 10,
        high: 0x0102_0304_0506_0708,
        settled: vec![(12, 13), (20, 0x30)],
        tries: vec![(14, Tries { attempts: 3, failures: 0x0102_0304 })],
    }
}

fn a_subscription() -> SubscriptionRecord {
    SubscriptionRecord {
        label: "a,b".into(),
        group: named("g"),
        topics: vec![topic_named("a"), topic_named("b")],
        options: GroupOptions::default(),
        created: 5,
        idle_since: None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Compares with an encoding as hex, a field per line; spaces do not count.
#[track_caller]
fn assert_bytes(bytes: &[u8], fields: &[&str]) {
    assert_eq!(hex(bytes), fields.concat().replace(' ', ""));
}

#[track_caller]
fn assert_pinned(kind: u8, record: &Record, fields: &[&str]) {
    let mut bytes = Vec::new();
    assert_eq!(write(record, &mut bytes), kind);
    assert_bytes(&bytes, fields);
    assert_eq!(read(kind, &bytes).as_ref(), Ok(record));
}

const A_GROUP: &[&str] = &[
    "0d000000 6f72646572732e706c61636564", // topic
    "07000000 62696c6c696e67",             // name
    // options: {"filter":{"tags":["eu"],"key":"k\"1","headers":{"x-a":"1","x-b":"ü"}},
    // "ordering":"key","coalesce":true,"maxAttempts":7}
    "79000000 7b2266696c746572223a7b2274616773223a5b226575225d2c226b6579223a226b5c2231222c226865616465",
    "7273223a7b22782d61223a2231222c22782d62223a22c3bc227d7d2c226f72646572696e67223a226b657922",
    "2c22636f616c65736365223a747275652c226d6178417474656d707473223a377d",
    "0807060504030201",    // created
    "01 1817161514131211", // idle since
    "01",                  // driven
    "0300000000000000",    // born
];

const A_PROGRESS: &[&str] = &[
    "0d000000 6f72646572732e706c61636564", // topic
    "07000000 62696c6c696e67",             // name
    "0200000000000000",                    // epoch
    "01",                                  // reset
    "0a00000000000000",                    // floor
    "0807060504030201",                    // high
    "02000000 0c00000000000000 0d00000000000000 1400000000000000 3000000000000000", // settled
    "01000000 0e00000000000000 03000000 04030201", // tries
];

const A_GROUP_GONE: &[&str] = &[
    "0d000000 6f72646572732e706c61636564", // topic
    "07000000 62696c6c696e67",             // name
];

const A_SUBSCRIPTION: &[&str] = &[
    "03000000 612c62",                  // label
    "01000000 67",                      // group
    "02000000 01000000 61 01000000 62", // topics
    // options: {"filter":{},"ordering":"none","coalesce":false,"maxAttempts":5}
    "40000000 7b2266696c746572223a7b7d2c226f72646572696e67223a226e6f6e65222c22636f616c65736365223a6661",
    "6c73652c226d6178417474656d707473223a357d",
    "0500000000000000", // created
    "00",               // idle since
];

const A_SUBSCRIPTION_GONE: &[&str] = &[
    "09000000 6f72646572732e2a2a", // label
    "01000000 67",                 // group
];

/// After the fields of a group.
const A_STATE: &[&str] = &[
    "0200000000000000",                                                             // epoch
    "0a00000000000000",                                                             // floor
    "0807060504030201",                                                             // high
    "02000000 0c00000000000000 0d00000000000000 1400000000000000 3000000000000000", // settled
    "01000000 0e00000000000000 03000000 04030201",                                  // tries
];

/// A failure here means that logs and manifests that were written before are not read any more.
#[test]
fn the_bytes_of_every_record_are_pinned() {
    let (topic, group) = (topic_named("orders.placed"), named("billing"));
    assert_pinned(8, &Record::Group(a_group()), A_GROUP);
    assert_pinned(9, &Record::Progress(topic.clone(), group.clone(), a_progress()), A_PROGRESS);
    assert_pinned(10, &Record::GroupGone(topic, group), A_GROUP_GONE);
    assert_pinned(11, &Record::Subscription(a_subscription()), A_SUBSCRIPTION);
    assert_pinned(12, &Record::SubscriptionGone("orders.**".into(), named("g")), A_SUBSCRIPTION_GONE);
}

#[test]
fn the_bytes_of_the_manifest_are_pinned() {
    let mut state = GroupState::default();
    state.apply(&a_progress());
    let group = StoredGroup { record: a_group(), state };
    let mut bytes = Vec::new();
    write_group(&group, &mut bytes);
    assert_bytes(&bytes, &[A_GROUP, A_STATE].concat());
    assert_eq!(read_group(&mut Take(&bytes)), Ok(group));

    bytes.clear();
    write_subscription(&a_subscription(), &mut bytes);
    assert_bytes(&bytes, A_SUBSCRIPTION);
}

fn gone(topic: &str, group: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_bytes(topic.as_bytes());
    bytes.put_bytes(group.as_bytes());
    bytes
}

#[track_caller]
fn assert_refused(kind: u8, bytes: &[u8], why: &str) {
    let err = read(kind, bytes).unwrap_err().to_string();
    assert!(err.starts_with(&format!("a record of kind {kind}: ")) && err.contains(why), "{err}");
}

#[test]
fn names_are_checked_and_topics_of_the_hub_may_be_long() {
    let long = topic_named(&"t".repeat(200)).dead_letter();
    assert_eq!(read(GROUP_GONE, &gone(&long, "g")), Ok(Record::GroupGone(long, named("g"))));
    assert_refused(GROUP_GONE, &gone("a..b", "g"), "topic name \"a..b\"");
    assert_refused(GROUP_GONE, &gone("", "g"), "topic name");
    assert_refused(GROUP_GONE, &gone("a", "g/h"), "group name \"g/h\"");
    assert_refused(GROUP_GONE, &gone("a", &"g".repeat(201)), "201 bytes");
}

#[test]
fn a_refusal_says_what_is_wrong() {
    assert_refused(2, &gone("a", "g"), "8 to 12 are expected");
    assert_refused(GROUP_GONE, &[gone("a", "g"), vec![0]].concat(), "1 bytes are left over");
    assert_refused(GROUP_GONE, &[1, 0, 0, 0, 0xff], "not UTF-8");

    let mut group = gone("a", "g");
    group.put_bytes(br#"{"speed":1}"#);
    assert_refused(GROUP, &group, "the options are not those of a group: unknown field `speed`");

    let head = |reset: u8| {
        let mut bytes = gone("a", "g");
        bytes.put_u64(0);
        bytes.put_u8(reset);
        bytes.put_u64(0);
        bytes.put_u64(9);
        bytes
    };
    assert_refused(PROGRESS, &head(2), "reset: 0 or 1 is expected, 2 is there");
    let mut backwards = head(0);
    backwards.put_u32(1);
    backwards.put_u64(5);
    backwards.put_u64(4);
    backwards.put_u32(0);
    assert_refused(PROGRESS, &backwards, "begins at 5 and ends before, at 4");
}

/// Four billion items would be 64 GiB: the count is held against the bytes before there is room made for them.
#[test]
fn a_count_that_the_bytes_cannot_hold_is_refused() {
    let mut progress = gone("a", "g");
    progress.put_u64(0);
    progress.put_u8(0);
    progress.put_u64(0);
    progress.put_u64(9);
    progress.put_u32(u32::MAX);
    progress.put_u64(1);
    assert_refused(
        PROGRESS,
        &progress,
        "4294967295 settled ranges of at least 16 bytes each are expected, 8 bytes",
    );

    let mut subscription = gone("label", "g");
    subscription.put_u32(u32::MAX);
    assert_refused(SUBSCRIPTION, &subscription, "4294967295 topics of at least 5 bytes each");
}
