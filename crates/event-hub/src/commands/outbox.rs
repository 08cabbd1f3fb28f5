//! `event-hub outbox …`: looking after an outbox, in its own database.

mod batch_size;
mod to_hub;

use crate::client::{Target, block_on};
use crate::config::Config;
use crate::config::outbox::Outbox;
use crate::config::sources::{Flags, hidden};
use crate::exit;
use crate::http::{HttpHub, HttpTarget};
use crate::outbox::Place;
use crate::text::{columns, count, finish, plural, time};
use crate::{log, text};
use anyhow::{Context, Result, bail};
use hub_core::outbox::{
    Counts, Drainer, DrainerOptions, OnError, OutboxStore, Progress, RowId, RowStatus, Shown,
};
use hub_server::auth::Secret;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use to_hub::ToHub;
use tokio_util::sync::CancellationToken;

/// Look after an outbox
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Ls(LsArgs),
    Show(ShowArgs),
    Retry(RetryArgs),
    Drain(DrainArgs),
    Purge(PurgeArgs),
    Init(InitArgs),
}

/// Which outbox.
#[derive(Clone, Debug, clap::Args)]
struct Where {
    /// The configuration file (TOML) that has the outbox
    #[arg(long, value_name = "FILE", env = "EVENT_HUB_CONFIG", help_heading = "Outbox")]
    config: Option<PathBuf>,

    /// The outbox of the configuration [default: the only one]
    #[arg(long, value_name = "NAME", help_heading = "Outbox")]
    outbox: Option<String>,

    /// Its database, if it is in no configuration: mongodb://, postgres:// or sqlite:PATH; with a password, better in the
    /// environment. With --outbox it does not count
    #[arg(
        long,
        value_name = "URL",
        env = "OUTBOX_URL",
        hide_env_values = true,
        help_heading = "Outbox",
        value_parser = hidden
    )]
    db: Option<Secret>,

    /// The collection or table of --db
    #[arg(long, value_name = "NAME", default_value = "outbox", help_heading = "Outbox")]
    table: String,
}

/// List the rows of an outbox, the oldest first
///
/// Without --status, those that are parked: somebody has to look at them.
///
/// Exit code: 0, or 2 if the database could not be read.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    #[command(flatten)]
    of: Where,

    /// Rows of this status
    #[arg(long, value_parser = ["pending", "claimed", "sent", "error", "all"], default_value = "error")]
    status: String,

    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Show a row, with its payload
///
/// Exit code: 0, 1 if there is no such row, 2 if the database could not be read.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The row's id
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    of: Where,
}

/// Let parked rows be tried again, all or those named
///
/// Their attempts begin anew. Rows of their keys that were held go on once they are published.
///
/// Exit code: 0, 1 if a row that was named is not parked, 2 if the database could not be written.
#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// Ids of rows; all that are parked without any
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    of: Where,

    /// Ask a hub that drains the outbox of this name (--outbox), instead of its database. Needs a token with the admin right for all topics
    #[arg(long, requires = "outbox")]
    through_hub: bool,

    #[command(flatten)]
    hub: HttpTarget,
}

/// Publish the rows of an outbox to a hub: a drainer of its own, beside a service
///
/// Any number of them share the rows, and hubs that drain the same outbox are part of that. Ends on SIGTERM or SIGINT, and
/// gives back what it has claimed.
///
/// Exit code: 0 after a clean stop, or with --once when nothing is left to be published; 2 if it could not start.
#[derive(Debug, clap::Args)]
pub struct DrainArgs {
    #[command(flatten)]
    of: Where,

    /// The hub, as --url of other commands
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    #[command(flatten)]
    target: Target,

    /// End when nothing is left but what is parked, and what is behind that
    #[arg(long)]
    once: bool,

    /// What a parked row does to later rows of its key [default: hold, or as configured]
    #[arg(long, value_parser = ["hold", "skip"])]
    on_error: Option<String>,

    /// Rows of one claim [default: 100, or as configured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch_size: Option<u64>,
}

/// Remove rows that were published a while ago
///
/// A drainer does so by itself, see keep_sent_hours. Rows that are not published are never removed.
///
/// Exit code: 0, or 2 if the database could not be written.
#[derive(Debug, clap::Args)]
pub struct PurgeArgs {
    #[command(flatten)]
    of: Where,

    /// Those that were published at least so many hours ago
    #[arg(long, value_name = "N", default_value_t = 24)]
    hours: u64,
}

/// Print what makes the table of an outbox, or make it
///
/// A collection of MongoDB needs no statements: --apply makes its indexes, which a drainer does, too.
///
/// Exit code: 0, or 2 if the database could not be written.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    #[command(flatten)]
    of: Where,

    /// Make it
    #[arg(long)]
    apply: bool,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Ls(args) => block_on(at(args.of.look(), async |outbox| ls(args, outbox).await)),
        Command::Show(args) => block_on(at(args.of.look(), async |outbox| show(args, outbox).await)),
        Command::Retry(args) if args.through_hub => exit::of(block_on(retry_through_hub(args))),
        Command::Retry(args) => block_on(at(args.of.open(), async |outbox| retry(args, outbox).await)),
        Command::Purge(args) => block_on(at(args.of.open(), async |outbox| purge(args, outbox).await)),
        Command::Init(args) => block_on(init(args)),
        Command::Drain(args) => {
            log::start()?;
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.context("starting threads")?.block_on(async {
                // One that comes while it connects counts, too.
                let signals = crate::serving::Signals::new().context("listening for signals")?;
                Box::pin(at(args.of.open(), async |outbox| drain(args, signals, outbox).await)).await
            })
        }
    }
}

/// An outbox that was connected to.
type Opened = (Outbox, Arc<dyn OutboxStore>);

/// Does something with an outbox, and gives its database up in order, whatever came of it.
async fn at<T>(
    opening: impl Future<Output = Result<Opened>>,
    act: impl AsyncFnOnce(&Opened) -> Result<T>,
) -> Result<T> {
    let opened = opening.await?;
    let done = act(&opened).await;
    opened.1.close().await;
    done
}

impl Where {
    fn find(&self) -> Result<Outbox> {
        if let Some(url) = self.db.as_ref().filter(|_| self.outbox.is_none()) {
            let place = Place::parse(url.expose(), &self.table)
                .map_err(|why| anyhow::anyhow!("--db (OUTBOX_URL): {why}"))?;
            return Ok(Outbox { name: self.table.clone(), place, options: DrainerOptions::default() });
        }
        let flags = Flags { config: self.config.clone(), ..Flags::default() };
        let mut outboxes = Config::load(&flags, &|name| std::env::var_os(name))?.outboxes;
        let names = outboxes.iter().map(|outbox| outbox.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&self.outbox, outboxes.len()) {
            (_, 0) => bail!(
                "there is no outbox to look at: give its database with --db or OUTBOX_URL, or a file that has an \
                 [[outbox]] with --config, or set MONGO_URL"
            ),
            (None, 1) => Ok(outboxes.remove(0)),
            (None, _) => bail!("there are several outboxes; choose one with --outbox: {names}"),
            (Some(name), _) => {
                let at = outboxes.iter().position(|outbox| outbox.name == *name);
                match at {
                    Some(at) => Ok(outboxes.remove(at)),
                    None => bail!("there is no outbox {name:?}; there are: {names}"),
                }
            }
        }
    }

    async fn open(&self) -> Result<Opened> {
        let outbox = self.find()?;
        let store = outbox.place.open(&outbox.name).await?;
        Ok((outbox, store))
    }

    async fn look(&self) -> Result<Opened> {
        let outbox = self.find()?;
        let store = outbox.place.look(&outbox.name).await?;
        Ok((outbox, store))
    }
}

async fn ls(args: &LsArgs, (outbox, store): &Opened) -> Result<ExitCode> {
    let counts = store.counts().await?;
    let rows = store.list(RowStatus::parse(&args.status), args.limit as usize).await?;
    if args.json {
        let listing = json!({
            "outbox": outbox.name,
            "pending": counts.pending,
            "behind": counts.behind,
            "parked": counts.errors,
            "oldestAgeMs": counts.oldest_age,
            "rows": rows,
        });
        return finish(&(serde_json::to_string_pretty(&listing)? + "\n"), 0);
    }
    let behind = match counts.behind {
        0 => String::new(),
        behind => format!(", {} of them behind others", count(behind)),
    };
    let oldest = counts.oldest_age.map(|age| format!(", the oldest for {}", ago(age))).unwrap_or_default();
    let mut text = format!(
        "{}: {} to be published{behind}{oldest}; {} parked\n",
        outbox.name,
        plural(counts.pending, "row"),
        count(counts.errors)
    );
    if !rows.is_empty() {
        let header =
            ["id", "topic", "key", "status", "written (UTC)", "attempts", "error"].map(str::to_owned);
        let lines: Vec<_> = std::iter::once(header.to_vec()).chain(rows.iter().map(line)).collect();
        text += "\n";
        text += &columns(&lines);
    }
    finish(&text, 0)
}

fn line(row: &Shown) -> Vec<String> {
    let status = match (row.status, row.behind) {
        (RowStatus::Pending, true) => "behind".to_owned(),
        (status, _) => status.as_str().to_owned(),
    };
    let error = row.error.as_deref().unwrap_or("-").replace('\n', " ");
    let error = match error.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &error[..end]),
        None => error,
    };
    vec![
        row.id.clone(),
        row.topic.clone(),
        row.key.clone().unwrap_or_else(|| "-".into()),
        status,
        time(row.ts),
        row.attempts.to_string(),
        error,
    ]
}

/// A time span for people.
fn ago(millis: u64) -> String {
    match millis / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

async fn show(args: &ShowArgs, (outbox, store): &Opened) -> Result<ExitCode> {
    match store.show(&RowId::from(args.id.as_str())).await? {
        Some(row) => finish(&(serde_json::to_string_pretty(&row)? + "\n"), 0),
        None => {
            note!("error: outbox {} has no row {:?}", outbox.name, args.id);
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn retry(args: &RetryArgs, (outbox, store): &Opened) -> Result<ExitCode> {
    let ids: Vec<RowId> = args.ids.iter().map(|id| RowId::from(id.as_str())).collect();
    retried(&outbox.name, args, store.retry((!ids.is_empty()).then_some(&ids[..])).await?)
}

/// Says how many rows will be tried again, and answers the exit code.
fn retried(name: &str, args: &RetryArgs, retried: u64) -> Result<ExitCode> {
    text::print(&format!("{name}: {} will be tried again\n", plural(retried, "row")))?;
    let missing = (args.ids.len() as u64).saturating_sub(retried);
    if missing > 0 {
        note!("error: {} of those that were named are not parked", plural(missing, "row"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The same by a hub, whose database nobody here has to reach.
async fn retry_through_hub(args: &RetryArgs) -> Result<ExitCode> {
    let name = args.of.outbox.as_deref().unwrap_or_default();
    let mut body = json!({ "outbox": name });
    if !args.ids.is_empty() {
        body["ids"] = json!(args.ids);
    }
    let answer = HttpHub::new(&args.hub)?.needing("admin:**").post("/outbox/retry", &body).await?;
    retried(name, args, answer["retried"].as_u64().unwrap_or(0))
}

async fn purge(args: &PurgeArgs, (outbox, store): &Opened) -> Result<ExitCode> {
    const AT_ONCE: usize = 500;
    let age = args.hours.saturating_mul(3_600_000);
    let mut removed = 0;
    loop {
        let some = store.purge(age, AT_ONCE).await?;
        removed += some;
        if some < AT_ONCE as u64 {
            break;
        }
    }
    finish(&format!("{}: {} removed\n", outbox.name, plural(removed, "row")), 0)
}

async fn init(args: &InitArgs) -> Result<ExitCode> {
    let outbox = args.of.find()?;
    if args.apply {
        outbox.place.init().await?;
        return finish(&format!("{} is ready\n", outbox.name), 0);
    }
    let nothing =
        || "-- a collection needs no statements; `--apply` makes its indexes, and so does a drainer\n".into();
    finish(&outbox.place.ddl()?.unwrap_or_else(nothing), 0)
}

async fn drain(
    args: &DrainArgs,
    mut signals: crate::serving::Signals,
    (outbox, store): &Opened,
) -> Result<ExitCode> {
    let mut options = outbox.options.clone();
    if let Some(word) = &args.on_error {
        options.on_error = if word == "skip" { OnError::Skip } else { OnError::Hold };
    }
    if let Some(batch) = args.batch_size {
        options.batch_size = batch as usize;
    }
    let target = match &args.to {
        Some(url) => args.target.clone().at(url),
        None => args.target.clone(),
    };
    let hub = Arc::new(ToHub::new(target));
    // A wrong address or token is told now, and not row by row.
    hub.connect().await?;
    let stop = CancellationToken::new();
    let holds = options.on_error == OnError::Hold;
    let drainer = Drainer::new(store.clone(), hub, options);
    tracing::info!(outbox = outbox.name, "draining");
    let progress = drainer.progress();
    let mut running = tokio::spawn(drainer.run(stop.clone()));
    let ended = tokio::select! {
        by = signals.end() => {
            tracing::info!(by, "stopping");
            None
        }
        () = nothing_pending(&**store, &progress, holds), if args.once => None,
        ended = &mut running => Some(ended),
    };
    stop.cancel();
    let drained = match ended {
        Some(ended) => ended,
        None => running.await,
    };
    let drained = drained.context("the drainer")?;
    let said = format!(
        "{}: {} published, {} parked, {} to be tried again\n",
        outbox.name,
        plural(drained.sent, "row"),
        count(drained.parked),
        count(drained.retried)
    );
    finish(&said, 0)
}

/// Waits until there is nothing left but what is parked, or behind that.
async fn nothing_pending(store: &dyn OutboxStore, progress: &Progress, holds: bool) {
    // Rows move while they are looked at, so nothing may be found twice, with nothing done in between.
    let mut before = None;
    loop {
        // What is behind others waits for them only as long as one of them may be parked.
        let is_nothing = |it: Counts| it.pending == 0 || (it.pending == it.behind && it.errors > 0 && holds);
        let nothing = match store.fresh(None, 1).await {
            // Counting takes long while there are many.
            Ok(fresh) if fresh.is_empty() => store.counts().await.is_ok_and(is_nothing),
            _ => false,
        };
        let nothing = nothing.then(|| progress.drained());
        if nothing.is_some() && nothing == before {
            return;
        }
        before = nothing;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
