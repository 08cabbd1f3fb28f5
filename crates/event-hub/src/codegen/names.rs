//! Names of types, fields and modules: made from the names of topics and members, none of them twice.

use std::collections::BTreeSet;

/// Names that are taken in one scope.
#[derive(Default)]
pub struct Scope(BTreeSet<String>);

impl Scope {
    pub fn new(taken: &[&str]) -> Self {
        Self(taken.iter().map(|name| (*name).to_owned()).collect())
    }

    /// The name, or the name with the first number that makes it another one.
    pub fn claim(&mut self, name: String) -> String {
        let numbered = (2..).map(|number| format!("{name}{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.unwrap_or(name);
        self.0.insert(free.clone());
        free
    }
}

/// The words in a text: runs of letters and digits, and what begins with a capital letter. Wildcards have words of their own.
fn words(text: &str) -> Vec<String> {
    let text = text.replace("**", ".all.").replace('*', ".any.");
    let mut words: Vec<String> = Vec::new();
    for run in text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|run| !run.is_empty())
    {
        let mut word = String::new();
        let mut was_lower = false;
        for character in run.chars() {
            if character.is_ascii_uppercase() && was_lower {
                words.push(std::mem::take(&mut word));
            }
            was_lower = !character.is_ascii_uppercase();
            word.push(character.to_ascii_lowercase());
        }
        words.push(word);
    }
    words
}

/// `OrdersCreated`.
pub fn pascal(text: &str) -> String {
    let capital = |word: String| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    };
    begin(words(text).into_iter().map(capital).collect(), "T")
}

/// `orders_created`.
pub fn snake(text: &str) -> String {
    begin(words(text).join("_"), "n")
}

/// A name that begins with a digit, or is empty, gets a letter.
fn begin(name: String, letter: &str) -> String {
    match name.chars().next() {
        None => format!("{letter}_").trim_end_matches('_').to_owned(),
        Some(first) if first.is_ascii_digit() => format!("{letter}{name}"),
        Some(_) => name,
    }
}

/// The words that Rust keeps for itself.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
/// Those that cannot be written as `r#…`, and what else a module may not be called.
const NEVER: &[&str] = &["self", "super", "crate", "core", "std", "alloc", "serde", "serde_json"];

/// A name in lower case that Rust takes.
pub fn rust_name(name: String) -> String {
    match name.as_str() {
        word if NEVER.contains(&word) => format!("{name}_"),
        word if KEYWORDS.contains(&word) => format!("r#{name}"),
        _ => name,
    }
}
