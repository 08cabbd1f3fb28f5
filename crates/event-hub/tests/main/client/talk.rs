//! A client that comes back, with a hub that is there.

use super::{client, run, soon};
use crate::hub::{Hub, Place};
use hub_client::{Code, Message, Position, PublishOptions, SubscribeOptions, Subscription};
use std::time::Duration;

async fn message(subscription: &mut Subscription) -> Message {
    soon(subscription.recv()).await.unwrap().message().unwrap()
}

#[test]
fn an_event_goes_from_one_client_to_another_and_is_settled() {
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    run(async {
        let (publisher, consumer) = (client(&hub).await, client(&hub).await);
        let mut orders =
            soon(consumer.subscribe("orders", Some("g"), SubscribeOptions::default())).await.unwrap();
        let options = PublishOptions { key: Some("k".into()), ..PublishOptions::default() };
        let receipt = soon(publisher.publish("orders", &"tea", options)).await.unwrap();
        let first = message(&mut orders).await;
        assert_eq!((first.event().id(), first.decode::<String>().unwrap()), (receipt.id, "tea".to_owned()));
        assert!(soon(first.extend(Duration::from_secs(60))).await.unwrap() > Duration::from_secs(30));
        soon(first.nack(Some(Duration::ZERO), "not yet")).await.unwrap();
        let second = message(&mut orders).await;
        assert_eq!((second.event().id(), second.attempt()), (receipt.id, 2));
        // The first delivery cannot settle the second.
        let late = soon(first.ack_now()).await.unwrap_err();
        assert_eq!(late.code(), Some(Code::UnknownId));
        soon(second.ack_now()).await.unwrap();
        soon(orders.unsubscribe()).await.unwrap();
        let refused = soon(publisher.publish("a..b", &1, PublishOptions::default())).await.unwrap_err();
        assert!(refused.to_string().contains("a..b"), "{refused}");
        soon(consumer.close()).await;
        soon(publisher.close()).await;
    });
    hub.stop();
}

#[test]
fn a_restart_of_the_hub_is_nothing_that_a_program_sees() {
    let place = Place::new();
    let data = place.path("data");
    let mut hub = Hub::start(&data, &[], &[]);
    run(async {
        let client = client(&hub).await;
        let mut grouped = soon(client.subscribe("t", Some("g"), SubscribeOptions::default())).await.unwrap();
        let options = SubscribeOptions { from: Some(Position::Earliest), ..SubscribeOptions::default() };
        let mut watching = soon(client.subscribe("t", None, options)).await.unwrap();
        for round in 1..=3 {
            let receipt = soon(client.publish("t", &round, PublishOptions::default())).await.unwrap();
            assert_eq!(receipt.seq, round);
            let event = message(&mut grouped).await;
            assert_eq!((event.event().seq(), event.attempt()), (round, 1));
            // What was acked before a stop does not come again.
            soon(event.ack_now()).await.unwrap();
            assert_eq!(message(&mut watching).await.event().seq(), round);
            if round < 3 {
                hub.process.signal("TERM");
                assert_eq!(hub.process.ended(), 0);
                hub.start_again(&data);
            }
        }
        soon(client.close()).await;
    });
    hub.stop();
}
