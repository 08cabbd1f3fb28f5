//! Does a pattern match a topic? On the path of every delivery: no allocation.

use super::{Pattern, Token};

impl Pattern {
    /// Whether the topic is one of those the pattern stands for.
    ///
    /// Literals after a `**` are placed as far left as they go. If a placement fails, only the last `**` has
    /// to take one segment more: taking more in an earlier one leaves less for all that follows. So there is
    /// one place to go back to, and the work is bounded by the length of the pattern times that of the topic.
    pub fn matches(&self, topic: &str) -> bool {
        let mut rest = Segments::of(topic);
        let mut at = 0;
        let mut last_many: Option<(usize, Segments<'_>)> = None;
        loop {
            let fits = match self.tokens.get(at) {
                Some(&Token::AtLeast(count)) => {
                    if !rest.skip(count) {
                        return false;
                    }
                    at += 1;
                    if at == self.tokens.len() {
                        return true;
                    }
                    last_many = Some((at, rest));
                    continue;
                }
                Some(Token::One) => rest.next().is_some(),
                Some(&Token::Literal { start, end }) => rest.next() == Some(self.literal(start, end)),
                None if rest.is_done() => return true,
                None => false,
            };
            if fits {
                at += 1;
                continue;
            }
            let Some((after, from)) = &mut last_many else { return false };
            if from.next().is_none() {
                return false;
            }
            (at, rest) = (*after, *from);
        }
    }
}

/// What is left of a topic. The empty text has no segments, not one empty segment.
#[derive(Clone, Copy)]
struct Segments<'a>(Option<&'a str>);

impl<'a> Segments<'a> {
    fn of(topic: &'a str) -> Self {
        Self(Some(topic).filter(|topic| !topic.is_empty()))
    }

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0?;
        let (segment, rest) = match rest.split_once('.') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (rest, None),
        };
        self.0 = rest;
        Some(segment)
    }

    fn skip(&mut self, count: u16) -> bool {
        (0..count).all(|_| self.next().is_some())
    }

    fn is_done(self) -> bool {
        self.0.is_none()
    }
}
