//! The small Lisp in which policies and topics can be written.
//!
//! A file is a list of forms, read from top to bottom (`reader`) and understood one by one (`forms`):
//!
//! | form | what it does at the top of a file | what it stands for elsewhere |
//! | --- | --- | --- |
//! | `(allow ACTION "PATTERN"… :groups ["NAME"…])`, `(deny …)` | adds a rule | the rule |
//! | `(scopes->policy ["publish:heartbeat.*"])` | adds a rule per scope | those rules |
//! | `(define-topic "PATTERN" {:retention-days 3})` | settings of topics | its pattern |
//! | `(def NAME FORM)` | gives a name to a form | |
//! | `NAME` | adds the rules it stands for | what it stands for |
//! | `[…]` | adds the rules in it | several rules, or several strings |
//!
//! `def` only names: rules count where the name is written. Rules that have a name which is used nowhere are an error, for
//! a deny that is not in force is what nobody would notice. `define-topic` defines wherever it stands, also inside `def`.
//! A name is used behind its definition, so nothing can refer to itself.
//!
//! Unlike in tokens a scope whose action is not known is an error: the file is the hub's own. A file has at most
//! [`MAX_BYTES`], brackets nest at most [`MAX_NESTING`] deep, and what names stand for is counted as if it were written out.

mod forms;
mod reader;
mod topic;

use super::Policy;
use hub_core::TopicSettings;
use hub_proto::Pattern;

/// The largest file.
pub const MAX_BYTES: usize = 1024 * 1024;
/// How deep brackets may nest.
pub const MAX_NESTING: usize = 64;
/// Most names and most topics of one file.
pub const MAX_NAMES: usize = 1000;

/// What a file says.
#[derive(Clone, Debug, Default)]
pub struct Sib {
    /// Its rules, in their order.
    pub policy: Policy,
    /// Where each of the policy's rules is written: the form, or for scopes the string.
    pub places: Vec<Place>,
    /// Settings of topics, in their order; the first pattern that matches counts.
    pub topics: Vec<(Pattern, TopicSettings)>,
}

/// A place in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Why a file cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {msg}")]
pub struct SibError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong and what was expected.
    pub msg: String,
}

impl Place {
    const START: Self = Self { line: 1, column: 1 };

    fn error(self, msg: impl Into<String>) -> SibError {
        SibError { line: self.line, column: self.column, msg: msg.into() }
    }
}

impl Sib {
    /// Reads a file's text.
    ///
    /// ```
    /// use hub_server::acl::{Action, Target, sib::Sib};
    /// let sib = Sib::parse(r#"
    ///     (deny subscribe "secret.**")
    ///     (allow subscribe "process.**" :groups ["ops"])
    /// "#)?;
    /// assert!(sib.policy.allows(Action::Subscribe, Target::Topic("process.state"), Some("ops")));
    /// assert_eq!(sib.places[1].line, 3);
    /// # Ok::<(), hub_server::acl::sib::SibError>(())
    /// ```
    ///
    /// # Errors
    /// The first thing that cannot be understood, with its place.
    pub fn parse(text: &str) -> Result<Self, SibError> {
        forms::understand(&reader::read(text)?)
    }

    /// As [`Sib::parse`], of bytes that should be text.
    ///
    /// # Errors
    /// Also at the first byte that is not UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SibError> {
        if bytes.len() > MAX_BYTES {
            return Err(reader::too_large(bytes.len()));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => {
                let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                Err(reader::end_of(&good).error("this is not UTF-8 text"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
