use super::{Subject, earliest, next, soon};
use hub_core::{EventBusExt, Failure, HandlerContext, HandlerOptions};
use hub_handler::Running;
use hub_proto::{Ordering, PublishOptions, SubscribeOptions, SubscribeRequest};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Handles events of topic `t` for group `g`.
async fn handle<H, F>(
    subject: &Subject,
    options: SubscribeOptions,
    how: HandlerOptions,
    handler: H,
) -> Running
where
    H: Fn(HandlerContext) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let request = SubscribeRequest::new("t", Some("g")).options(options);
    soon(subject.bus.handle(request, how, handler)).await.unwrap()
}

fn at_once(concurrency: usize) -> HandlerOptions {
    HandlerOptions { concurrency, ..HandlerOptions::default() }
}

async fn publish(subject: &Subject, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        soon(subject.bus.publish("t", &number)).await.unwrap();
    }
}

async fn publish_keyed(subject: &Subject, key: &str, number: u64) {
    let options = PublishOptions { key: Some(key.into()), ..PublishOptions::default() };
    soon(subject.bus.publish_with("t", &number, options)).await.unwrap();
}

/// Nothing is left to be delivered.
async fn all_is_settled(subject: &Subject) {
    let settled = async {
        let last = subject.behind.last_seq("t").unwrap_or_default();
        while subject.behind.get_cursor("t", "g").await.unwrap().is_none_or(|cursor| cursor.seq < last) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(settled).await;
}

pub async fn a_handler_gets_every_event(subject: &Subject) {
    let (give, mut take) = mpsc::unbounded_channel();
    let running = handle(subject, earliest(), at_once(4), move |event| {
        let give = give.clone();
        async move {
            give.send(event.decode::<u64>()?)?;
            Ok(())
        }
    })
    .await;
    for round in 0..5 {
        publish(subject, round * 20 + 1..=round * 20 + 20).await;
        subject.cut().await;
    }
    let mut numbers = Vec::new();
    for _ in 1..=100 {
        numbers.push(soon(take.recv()).await.unwrap());
    }
    all_is_settled(subject).await;
    soon(running.stop()).await.unwrap();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=100).collect::<Vec<u64>>());
    assert!(take.try_recv().is_err(), "no event is handled twice");
}

pub async fn an_event_whose_handler_fails_comes_again_as_it_says(subject: &Subject) {
    let (give, mut take) = mpsc::unbounded_channel();
    let options = SubscribeOptions { max_attempts: Some(3), ..earliest() };
    let running = handle(subject, options, at_once(1), move |event| {
        let give = give.clone();
        async move {
            give.send((event.decode::<u64>()?, event.attempt()))?;
            match event.attempt() {
                // Any error has failed.
                1 => "no number".parse::<u64>().map(drop).map_err(Failure::from),
                // This one has not.
                2 => Err(Failure::give_back(Duration::from_millis(1))),
                3 => Err(Failure::retry_after(Duration::from_millis(1), "again")),
                _ => Ok(()),
            }
        }
    })
    .await;
    publish(subject, 1..=1).await;
    for attempt in 1..=4 {
        assert_eq!(soon(take.recv()).await.unwrap(), (1, attempt));
    }
    all_is_settled(subject).await;
    soon(running.stop()).await.unwrap();
    assert_eq!(subject.behind.last_seq("dlq.t"), None, "it failed twice of three times");
}

pub async fn a_handler_that_panics_has_failed(subject: &Subject) {
    let options = SubscribeOptions { max_attempts: Some(1), ..earliest() };
    let running = handle(subject, options, at_once(1), |event| async move {
        assert!(event.decode::<u64>()? != 1, "on purpose");
        Ok(())
    })
    .await;
    let mut letters = subject.open("dlq.t", None, earliest()).await;
    publish(subject, 1..=2).await;
    let letter: serde_json::Value = next(&mut letters).await.decode().unwrap();
    assert!(letter.to_string().contains("the handler panicked"), "{letter}");
    // The handler goes on.
    all_is_settled(subject).await;
    soon(running.stop()).await.unwrap();
}

pub async fn events_of_a_key_are_handled_one_after_the_other(subject: &Subject) {
    let (give, mut take) = mpsc::unbounded_channel();
    let options = SubscribeOptions { ordering: Some(Ordering::Key), ..earliest() };
    let at_work = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let running = handle(subject, options, at_once(8), move |event| {
        let (give, at_work) = (give.clone(), at_work.clone());
        async move {
            let key = event.event().key().unwrap().to_string();
            assert!(at_work.lock().insert(key.clone()), "two events of key {key} at once");
            tokio::task::yield_now().await;
            give.send((key.clone(), event.decode::<u64>()?))?;
            at_work.lock().remove(&key);
            Ok(())
        }
    })
    .await;
    for number in 1..=60 {
        publish_keyed(subject, ["a", "b", "c"][number as usize % 3], number).await;
        if number % 20 == 0 {
            subject.cut().await;
        }
    }
    let mut last = std::collections::HashMap::new();
    for _ in 1..=60 {
        let (key, number) = soon(take.recv()).await.unwrap();
        assert!(last.insert(key, number).is_none_or(|before| before < number));
    }
    soon(running.stop()).await.unwrap();
}

pub async fn so_many_handlers_run_at_once(subject: &Subject) {
    let (begun, mut begins) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let (most, at_work) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let running = handle(subject, earliest(), at_once(3), {
        let (gate, most) = (gate.clone(), most.clone());
        move |_| {
            let (begun, gate, most, at_work) = (begun.clone(), gate.clone(), most.clone(), at_work.clone());
            async move {
                most.fetch_max(at_work.fetch_add(1, SeqCst) + 1, SeqCst);
                begun.send(())?;
                gate.acquire().await?.forget();
                at_work.fetch_sub(1, SeqCst);
                Ok(())
            }
        }
    })
    .await;
    publish(subject, 1..=10).await;
    for _ in 0..3 {
        soon(begins.recv()).await.unwrap();
    }
    gate.add_permits(10);
    all_is_settled(subject).await;
    soon(running.stop()).await.unwrap();
    assert_eq!(most.load(SeqCst), 3);
    let refused = subject
        .bus
        .handle(SubscribeRequest::new("t", Some("g")), at_once(0), |_| async { Ok::<(), Failure>(()) });
    assert_eq!(refused.await.unwrap_err().code, hub_proto::Code::BadRequest);
}

pub async fn an_event_is_held_for_as_long_as_its_handler_runs(subject: &Subject) {
    let handled = Arc::new(AtomicUsize::new(0));
    let options = SubscribeOptions {
        ack_timeout: Some(Duration::from_millis(400)),
        max_attempts: Some(1),
        max_in_flight: Some(10),
        ..earliest()
    };
    let running = handle(subject, options, at_once(1), {
        let handled = handled.clone();
        move |event| {
            let handled = handled.clone();
            async move {
                // Longer than the time to ack; those behind it wait as long again.
                tokio::time::sleep(Duration::from_millis(1_000)).await;
                assert!(!event.is_lost());
                handled.fetch_add(1, SeqCst);
                Ok(())
            }
        }
    })
    .await;
    publish(subject, 1..=3).await;
    all_is_settled(subject).await;
    soon(running.stop()).await.unwrap();
    assert_eq!(handled.load(SeqCst), 3);
    assert_eq!(subject.behind.last_seq("dlq.t"), None);
}

pub async fn an_event_that_is_no_longer_extended_is_lost(subject: &Subject) {
    let (give, mut take) = mpsc::unbounded_channel();
    let options = SubscribeOptions { ack_timeout: Some(Duration::from_millis(200)), ..earliest() };
    let how = HandlerOptions { extend_up_to: Duration::from_millis(300), ..at_once(1) };
    let running = handle(subject, options, how, move |event| {
        let give = give.clone();
        async move {
            if event.attempt() == 1 {
                event.lost().await;
                assert!(event.is_lost());
            }
            give.send(event.attempt())?;
            Ok(())
        }
    })
    .await;
    publish(subject, 1..=1).await;
    assert_eq!(soon(take.recv()).await.unwrap(), 1);
    // It comes again while the first handler has it, or after; that one may have settled it.
    all_is_settled(subject).await;
    soon(running.stop()).await.unwrap();
}

pub async fn what_a_handler_publishes_is_stored_once(subject: &Subject) {
    let running = handle(subject, earliest(), at_once(1), |event| async move {
        let first = event.publish("mail.due", &"first").await?;
        let second = event.publish("mail.due", &"second").await?;
        assert_eq!((first.duplicate, second.duplicate), (event.attempt() > 1, event.attempt() > 1));
        match event.attempt() {
            1 => Err(Failure::retry_after(Duration::from_millis(1), "after its effects")),
            _ => Ok(()),
        }
    })
    .await;
    publish(subject, 1..=1).await;
    all_is_settled(subject).await;
    soon(running.stop()).await.unwrap();
    let mut mail = subject.open("mail.due", None, earliest()).await;
    let cause = subject.behind.scan("t", hub_core::Position::Earliest, None).await.unwrap()[0].id();
    for text in ["first", "second"] {
        let event = next(&mut mail).await;
        assert_eq!(event.decode::<String>().unwrap(), text);
        assert_eq!(event.event().caused_by(), [cause]);
    }
    assert_eq!(subject.behind.last_seq("mail.due"), Some(2));
}

pub async fn a_handler_that_stops_finishes_what_it_has_begun(subject: &Subject) {
    let (begun, mut begins) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let options = SubscribeOptions { max_attempts: Some(1), ..earliest() };
    let running = handle(subject, options.clone(), at_once(1), {
        let gate = gate.clone();
        move |event| {
            let (begun, gate) = (begun.clone(), gate.clone());
            async move {
                begun.send(event.decode::<u64>()?)?;
                gate.acquire().await?.forget();
                Ok(())
            }
        }
    })
    .await;
    publish(subject, 1..=3).await;
    assert_eq!(soon(begins.recv()).await.unwrap(), 1);
    let mut stopping = Box::pin(running.stop());
    // It waits for the handler, and begins no other.
    tokio::select! {
        biased;
        ended = &mut stopping => panic!("{ended:?}"),
        () = tokio::task::yield_now() => {}
    }
    gate.add_permits(3);
    soon(stopping).await.unwrap();
    assert!(begins.try_recv().is_err(), "no other handler was begun");
    // What waited is given back, and has not failed.
    let mut other = subject.open("t", Some("g"), options).await;
    for number in 2..=3 {
        let delivery = next(&mut other).await;
        assert_eq!(delivery.decode::<u64>().unwrap(), number);
        delivery.ack().unwrap();
    }
    assert_eq!(subject.behind.last_seq("dlq.t"), None);
}

pub async fn a_bus_that_stops_waits_for_handlers(subject: &Subject) {
    let (begun, mut begins) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let finished = Arc::new(AtomicUsize::new(0));
    let running = handle(subject, earliest(), at_once(1), {
        let (gate, finished) = (gate.clone(), finished.clone());
        move |_| {
            let (begun, gate, finished) = (begun.clone(), gate.clone(), finished.clone());
            async move {
                begun.send(())?;
                gate.acquire().await?.forget();
                finished.fetch_add(1, SeqCst);
                Ok(())
            }
        }
    })
    .await;
    publish(subject, 1..=2).await;
    soon(begins.recv()).await.unwrap();
    let bus = subject.bus.clone();
    let stopping = tokio::spawn(async move { bus.stop().await });
    // The handler's subscription ends at once, and its events are still held.
    tokio::task::yield_now().await;
    gate.add_permits(1);
    soon(stopping).await.unwrap().unwrap();
    assert_eq!(finished.load(SeqCst), 1);
    if subject.world.is_some() {
        // The hub goes on, and has its ack.
        let acked = async {
            while subject.behind.get_cursor("t", "g").await.unwrap().is_none_or(|cursor| cursor.seq < 1) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon(acked).await;
    }
    let ended = soon(running.done()).await.unwrap_err();
    assert_eq!(ended.code, hub_proto::Code::Unavailable);
}

pub async fn a_handler_ends_with_its_subscription(subject: &Subject) {
    let running = handle(subject, earliest(), at_once(1), |_| async { Ok(()) }).await;
    publish(subject, 1..=1).await;
    all_is_settled(subject).await;
    subject.behind.delete_group("t", "g").await.unwrap();
    assert!(soon(running.done()).await.is_err());
}
