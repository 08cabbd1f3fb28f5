#![allow(clippy::unwrap_used)]

use super::queue::{Class, QUEUED_LINES, Queue};
use super::recent::{KEPT_LINES, LINES_PER_SECOND, Recent};
use super::writer::{Lines, Writer};
use super::*;
use serde_json::Value;
use std::sync::mpsc;

const SECOND: u64 = 1_000_000_000;

fn entry<'a>() -> Entry<'a> {
    Entry {
        event: Event::Refused,
        outcome: Outcome::Refused,
        via: Via::WebSocket,
        peer: None,
        identity: None,
        op: "PUBLISH",
        action: "publish",
        topic: None,
        group: None,
        target: None,
        code: Some("forbidden"),
        reason: None,
    }
}

fn lines(text: &[u8]) -> Vec<Value> {
    std::str::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn values_are_cut_at_a_character_and_escaped() {
    let (long, quoted) = ("ü".repeat(1000), "a\"\n\u{0}{\"event\":\"admin\"}".to_owned());
    let mut text = Vec::new();
    let line = Entry { topic: Some(&long), group: Some(&quoted), op: &long, reason: Some(&long), ..entry() };
    line.write(7, &mut text);
    let line = lines(&text);
    assert_eq!(line.len(), 1, "a line's end in a value ends no line");
    assert_eq!((&line[0]["ts"], &line[0]["group"]), (&Value::from(7), &Value::from(quoted)));
    for (name, bytes) in [("topic", 256), ("op", 256), ("reason", 200)] {
        assert_eq!(line[0][name].as_str().unwrap().len(), bytes, "{name}");
    }
}

#[test]
fn refusals_over_their_rate_are_counted_and_take_nothing_from_admin_actions() {
    let queue = Queue::new(5);
    for _ in 0..20 {
        queue.offer_at(SECOND, Class::Refusal, |text| text.extend(b"{\"refusal\":1}\n"));
    }
    for _ in 0..7 {
        queue.offer_at(SECOND, Class::Admin, |text| text.extend(b"{\"admin\":1}\n"));
    }
    assert_eq!(queue.dropped.get(), 15 + 2);
    queue.close(Duration::ZERO);
    let work = queue.next();
    let lines = lines(&work.text);
    let count = |name: &str| lines.iter().filter(|line| line.get(name).is_some()).count();
    assert_eq!((count("refusal"), count("admin"), lines.len()), (5, 5, 11));
    let last = lines.last().unwrap();
    assert_eq!((last["event"].as_str(), last["count"].as_u64()), (Some("suppressed"), Some(17)));
    assert!(work.is_last);
}

#[test]
fn the_queue_of_a_writer_that_hangs_is_bounded_for_each_class() {
    let queue = Queue::new(u32::MAX);
    for class in [Class::Refusal, Class::Admin] {
        for _ in 0..QUEUED_LINES + 10 {
            queue.offer_at(SECOND, class, |text| text.push(b'\n'));
        }
    }
    assert_eq!(queue.dropped.get(), 20);
    assert_eq!(queue.next().text.len(), 2 * QUEUED_LINES);
}

#[test]
fn the_newest_lines_are_kept_and_refusals_push_out_no_admin_action() {
    let recent = Recent::default();
    let offer = |second: u64, class, text: &str| {
        recent.offer_at(second * SECOND, class, |line| line.extend_from_slice(text.as_bytes()));
    };
    offer(1, Class::Admin, "{\"admin\":1}\n");
    let seconds = 2 + 3 * KEPT_LINES as u64 / u64::from(LINES_PER_SECOND);
    for second in 2..seconds {
        (0..LINES_PER_SECOND).for_each(|_| offer(second, Class::Refusal, "{\"refusal\":1}\n"));
    }
    let all = recent.newest(usize::MAX);
    assert_eq!((all.lines.len(), all.dropped), (KEPT_LINES + 1, 0));
    assert!(all.lines.is_sorted_by(|newer, older| newer.number > older.number));
    let oldest = all.lines.last().unwrap();
    assert_eq!((oldest.number, &*oldest.text), (1, "{\"admin\":1}"));
    assert_eq!(recent.newest(2).lines.len(), 2);
    assert_eq!(recent.newest(1).lines[0].number, all.lines[0].number);
}

#[test]
fn lines_over_the_rate_are_counted_and_not_put_together() {
    let recent = Recent::default();
    for _ in 0..LINES_PER_SECOND {
        recent.offer_at(SECOND, Class::Refusal, |line| line.extend_from_slice(b"{}\n"));
    }
    recent.offer_at(SECOND, Class::Refusal, |_| panic!("it is over the rate"));
    recent.offer_at(SECOND, Class::Admin, |line| line.extend_from_slice(b"{}\n"));
    let all = recent.newest(usize::MAX);
    assert_eq!((all.lines.len(), all.dropped), (LINES_PER_SECOND as usize + 1, 1));
}

/// Takes so many bytes, then fails.
struct Short {
    room: usize,
    got: mpsc::Sender<Vec<u8>>,
}

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.room);
        if length == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= length;
        self.got.send(bytes[..length].to_vec()).unwrap();
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_that_was_cut_off_by_a_full_disk_spoils_no_later_line() {
    let (got, take) = mpsc::channel();
    let short = |room| Box::new(Short { room, got: got.clone() });
    let mut writer = Writer { sink: short(13), is_torn: false, complained: None };
    assert_eq!(writer.write(b"{\"a\":1}\n{\"b\":2}\n".to_vec()), Lines { written: 1, lost: 1 });
    assert_eq!(writer.write(b"{\"c\":3}\n".to_vec()), Lines { written: 0, lost: 1 });
    writer.sink = short(100);
    assert_eq!(writer.write(b"{\"d\":4}\n".to_vec()), Lines { written: 1, lost: 0 });
    let text: Vec<u8> = take.try_iter().flatten().collect();
    assert_eq!(std::str::from_utf8(&text).unwrap(), "{\"a\":1}\n{\"b\":\n{\"d\":4}\n");
}

#[test]
fn what_was_recorded_before_the_close_is_written_and_nothing_after_it() {
    let (got, take) = mpsc::channel();
    let audit = Audit::to_writer(Short { room: 1 << 20, got }, 100).unwrap();
    audit.record(&entry());
    assert!(audit.close(Duration::from_secs(20)));
    audit.record(&entry());
    assert!(audit.close(Duration::from_secs(20)), "a second close has nothing to wait for");
    let text: Vec<u8> = take.iter().flatten().collect();
    assert_eq!(lines(&text).len(), 1);
}

#[test]
fn a_pipe_and_a_directory_are_no_audit_log() {
    let place = tempfile::tempdir().unwrap();
    let error = Audit::to_file(place.path(), 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(Audit::to_file(&place.path().join("nowhere/audit.log"), 1).is_err());
}
