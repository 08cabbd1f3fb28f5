//! The network between two hubs, which fails on demand.

use super::nodes::until;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Stands before a hub's gateway. Its connections end with it.
pub struct Wire {
    pub address: SocketAddr,
    state: watch::Sender<State>,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

#[derive(Clone, Default)]
struct State {
    /// The hub behind it.
    to: Option<SocketAddr>,
    /// Nothing gets through.
    silent: bool,
    /// New connections end at once.
    closed: bool,
    /// How often all connections were cut, and cut at the near end only.
    cuts: usize,
    halves: usize,
}

impl Wire {
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, watching) = watch::channel(State::default());
        let accepted = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(accept(listener, watching, accepted.clone()));
        Self { address, state, accepted, task }
    }

    pub fn lead_to(&self, hub: SocketAddr) {
        self.state.send_modify(|state| state.to = Some(hub));
    }

    /// Lets nothing through any more. What is sent is lost if the connection is cut before anything else.
    pub fn silence(&self) {
        self.state.send_modify(|state| state.silent = true);
    }

    /// Ends all connections. New ones work.
    pub fn cut(&self) {
        self.state.send_modify(|state| (state.cuts, state.silent) = (state.cuts + 1, false));
    }

    /// Ends all connections, and new ones too.
    pub fn cut_for_good(&self) {
        self.state.send_modify(|state| (state.cuts, state.closed) = (state.cuts + 1, true));
    }

    /// Ends all connections for those who made them; the hub behind hears nothing of it, and nothing else either.
    pub fn cut_near_end(&self) {
        self.state.send_modify(|state| (state.halves, state.silent) = (state.halves + 1, false));
    }

    /// Waits for so many connections, those that have ended included.
    pub async fn carried(&self, connections: usize) {
        until("it was connected anew", || self.accepted.load(SeqCst) >= connections).await;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>, accepted: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((near, _)) = listener.accept() => {
                let now = state.borrow().clone();
                let Some(to) = now.to.filter(|_| !now.closed) else { continue };
                accepted.fetch_add(1, SeqCst);
                connections.spawn(relay(near, to, now, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn relay(near: TcpStream, to: SocketAddr, began: State, mut state: watch::Receiver<State>) {
    let far = TcpStream::connect(to).await.unwrap();
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let carrying = async {
        tokio::select! {
            () = carry(&from_near, &to_far, state.clone()) => {}
            () = carry(&from_far, &to_near, state.clone()) => {}
        }
    };
    let mut changes = state.clone();
    let ended = changes.wait_for(|state| state.cuts > began.cuts || state.halves > began.halves);
    let is_half = tokio::select! {
        // First of all: a cut ends the silence, too, and what was held back until then is lost.
        biased;
        ended = ended => ended.is_ok_and(|state| state.cuts == began.cuts),
        () = carrying => false,
    };
    if is_half {
        drop((from_near, to_near));
        // The far end stays open, and unread.
        let _ = state.wait_for(|state| state.cuts > began.cuts).await;
    }
    drop((from_far, to_far));
}

/// Carries one direction until either side ends.
async fn carry(from: &OwnedReadHalf, to: &OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut buffer = vec![0; 64 << 10];
    while from.readable().await.is_ok() {
        let read = match from.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            if to.writable().await.is_err() || state.wait_for(|state| !state.silent).await.is_err() {
                return;
            }
            match to.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}
