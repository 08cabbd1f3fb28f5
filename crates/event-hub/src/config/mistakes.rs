//! What is wrong with a configuration: all of it at once, each with its place.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file.
    File(PathBuf, usize),
    /// A variable of the environment.
    Env(&'static str),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "{name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where; without one it is about several settings.
    pub origin: Option<Origin>,
    /// The setting, what is wrong with it, what is allowed.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "{origin}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// Everything that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    /// One more.
    pub fn add(&mut self, origin: Option<Origin>, text: impl Into<String>) {
        self.0.push(Mistake { origin, text: text.into() });
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "{one}"),
            several => {
                write!(f, "{} settings cannot be used", several.len())?;
                several.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
            }
        }
    }
}

impl std::error::Error for Mistakes {}
