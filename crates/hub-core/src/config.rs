//! What can be set about a bus. Every default is the one of the contract.

use crate::Millis;
use crate::quota::Quota;
use hub_proto::{Error, Pattern, Result, TopicName, limits};

/// Settings of topics by name or pattern, and the bounds of the engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of topics; the first pattern that matches a topic's name counts.
    pub topics: Vec<(Pattern, TopicSettings)>,
    /// How much of what is global one subject, or the topics of one pattern, may use.
    pub quotas: Vec<Quota>,
    /// The largest payload, in bytes.
    pub max_payload: usize,
    /// How many topics publishers and subscribers can bring into being.
    pub max_topics: usize,
    /// How many groups there may be over all topics; a subscription to a pattern or a list counts as one more.
    pub max_groups: usize,
    /// How long ids are remembered at least.
    pub dedupe_window: Millis,
    /// Groups without members are deleted after so many days; 0: never.
    pub group_expire_days: u32,
    /// The ack timeout of members that do not name one.
    pub ack_timeout: Millis,
    /// Events of one group that may wait for their time or their key.
    pub max_parked: usize,
    /// Bytes of recent events kept in memory, over all topics, for consumers that keep up.
    pub tail_bytes: usize,
    /// Bytes of events queued for one member and not yet in its hands.
    pub member_bytes: usize,
    /// Bytes of events that wait for the committer; further publishers wait before it.
    pub queue_bytes: usize,
    /// A publish is answered within this time, if need be with `unavailable`.
    pub publish_timeout: Millis,
    /// What groups have done is saved this long after it, at the latest twice as long.
    pub save_interval: Millis,
    /// How long a clean stop waits for handlers that are at work.
    pub stop_timeout: Millis,
    /// How often topics are cleaned and snapshots written.
    pub clean_interval: Millis,
    /// A wall clock that is ahead of where it should be is believed after this long at the latest; until then nothing is removed for its
    /// age by it. 0: it is believed at once.
    pub clock_jump_wait: Millis,
    /// Topics, and groups on topics, with labels of their own in the metrics; the others share `_other`. What one subject made has
    /// a tenth of them at most. A topic with a rule of its own in `topics` has a label beyond them.
    pub metric_labels: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            quotas: Vec::new(),
            max_payload: limits::PAYLOAD_BYTES,
            max_topics: limits::TOPICS,
            max_groups: limits::GROUPS,
            dedupe_window: DAY,
            group_expire_days: 30,
            ack_timeout: 30_000,
            max_parked: 100_000,
            tail_bytes: 32 << 20,
            member_bytes: 4 << 20,
            queue_bytes: 64 << 20,
            publish_timeout: 20_000,
            save_interval: 50,
            stop_timeout: 8_000,
            clean_interval: 30_000,
            clock_jump_wait: DAY,
            metric_labels: 1000,
        }
    }
}

/// A day in milliseconds.
pub(crate) const DAY: Millis = 24 * 60 * 60 * 1000;

impl Config {
    /// Adds settings for the topics that `pattern` matches.
    ///
    /// ```
    /// use hub_core::{Config, TopicSettings};
    /// let config = Config::default().topic("process.state", TopicSettings { compaction: true, ..Default::default() })?;
    /// assert!(config.settings(&"process.state".parse()?).compaction);
    /// # Ok::<(), hub_core::Error>(())
    /// ```
    pub fn topic(mut self, pattern: &str, settings: TopicSettings) -> Result<Self> {
        self.topics.push((Pattern::parse(pattern)?, settings));
        Ok(self)
    }

    /// The settings of a topic. A snapshot topic is always compacted.
    pub fn settings(&self, topic: &TopicName) -> TopicSettings {
        settings(&self.topics, topic)
    }

    /// Refuses values that cannot work, by name.
    pub fn check(&self) -> Result<()> {
        let positive: [(&str, u64); 10] = [
            ("max_payload", self.max_payload as u64),
            ("max_topics", self.max_topics as u64),
            ("max_groups", self.max_groups as u64),
            ("ack_timeout", self.ack_timeout),
            ("max_parked", self.max_parked as u64),
            ("member_bytes", self.member_bytes as u64),
            ("queue_bytes", self.queue_bytes as u64),
            ("publish_timeout", self.publish_timeout),
            ("save_interval", self.save_interval),
            ("clean_interval", self.clean_interval),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::bad_request(format!("{name} is 0; it must be at least 1")));
        }
        if self.ack_timeout > limits::MAX_DELAY_MS {
            let (got, max) = (self.ack_timeout, limits::MAX_DELAY_MS);
            return Err(Error::bad_request(format!(
                "ack_timeout is {got}; it must be at most {max} (12 hours)"
            )));
        }
        check_topics(&self.topics)?;
        if self.queue_bytes > u32::MAX as usize {
            let got = self.queue_bytes;
            return Err(Error::bad_request(format!("queue_bytes is {got}; it must be at most {}", u32::MAX)));
        }
        Ok(())
    }
}

/// Settings of topics; the first pattern that matches counts.
pub(crate) type TopicRules = Vec<(Pattern, TopicSettings)>;

/// The settings of a topic. A snapshot topic is always compacted.
pub(crate) fn settings(rules: &[(Pattern, TopicSettings)], topic: &TopicName) -> TopicSettings {
    if topic.is_system() {
        // No rule of an operator is about what the hub itself remembers.
        return TopicSettings { compaction: true, ..TopicSettings::default() };
    }
    let found = rules.iter().find(|(pattern, _)| pattern.matches(topic));
    let mut settings = found.map(|(_, settings)| settings.clone()).unwrap_or_default();
    settings.compaction |= topic.is_snapshot();
    settings
}

/// Refuses settings of topics that cannot work.
pub(crate) fn check_topics(rules: &[(Pattern, TopicSettings)]) -> Result<()> {
    for (pattern, settings) in rules {
        if settings.retention_days == Some(0) || settings.retention_bytes == Some(0) {
            return Err(Error::bad_request(format!(
                "retention of {pattern} is 0; it must be at least 1, or left out to keep everything"
            )));
        }
    }
    Ok(())
}

/// How events of a topic are made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicDurability {
    /// Synced before the publisher is answered.
    #[default]
    Commit,
    /// Answered once the operating system has it, synced within 5 ms. Power loss may leave a hole.
    Interval,
}

/// What a topic keeps, and how safe it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// Events older than this go.
    pub retention_days: Option<u32>,
    /// The oldest events go once the topic is larger than this.
    pub retention_bytes: Option<u64>,
    /// Only the newest event of each key stays, and snapshots are written.
    pub compaction: bool,
    /// How long a tombstone stays on a compacted topic.
    pub tombstone_grace: Millis,
    /// When a publisher is answered.
    pub durability: TopicDurability,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            retention_days: None,
            retention_bytes: None,
            compaction: false,
            tombstone_grace: DAY,
            durability: TopicDurability::Commit,
        }
    }
}

impl TopicSettings {
    /// Whether anything ever leaves the topic.
    pub fn needs_cleaning(&self) -> bool {
        self.compaction || self.retention_days.is_some() || self.retention_bytes.is_some()
    }
}
