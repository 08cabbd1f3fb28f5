//! The event-hub program: one file per command in `commands`.

/// A line on standard error. If nobody reads it the command goes on, and its exit code stays what it is; `eprintln` would panic.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod browser;
mod client;
mod codegen;
mod commands;
mod config;
mod confirm;
#[cfg(test)]
mod docs;
mod exit;
mod http;
mod limits;
mod listing;
mod log;
mod outbox;
mod position;
mod progress;
mod secret;
mod serving;
mod table;
mod term;
mod text;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Small objects by the million, made on one thread and freed on another: that is what it is good at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A durable event bus.
#[derive(Debug, Parser)]
#[command(
    name = "event-hub",
    version,
    about = "A durable event bus on its own embedded log, or on MongoDB",
    after_help = "`event-hub COMMAND --help` says more. docs/cli.md shows every command with its output.",
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(commands::serve::Args),
    Publish(commands::publish::Args),
    Subscribe(commands::subscribe::Args),
    Token(commands::token::Args),
    #[command(subcommand)]
    Config(commands::config::Command),
    #[command(subcommand)]
    Policy(commands::policy::Command),
    #[command(subcommand)]
    Cluster(commands::cluster::Command),
    #[command(subcommand)]
    Outbox(commands::outbox::Command),
    #[command(subcommand)]
    Topics(commands::topics::Command),
    #[command(subcommand)]
    Groups(commands::groups::Command),
    Replay(commands::replay::Args),
    Export(commands::export::Args),
    Import(commands::import::Args),
    #[command(subcommand)]
    Dlq(commands::dlq::Command),
    #[command(subcommand)]
    Jobs(commands::jobs::Command),
    #[command(subcommand)]
    Event(commands::event::Command),
    #[command(subcommand)]
    Push(commands::push::Command),
    #[command(subcommand)]
    Schemas(commands::schemas::Command),
    #[command(subcommand)]
    Codegen(commands::codegen::Command),
    Revoke(commands::revoke::Args),
    Top(commands::top::Args),
    Backup(commands::backup::Args),
    Doctor(commands::doctor::Args),
    #[command(subcommand)]
    Store(commands::store::Command),
    Completions(commands::completions::Args),
}

/// What every command that could not do its work ends with; clap ends with it, too, when it does not understand.
const COULD_NOT: u8 = 2;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => commands::serve::run(&args),
        Command::Publish(args) => commands::publish::run(&args),
        Command::Subscribe(args) => commands::subscribe::run(&args),
        Command::Token(args) => commands::token::run(&args),
        Command::Config(command) => commands::config::run(&command),
        Command::Policy(command) => commands::policy::run(&command),
        Command::Cluster(command) => commands::cluster::run(&command),
        Command::Outbox(command) => commands::outbox::run(&command),
        Command::Topics(command) => exit::of(commands::topics::run(&command)),
        Command::Groups(command) => exit::of(commands::groups::run(&command)),
        Command::Replay(args) => exit::of(commands::replay::run(&args)),
        Command::Export(args) => exit::of(commands::export::run(&args)),
        Command::Import(args) => exit::of(commands::import::run(&args)),
        Command::Dlq(command) => exit::of(commands::dlq::run(&command)),
        Command::Jobs(command) => exit::of(commands::jobs::run(&command)),
        Command::Push(command) => exit::of(commands::push::run(&command)),
        Command::Event(command) => exit::of(commands::event::run(&command)),
        Command::Schemas(command) => exit::of(commands::schemas::run(&command)),
        Command::Codegen(command) => exit::of(commands::codegen::run(&command)),
        Command::Revoke(args) => exit::of(commands::revoke::run(&args)),
        Command::Top(args) => exit::of(commands::top::run(&args)),
        Command::Backup(args) => exit::of(commands::backup::run(&args)),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Store(command) => commands::store::run(&command),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
    };
    done.unwrap_or_else(|error| {
        note!("error: {error:#}");
        ExitCode::from(COULD_NOT)
    })
}
