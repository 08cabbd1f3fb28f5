//! `event-hub completions SHELL`.

use crate::text::finish;
use anyhow::Result;
use clap_complete::Shell;
use std::process::ExitCode;

/// Print completions for a shell
///
/// For example: `event-hub completions bash > ~/.local/share/bash-completion/completions/event-hub`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args, mut program: clap::Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "event-hub", &mut text);
    finish(&String::from_utf8_lossy(&text), 0)
}
