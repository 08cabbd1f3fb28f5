//! Transfers that are cut off, as a real hub does when it stops or a network breaks.

use super::objects;
use super::pty::Pty;
use super::stub::{Stub, begin, chunk, respond};
use crate::hub::{Place, run_with};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

fn line(seq: u64) -> String {
    format!("{{\"id\":\"i\",\"topic\":\"t\",\"payload\":{seq},\"seq\":{seq}}}\n")
}

/// The seq that an export is asked to begin behind.
fn after(request: &str) -> u64 {
    request.split("afterSeq=").nth(1).map_or(0, |rest| rest.split('&').next().unwrap().parse().unwrap())
}

/// Answers the list of topics: one with ten events.
fn topics(socket: &mut TcpStream) {
    respond(socket, 200, r#"{"topics":[{"name":"t","first":1,"last":10,"events":10}]}"#);
}

/// A hub that cuts every export off in the middle of the third line that it sends.
fn cutting() -> Stub {
    Stub::start(|(request, _), socket| {
        if !request.starts_with("GET /export") {
            return topics(socket);
        }
        let start = after(request) + 1;
        begin(socket);
        let text: String = (start..=10).take(3).map(line).collect();
        if start + 2 < 10 {
            chunk(socket, &text[..text.len() - 9]);
        } else {
            chunk(socket, &text);
            chunk(socket, "");
        }
    })
}

fn seqs(text: &str) -> Vec<u64> {
    objects(text).iter().map(|record| record["seq"].as_u64().unwrap()).collect()
}

#[test]
fn a_transfer_that_is_cut_off_goes_on_behind_the_last_whole_line() {
    let (hub, place) = (cutting(), Place::new());
    let target = ["--ops-url", &hub.url, "--token", "x"];
    let ran = run_with(&[&["export", "t"], &target[..]].concat(), &[]);
    ran.ends_with(0);
    assert_eq!(seqs(&ran.out), (1..=10).collect::<Vec<_>>());
    assert!(ran.err.contains("the transfer was cut off"), "{}", ran.err);
    let file = place.text("file");
    run_with(&[&["export", "t", "-o", &file], &target[..]].concat(), &[]).ends_with(0);
    assert_eq!(seqs(&std::fs::read_to_string(&file).unwrap()), (1..=10).collect::<Vec<_>>());
}

#[test]
fn an_export_that_cannot_go_on_fails_and_keeps_what_it_has() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let hub = Stub::start(move |(request, _), socket| {
        if !request.starts_with("GET /export") {
            return topics(socket);
        }
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => {
                begin(socket);
                chunk(socket, &format!("{}{}", line(1), line(2)));
            }
            _ => respond(
                socket,
                403,
                r#"{"error":"the token does not allow subscribe on t","code":"forbidden"}"#,
            ),
        }
    });
    let place = Place::new();
    let file = place.text("file");
    let ran = run_with(&["export", "t", "-o", &file, "--ops-url", &hub.url, "--token", "x"], &[]);
    ran.ends_with(1);
    assert!(ran.err.contains("ends after seq 2; run the same command again"), "{}", ran.err);
    assert!(ran.err.contains("forbidden"), "{}", ran.err);
    assert_eq!(seqs(&std::fs::read_to_string(&file).unwrap()), [1, 2]);
    assert_eq!(asked.load(Ordering::Relaxed), 2, "a refusal is not asked again");
}

#[test]
fn a_request_that_is_too_much_at_once_is_asked_again() {
    let refused = AtomicBool::new(false);
    let hub = Stub::start(move |_, socket| match refused.swap(true, Ordering::Relaxed) {
        false => {
            use std::io::Write;
            let body = r#"{"error":"too many","code":"rate_limited"}"#;
            let head = format!("HTTP/1.1 429 x\r\nretry-after: 1\r\ncontent-length: {}\r\n", body.len());
            let _ = write!(socket, "{head}connection: close\r\n\r\n{body}");
        }
        true => topics(socket),
    });
    let ran = run_with(&["topics", "ls", "--json", "--ops-url", &hub.url, "--token", "x"], &[]);
    ran.ends_with(0);
    assert_eq!(ran.json()["name"], "t");
    assert_eq!(hub.requests().len(), 2);
}

#[test]
fn a_long_export_shows_how_far_it_is_on_a_terminal() {
    let (give, take) = mpsc::channel::<()>();
    let take = std::sync::Mutex::new(take);
    let hub = Stub::start(move |(request, _), socket| {
        if !request.starts_with("GET /export") {
            return topics(socket);
        }
        begin(socket);
        // Until the bar was seen: it is drawn only every now and then.
        for seq in 1..=9 {
            chunk(socket, &line(seq));
            if seq == 5 {
                let _ = take.lock().unwrap().recv();
            } else {
                std::thread::sleep(std::time::Duration::from_millis(60));
            }
        }
        chunk(socket, &line(10));
        chunk(socket, "");
    });
    let place = Place::new();
    let file = place.text("file");
    let mut terminal = Pty::start(&["export", "t", "-o", &file, "--ops-url", &hub.url, "--token", "x"], &[]);
    terminal.shows("events");
    terminal.shows("/s");
    terminal.shows("left");
    give.send(()).unwrap();
    terminal.shows("10 events");
    assert_eq!(terminal.ended().0, 0);
    assert_eq!(seqs(&std::fs::read_to_string(&file).unwrap()).len(), 10);
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let args = ["topics", "ls", "--ops-url", "http://127.0.0.1:1/", "--token", "x"];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = crate::hub::program(&args, &[]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}
