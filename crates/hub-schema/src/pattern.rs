//! Regular expressions of schemas: those of ECMA-262 with the flag `u`, as far as an engine takes them whose time is linear in the
//! length of the text. Assertions around a place and back references are refused.

use crate::bounds::{COMPILED_PATTERN_BYTES, PATTERN_BYTES, PATTERN_TABLE_BYTES, PATTERN_TABLES_BYTES};
use regex::{Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use std::iter::Peekable;
use std::str::Chars;

/// A regular expression.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    matcher: Matcher,
}

/// What an expression was compiled to.
#[derive(Clone, Debug)]
enum Matcher {
    /// One step of a table per byte of the text.
    Table(Box<dense::DFA<Vec<u32>>>),
    /// The table would be too large. Each byte of the text may take work for each of the states.
    Search { regex: Regex, states: usize },
}

/// Bytes that the tables of the expressions of a schema may still take. They bound the time to build the tables as well.
pub(crate) struct TableBudget(usize);

impl Default for TableBudget {
    fn default() -> Self {
        Self(PATTERN_TABLES_BYTES)
    }
}

/// Bytes of a text that a table matches in a step.
const TABLE_BYTES_PER_STEP: usize = 16;
/// States of a search that a byte of a text visits in a step.
const SEARCHED_STATES_PER_STEP: usize = 8;

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn new(text: &str, tables: &mut TableBudget) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES {
            return Err(format!("it has {} bytes; at most {PATTERN_BYTES} are allowed", text.len()));
        }
        let translated = translate(text)?;
        let regex = RegexBuilder::new(&translated)
            .size_limit(COMPILED_PATTERN_BYTES)
            .dfa_size_limit(COMPILED_PATTERN_BYTES)
            .nest_limit(64)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(limit) => {
                    format!("it takes more than {limit} bytes when compiled; repeat less, or name fewer characters")
                }
                error => {
                    // The last line says what is wrong; those before it draw where.
                    let text = error.to_string();
                    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
                }
            })?;
        let matcher = match states(&translated) {
            Some(nfa) => match table(&nfa, tables) {
                Some(table) => Matcher::Table(Box::new(table)),
                // States with many ranges take more bytes than others, and more time.
                None => Matcher::Search { regex, states: nfa.memory_usage() / size_of::<thompson::State>() },
            },
            // Not reached: `regex` has compiled the expression within the same bound. The number is that of the largest expression.
            None => Matcher::Search { regex, states: COMPILED_PATTERN_BYTES / size_of::<thompson::State>() },
        };
        Ok(Self { text: text.into(), matcher })
    }

    /// As it is written in the schema.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches somewhere in a text.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.matcher {
            Matcher::Table(table) => {
                // A table fails only on bytes that make it give up, and these tables have none.
                table.try_search_fwd(&Input::new(text).earliest(true)).is_ok_and(|found| found.is_some())
            }
            Matcher::Search { regex, .. } => regex.is_match(text),
        }
    }

    /// Steps that a match against a text of this length takes at most.
    pub fn match_steps(&self, bytes: usize) -> u64 {
        match &self.matcher {
            Matcher::Table(_) => (bytes / TABLE_BYTES_PER_STEP) as u64,
            Matcher::Search { states, .. } => ((bytes + 1) * states / SEARCHED_STATES_PER_STEP) as u64,
        }
    }
}

/// The states of an expression.
fn states(translated: &str) -> Option<NFA> {
    let bounds = thompson::Config::new()
        .nfa_size_limit(Some(COMPILED_PATTERN_BYTES))
        .which_captures(WhichCaptures::None);
    thompson::Compiler::new().configure(bounds).build(translated).ok()
}

/// The table of an expression, if it is small enough. A table that turns out to be too large costs its bound.
fn table(nfa: &NFA, tables: &mut TableBudget) -> Option<dense::DFA<Vec<u32>>> {
    let most = tables.0.min(PATTERN_TABLE_BYTES);
    let bounds = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        .dfa_size_limit(Some(most))
        .determinize_size_limit(Some(most));
    let table = dense::Builder::new().configure(bounds).build_from_nfa(nfa).ok();
    tables.0 -= table.as_ref().map_or(most, |table| table.memory_usage().min(most));
    table
}

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str =
    r"\t\n\x0B\x0C\r\x20\u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}";

/// What one expression is called in the other's syntax.
fn translate(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '\\' => match escape(&mut chars)? {
                Escape::Char(character) => push_literal(&mut out, character),
                Escape::Class { members, is_negated } => push_class(&mut out, members, is_negated),
                Escape::Property(property) => out.push_str(&property),
                Escape::Boundary => out.push_str(r"(?-u:\b)"),
            },
            '[' => class(&mut chars, &mut out)?,
            '.' => out.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            '(' => group(&mut chars, &mut out)?,
            // In the other syntax a comment or a space could be meant, but only with a flag that is not set.
            other => out.push(other),
        }
    }
    Ok(out)
}

fn group(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    out.push('(');
    if chars.next_if_eq(&'?').is_none() {
        return Ok(());
    }
    let mut ahead = chars.clone();
    match (ahead.next(), ahead.next()) {
        (Some(':'), _) => {
            chars.next();
            out.push_str("?:");
            Ok(())
        }
        (Some('='), _) => Err(backtracking("a look-ahead (?=…)")),
        (Some('!'), _) => Err(backtracking("a negative look-ahead (?!…)")),
        (Some('<'), Some('=')) => Err(backtracking("a look-behind (?<=…)")),
        (Some('<'), Some('!')) => Err(backtracking("a negative look-behind (?<!…)")),
        (Some('<'), _) => {
            chars.next();
            out.push_str("?<");
            Ok(())
        }
        _ => Err("a group begins with (?, and goes on with neither : nor <name>".into()),
    }
}

fn backtracking(what: &str) -> String {
    format!("it has {what}, which cannot be matched in linear time; say it without, or with allOf and not")
}

enum Escape {
    Char(char),
    /// Its members as they stand in brackets.
    Class {
        members: &'static str,
        is_negated: bool,
    },
    Property(String),
    Boundary,
}

/// What stands behind a backslash.
fn escape(chars: &mut Peekable<Chars<'_>>) -> Result<Escape, String> {
    let Some(next) = chars.next() else { return Err("it ends with a backslash".into()) };
    let class = |members, is_negated| Ok(Escape::Class { members, is_negated });
    match next {
        'd' => class(DIGIT, false),
        'D' => class(DIGIT, true),
        'w' => class(WORD, false),
        'W' => class(WORD, true),
        's' => class(SPACE, false),
        'S' => class(SPACE, true),
        'b' => Ok(Escape::Boundary),
        'B' => Err(r"it has \B, which is not supported".into()),
        't' => Ok(Escape::Char('\t')),
        'n' => Ok(Escape::Char('\n')),
        'v' => Ok(Escape::Char('\u{b}')),
        'f' => Ok(Escape::Char('\u{c}')),
        'r' => Ok(Escape::Char('\r')),
        '0' if !chars.peek().is_some_and(char::is_ascii_digit) => Ok(Escape::Char('\0')),
        '0'..='9' => Err(backtracking(&format!("a back reference \\{next}"))),
        'k' => Err(backtracking("a back reference \\k<name>")),
        'c' => match chars.next() {
            Some(letter) if letter.is_ascii_alphabetic() => Ok(Escape::Char(char::from(letter as u8 % 32))),
            _ => Err(r"it has \c without a letter behind it".into()),
        },
        'x' => code(chars, 2).map(Escape::Char),
        'u' if chars.next_if_eq(&'{').is_some() => {
            let digits: String =
                std::iter::from_fn(|| chars.next_if(char::is_ascii_hexdigit)).take(7).collect();
            let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
            match (chars.next(), code) {
                (Some('}'), Some(character)) => Ok(Escape::Char(character)),
                _ => Err(r"it has \u{…} without the number of a character in it".into()),
            }
        }
        'u' => utf16(chars).map(Escape::Char),
        'p' | 'P' => {
            let mut property = format!("\\{next}");
            if chars.next_if_eq(&'{').is_none() {
                return Err(format!("it has \\{next} without {{…}} behind it"));
            }
            property.push('{');
            property.extend(std::iter::from_fn(|| chars.next_if(|next| *next != '}')));
            property.push('}');
            match chars.next() {
                Some('}') => Ok(Escape::Property(property)),
                _ => Err(format!("it has \\{next}{{ without a brace that closes it")),
            }
        }
        other if other.is_ascii_punctuation() => Ok(Escape::Char(other)),
        other => Err(format!("it has \\{}, which means nothing", other.escape_debug())),
    }
}

fn unit(chars: &mut Peekable<Chars<'_>>, digits: usize) -> Option<u32> {
    let text: String = chars.by_ref().take(digits).collect();
    let is_hex = text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(&text, 16).ok()).flatten()
}

fn code(chars: &mut Peekable<Chars<'_>>, digits: usize) -> Result<char, String> {
    let code = unit(chars, digits).and_then(char::from_u32);
    code.ok_or_else(|| {
        format!("it has an escape without {digits} hexadecimal digits of a character behind it")
    })
}

/// The character of four hexadecimal digits, or of two escapes that are the halves of one.
fn utf16(chars: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let mut behind = chars.clone();
    let Some(high) = unit(&mut behind, 4).filter(|unit| (0xd800..0xdc00).contains(unit)) else {
        return code(chars, 4);
    };
    let is_pair = behind.next() == Some('\\') && behind.next() == Some('u');
    let low = unit(&mut behind, 4).filter(|unit| is_pair && (0xdc00..0xe000).contains(unit));
    let character = low.and_then(|low| char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)));
    *chars = behind;
    character.ok_or_else(|| r"it has half of a surrogate pair; write \u{…}".into())
}

fn push_literal(out: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(character);
}

fn push_class(out: &mut String, members: &str, is_negated: bool) {
    out.push_str(if is_negated { "[^" } else { "[" });
    out.push_str(members);
    out.push(']');
}

/// What stands in brackets. Everything that means more there in the other syntax is escaped.
fn class(chars: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    let is_negated = chars.next_if_eq(&'^').is_some();
    if chars.next_if_eq(&']').is_some() {
        // Nothing, or anything.
        out.push_str(if is_negated { "(?s:.)" } else { r"[^\x00-\u{10FFFF}]" });
        return Ok(());
    }
    out.push_str(if is_negated { "[^" } else { "[" });
    // The last member, if a range could begin with it.
    let mut begin: Option<char> = None;
    loop {
        let Some(next) = chars.next() else { return Err("a bracket [ is not closed".into()) };
        let member = match next {
            ']' => break,
            '-' if begin.is_some() && !matches!(chars.peek(), None | Some(']')) => {
                let end = match chars.next() {
                    Some('\\') => class_escape(chars)?,
                    Some(end) => Escape::Char(end),
                    None => break,
                };
                match (begin.take(), end) {
                    (Some(begin), Escape::Char(end)) if begin <= end => {
                        out.push('-');
                        push_literal(out, end);
                    }
                    (_, Escape::Char(_)) => return Err("a range in brackets ends before it begins".into()),
                    (_, end) => {
                        out.push_str(r"\-");
                        push_member(out, &end);
                    }
                }
                continue;
            }
            '\\' => class_escape(chars)?,
            other => Escape::Char(other),
        };
        begin = if let Escape::Char(character) = member { Some(character) } else { None };
        push_member(out, &member);
    }
    out.push(']');
    Ok(())
}

fn class_escape(chars: &mut Peekable<Chars<'_>>) -> Result<Escape, String> {
    Ok(match escape(chars)? {
        Escape::Boundary => Escape::Char('\u{8}'),
        other => other,
    })
}

fn push_member(out: &mut String, member: &Escape) {
    match member {
        Escape::Char(character) => push_literal(out, *character),
        Escape::Class { members, is_negated: false } => out.push_str(members),
        Escape::Class { members, is_negated: true } => push_class(out, members, true),
        Escape::Property(property) => out.push_str(property),
        Escape::Boundary => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: &str) -> Result<Pattern, String> {
        Pattern::new(text, &mut TableBudget::default())
    }

    #[test]
    fn patterns_of_tables_take_few_steps_and_others_the_product() {
        for ordinary in [
            r"^[a-z]+$",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$",
            r"^[\w.+-]+@[\w-]+(\.[\w-]+)+$",
            r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
            r"^\p{Lu}\p{L}*$",
            r"^.{1,64}$",
            r"\bfoo\b",
            "^(a+)+$",
        ] {
            let pattern = compiled(ordinary).expect("a pattern");
            assert_eq!(pattern.match_steps(1600), 100, "{ordinary}");
        }
        let large = compiled("[01]*1[01]{1000}").expect("a pattern");
        assert!(large.match_steps(1600) > 100_000, "{}", large.match_steps(1600));
        assert!(large.is_match(&"1".repeat(1001)) && !large.is_match(&"1".repeat(1000)));
    }

    #[test]
    fn tables_of_a_schema_are_bounded_together() {
        let mut tables = TableBudget::default();
        let is_table = |tables: &mut TableBudget| {
            matches!(Pattern::new("^.{1,64}$", tables).expect("a pattern").matcher, Matcher::Table(_))
        };
        let are_tables: Vec<bool> = (0..100).map(|_| is_table(&mut tables)).collect();
        assert!(are_tables[0] && !are_tables[99]);
    }

    #[test]
    fn expressions_mean_what_they_mean_in_ecma_script() {
        for (pattern, good, bad) in [
            (r"^\d+$", "123", "١٢٣"),
            (r"^\w$", "_", "é"),
            (r"^\s$", "\u{feff}", "x"),
            (r"^\S$", "x", "\u{a0}"),
            (r"^[\w-.]+$", "a-b.c", "a b"),
            (r"^[a\-z]$", "-", "b"),
            (r"^[[&&]$", "[", "a"),
            (r"^[~~&&]$", "&", "."),
            (r"^[]$|^x$", "x", ""),
            (r"^[^]$", "\n", "ab"),
            (r"^.$", "x", "\u{2028}"),
            (r"^\u0041\u{1F600}\uD83D\uDE00\x41\cA$", "A😀😀A\u{1}", "A"),
            (r"^a\/b$", "a/b", "a\\/b"),
            (r"^\p{Lu}\P{Lu}$", "Éx", "xx"),
            (r"^(?<year>[0-9]{4})(?:-[0-9]{2}){2}$", "2024-01-31", "2024-1-31"),
            (r"^[\d\D]$", "x", ""),
            (r"^[^\D]$", "5", "x"),
            (r"^[\b]$", "\u{8}", "b"),
            (r"\bfoo\b", "a foo b", "afoob"),
            ("^a#b c$", "a#b c", "ab"),
        ] {
            let pattern = compiled(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert!(pattern.is_match(good), "{} on {good:?}", pattern.text());
            assert!(!pattern.is_match(bad), "{} on {bad:?}", pattern.text());
        }
    }

    #[test]
    fn what_needs_backtracking_is_refused_by_name() {
        for (pattern, named) in [
            ("(?=a)b", "look-ahead"),
            ("(?!a)b", "negative look-ahead"),
            ("(?<=a)b", "look-behind"),
            ("(?<!a)b", "negative look-behind"),
            (r"(a)\1", "back reference"),
            (r"(?<x>a)\k<x>", "back reference"),
        ] {
            let why = compiled(pattern).expect_err("it is refused");
            assert!(why.contains(named) && why.contains("linear time"), "{why}");
        }
    }

    #[test]
    fn what_is_too_large_or_broken_is_refused() {
        for pattern in [
            "((a{100}){100}){100}",
            &"a".repeat(2000),
            "(",
            "[a",
            "a{2,1}",
            r"\",
            r"\q",
            "[z-a]",
            r"\u{110000}",
        ] {
            let why = compiled(pattern).expect_err("it is refused");
            assert!(why.len() < 200, "{why}");
        }
    }
}
