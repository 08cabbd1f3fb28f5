//! The terminal: its width, and colours if it shows them.

use std::io::IsTerminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The width of the terminal that standard output is; `None` if it is none, and nothing is cut.
pub fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// How a piece of text looks where colours are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    Bold,
    Dim,
    Reverse,
    Green,
    Yellow,
    Red,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Reverse => "\x1b[7m",
            Self::Green => "\x1b[32m",
            Self::Yellow => "\x1b[33m",
            Self::Red => "\x1b[31m",
        }
    }
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    #[cfg(test)]
    pub const ON: Self = Self(true);
    #[cfg(test)]
    pub const OFF: Self = Self(false);

    /// For standard output: a terminal, and the user has not asked for plain text (`NO_COLOR`, `TERM=dumb`).
    pub fn stdout() -> Self {
        Self(std::io::stdout().is_terminal() && wants_colour())
    }

    pub fn apply(self, style: Style, text: &str) -> String {
        match self.0 && style != Style::Plain {
            true => format!("{}{text}\x1b[0m", style.code()),
            false => text.to_owned(),
        }
    }
}

/// Whether the user has not asked for plain text.
pub fn wants_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Text of strangers: a character that could steer the terminal is shown as a dot.
pub fn safe(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

/// The columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The text in at most `max` columns; `…` stands for what was cut.
pub fn cut(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used < max
    };
    let mut short: String = text.chars().take_while(fits).collect();
    if max > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_columns_of_the_terminal() {
        assert_eq!([cut("abc", 3), cut("abcd", 3), cut("abc", 0)], ["abc", "ab…", ""]);
        // Two columns each.
        assert_eq!([cut("日本語", 6), cut("日本語", 5), cut("日本語", 4)], ["日本語", "日本…", "日…"]);
    }

    #[test]
    fn control_characters_reach_no_terminal() {
        assert_eq!(safe("a\x1b[2Jb\n"), "a·[2Jb·");
    }

    #[test]
    fn only_styled_text_is_painted() {
        assert_eq!(Paint::ON.apply(Style::Red, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint::ON.apply(Style::Plain, "x"), "x");
        assert_eq!(Paint::OFF.apply(Style::Red, "x"), "x");
    }
}
