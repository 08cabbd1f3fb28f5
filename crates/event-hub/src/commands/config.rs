//! `event-hub config …`: a file to begin with, and what is wrong with one.

use crate::config::sources::Flags;
use crate::config::{Config, DEFAULT};
use crate::text::{finish, plural};
use anyhow::Result;
use hub_server::Origins;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print or check a configuration
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print a commented file with every setting and its default
    Default,
    Check(CheckArgs),
}

/// Say whether `event-hub serve` would start with a configuration, or everything that is wrong with it
///
/// The environment counts as it does for `serve`. Files that the configuration names are read, too. No secret is shown.
///
/// Exit code: 0 if it is good, 1 if something is wrong, 2 if the command line is.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The file; without one, only the environment is checked
    #[arg(value_name = "FILE", env = "EVENT_HUB_CONFIG")]
    file: Option<PathBuf>,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode> {
    let Command::Check(args) = command else {
        return finish(DEFAULT, 0);
    };
    let flags = Flags { config: args.file.clone(), ..Flags::default() };
    match Config::load(&flags, &|name| std::env::var_os(name)) {
        Ok(config) => finish(&summary(args.file.as_ref(), &config), 0),
        Err(mistakes) => {
            let mut text = String::new();
            for mistake in &mistakes.0 {
                let _ = writeln!(text, "{mistake}");
            }
            let _ = writeln!(text, "{} found", plural(mistakes.0.len() as u64, "mistake"));
            finish(&text, 1)
        }
    }
}

fn summary(file: Option<&PathBuf>, config: &Config) -> String {
    let mut text = match file {
        Some(file) => format!("{}: ok\n", file.display()),
        None => "ok\n".to_owned(),
    };
    let mut tell = |name: &str, what: String| {
        let _ = writeln!(text, "  {name:<8} {what}");
    };
    let tls = if config.tls.is_some() { ", with TLS" } else { "" };
    let (bind, ws, ops) = (config.bind, config.ws_port, config.ops_port);
    tell("server", format!("{bind}, WebSocket on {ws}, HTTP on {ops}{tls}"));
    match &config.mongo {
        Some(mongo) => tell("store", format!("MongoDB at {}", mongo.address)),
        None => tell("store", config.data.display().to_string()),
    }
    let mut ways = Vec::new();
    ways.extend(config.auth.jwks_url.is_some().then_some("keys from a JWKS URL"));
    ways.extend(config.auth.secret.is_some().then_some("a secret"));
    ways.extend((!config.auth.is_real()).then_some("a development secret"));
    ways.extend(config.auth.static_token.is_some().then_some("a static token"));
    tell(
        "auth",
        format!("{}, {}", ways.join(", "), plural(config.settings.policy.rules().len() as u64, "own rule")),
    );
    let origins = match &config.settings.origins {
        Origins::SameHost => "those of the same host".to_owned(),
        Origins::Any => "any".to_owned(),
        Origins::Listed(list) => list.join(", "),
    };
    tell("pages", origins);
    if !config.settings.cors_origins.is_empty() {
        tell("cors", config.settings.cors_origins.join(", "));
    }
    let rate = |rate: Option<u32>| rate.map_or("no rate".to_owned(), |rate| format!("{rate} events/s"));
    let limits = &config.settings.limits;
    let (one, all) = (rate(limits.connection_rate), rate(limits.subject_rate));
    tell("limits", format!("{one} per connection, {all} per subject"));
    tell("audit", config.audit.log.to_string());
    tell("topics", plural(config.bus.topics.len() as u64, "pattern"));
    text
}
