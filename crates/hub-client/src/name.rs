//! What a subscription is called on its connection.

/// The pair of `topic` and `group` as they were subscribed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// A topic, a pattern, or the label of a list.
    pub topic: Box<str>,
    /// The group; none for a subscription that only watches.
    pub group: Option<Box<str>>,
}

impl Name {
    /// A name.
    pub fn new(topic: &str, group: Option<&str>) -> Self {
        Self { topic: topic.into(), group: group.map(Into::into) }
    }
}
