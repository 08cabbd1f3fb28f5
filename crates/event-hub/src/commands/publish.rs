//! `event-hub publish TOPIC PAYLOAD`: one event, or one per line of standard input.

mod lines;

use crate::client::{Target, block_on, connect, plain};
use crate::text::finish;
use anyhow::{Context, Result, bail};
use hub_client::ErrorKind;
use hub_proto::{EventId, NewEvent, Payload, PublishOptions, TopicName};
use std::collections::BTreeMap;
use std::io::Read;
use std::process::ExitCode;

/// Publish an event, or one per line of standard input
///
/// The payload is JSON: a text is written with its quotes, '"like this"'. The answer comes once the event is on disk, and
/// is printed as JSON. With --lines every line of standard input is an event; what is refused is told with its line, and
/// the answer counts them.
///
/// Exit code: 0 if everything was taken, 1 if the hub refused something, 2 if it could not be asked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic
    #[arg(value_name = "TOPIC", value_parser = topic)]
    topic: TopicName,

    /// The payload as JSON; `-` reads it from standard input
    #[arg(
        value_name = "PAYLOAD",
        required_unless_present = "lines",
        conflicts_with = "lines",
        allow_hyphen_values = true
    )]
    payload: Option<String>,

    /// Publish every line of standard input (NDJSON)
    #[arg(long)]
    lines: bool,

    /// Entity key: what is ordered and compacted
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Id, a UUID; sending the same id again adds nothing
    #[arg(long, value_name = "UUID", conflicts_with = "lines")]
    id: Option<EventId>,

    /// A header; several times for more
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,

    /// A tag; several times for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,

    #[command(flatten)]
    target: Target,
}

fn topic(text: &str) -> Result<TopicName, std::borrow::Cow<'static, str>> {
    TopicName::parse(text).map_err(|error| error.msg)
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    fn event(&self, payload: Payload) -> NewEvent {
        NewEvent::new(self.topic.clone(), payload).with_options(self.options())
    }

    fn options(&self) -> PublishOptions {
        // The last of several with one name counts.
        let headers: BTreeMap<_, _> = self.headers.iter().cloned().collect();
        PublishOptions {
            id: self.id,
            key: self.key.clone(),
            headers: headers.into_iter().collect(),
            tags: self.tags.clone(),
            ..PublishOptions::default()
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.lines {
        return block_on(lines::publish(args));
    }
    let payload = match args.payload.as_deref() {
        Some("-") | None => read_stdin()?,
        Some(text) => text.to_owned(),
    };
    // Of any depth: what is too deep is the hub's to say.
    let payload = Payload::stored(payload)
        .context("the payload is not JSON; a text is written with its quotes: '\"like this\"'")?;
    block_on(async {
        let connection = connect(&args.target).await?;
        let published = connection.publish(&args.event(payload)).await;
        connection.close().await;
        match published {
            Ok(receipt) => finish(&format!("{}\n", serde_json::to_string(&receipt)?), 0),
            Err(error) if error.kind() == ErrorKind::Refused => {
                note!("error: {error}");
                Ok(ExitCode::from(1))
            }
            Err(error) => Err(plain(error)),
        }
    })
}

fn read_stdin() -> Result<String> {
    /// More than any hub takes.
    const MAX: u64 = 64 << 20;
    let mut text = String::new();
    std::io::stdin().lock().take(MAX + 1).read_to_string(&mut text).context("reading standard input")?;
    if text.len() as u64 > MAX {
        bail!("standard input has more than 64 MiB; one payload is expected, or --lines for one per line");
    }
    Ok(text)
}
