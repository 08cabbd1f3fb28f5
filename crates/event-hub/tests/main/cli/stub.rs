//! A port that answers HTTP as a test wants it: broken transfers, and what a hub cannot be brought to answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: method and path with its query, and the body.
pub type Request = (String, String);

/// A stub on a free port.
pub struct Stub {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Stub {
    /// Answers every request with what the function writes.
    pub fn start(answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut socket = socket;
                    if let Some(request) = read(&socket) {
                        seen.lock().unwrap().push(request.clone());
                        answer(&request, &mut socket);
                    }
                });
            }
        });
        Self { url, requests }
    }

    /// Answers JSON by what a request begins with; anything else is 404 as a hub answers it.
    pub fn json(answers: &'static [(&'static str, u16, &'static str)]) -> Self {
        Self::start(move |(request, _), socket| {
            let found = answers.iter().find(|(begins, ..)| request.starts_with(begins));
            let no_path = r#"{"error":"there is nothing at this path; see docs/http.md","code":"not_found"}"#;
            let (status, body) = found.map_or((404, no_path), |(_, status, body)| (*status, *body));
            respond(socket, status, body);
        })
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(socket: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(socket.try_clone().ok()?);
    let mut head = String::new();
    reader.read_line(&mut head).ok()?;
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head.trim_end_matches(" HTTP/1.1\r\n").to_owned(), String::from_utf8(body).ok()?))
}

pub fn respond(socket: &mut TcpStream, status: u16, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
    let _ = write!(socket, "{head}connection: close\r\n\r\n{body}");
}

/// Begins an answer whose length is not known.
pub fn begin(socket: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n";
    let _ = write!(socket, "{head}connection: close\r\n\r\n");
}

/// A part of it. An empty one is its end: without it, the transfer is cut off.
pub fn chunk(socket: &mut TcpStream, text: &str) -> bool {
    write!(socket, "{:x}\r\n{text}\r\n", text.len()).and_then(|()| socket.flush()).is_ok()
}
