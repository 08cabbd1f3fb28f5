//! docs/cli.md and the program say the same.

use crate::Cli;
use clap::{CommandFactory, Parser};

const PAGE: &str = include_str!("../../../docs/cli.md");

/// The words of a line of the shell; `None` if it needs a shell.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), letter) if letter == end => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | '<' | '$' | '…') => return None,
            (None, ' ') => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

/// The commands of the page's examples that need no shell.
fn examples() -> Vec<Vec<String>> {
    let mut examples = Vec::new();
    for block in PAGE.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let lines = block.lines().filter_map(|line| line.strip_prefix("$ event-hub "));
        examples.extend(lines.filter_map(words));
    }
    examples
}

#[test]
fn the_program_understands_every_example_of_the_page() {
    let examples = examples();
    assert!(examples.len() > 50, "{}", examples.len());
    for example in examples {
        let words = std::iter::once("event-hub").chain(example.iter().map(String::as_str));
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("{example:?}: {error}");
        }
    }
}

#[test]
fn every_command_is_on_the_page() {
    let program = Cli::command();
    for command in program.get_subcommands() {
        let name = command.get_name();
        assert!(PAGE.contains(&format!("`event-hub {name}")), "{name} has no entry");
        for part in command.get_subcommands().map(clap::Command::get_name) {
            let row = PAGE
                .lines()
                .find(|line| line.contains(&format!("`event-hub {name} ")) && line.starts_with('|'));
            let row = row.unwrap_or_else(|| panic!("{name} is not in the table"));
            assert!(row.contains(part), "{name} {part} is not in the table: {row}");
        }
    }
}
