//! Header names with a meaning to the hub.

/// Names that start so, in any case of letters, are the hub's own; from a publisher they are refused.
pub const RESERVED: &str = "x-hub-";

/// On a replayed dead letter: the one group the record is for. Other groups settle it without delivery.
pub const REPLAY_FOR: &str = "x-hub-replay-for";

/// On a replayed dead letter: the id of the event that was published first, over all replays.
pub const REPLAY_OF: &str = "x-hub-replay-of";

/// On a replayed dead letter: the id of the letter.
pub const REPLAY_LETTER: &str = "x-hub-replay-letter";

/// On a record of a derived topic: the hub wrote it. Its value is [`Derivation::as_str`](crate::Derivation::as_str).
pub const DERIVED: &str = "x-hub-derived";

/// Whether a header name is the hub's own.
///
/// ```
/// assert!(hub_proto::header::is_reserved("X-Hub-Replay-For"));
/// assert!(!hub_proto::header::is_reserved("x-request-id"));
/// ```
pub fn is_reserved(name: &str) -> bool {
    name.as_bytes().get(..RESERVED.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED.as_bytes()))
}
