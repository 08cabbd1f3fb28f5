//! Push subscriptions of the real program: configured, reloaded, killed in the middle, and verified by others.

use crate::hub::{Hub, Place};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request that has come.
#[derive(Clone)]
struct Received {
    headers: BTreeMap<String, String>,
    body: String,
}

/// A server that takes everything, and its time for it.
pub struct Endpoint {
    address: SocketAddr,
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

    pub fn numbers(&self) -> Vec<u64> {
        let received = self.seen.received.lock().unwrap();
        let data =
            |one: &Received| serde_json::from_str::<Value>(&one.body).unwrap()["data"].as_u64().unwrap();
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
        seen.received.lock().unwrap().push(Received { headers, body: String::from_utf8(body).unwrap() });
        std::thread::sleep(takes);
        seen.under_way.fetch_sub(1, SeqCst);
        if socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
            return;
        }
    }
}

fn config(place: &Place, endpoints: &[(&str, &Endpoint)]) -> String {
    let mut text = String::new();
    for (name, endpoint) in endpoints {
        text += &format!(
            "[[push]]\nname = \"{name}\"\ntopic = \"t\"\nurl = \"{}\"\nsecrets = [\"{SECRET}\"]\nfrom = \"earliest\"\n\
             allow_private = true\nconcurrency = 4\nmax_attempts = 1\n",
            endpoint.url()
        );
    }
    place.write("hub.toml", &text)
}

fn publish(hub: &Hub, numbers: std::ops::RangeInclusive<u64>) {
    for n in numbers {
        let (status, answer) =
            hub.ask("POST".parse().unwrap(), "publish/t", Some(hub.token()), &n.to_string());
        assert_eq!(status, 200, "{answer}");
    }
}

#[test]
fn a_hub_that_is_killed_in_mid_delivery_loses_nothing() {
    let (place, endpoint) = (Place::new(), Endpoint::new(Duration::from_millis(20)));
    let config = config(&place, &[("crm", &endpoint)]);
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    publish(&hub, 1..=40);
    for round in 1..=3 {
        endpoint.wait_for(|numbers| numbers.len() >= 8 * round);
        hub.process.signal("KILL");
        hub.process.ended();
        hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    }
    let numbers = endpoint.wait_for(|numbers| numbers.iter().collect::<BTreeSet<_>>().len() == 40);
    // What was under way when it was killed comes again, and acks of the last 200 ms may be lost.
    assert!(numbers.len() < 40 + 3 * 20, "{numbers:?}");
    let (_, topics) = hub.ask("GET".parse().unwrap(), "topics", Some(hub.token()), "");
    assert!(!topics.contains("dlq"), "{topics}");
    hub.stop();
}

#[test]
fn endpoints_that_were_put_survive_a_restart_and_those_of_the_file_follow_it() {
    let (place, stored) = (Place::new(), Endpoint::new(Duration::ZERO));
    let (one, other) = (Endpoint::new(Duration::ZERO), Endpoint::new(Duration::ZERO));
    let path = config(&place, &[("one", &one)]);
    let mut hub = Hub::start(&place.path("data"), &["--config", &path], &[]);
    let definition = json!({"topic": "t", "url": stored.url(), "secrets": SECRET, "allowPrivate": true, "from": "earliest"});
    let (status, answer) =
        hub.ask("PUT".parse().unwrap(), "push/stored", Some(hub.token()), &definition.to_string());
    assert_eq!(status, 200, "{answer}");
    publish(&hub, 1..=1);
    let all = |count: usize| move |numbers: &[u64]| numbers.len() == count;
    one.wait_for(all(1));
    stored.wait_for(all(1));
    config(&place, &[("other", &other)]);
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    other.wait_for(all(1));
    publish(&hub, 2..=2);
    other.wait_for(all(2));
    stored.wait_for(all(2));
    assert_eq!(one.numbers(), [1], "it is not in the file any more");
    let log = hub.stop();
    assert!(!log.contains(&SECRET[6..]), "{log}");
    let hub = Hub::start(&place.path("data"), &["--config", &path], &[]);
    publish(&hub, 3..=3);
    other.wait_for(all(3));
    stored.wait_for(all(3));
    assert_eq!(stored.numbers(), [1, 2, 3], "each once over a clean restart");
    hub.stop();
}

#[test]
fn deliveries_are_verified_by_standard_webhooks_for_python() {
    let Some(python) = hub_testbed::drivers::python_cloudevents().unwrap() else { return };
    let (place, endpoint) = (Place::new(), Endpoint::new(Duration::ZERO));
    let path = config(&place, &[("crm", &endpoint)]);
    let hub = Hub::start(&place.path("data"), &["--config", &path], &[]);
    publish(&hub, 17..=17);
    endpoint.wait_for(|numbers| numbers == [17]);
    let received = endpoint.seen.received.lock().unwrap()[0].clone();
    let program = place.write(
        "main.py",
        "import json, sys\n\
         from cloudevents.core.bindings.http import HTTPMessage, from_structured\n\
         from cloudevents.core.formats.json import JSONFormat\n\
         from standardwebhooks import Webhook, WebhookVerificationError\n\
         secret, headers, body = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]\n\
         Webhook(secret).verify(body, headers)\n\
         event = from_structured(HTTPMessage(headers, body.encode()), JSONFormat())\n\
         assert event.get_data() == 17 and event.get_type() == 't', event\n\
         assert headers['webhook-id'] == event.get_id(), headers\n\
         try:\n    Webhook(secret).verify(body + ' ', headers)\n    sys.exit('a changed body is good')\n\
         except WebhookVerificationError:\n    print('ok')\n",
    );
    let headers = serde_json::to_string(&received.headers).unwrap();
    let ran = Command::new(python)
        .args([&program, SECRET, &headers, &received.body])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.trim() == "ok", "{out}{err}");
    hub.stop();
}
