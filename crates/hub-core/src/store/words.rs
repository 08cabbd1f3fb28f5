//! What databases say, for people: without secrets, and not too long.

/// The longest text of a driver's that is passed on: some of them describe every server of a cluster.
const LONGEST: usize = 400;

/// A text of a driver's, cut if it is too long.
pub fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

/// Texts that must not be shown, and what takes their place.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Everything in an address that tells who we are: also of one that is written wrongly, as a password with an `@`
    /// in it is.
    pub fn of(url: &str) -> Self {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let mut found = Vec::new();
        if let Some((user_info, _)) = rest.rsplit_once('@') {
            found.push(user_info.to_owned());
            if let Some((_, password)) = user_info.split_once(':') {
                found.push(password.to_owned());
                found.push(decoded(password));
                let pieces = password.split([':', '@', '/', '?', '&', '#']).filter(|piece| piece.len() > 2);
                found.extend(pieces.map(str::to_owned));
            }
        }
        // It can also be a parameter.
        for pair in rest.split(['?', '&']).skip(1) {
            if let Some(("password" | "sslpassword", value)) = pair.split_once('=') {
                found.extend([value.to_owned(), decoded(value)]);
            }
        }
        found.retain(|secret| !secret.is_empty());
        // The longest first: a part of one must not hide the whole.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(found)
    }

    /// The text without them.
    pub fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// Undoes `%XX`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_in_every_spelling() {
        for scheme in ["postgres", "mongodb"] {
            let secrets = Secrets::of(&format!("{scheme}://hub:p%40ss:w/rd@db:1/shop?password=h%20idden"));
            for text in
                ["bad p%40ss:w/rd", "bad p@ss:w/rd", "hub:p%40ss:w/rd@", "invalid port: p%40ss", "h idden"]
            {
                let hidden = secrets.hide(text);
                assert!(!hidden.contains("ss") && !hidden.contains("idden"), "{hidden}");
            }
            assert_eq!(Secrets::of(&format!("{scheme}://db:1/shop")).hide("db:1"), "db:1");
            assert_eq!(Secrets::of(&format!("{scheme}://hub@db")).hide("hub at db"), "*** at db");
        }
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(shortened("é".repeat(500)).chars().count(), LONGEST / 2 + 1);
        assert_eq!(shortened("short".into()), "short");
    }
}
