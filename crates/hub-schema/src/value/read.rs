//! Reads JSON text, without copying strings that have no escapes.

use super::Value;
use crate::bounds::VALUE_DEPTH;
use crate::number;
use std::borrow::Cow;
use std::fmt;

/// Why a text is not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is no JSON.
    Syntax,
    TooDeep,
    /// An object has this name twice: readers disagree on which of the two counts.
    Twice(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("the text is no JSON"),
            Self::TooDeep => write!(f, "it is nested deeper than {VALUE_DEPTH}"),
            Self::Twice(name) => write!(f, "an object has the name {} twice", hub_proto::shown(name)),
        }
    }
}

/// An object with more members is looked through for names that are there twice by sorting them.
const FEW: usize = 12;

impl<'a> Value<'a> {
    /// Reads one value. Answers how many values it is made of as well.
    pub fn read(text: &'a str) -> Result<(Self, usize), Unreadable> {
        let mut reader = Reader { text, at: 0, count: 0 };
        reader.skip_space();
        let value = reader.value(0)?;
        reader.skip_space();
        match reader.at == text.len() {
            true => Ok((value, reader.count)),
            false => Err(Unreadable::Syntax),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    count: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Unreadable> {
        match self.peek() == Some(byte) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => Err(Unreadable::Syntax),
        }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, Unreadable> {
        match self.text[self.at..].starts_with(word) {
            true => {
                self.at += word.len();
                Ok(value)
            }
            false => Err(Unreadable::Syntax),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, Unreadable> {
        if depth > VALUE_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        self.count += 1;
        match self.peek().ok_or(Unreadable::Syntax)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Value::String),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            b'-' | b'0'..=b'9' => {
                let begin = self.at;
                let mut is_integer = true;
                loop {
                    match self.peek() {
                        Some(b'0'..=b'9' | b'-') => {}
                        Some(b'+' | b'.' | b'e' | b'E') => is_integer = false,
                        _ => break,
                    }
                    self.at += 1;
                }
                let text = &self.text[begin..self.at];
                let is_integer = is_integer || number::is_integer(text);
                Ok(Value::Number { text: Cow::Borrowed(text), is_integer })
            }
            _ => Err(Unreadable::Syntax),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, Unreadable> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.peek() != Some(b',') {
                self.expect(b']')?;
                return Ok(Value::Array(items));
            }
            self.at += 1;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, Unreadable> {
        self.at += 1;
        let mut members: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(Unreadable::Syntax);
            }
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let value = self.value(depth + 1)?;
            members.push((name, value));
            self.skip_space();
            if self.peek() != Some(b',') {
                self.expect(b'}')?;
                return match twice(&members) {
                    Some(name) => Err(Unreadable::Twice(name.to_owned())),
                    None => Ok(Value::Object(members)),
                };
            }
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Unreadable> {
        self.at += 1;
        let rest = &self.text[self.at..];
        let end = memchr::memchr2(b'"', b'\\', rest.as_bytes()).ok_or(Unreadable::Syntax)?;
        let plain = &rest[..end];
        self.at += end;
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        loop {
            let rest = &self.text[self.at..];
            let end = memchr::memchr2(b'"', b'\\', rest.as_bytes()).ok_or(Unreadable::Syntax)?;
            text.push_str(&rest[..end]);
            self.at += end + 1;
            if self.text.as_bytes()[self.at - 1] == b'"' {
                return Ok(Cow::Owned(text));
            }
            text.push(self.escape()?);
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Result<char, Unreadable> {
        let escape = self.peek().ok_or(Unreadable::Syntax)?;
        self.at += 1;
        Ok(match escape {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hex()?;
                if !(0xd800..0xdc00).contains(&unit) || !self.text[self.at..].starts_with("\\u") {
                    // Half a character is none.
                    return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                let behind = self.at;
                self.at += 2;
                let low = self.hex()?;
                match (0xdc00..0xe000).contains(&low) {
                    true => char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
                        .unwrap_or(char::REPLACEMENT_CHARACTER),
                    false => {
                        self.at = behind;
                        char::REPLACEMENT_CHARACTER
                    }
                }
            }
            _ => return Err(Unreadable::Syntax),
        })
    }

    fn hex(&mut self) -> Result<u32, Unreadable> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(Unreadable::Syntax)?;
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| Unreadable::Syntax)
    }
}

/// A name that is there twice.
fn twice<'m>(members: &'m [(Cow<'_, str>, Value<'_>)]) -> Option<&'m str> {
    if members.len() <= FEW {
        let is_before = |at: usize| members[..at].iter().any(|(name, _)| *name == members[at].0);
        return (1..members.len()).find(|at| is_before(*at)).map(|at| members[at].0.as_ref());
    }
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value<'_> {
        Value::read(text).expect("JSON").0
    }

    #[test]
    fn what_serde_reads_is_read_the_same() {
        for text in [
            r#" {"a": [1, -2.5e+3, "x\n\u00e9\ud83d\ude00\"\\\/"], "b" : null , "": {"c":true,"d":false}} "#,
            "[]",
            "{}",
            "[ ]",
            r#""""#,
            "0",
        ] {
            let expected: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let expected_text = expected.to_string();
            let (ours, theirs) = (read(text).to_canonical(), read(&expected_text).to_canonical());
            assert!(ours.cmp_canonical(&theirs).is_eq(), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_and_never_panics() {
        for text in
            ["", "{", "[1,", "\"", "\"\\", "\"\\u12", "tru", "{\"a\"}", "[1]]", "{1:2}", "\"\\ud83d\\u", "é"]
        {
            assert_eq!(Value::read(text).err(), Some(Unreadable::Syntax), "{text}");
        }
    }

    #[test]
    fn a_name_that_is_there_twice_is_refused_in_small_and_in_large_objects() {
        assert_eq!(Value::read(r#"{"a":1,"b":2,"\u0061":3}"#).err(), Some(Unreadable::Twice("a".into())));
        let members: Vec<String> = (0..100).map(|n| format!("\"n{}\":0", n % 99)).collect();
        let text = format!("{{{}}}", members.join(","));
        assert_eq!(Value::read(&text).err(), Some(Unreadable::Twice("n0".into())));
    }

    #[test]
    fn half_a_surrogate_pair_is_a_replacement_character() {
        for text in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dA""#] {
            let Value::String(string) = read(text) else { panic!("a string") };
            assert!(string.starts_with(char::REPLACEMENT_CHARACTER), "{text}");
        }
    }

    #[test]
    fn values_are_counted_and_depth_is_bounded() {
        assert_eq!(Value::read("[1,[2,{\"a\":3}]]").expect("JSON").1, 6);
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert_eq!(Value::read(&deep).err(), Some(Unreadable::TooDeep));
    }
}
