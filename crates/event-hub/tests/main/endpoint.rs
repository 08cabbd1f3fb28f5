//! An HTTP server that takes every request and keeps it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that has come.
#[derive(Clone)]
pub struct Received {
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// A server that takes everything, and its time for it.
pub struct Endpoint {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Endpoint {
    pub fn new(takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Received>>>::default());
        let noted = received.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let noted = noted.clone();
                std::thread::spawn(move || serve(socket, takes, &noted));
            }
        });
        Self { address, received }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What has come so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

/// Answers requests of one connection until it ends.
fn serve(socket: TcpStream, takes: Duration, noted: &Mutex<Vec<Received>>) {
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
        noted.lock().unwrap().push(Received { headers, body });
        std::thread::sleep(takes);
        if socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
            return;
        }
    }
}
