//! Command lines: flags are taken out one by one, and whatever is left over at the end is refused.

use std::fmt;
use std::str::FromStr;

/// The words after the command's name.
#[derive(Debug)]
pub struct Args(Vec<String>);

/// A command line that cannot be obeyed. `main` answers it with the command's usage and exit code 2.
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    /// An error that says `problem`.
    pub fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Args {
    /// The words as typed.
    pub fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self(words.into_iter().collect())
    }

    /// Whether the first word asks for help. Only the first, because later ones may belong to a benchmark.
    pub fn asks_for_help(&self) -> bool {
        self.0.first().is_some_and(|word| word == "--help" || word == "-h")
    }

    /// Takes `name` out; true if it was there.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != name);
        self.0.len() < before
    }

    /// Takes `name VALUE` or `name=VALUE` out.
    pub fn value<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, UsageError> {
        let is_it = |word: &String| {
            word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        let Some(at) = self.0.iter().position(is_it) else { return Ok(None) };
        let word = self.0.remove(at);
        let text = match word.split_once('=') {
            Some((_, text)) => text.to_owned(),
            None if at < self.0.len() => self.0.remove(at),
            None => return Err(UsageError(format!("{name} needs a value"))),
        };
        let parsed = text.parse().map_err(|_| UsageError(format!("{name} does not take `{text}`")))?;
        Ok(Some(parsed))
    }

    /// Takes the first word that is not a flag.
    pub fn positional(&mut self) -> Option<String> {
        let at = self.0.iter().position(|word| !word.starts_with('-'))?;
        Some(self.0.remove(at))
    }

    /// Everything left, for a program that has its own flags.
    pub fn rest(self) -> Vec<String> {
        self.0
    }

    /// Refuses what nobody took.
    pub fn finish(self) -> Result<(), UsageError> {
        match self.0.first() {
            None => Ok(()),
            Some(word) => Err(UsageError(format!("`{word}` is not understood here"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn values_are_taken_in_both_spellings() {
        let mut line = args("--seeds 5 --from=9 target");
        assert_eq!(line.value("--seeds").ok(), Some(Some(5)));
        assert_eq!(line.value("--from").ok(), Some(Some(9)));
        assert_eq!(line.value::<u64>("--steps").ok(), Some(None));
        assert_eq!(line.positional().as_deref(), Some("target"));
        assert!(line.finish().is_ok());
    }

    #[test]
    fn what_nobody_takes_is_refused() {
        let mut line = args("--quick --fast");
        assert!(line.flag("--quick"));
        assert!(!line.flag("--full"));
        assert_eq!(
            line.finish().map_err(|error| error.to_string()),
            Err("`--fast` is not understood here".into())
        );
    }

    #[test]
    fn a_value_that_is_missing_or_no_number_is_refused() {
        assert!(args("--seeds").value::<u64>("--seeds").is_err());
        assert!(args("--seeds many").value::<u64>("--seeds").is_err());
        assert!(args("--seeds=").value::<u64>("--seeds").is_err());
        assert!(args("--seedsx 4").value::<u64>("--seeds").is_ok_and(|value| value.is_none()));
    }
}
