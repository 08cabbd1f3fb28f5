//! A door for the fuzzer: a connection of somebody who has not said who it is, without a network.
//!
//! The connection is served as [`serve`](super::serve) does it, over a stream in memory. Time stands still while there is something to
//! do, so that deadlines cost nothing.

use super::client::Clients;
use super::connection::Connection;
use super::seldom::SharedSeldom;
use super::stall::Stall;
use super::{Capacity, Patience, TrustedProxies};
use crate::auth::mint::{Claims, mint};
use crate::auth::{AuthConfig, Authenticator, Secret};
use crate::limits::Limits;
use crate::{Hub, Settings};
use hub_core::Bus;
use serde_json::Value;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::runtime::Runtime;

/// Nothing takes this long, on a clock that stands still, unless it hangs.
const HANGS: Duration = Duration::from_secs(3600);
/// What an input can make out of a few bytes is cut here.
const SENT_BYTES: usize = 128 << 10;
/// What is sent at once of a piece that is repeated.
const BLOCK_BYTES: usize = 1 << 10;
/// A connection is sent away after 32 frames; one more answer may say that no AUTH came in time.
const ANSWERS: usize = 33;
/// A known client is served after every so many strangers.
const KNOWN_EVERY: u32 = 64;

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nhost: hub\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Parts of requests that an input names by one byte.
const HTTP: [&[u8]; 16] = [
    UPGRADE,
    b"GET / HTTP/1.1\r\n",
    b"GET /metrics HTTP/1.1\r\n",
    b"POST /publish/t HTTP/1.1\r\n",
    b"host: hub\r\n",
    b"connection: keep-alive, Upgrade\r\n",
    b"upgrade: websocket\r\n",
    b"sec-websocket-version: 13\r\n",
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    b"authorization: Bearer a.b.c\r\n",
    b"content-length: 4000000\r\n",
    b"transfer-encoding: chunked\r\n",
    b"expect: 100-continue\r\n",
    b"origin: http://hub\r\n",
    b"\r\n",
    b"\x81\xfe\xff\xff\0\0\0\0",
];

/// Frames that an input names by one byte.
const FRAMES: [&[u8]; 16] = [
    br#"{"op":"AUTH","token":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.AAAA"}"#,
    br#"{"op":"AUTH","token":"eyJhbGciOiJub25lIn0.e30."}"#,
    br#"{"op":"AUTH"}"#,
    br#"{"op":"PUBLISH","topic":"t","payload":1,"corr":"c"}"#,
    br#"{"op":"PUBLISH","events":[{"topic":"t","payload":1}]}"#,
    br#"{"op":"SUBSCRIBE","topic":"t","group":"g"}"#,
    br#"{"op":"SUBSCRIBE","topic":"**","opts":{"from":"earliest"}}"#,
    br#"{"op":"UNSUBSCRIBE","topic":"t","group":"g"}"#,
    br#"{"op":"ACK","topic":"t","group":"g","id":"018f4e9a-0000-7000-8000-000000000000","corr":""}"#,
    br#"{"op":"NACK","topic":"t","group":"g","id":"018f4e9a-0000-7000-8000-000000000000","corr":""}"#,
    br#"{"op":"MODACK","topic":"t","group":"g","ids":[],"extend_ms":1,"corr":""}"#,
    br#"{"op":"PAUSE","topic":"t","group":"g"}"#,
    br#"{"op":"RETURN","topic":"t","group":"g","ids":[]}"#,
    br#"{"op":"PING"}"#,
    br#"{"op":""#,
    b"[[[[[[[[[[[[[[[[",
];

/// A hub that strangers connect to, one after the other.
pub struct Strangers {
    runtime: Runtime,
    hub: Hub,
    token: String,
    served: Cell<u32>,
}

impl Default for Strangers {
    fn default() -> Self {
        Self::new()
    }
}

impl Strangers {
    /// A hub over memory, with the limits of one that others can reach.
    ///
    /// # Panics
    /// If there cannot be one.
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let secret = Secret::new("a secret that no input can guess, as it is only here");
        let claims = Claims { sub: Some("ada".into()), ttl: Some(HANGS), ..Claims::default() };
        let token = mint(&secret, &claims);
        let hub = runtime.block_on(async {
            let bus = Bus::in_memory().await.expect("a bus");
            let auth = Authenticator::new(AuthConfig { secret: Some(secret), ..AuthConfig::default() });
            let settings = Settings { limits: Limits::beyond_loopback(), ..Settings::default() };
            Hub::builder(bus, auth.expect("it has a secret")).settings(settings).build()
        });
        let this = Self { runtime, hub, token, served: Cell::new(0) };
        this.serve_known();
        this
    }

    /// Serves one connection. The first byte of `input` says what the rest is: HTTP for the gateway or for the other port, bytes of
    /// a WebSocket, text frames, or any frames. Of the rest, two bytes say how long a piece is and how often it is repeated.
    ///
    /// # Panics
    /// If anything is answered with OK, if the connection does not end, or if anything is left of it.
    pub fn serve(&self, input: &[u8]) {
        let [mode, buffer, rest @ ..] = input else { return };
        // Small buffers cut what is sent in pieces.
        let buffer = 64 << (buffer % 7);
        let answers = match mode % 5 {
            0 => self.connect(Script { start: b"", is_ops: false, frames: None, pieces: rest }, buffer),
            1 => self.connect(Script { start: b"", is_ops: true, frames: None, pieces: rest }, buffer),
            2 => self.connect(Script { start: UPGRADE, is_ops: false, frames: None, pieces: rest }, buffer),
            3 => {
                let frames = Some(FrameKind::Text);
                self.connect(Script { start: UPGRADE, is_ops: false, frames, pieces: rest }, buffer)
            }
            _ => {
                let frames = Some(FrameKind::Any);
                self.connect(Script { start: UPGRADE, is_ops: false, frames, pieces: rest }, buffer)
            }
        };
        assert_eq!(answers.ok, 0, "a stranger was answered with OK");
        assert!(answers.errors <= ANSWERS, "a stranger was answered {} times", answers.errors);
        assert!(self.hub.bus().topics().is_empty(), "a stranger made a topic");
        self.served.set(self.served.get().wrapping_add(1));
        if self.served.get().is_multiple_of(KNOWN_EVERY) {
            self.serve_known();
        }
    }

    /// Serves somebody with a token.
    fn serve_known(&self) {
        let auth = format!(r#"{{"op":"AUTH","token":"{}"}}"#, self.token);
        let pieces = [&[u8::try_from(auth.len()).expect("it is short"), 0], auth.as_bytes()].concat();
        let frames = Some(FrameKind::Text);
        let answers = self.connect(Script { start: UPGRADE, is_ops: false, frames, pieces: &pieces }, 1024);
        assert_eq!((answers.ok, answers.errors), (1, 0), "a client with a token was not served");
    }

    /// Serves one connection to its end, and answers what came back.
    fn connect(&self, script: Script<'_>, buffer: usize) -> Answers {
        let answers = self.runtime.block_on(async {
            let (client, server) = tokio::io::duplex(buffer);
            let serving =
                self.hub.sessions().spawn(self.connection(script.is_ops).http(stalling(server), None));
            let (reader, writer) = tokio::io::split(client);
            let both = async { tokio::join!(Answers::read(reader), script.send(writer)).0 };
            let answers = tokio::time::timeout(HANGS, both).await.expect("the connection ends");
            serving.await.expect("serving does not panic");
            let ended = async {
                while !self.hub.sessions().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(HANGS, ended).await.expect("the session ends");
            answers
        });
        assert_eq!(self.hub.connections().get(), 0, "the connection is still counted");
        answers
    }

    fn connection(&self, is_ops: bool) -> Connection {
        let (peer, limits) = (IpAddr::from(Ipv4Addr::LOCALHOST), &self.hub.settings().limits);
        let seat = self.hub.door().enter(peer, Capacity::connections(limits));
        Connection {
            peer: (peer, 1).into(),
            has_header: false,
            clients: Clients::of_peer(TrustedProxies::default(), peer),
            settings: self.hub.follow(),
            refused: SharedSeldom::default(),
            bad_header: SharedSeldom::default(),
            seat: seat
                .unwrap_or_else(|full| panic!("the connections before have left their seats: {full:?}")),
            router: if is_ops { self.hub.ops() } else { self.hub.gateway() },
            draining: self.hub.draining().clone(),
            patience: Patience::default(),
        }
    }
}

fn stalling<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Stall<S> {
    Stall::new(stream, Patience::default().write)
}

/// What a stranger sends.
struct Script<'a> {
    start: &'static [u8],
    is_ops: bool,
    /// `None`: pieces are sent as they are.
    frames: Option<FrameKind>,
    pieces: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Text,
    /// The first byte of a piece is the first of the frame.
    Any,
}

impl Script<'_> {
    /// Sends everything, waits until it is answered, and says that nothing follows.
    async fn send(self, mut to: WriteHalf<DuplexStream>) {
        // A hub that hangs up ends it.
        let _ = self.send_pieces(&mut to).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let _ = to.shutdown().await;
    }

    async fn send_pieces(&self, to: &mut WriteHalf<DuplexStream>) -> std::io::Result<()> {
        to.write_all(self.start).await?;
        let known = if self.frames.is_some() { &FRAMES } else { &HTTP };
        let (mut left, mut sent) = (self.pieces, 0);
        while let [length, times, rest @ ..] = left {
            let (first, rest) = match (self.frames, rest) {
                (Some(FrameKind::Any), [first, rest @ ..]) => (*first, rest),
                _ => (0x81, rest),
            };
            let (piece, behind) = match usize::from(*length) {
                named @ 240.. => (known[named - 240], rest),
                length => rest.split_at(length.min(rest.len())),
            };
            left = behind;
            // A few bytes are enough for a frame that is larger than any that is taken.
            let times = 1 + usize::from(*times).pow(2);
            let length = (piece.len() * times).min(SENT_BYTES - sent);
            sent += length;
            if self.frames.is_some() {
                to.write_all(&frame_head(first, length)).await?;
            }
            send_repeated(piece, length, to).await?;
        }
        Ok(())
    }
}

/// Sends `length` bytes of a piece that is repeated.
async fn send_repeated(
    piece: &[u8],
    mut length: usize,
    to: &mut WriteHalf<DuplexStream>,
) -> std::io::Result<()> {
    let block = piece.repeat(BLOCK_BYTES.div_ceil(piece.len().max(1)));
    while length > 0 {
        let now = length.min(block.len());
        to.write_all(&block[..now]).await?;
        length -= now;
    }
    Ok(())
}

/// The head of a frame of a client. Its mask is zero, which leaves the payload as it is.
fn frame_head(first: u8, length: usize) -> Vec<u8> {
    let mut head = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..126), _) => head.push(0x80 | length),
        (_, Ok(length)) => {
            head.push(0x80 | 126);
            head.extend(length.to_be_bytes());
        }
        _ => {
            head.push(0x80 | 127);
            head.extend((length as u64).to_be_bytes());
        }
    }
    head.extend([0; 4]);
    head
}

/// What a stranger gets.
#[derive(Default)]
struct Answers {
    /// What is not understood yet.
    bytes: Vec<u8>,
    is_websocket: bool,
    ok: usize,
    errors: usize,
}

impl Answers {
    async fn read(mut from: ReadHalf<DuplexStream>) -> Self {
        let mut this = Self::default();
        let mut bytes = [0; 1024];
        loop {
            match from.read(&mut bytes).await {
                Ok(count @ 1..) => this.add(&bytes[..count]),
                _ => return this,
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        const SWITCHED: &[u8] = b"HTTP/1.1 101 ";
        self.bytes.extend_from_slice(bytes);
        if !self.is_websocket {
            match find(&self.bytes, SWITCHED) {
                Some(at) => drop(self.bytes.drain(..at)),
                None => drop(self.bytes.drain(..self.bytes.len().saturating_sub(SWITCHED.len()))),
            }
            if self.bytes.starts_with(SWITCHED)
                && let Some(end) = find(&self.bytes, b"\r\n\r\n")
            {
                self.bytes.drain(..end + 4);
                self.is_websocket = true;
            }
        }
        while self.is_websocket
            && let Some((first, payload, length)) = frame(&self.bytes)
        {
            match first {
                0x81 => {
                    let answer: Value = serde_json::from_slice(payload).expect("an answer is JSON");
                    match answer["op"].as_str() {
                        Some("OK") => self.ok += 1,
                        Some("ERR") if answer["code"].is_string() && answer["msg"].is_string() => {
                            self.errors += 1;
                        }
                        _ => panic!("a stranger got {answer}"),
                    }
                }
                0x88..=0x8a => {}
                _ => panic!("a stranger got a frame that begins with {first:#x}"),
            }
            self.bytes.drain(..length);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The first byte of the first frame, its payload, and how long the frame is; `None` if it is not all there.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let [first, length, rest @ ..] = bytes else { return None };
    assert!(length & 0x80 == 0, "a frame of the hub is masked");
    let (length, rest) = match length {
        126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), rest.get(2..)?),
        127 => (usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).ok()?, rest.get(8..)?),
        short => (usize::from(*short), rest),
    };
    let payload = rest.get(..length)?;
    Some((*first, payload, bytes.len() - rest.len() + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that an input can name by one byte, each sent a few times.
    #[test]
    fn strangers_are_refused_and_leave_nothing_behind() {
        let strangers = Strangers::new();
        for mode in 0..5 {
            for buffer in [0, 3, 6] {
                for named in 240..=255 {
                    strangers.serve(&[mode, buffer, named, 0, 0x81]);
                    strangers.serve(&[mode, buffer, named, 255, 0x81, 254, 0, 0x81]);
                    strangers.serve(&[mode, buffer, 240, 0, 0x81, named, 1, 0x81, 254, 3, 0x81]);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a stranger was answered with OK")]
    fn an_answer_that_is_no_refusal_is_found() {
        let strangers = Strangers::new();
        let auth = format!(r#"{{"op":"AUTH","token":"{}"}}"#, strangers.token);
        let input = [&[3, 8, u8::try_from(auth.len()).unwrap_or_default(), 0], auth.as_bytes()].concat();
        strangers.serve(&input);
    }

    #[test]
    fn frames_of_a_hub_are_told_apart_wherever_they_are_cut() {
        let mut sent =
            b"HTTP/1.1 400 Bad Request\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nx: y\r\n\r\n".to_vec();
        for length in [2, 300] {
            let text = format!(r#"{{"op":"ERR","code":"c","msg":"{}"}}"#, "m".repeat(length));
            let mut head = frame_head(0x81, text.len());
            head.truncate(head.len() - 4);
            head[1] &= 0x7f;
            sent.extend([&head, text.as_bytes(), b"\x8a\x02OK"].concat());
        }
        for cut in 1..sent.len() {
            let mut answers = Answers::default();
            sent.chunks(cut).for_each(|bytes| answers.add(bytes));
            assert_eq!((answers.ok, answers.errors, answers.bytes.len()), (0, 2, 0), "cut at {cut}");
        }
    }
}
