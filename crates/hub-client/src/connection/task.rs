//! The task that owns a connection: it takes commands, writes frames, reads frames, and gives them to whoever they are for.
//!
//! It never waits for the socket to take something without reading, too: a hub whose answers find no room reads no further
//! requests, so two sides that both wait to be read would wait for ever. What has come together is flushed once.

mod reading;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, watch};
use tokio::time::{Instant, Sleep};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::closed::Closed;
use super::later::Later;
use super::queue::Queue;
use super::socket::Socket;
use super::waiting::{Waiter, Waiting};
use crate::frame::Outgoing;
use crate::{Error, ErrorKind, Name, Result};
use reading::ROUND;

/// Bytes that are written and not yet flushed; beyond, no further command is taken.
const OUT_BYTES: usize = 256 << 10;
/// Requests without an answer; beyond, no further command is taken.
const UNDER_WAY: usize = 16 << 10;
/// Ids in one ACK: the most that a hub takes.
const IDS: usize = 10_000;
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// What the task is asked to do.
pub(super) enum Command {
    /// Sends a request, and gives its answer to who waits.
    Ask {
        text: Utf8Bytes,
        corr: u64,
        waiter: Waiter,
        /// The subscription that ends with it.
        leaves: Option<Arc<Queue>>,
        room: OwnedSemaphorePermit,
    },
    /// Sends a request that is answered only if it fails.
    Tell { text: Utf8Bytes, room: OwnedSemaphorePermit },
    /// Ends the connection.
    Close,
}

/// How far a round of writing came.
enum Written {
    /// There is nothing more that could be written.
    All,
    /// There may be more: it has to be flushed first.
    UntilFull,
    /// All, and this side wants to close.
    ToClose,
}

pub(super) struct Task {
    socket: Socket,
    commands: mpsc::Receiver<Command>,
    later: Arc<Later>,
    waiting: Waiting,
    /// Subscriptions by [`key`].
    subscriptions: HashMap<String, Arc<Queue>>,
    /// A key in the making.
    key: String,
    /// Errors that are about nothing that anybody waits for.
    notices: broadcast::Sender<Error>,
    /// Bytes that were written since the last flush.
    out_bytes: usize,
    /// Whether there is something to flush.
    dirty: bool,
    /// The subscription that nothing is read for until it has room.
    full: Option<Arc<Queue>>,
    /// When something came last, or could have.
    heard: Instant,
    pinged: bool,
    /// When reading went on after `full`: answers cannot be late before that.
    resumed: Instant,
    alarm: Pin<Box<Sleep>>,
    answer_timeout: Duration,
    idle_timeout: Duration,
    /// `corr`s of the task's own, from the other end.
    own_corr: u64,
}

impl Task {
    pub fn new(
        socket: Socket,
        commands: mpsc::Receiver<Command>,
        later: Arc<Later>,
        notices: broadcast::Sender<Error>,
        (answer_timeout, idle_timeout): (Duration, Duration),
    ) -> Self {
        let now = Instant::now();
        Self {
            socket,
            commands,
            later,
            waiting: Waiting::new(answer_timeout),
            subscriptions: HashMap::new(),
            key: String::new(),
            notices,
            out_bytes: 0,
            dirty: false,
            full: None,
            heard: now,
            pinged: false,
            resumed: now,
            alarm: Box::pin(tokio::time::sleep_until(now + idle_timeout / 2)),
            answer_timeout,
            idle_timeout,
            own_corr: u64::MAX,
        }
    }

    /// Runs until the connection has ended, and tells everybody why.
    pub async fn run(mut self, ended: watch::Sender<Option<Closed>>) {
        let closed = std::future::poll_fn(|context| self.poll(context)).await;
        tracing::debug!(why = %Error::from(&closed), "connection ended");
        let error = Error::from(&closed);
        // First the reason, then the news: who gets the news may ask for the reason.
        ended.send_replace(Some(closed));
        self.commands.close();
        while self.commands.try_recv().is_ok() {}
        for waiter in self.waiting.drain() {
            if let Waiter::Asked(answer) | Waiter::Subscribes(_, answer) = waiter {
                let _ = answer.send(Err(error.clone()));
            }
        }
        for queue in self.subscriptions.into_values() {
            queue.end(error.clone());
        }
        let mut socket = self.socket;
        let goodbye = async {
            let _ = socket.close(None).await;
            while let Some(Ok(_)) = socket.next().await {}
        };
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        // Who closes waits for this.
        drop(ended);
    }

    /// Does what there is to do; ready when the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Closed> {
        self.later.waker.register(context.waker());
        loop {
            let written = self.write(context);
            let flushed = self.flush(context);
            let read = match (&flushed, self.read(context)) {
                // What the hub has said last explains best why it takes nothing more.
                (Err(_), Err(closed @ Closed::Hub { .. })) => return Poll::Ready(closed),
                (Err(_), _) => 0,
                (Ok(_), Ok(read)) => read,
                (Ok(_), Err(closed)) => return Poll::Ready(closed),
            };
            match (written, flushed) {
                (_, Err(error)) => return Poll::Ready(lost(error)),
                // The last words are out.
                (Written::ToClose, Ok(true)) => return Poll::Ready(Closed::Here),
                // There is room again.
                (Written::UntilFull, Ok(true)) => continue,
                _ => {}
            }
            match read {
                0 => break,
                ROUND => {
                    context.waker().wake_by_ref();
                    break;
                }
                // An answer may have made room for a command, and a ping wants its pong.
                _ => {}
            }
        }
        self.watch_the_time(context)
    }

    // ---- writing ----

    /// Writes what there is to write, as far as there is room.
    fn write(&mut self, context: &mut Context<'_>) -> Written {
        self.write_later();
        while self.out_bytes < OUT_BYTES {
            if self.waiting.len() >= UNDER_WAY {
                // Until an answer has come.
                return Written::All;
            }
            match self.commands.poll_recv(context) {
                Poll::Pending => return Written::All,
                Poll::Ready(None | Some(Command::Close)) => {
                    self.write_later();
                    // Nothing that comes now is sent.
                    self.commands.close();
                    return Written::ToClose;
                }
                Poll::Ready(Some(command)) => {
                    // An ack that was said before an UNSUBSCRIBE goes before it.
                    self.write_later();
                    self.carry_out(command);
                }
            }
        }
        Written::UntilFull
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Ask { text, corr, waiter, leaves, room } => {
                if let Some(queue) = leaves {
                    self.remove(&queue);
                }
                self.ask(text, corr, waiter);
                drop(room);
            }
            Command::Tell { text, room } => {
                self.send(text);
                drop(room);
            }
            Command::Close => {}
        }
    }

    fn ask(&mut self, text: Utf8Bytes, corr: u64, waiter: Waiter) {
        let now = Instant::now();
        self.waiting.add(corr, waiter, now);
        self.wake_at(now + self.answer_timeout);
        self.send(text);
    }

    /// Acks and goodbyes.
    fn write_later(&mut self) {
        if self.out_bytes >= OUT_BYTES {
            return;
        }
        let (acks, goodbyes) = self.later.take();
        for ((name, attempt), ids) in acks {
            for ids in ids.chunks(IDS) {
                self.send(Outgoing::ack(None, &name, ids, attempt).done());
            }
        }
        for goodbye in goodbyes {
            if self.remove(&goodbye.queue) && goodbye.aloud {
                self.unsubscribe(&goodbye.queue.name);
            }
        }
    }

    fn unsubscribe(&mut self, name: &Name) {
        self.own_corr -= 1;
        let corr = self.own_corr;
        self.ask(Outgoing::new("UNSUBSCRIBE", Some(corr)).name(name).done(), corr, Waiter::Nobody);
    }

    fn send(&mut self, text: Utf8Bytes) {
        self.out_bytes += text.len();
        self.dirty = true;
        // What goes wrong here goes wrong again when it is flushed or read.
        if let Err(error) = self.socket.start_send_unpin(Message::Text(text)) {
            tracing::debug!(%error, "a frame cannot be written");
        }
    }

    /// Whether everything is out.
    fn flush(&mut self, context: &mut Context<'_>) -> Result<bool, tungstenite::Error> {
        if !self.dirty {
            return Ok(true);
        }
        match self.socket.poll_flush_unpin(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) => {
                (self.dirty, self.out_bytes) = (false, 0);
                Ok(true)
            }
        }
    }

    // ---- subscriptions ----

    fn find(&mut self, topic: &str, group: Option<&str>) -> Option<&Arc<Queue>> {
        put_key(&mut self.key, topic, group);
        self.subscriptions.get(&self.key)
    }

    /// Takes a subscription out; whether it was there.
    fn remove(&mut self, queue: &Arc<Queue>) -> bool {
        put_key(&mut self.key, &queue.name.topic, queue.name.group.as_deref());
        let there = self.subscriptions.get(&self.key).is_some_and(|other| Arc::ptr_eq(other, queue));
        if there {
            self.subscriptions.remove(&self.key);
        }
        there
    }

    // ---- time ----

    /// Ends a connection whose other side is silent.
    fn watch_the_time(&mut self, context: &mut Context<'_>) -> Poll<Closed> {
        while self.alarm.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if self.full.is_some() {
                // Nothing is read, so nothing can be late.
                self.alarm.as_mut().reset(now + self.idle_timeout / 2);
                continue;
            }
            let late = self.waiting.deadline().map(|at| at.max(self.resumed + self.answer_timeout));
            if late.is_some_and(|late| late <= now) {
                let text = format!("the hub did not answer within {} s", self.answer_timeout.as_secs_f32());
                return Poll::Ready(Closed::Lost(Error::new(ErrorKind::TimedOut, text)));
            }
            if self.heard + self.idle_timeout <= now {
                let text = format!("nothing came from the hub for {} s", self.idle_timeout.as_secs_f32());
                return Poll::Ready(Closed::Lost(Error::new(ErrorKind::TimedOut, text)));
            }
            if !self.pinged && self.heard + self.idle_timeout / 2 <= now {
                self.pinged = true;
                self.dirty = true;
                let ping = self.socket.start_send_unpin(Message::Ping(Bytes::new()));
                if let Err(error) = ping.and_then(|()| self.flush(context).map(drop)) {
                    return Poll::Ready(lost(error));
                }
            }
            let silent = self.heard + if self.pinged { self.idle_timeout } else { self.idle_timeout / 2 };
            self.alarm.as_mut().reset(late.map_or(silent, |late| late.min(silent)));
        }
        Poll::Pending
    }

    fn wake_at(&mut self, at: Instant) {
        if at < self.alarm.deadline() {
            self.alarm.as_mut().reset(at);
        }
    }
}

/// Topic and group as one text; neither has a line break in it.
fn key(topic: &str, group: Option<&str>) -> String {
    let mut key = String::new();
    put_key(&mut key, topic, group);
    key
}

fn put_key(key: &mut String, topic: &str, group: Option<&str>) {
    key.clear();
    key.push_str(topic);
    if let Some(group) = group {
        key.push('\n');
        key.push_str(group);
    }
}

fn lost(error: tungstenite::Error) -> Closed {
    let kind = match &error {
        tungstenite::Error::Io(_)
        | tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Protocol(
            tungstenite::error::ProtocolError::ResetWithoutClosingHandshake
            | tungstenite::error::ProtocolError::SendAfterClosing,
        ) => ErrorKind::Closed,
        _ => ErrorKind::Protocol,
    };
    Closed::Lost(Error::new(kind, "the connection to the hub is lost").with(error))
}
