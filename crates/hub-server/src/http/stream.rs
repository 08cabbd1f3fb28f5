//! What every answer that takes long has to obey: the token, its rights, and the hub's end.

use super::auth::Caller;
use super::error::Failure;
use crate::Hub;
use crate::acl::{Action, Target};
use hub_core::Millis;
use hub_proto::{Code, Error, TopicName};
use std::time::Duration;

/// Refuses a caller that may not read the topic any more. Answers how long its token is valid.
pub(super) fn check(hub: &Hub, caller: &mut Caller, topic: &TopicName) -> Result<Option<Millis>, Failure> {
    caller.still_must(hub, Action::Subscribe, Target::Topic(topic))?;
    Ok(caller.expires().map(|expires| expires.saturating_sub(hub.bus().now())))
}

/// Carries out the next step of an answer, while the token is valid and the hub does not drain.
pub(super) async fn while_valid<T>(
    hub: &Hub,
    time_left: Option<Millis>,
    step: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = hub.draining().cancelled() => Err(draining()),
        () = passed(time_left) => Err(expired()),
        done = step => done,
    }
}

/// The reason of a stream that ends with its token.
pub(super) fn expired() -> Failure {
    Error::new(Code::TokenExpired, "the token expired").into()
}

/// The reason of a stream that ends with the hub.
pub(super) fn draining() -> Failure {
    Error::unavailable("the hub is stopping; connect again").into()
}

/// Waits so many milliseconds; for ever without them.
pub(super) async fn passed(millis: Option<Millis>) {
    match millis {
        // At once: a timer of none fires only when tokio comes by, and every block could be ready before.
        Some(0) => {}
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        None => std::future::pending().await,
    }
}
