//! The commands that talk to a running hub: `topics`, `groups`, `export`, `import`, `replay`, `dlq`, `event`, `revoke`, `top`; and the link of `serve`.

mod admin;
mod asking;
mod broken;
mod dashboard;
mod merged;
mod pty;
mod refusals;
mod schemas;
mod stub;
mod stubbed;
mod top;
mod transfer;

use crate::hub::{Hub, Place, Running, program, run_with};
use crate::world::Ran;
use pty::Pty;
use reqwest::Method;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// A hub, and the program to talk to it.
struct Cli {
    hub: Hub,
    place: Place,
    data: String,
}

impl Cli {
    fn new() -> Self {
        let place = Place::new();
        let hub = Hub::start(&place.path("data"), &[], &[]);
        Self { hub, data: place.text("data"), place }
    }

    /// The arguments, with where the hub is: over HTTP but for those that publish or follow.
    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let hub = match args[0] {
            "import" | "publish" | "subscribe" => ["--url", self.hub.ws()],
            _ => ["--ops-url", self.hub.http()],
        };
        [args, &hub, &["--data", &self.data]].concat()
    }

    fn run(&self, args: &[&str]) -> Ran {
        run_with(&self.args(args), &[])
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::start(&self.args(args), &[])
    }

    fn pty(&self, args: &[&str], environment: &[(&str, &str)]) -> Pty {
        Pty::start(&self.args(args), environment)
    }

    /// Runs it with a text as standard input.
    fn pipe(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = program(&self.args(args), &[]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
        let write = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        write.join().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Publishes `1`, `2` and so on.
    fn publish(&self, topic: &str, numbers: std::ops::RangeInclusive<u64>) {
        let lines: String = numbers.map(|n| format!("{n}\n")).collect();
        self.pipe(&["publish", topic, "--lines"], lines.as_bytes()).ends_with(0);
    }

    /// Makes a group that has settled `count` events of the topic.
    fn group(&self, topic: &str, group: &str, count: u64) {
        let count = count.to_string();
        let args = ["subscribe", topic, "--group", group, "--from", "earliest", "--count", &count];
        self.run(&args).ends_with(0);
    }

    /// A token with these scopes.
    fn token(&self, scopes: &[&str]) -> String {
        let mut args = vec!["token", "--data", &self.data];
        scopes.iter().for_each(|scope| args.extend(["--scope", scope]));
        run_with(&args, &[]).out.trim().to_owned()
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.hub.ask(Method::GET, path, Some(self.hub.token()), "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.hub.ask(Method::POST, path, Some(self.hub.token()), &body.to_string());
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    fn stop(self) {
        self.hub.stop();
    }
}

/// One JSON object per line.
fn objects(text: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(object).collect()
}
