//! What a hostile subject does. Each attacker sends, reads its answer, and goes on; one that is told to wait sends again a
//! millisecond later all the same, and one that is thrown out comes back.

use super::server::{AREAS, Server};
use super::{Socket, ask, connect, enter};
use anyhow::Result;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Attackers of each kind that work at the same time.
const ATTACKERS: usize = 3;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// A new topic with every event.
    JunkTopics,
    /// A new group over many topics with every SUBSCRIBE.
    JunkGroups,
    /// PAUSE and RESUME of a pattern over thousands of topics.
    Pauses,
    /// Lists of all topics, over HTTP.
    Lists,
    /// A payload of 1 MiB under a known id, written in another way each time.
    Twins,
    /// Subscriptions without a group to lists of a thousand topics.
    Watches,
    /// Sockets without AUTH, each with as much as it may send.
    Unauthenticated,
}

/// What one attacker asks next.
type Ask = Box<dyn FnMut(&mut Socket, usize) -> Result<String> + Send>;

impl Attack {
    pub const ALL: [Self; 7] = [
        Self::JunkTopics,
        Self::JunkGroups,
        Self::Pauses,
        Self::Lists,
        Self::Twins,
        Self::Watches,
        Self::Unauthenticated,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::JunkTopics => "junk-topics",
            Self::JunkGroups => "junk-groups",
            Self::Pauses => "pauses",
            Self::Lists => "lists",
            Self::Twins => "twins",
            Self::Watches => "watches",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// The attack with this name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|attack| attack.name() == name)
    }

    /// Begins, until `stop`. Each attacker answers how many answers it had.
    pub fn start(self, server: &Server, stop: &Arc<AtomicBool>) -> Result<Vec<JoinHandle<Result<usize>>>> {
        match self {
            Self::Unauthenticated => Ok(vec![unauthenticated(server, stop)]),
            Self::Lists => Ok((0..ATTACKERS).map(|_| lists(server, stop)).collect()),
            _ => Ok((0..ATTACKERS).map(|n| asks(server, stop, self.asks(n))).collect()),
        }
    }

    fn asks(self, attacker: usize) -> Ask {
        let ask_one = move |socket: &mut Socket, frame: String| ask(socket, &frame);
        match self {
            Self::JunkTopics => Box::new(move |socket, n| {
                ask_one(socket, format!(r#"{{"op":"PUBLISH","topic":"junk.a{attacker}.t{n}","payload":1}}"#))
            }),
            Self::JunkGroups => Box::new(move |socket, n| {
                let area = n % AREAS;
                ask_one(
                    socket,
                    format!(r#"{{"op":"SUBSCRIBE","topic":"area{area}.*","group":"junk{attacker}-{n}"}}"#),
                )
            }),
            Self::Pauses => Box::new(move |socket, n| match n {
                0 => ask_one(
                    socket,
                    format!(r#"{{"op":"SUBSCRIBE","topic":"area{attacker}.*","group":"paused"}}"#),
                ),
                _ => {
                    let op = if n % 2 == 0 { "RESUME" } else { "PAUSE" };
                    ask_one(socket, format!(r#"{{"op":"{op}","topic":"area{attacker}.*","group":"paused"}}"#))
                }
            }),
            Self::Twins => Box::new(move |socket, n| {
                let (filler, spaces) = ("x".repeat(1_000_000), " ".repeat(n % 7 + 1));
                let id = format!("00000000-0000-4000-8000-00000000000{attacker}");
                let payload = format!(r#"{{"b":{spaces}"{filler}","a":[1]}}"#);
                ask_one(
                    socket,
                    format!(
                        r#"{{"op":"PUBLISH","topic":"area0.t0","payload":{payload},"opts":{{"id":"{id}"}}}}"#
                    ),
                )
            }),
            Self::Watches => Box::new(move |socket, n| {
                let topics: Vec<String> = (0..1000).map(|t| format!(r#""area{}.t{t}""#, t % AREAS)).collect();
                let list = topics.join(",");
                ask_one(
                    socket,
                    format!(r#"{{"op":"SUBSCRIBE","topic":"w{attacker}.{n}","opts":{{"topics":[{list}]}}}}"#),
                )
            }),
            Self::Lists | Self::Unauthenticated => Box::new(|_, _| Ok(String::new())),
        }
    }
}

/// An attacker on a socket.
fn asks(server: &Server, stop: &Arc<AtomicBool>, mut act: Ask) -> JoinHandle<Result<usize>> {
    let (address, token, stop) = (server.ws(), server.token("eve"), stop.clone());
    thread::spawn(move || {
        let mut answers = 0;
        while !stop.load(Relaxed) {
            // Thrown out, or too many connections: again in a moment.
            let Ok(mut socket) = enter(&address, &token) else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let mut n = 0;
            while !stop.load(Relaxed) {
                let Ok(answer) = act(&mut socket, n) else { break };
                answers += 1;
                // A SUBSCRIBE that was refused is not paused.
                if !answer.contains("rate_limited") {
                    n += 1;
                } else {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(answers)
    })
}

/// An attacker that asks for lists of topics, with all rights and with none.
fn lists(server: &Server, stop: &Arc<AtomicBool>) -> JoinHandle<Result<usize>> {
    let tokens = [server.token("eve"), server.token_for("mallory", &[])];
    let (address, stop) = (server.http(), stop.clone());
    thread::spawn(move || {
        let mut answers = 0;
        while !stop.load(Relaxed) {
            for (token, path) in tokens.iter().zip(["/topics?limit=10000", "/groups?limit=10000"]) {
                let mut stream = TcpStream::connect(&address)?;
                let request = format!(
                    "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(request.as_bytes())?;
                stream.read_to_end(&mut Vec::new())?;
                answers += 1;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(answers)
    })
}

/// A thousand sockets that hold as much as the hub lets them before AUTH. They are opened again when they are thrown out.
fn unauthenticated(server: &Server, stop: &Arc<AtomicBool>) -> JoinHandle<Result<usize>> {
    let (address, stop) = (server.ws(), stop.clone());
    thread::spawn(move || {
        let mut sockets: Vec<Socket> = Vec::new();
        let mut opened = 0;
        while !stop.load(Relaxed) {
            if sockets.len() >= 990 {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            let Ok(mut socket) = connect(&address) else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            // The head of a frame of 32 KiB, masked, and all of it but the last byte.
            let length = (32u32 << 10) - 1;
            let mut frame = vec![0x81, 0xfe];
            frame.extend_from_slice(&(length as u16).to_be_bytes());
            frame.extend_from_slice(&[0; 4]);
            frame.resize(frame.len() + length as usize - 1, b' ');
            if socket.get_mut().write_all(&frame).is_ok() {
                sockets.push(socket);
                opened += 1;
            }
        }
        Ok(opened)
    })
}
