//! `event-hub top`: a live view of a hub in the terminal.

mod keys;
mod model;
mod poll;
mod screen;
mod view;

use crate::client::block_on;
use crate::exit::Usage;
use crate::http::{HttpHub, HttpTarget};
use crate::term::Paint;
use anyhow::{Context, Result};
use keys::{Key, Keys};
use model::Model;
use poll::Poller;
use screen::Screen;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Key presses that wait to be handled.
const KEYS: usize = 64;

/// Watch a hub in the terminal: rates, lag, and why groups stand still
///
/// It asks the hub once per second and shows the topics and groups that the token may see. `q` or Ctrl-C ends it, `?` shows the keys.
///
/// Exit code: 0 when it was ended, 1 if the hub did not answer at the beginning, 2 if there is no terminal or the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only topics and groups with this text in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,

    /// Seconds between two looks
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Usage::error(
            "top needs a terminal; in a script use `event-hub topics ls --json` and `event-hub groups ls --json`",
        ));
    }
    block_on(top(args))
}

async fn top(args: &Args) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let address = hub.shown().to_owned();
    // What is wrong with the address or the token is said before the screen is taken.
    let poller = Poller::start(hub, Duration::from_secs(args.interval)).await?;
    let model = Model::new(address, args.filter.clone());
    Box::pin(watch(poller, model)).await?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the screen until it is ended.
async fn watch(mut poller: Poller, mut model: Model) -> Result<()> {
    let paint = Paint::stdout();
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(|kind| signal(kind).expect("a signal that can be handled"));
    let [term, int, hup] = &mut ends;
    let mut resized = signal(SignalKind::window_change()).context("watching the size of the terminal")?;
    let mut pressed = read_keys()?;
    let mut screen = Screen::enter(screen::terminal()?)?;
    loop {
        let (width, height) = screen.size();
        screen.draw(&view::frame(&mut model, width, height, paint))?;
        tokio::select! {
            _ = term.recv() => return Ok(()),
            _ = int.recv() => return Ok(()),
            _ = hup.recv() => return Ok(()),
            _ = resized.recv() => {}
            look = poller.next() => model.update(look),
            key = pressed.recv() => match key {
                // Standard input is closed: the terminal is gone.
                None => return Ok(()),
                Some(Key::Suspend) => screen.suspend()?,
                Some(key) if !model.press(key) => return Ok(()),
                Some(_) => poller.pause(model.is_paused()),
            },
        }
    }
}

/// Reads keys on a thread of its own, which ends with the program.
fn read_keys() -> Result<mpsc::Receiver<Key>> {
    let (give, take) = mpsc::channel(KEYS);
    let read = move || {
        let (mut keys, mut bytes) = (Keys::default(), [0; 256]);
        let mut stdin = std::io::stdin().lock();
        while let Ok(count @ 1..) = stdin.read(&mut bytes) {
            for key in keys.read(&bytes[..count]) {
                if give.blocking_send(key).is_err() {
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("keys".into()).spawn(read).context("reading keys")?;
    Ok(take)
}
