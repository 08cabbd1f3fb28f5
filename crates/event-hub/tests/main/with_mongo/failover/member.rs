//! A member of the group: takes events, keeps them for a while, acks them.

use super::load::Load;
use super::{GROUP, TOPIC};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hub_client::{
    Arrival, Code, Connection, Delivered, ErrorKind, Ordering, Position, SubscribeOptions, SubscribeRequest,
};
use std::sync::Arc;
use std::time::Duration;

/// Events in hand at once.
const WINDOW: u32 = 16;
/// Longer than any test: an event that comes again was lost by somebody, not forgotten by its member.
const LEASE: Duration = Duration::from_secs(600);

/// Takes part until the end, on as many connections as it takes; from `home` whenever it has a choice.
pub async fn consume(load: Arc<Load>, home: usize) {
    while !load.is_over() {
        let (hub, connection) = load.addresses.connect(home).await;
        let options = SubscribeOptions {
            from: Some(Position::Earliest),
            ordering: Some(Ordering::Key),
            max_in_flight: Some(WINDOW),
            ack_timeout: Some(LEASE),
            // Nobody here fails: none may become a dead letter.
            max_attempts: Some(1000),
            ..SubscribeOptions::default()
        };
        let request = SubscribeRequest::new(TOPIC, Some(GROUP)).options(options);
        match connection.subscribe(request).await {
            Ok(deliveries) => {
                let life = load.ledger.begun(hub);
                live(&load, life, deliveries).await;
                load.ledger.ended(life);
            }
            // The hub is about to stop, or its store is away.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn live(load: &Load, life: usize, mut deliveries: hub_client::Deliveries) {
    let (connection, mut turn) = (deliveries.connection().clone(), load.turn());
    let (mut work, mut leaves) = (FuturesUnordered::new(), false);
    loop {
        if leaves && work.is_empty() {
            // What has arrived meanwhile goes back.
            let _ = deliveries.unsubscribe().await;
            return connection.close().await;
        }
        tokio::select! {
            arrival = deliveries.recv(), if !leaves => match arrival {
                Ok(Arrival::Event(delivered)) => {
                    let holding = load.ledger.delivered(life, &delivered);
                    work.push(settle(load, holding, delivered, connection.clone()));
                }
                Ok(lagged) => load.ledger.is_wrong(format!("a group lags: {lagged:?}")),
                Err(_) => return,
            },
            Some(()) = work.next() => {}
            _ = turn.changed(), if !leaves => leaves = true,
            closed = connection.closed(), if leaves => {
                drop(closed);
                return;
            }
        }
    }
}

async fn settle(load: &Load, holding: usize, delivered: Delivered, connection: Connection) {
    // Most are quick; a few are in hand for so long that their owner changes meanwhile.
    let seq = delivered.event.seq();
    let time = if seq.is_multiple_of(97) { 2_000 } else { seq * 7 % 20 };
    tokio::time::sleep(Duration::from_millis(time)).await;
    load.ledger.said(holding);
    let answer = connection.ack_now(&delivered.name, &[delivered.event.id()], Some(delivered.attempt)).await;
    match answer {
        Ok(acked) if acked.unknown.is_empty() => load.ledger.acked(holding),
        Ok(_) => load.ledger.refused(holding),
        Err(error) if error.kind() == ErrorKind::Closed => load.ledger.unanswered(holding),
        Err(error) if error.code() == Some(Code::NotSubscribed) => load.ledger.came_too_late(holding),
        Err(error) => load.ledger.is_wrong(format!("an ack of {seq} was refused: {error}")),
    }
}
