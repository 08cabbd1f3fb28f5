//! From text to forms. Brackets are kept on a stack of our own, so no text can drive the machine's deep.

use super::super::claims::cut;
use super::{MAX_BYTES, MAX_NESTING, Place, SibError};
use std::iter::Peekable;
use std::str::Chars;

/// A form, and where it begins.
#[derive(Debug)]
pub(super) struct Form {
    pub place: Place,
    pub kind: Kind,
}

/// What a form is.
#[derive(Debug)]
pub(super) enum Kind {
    /// `(…)`
    List(Vec<Form>),
    /// `[…]`
    Vector(Vec<Form>),
    /// `{…}`: keys and values in turn, not yet told apart.
    Map(Vec<Form>),
    /// `"…"`
    Text(String),
    /// `allow`, `true`, `NAME`
    Symbol(String),
    /// `:groups`, without its colon.
    Keyword(String),
    /// `3`
    Number(u64),
}

impl Form {
    /// The form in a message, for "… is expected, not this".
    pub fn shown(&self) -> String {
        match &self.kind {
            Kind::List(forms) => match forms.first() {
                Some(Self { kind: Kind::Symbol(name), .. }) => format!("({} …)", cut(name, 48)),
                _ => "a list in ( )".into(),
            },
            Kind::Vector(_) => "a vector in [ ]".into(),
            Kind::Map(_) => "a map in { }".into(),
            Kind::Text(text) => format!("the string {:?}", cut(text, 48)),
            Kind::Symbol(name) => cut(name, 48).into_owned(),
            Kind::Keyword(name) => format!(":{}", cut(name, 48)),
            Kind::Number(number) => number.to_string(),
        }
    }

    pub fn error(&self, msg: impl Into<String>) -> SibError {
        self.place.error(msg)
    }

    pub fn expected(&self, what: &str) -> SibError {
        self.error(format!("{what} is expected, not {}", self.shown()))
    }
}

/// All forms of a text.
pub(super) fn read(text: &str) -> Result<Vec<Form>, SibError> {
    if text.len() > MAX_BYTES {
        return Err(too_large(text.len()));
    }
    let mut cursor = Cursor::new(text);
    let mut open: Vec<Open> = Vec::new();
    let mut forms = Vec::new();
    while let Some(next) = cursor.skip_space() {
        let place = cursor.place;
        let form = match next {
            '(' | '[' | '{' => {
                if open.len() == MAX_NESTING {
                    return Err(place.error(format!("brackets nest more than {MAX_NESTING} deep")));
                }
                cursor.next();
                open.push(Open { bracket: next, place, before: std::mem::take(&mut forms) });
                continue;
            }
            ')' | ']' | '}' => {
                cursor.next();
                let Some(opened) = open.pop() else {
                    return Err(place.error(format!("{next} closes nothing")));
                };
                let inside = std::mem::replace(&mut forms, opened.before);
                let kind = match (opened.bracket, next) {
                    ('(', ')') => Kind::List(inside),
                    ('[', ']') => Kind::Vector(inside),
                    ('{', '}') => Kind::Map(inside),
                    (bracket, _) => {
                        let Place { line, column } = opened.place;
                        let msg =
                            format!("{next} does not close the {bracket} of line {line}, column {column}");
                        return Err(place.error(msg));
                    }
                };
                Form { place: opened.place, kind }
            }
            '"' => Form { place, kind: Kind::Text(cursor.text()?) },
            ':' => {
                cursor.next();
                match cursor.word() {
                    name if name.is_empty() => return Err(place.error("a name is expected behind the colon")),
                    name => Form { place, kind: Kind::Keyword(name) },
                }
            }
            _ if is_word(next) => Form { place, kind: word(&cursor.word(), place)? },
            _ => return Err(place.error(format!("{next:?} is not expected here"))),
        };
        forms.push(form);
    }
    match open.pop() {
        None => Ok(forms),
        Some(Open { bracket, place, .. }) => Err(place.error(format!("this {bracket} is never closed"))),
    }
}

/// A bracket that is not closed yet, and the forms that stood before it on its level.
struct Open {
    bracket: char,
    place: Place,
    before: Vec<Form>,
}

pub(super) fn too_large(bytes: usize) -> SibError {
    Place::START.error(format!("the file has {bytes} bytes or more; at most {MAX_BYTES} are allowed"))
}

/// The place behind a text.
pub(super) fn end_of(text: &str) -> Place {
    let mut cursor = Cursor::new(text);
    while cursor.next().is_some() {}
    cursor.place
}

/// Letters and what Lisps have in names, such as `scopes->policy`.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_*+/<>=!?.&%$".contains(c)
}

/// A word is a number if it begins like one.
fn word(word: &str, place: Place) -> Result<Kind, SibError> {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Kind::Symbol(word.into()));
    }
    let shown = cut(word, 48);
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        word.parse().map(Kind::Number).map_err(|_| place.error(format!("the number {shown} is too large")))
    } else {
        Err(place.error(format!("{shown} is no name and no number; numbers are whole and have no sign")))
    }
}

struct Cursor<'a> {
    rest: Peekable<Chars<'a>>,
    /// Of the next character.
    place: Place,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        // Some editors begin a file with a mark that it is UTF-8. It has no width.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { rest: text.chars().peekable(), place: Place::START }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.place = Place { line: self.place.line + 1, column: 1 };
        } else {
            self.place.column += 1;
        }
        Some(next)
    }

    /// Goes behind white space (commas are), and comments; answers what comes then.
    fn skip_space(&mut self) -> Option<char> {
        let mut comment = false;
        loop {
            match *self.rest.peek()? {
                '\n' => comment = false,
                ';' => comment = true,
                ' ' | '\t' | '\r' | ',' => {}
                _ if comment => {}
                next => return Some(next),
            }
            self.next();
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while self.rest.peek().is_some_and(|next| is_word(*next)) {
            word.extend(self.next());
        }
        word
    }

    /// A string, from its first quote on.
    fn text(&mut self) -> Result<String, SibError> {
        let begin = self.place;
        self.next();
        let mut text = String::new();
        loop {
            let place = self.place;
            match self.next() {
                Some('"') => return Ok(text),
                // A quote that was forgotten is told where it is missing, and not at the end of the file.
                None | Some('\n') => return Err(begin.error("this string is not closed on its line")),
                Some('\\') => match self.next() {
                    Some(quoted @ ('"' | '\\')) => text.push(quoted),
                    _ => return Err(place.error(r#"\" or \\ is expected: a string has no other escapes"#)),
                },
                Some(other) => text.push(other),
            }
        }
    }
}
