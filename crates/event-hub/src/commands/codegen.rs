//! `event-hub codegen …`: types for programs, from the schemas of a hub.

use crate::client::block_on;
use crate::codegen::{Source, rust, typescript};
use crate::commands::topics::pattern;
use crate::exit::Usage;
use crate::http::{HttpHub, HttpTarget};
use crate::listing;
use crate::text::{finish, plural};
use anyhow::{Context, Result};
use hub_proto::Pattern;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write types for the payloads of topics, from the schemas of a hub
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// TypeScript: a type for each schema, and the `Topics` that a `PromClient<Topics>` takes
    #[command(name = "typescript")]
    TypeScript(Args),
    /// Rust: a module for each schema, with structs and enums for serde
    Rust(Args),
}

/// Exit code: 0, 1 if the hub refused or did not answer, 2 if the command line is wrong or the file cannot be written.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only schemas of topics and patterns that this pattern contains
    #[arg(value_name = "PATTERN", value_parser = pattern)]
    pattern: Option<Pattern>,

    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::TypeScript(args) => block_on(generate(args, typescript::generate)),
        Command::Rust(args) => block_on(generate(args, rust::generate)),
    }
}

async fn generate(args: &Args, write: fn(&[Source]) -> String) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?;
    let (schemas, _) = listing::entries(&hub, "/schemas", "schemas", &[], usize::MAX).await?;
    let mut sources = Vec::new();
    for mut schema in schemas {
        let target = schema["topic"].as_str().and_then(|topic| Pattern::parse(topic).ok());
        let target = target.context("the hub's answer has a schema without a topic")?;
        if args.pattern.as_ref().is_none_or(|pattern| pattern.contains(&target)) {
            sources.push(Source { target, schema: schema["schema"].take() });
        }
    }
    let text = write(&sources);
    let Some(out) = &args.out else { return finish(&text, 0) };
    let shown = out.display();
    // Tools that watch files are not woken for nothing.
    if std::fs::read(out).is_ok_and(|before| before == text.as_bytes()) {
        return finish(&format!("{shown}: nothing changed\n"), 0);
    }
    std::fs::write(out, text).with_context(|| format!("{shown} cannot be written")).map_err(Usage::of)?;
    finish(&format!("{shown}: {}\n", plural(sources.len() as u64, "schema")), 0)
}
