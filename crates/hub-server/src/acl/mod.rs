//! What an identity may do: an ordered list of rules, the first that matches decides, none means no.
//!
//! Rules come with a token ([`Policy::from_claims`]) or from a file ([`sib`]). Nothing is asked per event: a subscription is
//! asked about as a whole, when it begins and whenever its rights change. That is enough: what is allowed to subscribe to
//! a pattern has an allow that contains all of it and no deny before that touches it, so each topic of it is allowed.

mod claims;
mod policy;
pub mod sib;

pub use claims::{MAX_GROUPS, MAX_PATTERNS, MAX_RULES};
pub use policy::{Action, Decision, Effect, Policy, Rule, SUBJECT, Target, Verdict};
