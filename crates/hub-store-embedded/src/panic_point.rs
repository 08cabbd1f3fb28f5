//! A panic that tests ask for, to see what becomes of the program around the store. It is in debug builds with the feature
//! `testkit` only: no release has it.

use hub_core::store::Commit;
use std::sync::LazyLock;

/// Names a topic: a commit with an event of it panics on the thread that asks for the commit.
const VARIABLE: &str = "EVENT_HUB_TEST_PANIC_TOPIC";

static TOPIC: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

/// Called before each commit.
pub fn before_commit(commit: &Commit) {
    if let Some(topic) = &*TOPIC {
        let is_named = commit.events.iter().any(|event| event.topic().as_str() == topic);
        assert!(!is_named, "a panic that {VARIABLE} asks for");
    }
}
