//! What can be set about a drainer.

use crate::Millis;

/// What a parked row does to its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// Later rows wait until somebody has looked at it.
    #[default]
    Hold,
    /// Later rows go on.
    Skip,
}

/// How a drainer works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainerOptions {
    /// Rows of one claim.
    pub batch_size: usize,
    /// How long a claim holds, and how long a drainer that says nothing is taken to be alive, in milliseconds.
    pub lease: Millis,
    /// What it calls itself. Something random is added: several processes may run with the same settings.
    pub worker: String,
    /// How often it looks for rows if nothing wakes it, in milliseconds.
    pub interval: Millis,
    /// Failures that park a row.
    pub max_attempts: u32,
    /// How long sent rows are kept, in milliseconds.
    pub keep_sent: Millis,
    /// What a parked row does to its key.
    pub on_error: OnError,
}

impl Default for DrainerOptions {
    fn default() -> Self {
        Self {
            batch_size: 100,
            lease: 30_000,
            worker: String::new(),
            interval: 250,
            max_attempts: 10,
            keep_sent: 24 * 3_600_000,
            on_error: OnError::Hold,
        }
    }
}
