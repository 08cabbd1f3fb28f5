//! Publishing events in their order, frame by frame.

use hub_proto::NewEvent;
use serde::Deserialize;

use super::{Answer, Connection, batch_results};
use crate::frame::Outgoing;
use crate::{Error, ErrorKind, Receipt, Result};

type Results = Vec<Result<Receipt, hub_proto::Error>>;

/// See [`Connection::publish_in_order`].
pub(super) async fn publish(connection: &Connection, events: &[NewEvent]) -> Result<Results> {
    let mut results = Results::new();
    while results.len() < events.len() && results.iter().all(Result::is_ok) {
        match publish_frame(connection, &events[results.len()..]).await {
            Ok(more) => results.extend(more),
            Err(error) if results.is_empty() => return Err(error),
            // It says nothing of its first event, which may be good in another frame.
            Err(error) => results.push(Err(hub_proto::Error::unavailable(error.to_string()))),
        }
    }
    let not_published =
        || Err(hub_proto::Error::unavailable("not published: an event before it was refused"));
    results.resize_with(events.len(), not_published);
    Ok(results)
}

/// Publishes the first events, as many as one frame takes. There is a result for each of those.
async fn publish_frame(connection: &Connection, events: &[NewEvent]) -> Result<Results> {
    let corr = connection.corr();
    let (frame, taken) = Outgoing::publish_in_order(corr, events);
    let answer = connection.ask(frame.done(), corr, None).await?.await?;
    let results = batch_results(&answer)?;
    if !is_in_order(&answer)? || results.len() != taken {
        return Err(Error::new(ErrorKind::Protocol, "the hub did not answer for a batch in order"));
    }
    Ok(results)
}

/// Whether the hub says that it has published a batch in order.
fn is_in_order(answer: &Answer) -> Result<bool> {
    #[derive(Deserialize)]
    struct Ordered {
        #[serde(default)]
        ordered: bool,
    }
    Ok(answer.read::<Ordered>()?.ordered)
}
