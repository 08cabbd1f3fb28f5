//! Exit codes of the commands that talk to a running hub: 0 done, 1 failed, 2 called in a wrong way.

use anyhow::Result;
use std::fmt;
use std::process::ExitCode;

/// The command was understood and could not be done, wholly or in part.
pub const FAILED: u8 = 1;

/// A mistake in how a command was called, that clap cannot see: the exit code is 2.
#[derive(Debug)]
pub struct Usage(String);

impl Usage {
    pub fn error(text: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(text.into()))
    }

    /// Marks another error as a mistake of usage.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub fn of(error: anyhow::Error) -> anyhow::Error {
        Self::error(format!("{error:#}"))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Prints the error of a command that failed. Mistakes of usage are left to `main`.
pub fn of(done: Result<ExitCode>) -> Result<ExitCode> {
    match done {
        Err(error) if error.downcast_ref::<Usage>().is_none() => {
            note!("error: {error:#}");
            Ok(ExitCode::from(FAILED))
        }
        done => done,
    }
}
