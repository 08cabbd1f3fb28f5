//! The options of a group: stored with it, shared by all its members.

use hub_proto::{Error, Filter, Ordering, Result};
use serde::{Deserialize, Serialize};

/// How a group dispatches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupOptions {
    /// Which events it wants.
    #[serde(default)]
    pub filter: Filter,
    /// Whether keys keep their order.
    #[serde(default)]
    pub ordering: Ordering,
    /// Skip what a newer event of the same key has overtaken. Implies [`Ordering::Key`].
    #[serde(default)]
    pub coalesce: bool,
    /// Failures after which an event becomes a dead letter.
    #[serde(default = "max_attempts")]
    pub max_attempts: u32,
}

const fn max_attempts() -> u32 {
    5
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            ordering: Ordering::None,
            coalesce: false,
            max_attempts: max_attempts(),
        }
    }
}

/// What a subscriber says about its group; what it leaves out takes the stored value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRequest {
    /// See [`GroupOptions::filter`].
    pub filter: Option<Filter>,
    /// See [`GroupOptions::ordering`].
    pub ordering: Option<Ordering>,
    /// See [`GroupOptions::coalesce`].
    pub coalesce: Option<bool>,
    /// See [`GroupOptions::max_attempts`].
    pub max_attempts: Option<u32>,
}

impl GroupRequest {
    /// Refuses what no group can have.
    pub fn check(&self) -> Result<()> {
        if let Some(filter) = &self.filter {
            filter.check()?;
        }
        if self.max_attempts == Some(0) {
            return Err(Error::bad_request("maxAttempts is 0; it must be at least 1"));
        }
        if self.coalesce == Some(true) && self.ordering == Some(Ordering::None) {
            return Err(Error::bad_request(
                "coalesce implies ordering \"key\"; leave ordering out or set it to \"key\"",
            ));
        }
        Ok(())
    }

    /// The options that result from what is stored and what is asked for.
    pub fn over(&self, stored: &GroupOptions) -> GroupOptions {
        let coalesce = self.coalesce.unwrap_or(stored.coalesce && self.ordering != Some(Ordering::None));
        let ordering = if coalesce { Ordering::Key } else { self.ordering.unwrap_or(stored.ordering) };
        GroupOptions {
            filter: self.filter.clone().map_or_else(|| stored.filter.clone(), Filter::in_order),
            ordering,
            coalesce,
            max_attempts: self.max_attempts.unwrap_or(stored.max_attempts),
        }
    }

    /// The options that are asked for and differ from what is stored, in words.
    pub fn conflicts(&self, stored: &GroupOptions) -> Vec<String> {
        let wanted = self.over(stored);
        let mut found = Vec::new();
        let mut compare = |name: &str, has: String, wants: String| {
            if has != wants {
                found.push(format!("{name} is {has}, not {wants}"));
            }
        };
        compare("filter", json(&stored.filter), json(&wanted.filter));
        compare("ordering", json(&stored.ordering), json(&wanted.ordering));
        compare("coalesce", stored.coalesce.to_string(), wanted.coalesce.to_string());
        compare("maxAttempts", stored.max_attempts.to_string(), wanted.max_attempts.to_string());
        found
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
