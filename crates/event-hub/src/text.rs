//! Text for people: numbers, times, tables.

use std::fmt::Write;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Writes to standard output. A reader that went away is an error, not a panic.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints the last words of a command, which ends with `code`: also if nobody reads them. A reader that has seen enough
/// must not turn a refusal into a success.
pub fn finish(text: &str, code: u8) -> anyhow::Result<ExitCode> {
    print_all(text, code).map(ExitCode::from)
}

/// Prints what a part of a command has to say, and answers its exit code: also if nobody reads it any more.
pub fn print_all(text: &str, code: u8) -> anyhow::Result<u8> {
    match print(text) {
        Err(error) if !is_closed_pipe(&error) => Err(error.into()),
        _ => Ok(code),
    }
}

/// Whether an error says that nobody reads the output any more.
pub fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `2 files`.
pub fn plural(number: u64, one: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {one}{s}", count(number))
}

/// `1.5 MiB`.
pub fn bytes(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Year, month and day, then hour, minute and second, of milliseconds since 1970, in UTC.
fn calendar(millis: u64) -> [u64; 6] {
    let seconds = millis / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Eras of 400 years that begin in March, so that a leap day is the last day of its year.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    [year, month, day, second / 3600, second / 60 % 60, second % 60]
}

/// Milliseconds since 1970 as `2026-01-31 23:59:59`, in UTC.
pub fn time(millis: u64) -> String {
    let [year, month, day, hour, minute, second] = calendar(millis);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The same for a file's name: `20260131T235959Z`.
pub fn stamp(millis: u64) -> String {
    let [year, month, day, hour, minute, second] = calendar(millis);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Rows in columns: the first one to the left, the others to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    aligned(rows, |at| at == 0)
}

/// The same, all to the left.
pub fn columns(rows: &[Vec<String>]) -> String {
    aligned(rows, |_| true)
}

fn aligned(rows: &[Vec<String>], is_left: impl Fn(usize) -> bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let width = widths[at];
            let _ =
                if is_left(at) { write!(line, "  {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// JSON over several lines. Nothing of it is read: numbers and the order of members stay as they were written.
pub fn pretty(json: &str) -> String {
    let (mut text, mut depth) = (String::new(), 0_usize);
    let (mut is_string, mut is_escaped) = (false, false);
    let mut letters = json.trim().chars().peekable();
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    };
    while let Some(letter) = letters.next() {
        match letter {
            _ if is_string => {
                text.push(letter);
                is_string = is_escaped || letter != '"';
                is_escaped = letter == '\\' && !is_escaped;
            }
            '"' => {
                text.push(letter);
                is_string = true;
            }
            '{' | '[' => {
                text.push(letter);
                while letters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        line(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(letter);
            }
            ',' => {
                text.push(letter);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            letter if letter.is_ascii_whitespace() => {}
            letter => text.push(letter),
        }
    }
    text.push('\n');
    text
}

/// Breaks a text into lines of at most `width` letters.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([count(0), count(999), count(1000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1024), bytes(1 << 30)],
            ["0 B", "1023 B", "1.0 KiB", "1.0 GiB"]
        );
        assert_eq!([plural(1, "file"), plural(2, "file")], ["1 file", "2 files"]);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time(951_827_696_000), "2000-02-29 12:34:56");
        assert_eq!(time(1_767_225_599_999), "2025-12-31 23:59:59");
        assert_eq!(time(4_107_542_400_000), "2100-03-01 00:00:00");
        assert_eq!(stamp(0), "19700101T000000Z");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_string(), "10".to_string()], vec!["long".to_string(), "5".to_string()]];
        assert_eq!(table(&rows), "  a     10\n  long   5\n");
        assert_eq!(columns(&rows), "  a     10\n  long  5\n");
    }

    #[test]
    fn json_is_laid_out_and_not_changed() {
        let json = r#"{"b":1.50,"a":[ 1, {} ,[]],"text":"a\\\"{,:","n":123456789012345678901}"#;
        let laid_out = "{\n  \"b\": 1.50,\n  \"a\": [\n    1,\n    {},\n    []\n  ],\n  \"text\": \"a\\\\\\\"{,:\",\n  \"n\": 123456789012345678901\n}\n";
        assert_eq!(pretty(json), laid_out);
        assert_eq!(pretty("1\n"), "1\n");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
    }
}
