//! An HTTP server that takes every request and keeps it.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that has come.
#[derive(Clone)]
pub struct Received {
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// A server that takes everything, and its time for it.
pub struct Endpoint {
    pub address: SocketAddr,
    takes: Duration,
    seen: Arc<Seen>,
    listening: Option<Listening>,
}

/// What has come to an endpoint.
#[derive(Default)]
struct Seen {
    received: Mutex<Vec<Received>>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
}

/// A thread that takes connections until it is told to end.
struct Listening {
    is_over: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    thread: JoinHandle<()>,
}

impl Endpoint {
    pub fn new(takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut endpoint = Self { address, takes, seen: Arc::default(), listening: None };
        endpoint.listen(listener);
        endpoint
    }

    fn listen(&mut self, listener: TcpListener) {
        let (takes, seen, is_over) = (self.takes, self.seen.clone(), Arc::new(AtomicBool::new(false)));
        let sockets: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (ends, opened) = (is_over.clone(), sockets.clone());
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok).take_while(|_| !ends.load(SeqCst)) {
                opened.lock().unwrap().push(socket.try_clone().unwrap());
                let seen = seen.clone();
                std::thread::spawn(move || serve(socket, takes, &seen));
            }
        });
        self.listening = Some(Listening { is_over, sockets, thread });
    }

    /// From now on nothing listens at its address, and its connections are closed.
    pub fn go_down(&mut self) {
        let Listening { is_over, sockets, thread } = self.listening.take().unwrap();
        is_over.store(true, SeqCst);
        // Wakes the thread.
        drop(TcpStream::connect(self.address));
        thread.join().unwrap();
        sockets.lock().unwrap().iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    /// It listens again, at the address that it had.
    pub fn come_back(&mut self) {
        self.listen(TcpListener::bind(self.address).unwrap());
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// How many requests were under way at the same time.
    pub fn most_under_way(&self) -> usize {
        self.seen.most_under_way.load(SeqCst)
    }

    /// What has come so far.
    pub fn received(&self) -> Vec<Received> {
        self.seen.received.lock().unwrap().clone()
    }

    /// The payloads of what has come, which are numbers.
    pub fn numbers(&self) -> Vec<u64> {
        let received = self.seen.received.lock().unwrap();
        let data =
            |one: &Received| serde_json::from_slice::<Value>(&one.body).unwrap()["data"].as_u64().unwrap();
        received.iter().map(data).collect()
    }

    /// Waits until something holds of the numbers that have come.
    pub fn wait_for(&self, holds: impl Fn(&[u64]) -> bool) -> Vec<u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let numbers = self.numbers();
            if holds(&numbers) {
                return numbers;
            }
            assert!(Instant::now() < deadline, "{numbers:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Answers requests of one connection until it ends.
fn serve(socket: TcpStream, takes: Duration, seen: &Seen) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut socket = socket;
    loop {
        let (mut line, mut headers) = (String::new(), BTreeMap::new());
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).is_err() || line.is_empty() {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        seen.most_under_way.fetch_max(seen.under_way.fetch_add(1, SeqCst) + 1, SeqCst);
        seen.received.lock().unwrap().push(Received { headers, body });
        std::thread::sleep(takes);
        seen.under_way.fetch_sub(1, SeqCst);
        if socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
            return;
        }
    }
}
