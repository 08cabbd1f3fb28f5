//! Bytes of a client, all the way to a record and back: nothing panics, nothing changes on the way.
#![no_main]

use hub_proto::{Draft, Event, EventId, NewEvent, json, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Both must stand anything, whatever they make of it.
    json::depth(data);
    json::canonical(data);
    if let Ok(record) = Event::from_json(data.to_vec().into(), 1) {
        let again =
            Event::from_json(record.json().clone(), 1).expect("a record that was read can be read again");
        assert_eq!(record, again);
    }

    let Ok(event) = NewEvent::from_wire(data) else { return };
    let shared = NewEvent::from_wire_shared(&data.to_vec().into()).expect("the same frame");
    assert_eq!(event, shared);
    let checked = event.check(limits::PAYLOAD_BYTES).is_ok();

    let (payload, options) = (event.payload.clone(), event.options.clone());
    let id = options.id.unwrap_or(EventId::from_bytes([7; 16]));
    let ts = options.ts.unwrap_or(7);
    let draft = Draft::encode(event, id, ts);
    assert_eq!(draft.payload(), payload.as_bytes());
    let content = draft.content();
    let record = draft.commit(u64::MAX, 1);
    assert!(!record.json().contains(&b'\n'), "a record is one line");

    let again = Event::from_json(record.json().clone(), 1).expect("what the hub wrote it can read");
    assert_eq!(again.json().as_ptr(), record.json().as_ptr(), "the hub's own layout is kept");
    let trusted = Event::from_trusted(record.json().clone(), 1, record.topic()).expect("it is the hub's own");
    for event in [&record, &again, &trusted] {
        assert_eq!((event.id(), event.ts(), event.seq()), (id, ts, u64::MAX));
        assert_eq!(event.payload(), payload.as_bytes());
        assert_eq!(event.key().map(|key| &**key), options.key.as_deref());
        assert_eq!(event.sid(), options.sid.as_deref());
        assert_eq!(event.headers(), options.headers);
        assert_eq!(event.tags(), options.tags);
        assert_eq!(event.caused_by(), options.caused_by);
        assert_eq!(event.content(), content);
        assert!(!checked || event.audience().is_none(), "no publisher can address a group");
    }
    serde_json::from_slice::<&serde_json::value::RawValue>(record.json()).expect("a record is JSON");
    assert_eq!(json::canonical(&json::canonical(payload.as_bytes())), json::canonical(payload.as_bytes()));
});
