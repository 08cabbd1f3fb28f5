//! The task of a client: looks for a connection, and does everything over it until it ends; then looks for the next.

mod session;

use std::sync::Arc;
use std::time::Duration;

use hub_proto::{Code, IdGenerator};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::builder::Builder;
use super::credentials::Credentials;
use super::outbox::Outbox;
use super::state::State;
use super::{Client, Command, Inner, Shared, closed_here};
use crate::connection::Identity;
use crate::{Closed, Connection, Error, ErrorKind, Result, Target};
use session::Session;

/// Commands that wait for the task.
const COMMANDS: usize = 256;
/// A connection that held for so long was a good one: the next is looked for without much delay.
const GOOD: Duration = Duration::from_secs(5);

struct Task {
    targets: Vec<Target>,
    credentials: Credentials,
    commands: mpsc::Receiver<Command>,
    shared: Arc<Shared>,
    closing: watch::Receiver<bool>,
    /// How many subscriptions run handlers.
    at_work: watch::Receiver<usize>,
    /// Set when the client is to close: nothing waits beyond it.
    close_by: Option<Instant>,
    close_timeout: Duration,
    outbox: Outbox,
    backoff: Backoff,
    /// The time that the first tries of all clients of a hub are spread over.
    spread: Duration,
    /// How sessions pace what they try again.
    pace: (Duration, Duration),
    /// The hub that is tried next.
    turn: usize,
}

/// Connects for the first time, and starts the task.
pub(super) async fn start(builder: Builder, credentials: Credentials) -> Result<Client> {
    let Builder { targets, backoff: (first, longest), unacknowledged: (events, bytes), .. } = builder;
    let mut failed = None;
    let mut connected = None;
    for (turn, target) in targets.iter().enumerate() {
        match connect(target, &credentials).await {
            Ok(connection) => {
                connected = Some((turn, connection));
                break;
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let Some((turn, connected)) = connected else { return Err(failed.unwrap_or_else(closed_here)) };
    let (give, take) = mpsc::channel(COMMANDS);
    let (state, _) = watch::channel(State::Connected);
    let (closing, when_closing) = watch::channel(false);
    let (at_work, when_at_work) = watch::channel(0);
    let shared = Arc::new(Shared { state, closing, lines: Mutex::default(), again: Notify::new(), at_work });
    let task = Task {
        targets,
        credentials,
        commands: take,
        shared: shared.clone(),
        closing: when_closing,
        at_work: when_at_work,
        close_by: None,
        close_timeout: builder.close_timeout,
        outbox: Outbox::new(builder.publish_timeout),
        backoff: Backoff::new(first, longest),
        spread: builder.reconnect_within,
        pace: (first, longest),
        turn,
    };
    // It ends with the last handle, or by `close`, which waits for it.
    tokio::spawn(task.run(connected));
    let most_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let room =
        [events.min(Semaphore::MAX_PERMITS), most_bytes as usize].map(|room| Arc::new(Semaphore::new(room)));
    Ok(Client {
        inner: Arc::new(Inner { commands: give, shared, ids: IdGenerator::new(), room, most_bytes }),
    })
}

/// Connects to a hub that takes the token.
async fn connect(target: &Target, credentials: &Credentials) -> Result<(Connection, Identity)> {
    let token = credentials.token().await?;
    let connection = Connection::connect(target).await?;
    let identity = connection.send_auth(token.as_deref()).await?;
    Ok((connection, identity))
}

impl Task {
    async fn run(mut self, first: (Connection, Identity)) {
        let mut connected = Some(first);
        let why = loop {
            let (connection, identity) = match connected.take() {
                Some(connected) => connected,
                None => match self.reconnect().await {
                    Ok(connected) => connected,
                    Err(why) => break why,
                },
            };
            let since = Instant::now();
            if self.close_by.is_none() {
                self.shared.state.send_replace(State::Connected);
            }
            let closed = Session::new(&mut self, connection, &identity).run().await;
            match closed {
                Closed::Here => break closed_here(),
                Closed::Hub { code: 1009, .. } => self.outbox.give_up_largest(),
                _ => {}
            }
            tracing::info!(why = %Error::from(&closed), "the connection to the hub has ended, looking for the next");
            if since.elapsed() > GOOD || closed.is_drain() {
                self.backoff.reset();
            }
            self.turn += 1;
        };
        self.end(&why);
    }

    /// Tells everybody that it is over.
    fn end(&mut self, why: &Error) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.keep(command);
        }
        self.outbox.fail(why);
        self.shared.state.send_replace(State::Closed(why.clone()));
        for line in self.shared.lines() {
            line.put(Err(why.clone()));
        }
    }

    /// Looks for a hub until there is one.
    ///
    /// # Errors
    /// Why there never will be: the token holds no longer and there is no other, or the client is closed.
    async fn reconnect(&mut self) -> Result<(Connection, Identity)> {
        let wait = self.backoff.next_after_loss(self.spread);
        let mut tried = Box::pin(self.try_after(wait));
        loop {
            if self.can_end() {
                return Err(closed_here());
            }
            self.shared.state.send_if_modified(|state| {
                let next = State::Connecting { tries: self.backoff.tries() };
                let news = self.close_by.is_none() && !state.is_same(&next);
                if news {
                    *state = next;
                }
                news
            });
            tokio::select! {
                connected = &mut tried => match connected {
                    Ok(connected) => return Ok(connected),
                    Err(error) if is_final(&error, &self.credentials) => return Err(error),
                    Err(error) => {
                        tracing::info!(%error, "no connection to the hub, trying again");
                        self.turn += 1;
                        let wait = self.backoff.next();
                        tried = Box::pin(self.try_after(wait));
                    }
                },
                Some(command) = self.commands.recv() => self.keep(command),
                () = until(self.outbox.deadline()) => self.outbox.expire(Instant::now()),
                () = closing(&mut self.closing, self.close_by) => self.begin_to_close(),
                Ok(()) = self.at_work.changed() => {}
                () = until(self.close_by) => return Err(closed_here()),
            }
        }
    }

    /// Keeps something for the next connection.
    fn keep(&mut self, command: Command) {
        match command {
            Command::Publish(entry) => drop(self.outbox.add(*entry)),
            Command::Subscribe(line) => self.shared.add(line),
        }
    }

    /// Takes nothing new. What was handed over before is still looked after, for a while.
    fn begin_to_close(&mut self) {
        self.close_by = Some(Instant::now() + self.close_timeout);
        self.shared.state.send_replace(State::Closing);
    }

    /// Whether it closes, and nothing is left to be done. While handlers are at work they can publish.
    fn can_end(&mut self) -> bool {
        if self.close_by.is_none() || *self.at_work.borrow_and_update() > 0 {
            return false;
        }
        self.commands.close();
        self.outbox.is_empty() && self.commands.is_empty()
    }

    fn try_after(&self, wait: Duration) -> impl Future<Output = Result<(Connection, Identity)>> + use<> {
        let target = self.targets[self.turn % self.targets.len()].clone();
        let credentials = self.credentials.clone();
        async move {
            tokio::time::sleep(wait).await;
            connect(&target, &credentials).await
        }
    }
}

/// Whether trying again cannot help.
fn is_final(error: &Error, credentials: &Credentials) -> bool {
    let token = matches!(error.code(), Some(Code::JwtInvalid | Code::TokenExpired | Code::NoToken));
    error.kind() == ErrorKind::Usage || token && !credentials.renewable()
}

/// Waits until the client is to close, or nobody holds it any more; for ever if that is known.
async fn closing(closing: &mut watch::Receiver<bool>, known: Option<Instant>) {
    if known.is_some() || closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until then; for ever without a time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
