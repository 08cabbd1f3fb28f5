//! `event-hub subscribe TOPIC`: events as they come, for people or for programs.

mod line;

use crate::client::{Target, block_on, connect, plain};
use crate::position;
use crate::term;
use crate::text::{is_closed_pipe, plural, print};
use anyhow::{Result, bail};
use hub_client::{
    Arrival, Code, Delivered, Deliveries, ErrorKind, Position, SubscribeOptions, SubscribeRequest, WhenFull,
};
use hub_proto::{GroupName, Pattern};
use std::process::ExitCode;
use std::time::Duration;

/// Follow a topic, or all topics of a pattern
///
/// Without a group it shows events from now on, or from --from, and leaves no trace. With one it is a member of that group:
/// each event is acked once it is printed, and the group goes on from there next time. Ctrl-C ends it.
///
/// Exit code: 0 when it was ended or --count events came, 1 if the hub refused, 2 if it could not be asked or is gone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The topic, or a pattern: `*` is one segment, `**` any number of them
    #[arg(value_name = "TOPIC", value_parser = pattern)]
    topic: Pattern,

    /// Be a member of this group, and ack what is printed
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Option<GroupName>,

    /// Where to begin: earliest, latest, ts:MILLISECONDS, ago:TIME (such as ago:5m), after-id:UUID, after-seq:NUMBER;
    /// a group that exists goes on where it is
    #[arg(long, value_name = "WHERE", default_value = "latest", value_parser = position::parse)]
    from: Position,

    /// One line of JSON per event: the whole record
    #[arg(long)]
    json: bool,

    /// End after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only events with this: key=K, tag=T or header.NAME=VALUE; several times for all of them
    #[arg(long = "filter", value_name = "WHAT", value_parser = filter)]
    filters: Vec<Filter>,

    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Debug)]
enum Filter {
    Key(String),
    Tag(String),
    Header(String, String),
}

/// How long the hub has to answer a goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// Events of a group that are under way to the terminal.
const IN_FLIGHT: u32 = 256;

fn pattern(text: &str) -> Result<Pattern, std::borrow::Cow<'static, str>> {
    Pattern::parse(text).map_err(|error| error.msg)
}

fn group(text: &str) -> Result<GroupName, std::borrow::Cow<'static, str>> {
    GroupName::parse(text).map_err(|error| error.msg)
}

fn filter(text: &str) -> Result<Filter, String> {
    match text.split_once('=') {
        Some(("key", key)) => Ok(Filter::Key(key.to_owned())),
        Some(("tag", tag)) => Ok(Filter::Tag(tag.to_owned())),
        Some((name, value)) if name.starts_with("header.") => {
            Ok(Filter::Header(name["header.".len()..].to_owned(), value.to_owned()))
        }
        _ => Err("key=K, tag=T or header.NAME=VALUE is expected".into()),
    }
}

impl Args {
    fn request(&self) -> Result<SubscribeRequest> {
        let mut wanted = hub_client::Filter::default();
        for filter in &self.filters {
            match filter.clone() {
                Filter::Key(key) if wanted.key.is_some() => bail!("--filter key={key}: an event has one key"),
                Filter::Key(key) => wanted.key = Some(key),
                Filter::Tag(tag) => wanted.tags.push(tag),
                Filter::Header(name, value) => {
                    wanted.headers.retain(|(other, _)| *other != name);
                    wanted.headers.push((name, value));
                }
            }
        }
        // A member that is about to leave takes no more than it prints.
        let window =
            self.count.and_then(|count| u32::try_from(count).ok()).unwrap_or(IN_FLIGHT).min(IN_FLIGHT);
        let options = SubscribeOptions {
            from: Some(self.from),
            filter: (wanted != hub_client::Filter::default()).then_some(wanted),
            max_in_flight: self.group.is_some().then_some(window),
            // Nothing else is on this connection, so history waits for who reads it.
            when_full: WhenFull::Wait,
            ..SubscribeOptions::default()
        };
        Ok(SubscribeRequest::new(self.topic.as_str(), self.group.as_deref()).options(options))
    }
}

/// Why it ended.
enum End {
    /// Ctrl-C, enough events, or nobody reads any more.
    Wanted,
    Refused(hub_client::Error),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let request = args.request()?;
    block_on(async {
        let connection = connect(&args.target).await?;
        let code = match connection.subscribe(request).await {
            Ok(deliveries) => follow_to_the_end(args, deliveries).await?,
            Err(error) if error.kind() == ErrorKind::Refused => refused(&error),
            Err(error) => return Err(plain(error)),
        };
        connection.close().await;
        Ok(code)
    })
}

async fn follow_to_the_end(args: &Args, mut deliveries: Deliveries) -> Result<ExitCode> {
    match follow(args, &mut deliveries).await? {
        End::Wanted => {
            // The acks before it are taken before it.
            let _ = tokio::time::timeout(GOODBYE, deliveries.unsubscribe()).await;
            Ok(ExitCode::SUCCESS)
        }
        End::Refused(error) => Ok(refused(&error)),
    }
}

fn refused(error: &hub_client::Error) -> ExitCode {
    note!("error: {error}");
    ExitCode::from(1)
}

async fn follow(args: &Args, deliveries: &mut Deliveries) -> Result<End> {
    let mut ended = std::pin::pin!(ended());
    let mut notices = deliveries.connection().notices();
    let mut seen = 0;
    loop {
        let arrival = tokio::select! {
            biased;
            () = &mut ended => return Ok(End::Wanted),
            Ok(notice) = notices.recv() => match notice.code() {
                // An ack came too late: the event comes again.
                Some(Code::UnknownId) => continue,
                _ => return Ok(End::Refused(notice)),
            },
            arrival = deliveries.recv() => arrival,
        };
        match arrival {
            Ok(Arrival::Event(delivered)) => match show(args, &delivered) {
                Ok(()) => {
                    if args.group.is_some() {
                        let ids = [delivered.event.id()];
                        let connection = deliveries.connection();
                        connection.ack(&delivered.name, &ids, Some(delivered.attempt)).map_err(plain)?;
                    }
                    seen += 1;
                    if Some(seen) == args.count {
                        return Ok(End::Wanted);
                    }
                }
                Err(error) if is_closed_pipe(&error) => return Ok(End::Wanted),
                Err(error) => return Err(error.into()),
            },
            Ok(Arrival::Lagged { missed, .. }) => {
                note!("warning: too slow, {} were missed", plural(missed, "event"));
            }
            Err(error) if error.kind() == ErrorKind::Refused => return Ok(End::Refused(error)),
            Err(error) => return Err(plain(error)),
        }
    }
}

/// Prints an event.
fn show(args: &Args, delivered: &Delivered) -> std::io::Result<()> {
    if args.json {
        return print(&format!("{}\n", String::from_utf8_lossy(delivered.event.json())));
    }
    print(&line::line(&delivered.event, term::width()))
}

/// Ctrl-C, or a polite kill.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut term) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = term.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}
