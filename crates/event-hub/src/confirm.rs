//! Asking a person before something is done that cannot be taken back.

use crate::exit::Usage;
use anyhow::Result;
use std::io::{IsTerminal, Write};

/// Asks on the terminal, unless `yes` was said on the command line.
///
/// # Errors
/// A mistake of usage if there is no terminal to ask on.
pub fn confirm(question: &str, yes: bool) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Usage::error(format!(
            "there is no terminal to ask on: \"{question}\"; answer it with --yes"
        )));
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
