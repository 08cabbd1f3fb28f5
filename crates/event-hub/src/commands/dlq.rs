//! `event-hub dlq …`: dead letters, the events that a group gave up.

mod ls;
mod replay;
mod rm;

use crate::client::block_on;
use crate::http::{HttpHub, HttpTarget};
use crate::listing;
use crate::term::safe;
use crate::text::{finish, pretty};
use anyhow::Result;
use std::process::ExitCode;

/// Look after dead letters: events that a group gave up
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(ls::Args),
    Show(ShowArgs),
    Replay(replay::Args),
    Rm(rm::Args),
}

/// Show a dead letter, with the payload of its event
///
/// Exit code: 0, 1 if there is no such dead letter or the hub did not answer, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The topic of the event
    #[arg(value_name = "TOPIC", value_parser = source)]
    topic: String,

    /// The id of the dead letter
    #[arg(value_name = "ID")]
    id: String,

    /// Print it on one line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

/// Which dead letters are meant: those for which everything holds that is given.
#[derive(Clone, Debug, Default, clap::Args)]
struct Filter {
    /// Given up by this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// With exactly this error
    #[arg(long, value_name = "TEXT")]
    err: Option<String>,

    /// With this text in the error
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,

    /// Of events with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl Filter {
    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let pairs = [("group", &self.group), ("err", &self.err), ("q", &self.contains), ("key", &self.key)];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }
}

/// The topics with dead letters of a filter, by name; and whether there are more letters than were counted.
async fn topics_with_letters(hub: &HttpHub, filter: &Filter) -> Result<(Vec<String>, bool)> {
    let (counts, is_cut) = listing::letter_counts(hub, &filter.pairs()).await?;
    Ok((counts.into_iter().map(|count| count.topic).collect(), is_cut))
}

/// The topic of the events, also if the dead-letter topic was named.
fn source(text: &str) -> Result<String, std::borrow::Cow<'static, str>> {
    let source = text.strip_prefix("dlq.").unwrap_or(text);
    hub_proto::TopicName::parse(source).map_err(|error| error.msg)?;
    Ok(source.to_owned())
}

pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ls(args) => block_on(ls::ls(args)),
        Command::Show(args) => block_on(show(args)),
        Command::Replay(args) => block_on(replay::replay(args)),
        Command::Rm(args) => block_on(rm::rm(args)),
    }
}

async fn show(args: &ShowArgs) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing(format!("subscribe:dlq.{}", args.topic));
    let letter = hub.get_bytes("/dlq/show", &[("topic", &args.topic), ("id", &args.id)]).await?;
    hub.parse(&letter)?;
    let letter = String::from_utf8_lossy(&letter);
    match args.json {
        true => finish(&format!("{}\n", letter.trim_end()), 0),
        false => finish(&pretty(&letter).lines().map(|line| safe(line) + "\n").collect::<String>(), 0),
    }
}
