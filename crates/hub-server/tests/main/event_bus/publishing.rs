use super::{Subject, earliest, next, next_number, soon};
use hub_core::{EventBusExt, NewEvent, Payload, TopicName};
use hub_proto::{Code, EventId, PublishOptions};

fn event(topic: &str, number: u64) -> NewEvent {
    NewEvent::new(TopicName::parse(topic).unwrap(), Payload::of(&number).unwrap())
}

pub async fn an_event_is_read_as_it_was_published(subject: &Subject) {
    let mut orders = subject.open("orders", None, earliest()).await;
    let options = PublishOptions {
        key: Some("o-1".into()),
        headers: vec![("tenant".into(), "acme".into())],
        tags: vec!["new".into()],
        ..PublishOptions::default()
    };
    let receipt = soon(subject.bus.publish_with("orders", &["tea", "milk"], options)).await.unwrap();
    assert_eq!((receipt.seq, receipt.duplicate), (1, false));
    assert_eq!(receipt.durable.as_str(), "memory");
    subject.cut().await;
    let order = next(&mut orders).await;
    let event = order.event();
    assert_eq!((event.id(), event.seq(), event.ts()), (receipt.id, 1, receipt.ts));
    assert_eq!((event.key().map(AsRef::as_ref), event.header("tenant")), (Some("o-1"), Some("acme")));
    assert_eq!(event.tags(), ["new"]);
    assert_eq!(order.decode::<Vec<String>>().unwrap(), ["tea", "milk"]);
    assert_eq!((order.attempt(), order.time_left()), (0, None));
    order.ack().unwrap();
}

pub async fn an_id_is_stored_once(subject: &Subject) {
    let id = EventId::from_bytes([7; 16]);
    let options = || PublishOptions { id: Some(id), ..PublishOptions::default() };
    let first = soon(subject.bus.publish_with("t", &1, options())).await.unwrap();
    subject.cut().await;
    let again = soon(subject.bus.publish_with("t", &1, options())).await.unwrap();
    assert_eq!((again.id, again.seq, again.ts, again.duplicate), (id, first.seq, first.ts, true));
    assert_eq!(subject.behind.last_seq("t"), Some(1));
}

pub async fn what_is_refused_names_the_event(subject: &Subject) {
    let id = EventId::from_bytes([7; 16]);
    let options = || PublishOptions { id: Some(id), ..PublishOptions::default() };
    soon(subject.bus.publish_with("t", &1, options())).await.unwrap();
    let refused = soon(subject.bus.publish_with("t", &2, options())).await.unwrap_err();
    assert_eq!((refused.code, refused.id), (Code::IdConflict, Some(id)));
    let refused = soon(subject.bus.publish("no..topic", &1)).await.unwrap_err();
    assert_eq!(refused.code, Code::BadRequest);
    let refused = soon(subject.bus.publish("dlq.t", &1)).await.unwrap_err();
    assert_eq!(refused.code, Code::Forbidden, "{refused}");
}

pub async fn each_event_of_a_batch_has_an_answer_of_its_own(subject: &Subject) {
    let batch = vec![event("t", 1), event("dlq.t", 2), event("t", 3)];
    let results = soon(subject.bus.send_batch(batch)).await;
    let seqs: Vec<_> = results.iter().map(|result| result.as_ref().map(|receipt| receipt.seq)).collect();
    assert_eq!((seqs.len(), &seqs[0], &seqs[2]), (3, &Ok(1), &Ok(2)));
    assert_eq!(results[1].as_ref().unwrap_err().code, Code::Forbidden);
}

pub async fn what_is_sent_in_order_stops_at_the_first_refusal(subject: &Subject) {
    let mut rest: Vec<NewEvent> =
        ["t", "t", "dlq.t", "t"].iter().zip(1..).map(|(topic, n)| event(topic, n)).collect();
    for (number, event) in (1_u8..).zip(&mut rest) {
        event.options.id = Some(EventId::from_bytes([number; 16]));
    }
    let mut answers = Vec::new();
    while answers.last().is_none_or(Result::is_ok) {
        let more = soon(subject.bus.send_in_order(rest.clone())).await;
        assert!(!more.is_empty(), "a part of them is answered");
        rest.drain(..more.len());
        answers.extend(more);
        subject.cut().await;
    }
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[2].as_ref().unwrap_err().code, Code::Forbidden);
    assert_eq!(subject.behind.last_seq("t"), Some(2));
}

pub async fn events_that_are_sent_one_behind_the_other_keep_their_order(subject: &Subject) {
    let mut read = subject.open("t", Some("g"), earliest()).await;
    let mut sending = tokio::task::JoinSet::new();
    for number in 1..=200 {
        let mut sent = subject.bus.send(event("t", number));
        // It is in line from here on.
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(sent.as_mut().poll(cx))).await;
        match first {
            std::task::Poll::Ready(answer) => assert!(answer.is_ok()),
            std::task::Poll::Pending => drop(sending.spawn(sent)),
        }
        if number % 50 == 0 {
            subject.cut().await;
        }
    }
    for answer in soon(sending.join_all()).await {
        answer.unwrap();
    }
    for number in 1..=200 {
        assert_eq!(next_number(&mut read).await, number);
    }
    assert_eq!(subject.behind.last_seq("t"), Some(200), "nothing is there twice");
}
