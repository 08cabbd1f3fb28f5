//! The command line.

use crate::bus::Part;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask bench bus [--json] [--quick] [PART...]

Measures the bus in one process, on the memory store. Without a PART, all of them:

  publish    publishers that wait for their answer, and batches
  tail       delivery with an ack per event, out of memory: one group, 100 groups, key order, 4 members
  live       publishing and delivering at the same time
  catch-up   delivery with an ack per event, out of the store
  idle       what 10,000 topics and 1,000 idle groups cost

  --json     one line of JSON per figure
  --quick    a tenth of the events: does it run, and roughly how fast";

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    /// The help text.
    Help,
    /// A benchmark.
    Run(Options),
}

/// How to run the benchmark.
#[derive(Debug, Default)]
pub struct Options {
    /// Print JSON.
    pub json: bool,
    /// Use fewer events.
    pub quick: bool,
    /// What to measure; empty: everything.
    pub parts: Vec<Part>,
}

impl Options {
    /// Whether `part` is to be measured.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// Reads the words after the program's name; an error is a sentence.
pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    match words.next().as_deref() {
        Some("bus") => {}
        Some("--help" | "-h") => return Ok(Command::Help),
        Some(other) => return Err(format!("no benchmark `{other}`; there is: bus")),
        None => return Err("which benchmark?".into()),
    }
    for word in words {
        match word.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--json" => options.json = true,
            "--quick" => options.quick = true,
            name => options.parts.push(Part::parse(name).ok_or_else(|| format!("no part `{name}`"))?),
        }
    }
    Ok(Command::Run(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn parts_are_picked_by_name_and_all_are_the_default() {
        let Ok(Command::Run(options)) = parsed("bus --json tail catch-up") else { panic!("not understood") };
        assert!(options.json && !options.quick);
        assert!(options.wants(Part::Tail) && options.wants(Part::CatchUp) && !options.wants(Part::Idle));

        let Ok(Command::Run(options)) = parsed("bus --quick") else { panic!("not understood") };
        assert!(options.quick && options.wants(Part::Idle));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        assert!(parsed("bus tails").is_err_and(|problem| problem.contains("`tails`")));
        assert!(parsed("wire").is_err_and(|problem| problem.contains("`wire`")));
        assert!(parsed("").is_err());
    }
}
