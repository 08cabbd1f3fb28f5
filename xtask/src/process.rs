//! Child programs: run and watched, or run and read along.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// The stream of a child that is read along while it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output: where libtest and rustdoc write their results.
    Stdout,
    /// Standard error: where nextest does.
    Stderr,
}

/// Runs `command` with its output shown as it comes; true if it succeeded.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    // What we said before must not appear after what the child says.
    io::stdout().flush()?;
    let status = command.status().with_context(|| cannot_start(command))?;
    Ok(status.success())
}

/// Runs `command` silently; true if it could be started and succeeded.
pub fn succeeds_quietly(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs `command`, shows its output as it comes, and also returns what it wrote to `stream`.
pub fn read_along(command: &mut Command, stream: Stream) -> Result<(bool, String)> {
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    io::stdout().flush()?;
    let mut child = command.spawn().with_context(|| cannot_start(command))?;
    let text = match stream {
        Stream::Stdout => copy_lines(child.stdout.take(), &mut io::stdout().lock())?,
        Stream::Stderr => copy_lines(child.stderr.take(), &mut io::stderr().lock())?,
    };
    Ok((child.wait()?.success(), text))
}

fn copy_lines(from: Option<impl io::Read>, to: &mut impl Write) -> Result<String> {
    let mut from = BufReader::new(from.context("the child has no pipe")?);
    let mut text = String::new();
    let mut line = Vec::new();
    // Bytes rather than `lines()`: a test may print what is not UTF-8, and that must not end the reading.
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        text.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(text)
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("'{word}'") } else { word.to_owned() }
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", shown(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("cargo");
        command.args(["nextest", "run", "-E", "not binary(sim)"]);
        assert_eq!(shown(&command), "cargo nextest run -E 'not binary(sim)'");
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_that_names_it() {
        let mut command = Command::new("no-such-program-anywhere");
        assert!(!succeeds_quietly(&mut command));
        let error = succeeds(&mut command).expect_err("it does not exist");
        assert!(error.to_string().contains("no-such-program-anywhere"));
    }
}
