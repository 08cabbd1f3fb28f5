//! How two patterns lie to each other, over all topics there could be. Asked when somebody subscribes.
//!
//! # Why `contains` may be greedy
//!
//! Whether a regular language contains another takes exponential time in general, and patterns have loops.
//! But there are always segments that neither pattern names, and that decides it. Let `P` be the candidate for
//! containing `Q`.
//!
//! 1. It is enough to look at topics of `Q` in which every wildcard stands for a fresh segment: whatever in
//!    `P` matches a fresh segment is a wildcard and matches any other in its place. So a topic of `Q` is given
//!    by how many fresh segments each `**` of `Q` stands for, and each literal of `P` must sit on an equal
//!    literal of `Q`.
//! 2. Call such a seating *steady* if it holds however long the `**`s of `Q` are: no stretch of `P` of fixed
//!    length lies across a `**` of `Q`, and each `AtLeast` of `P` has enough segments when every `**` of `Q`
//!    stands for none. A steady seating proves containment.
//! 3. Containment gives a steady seating. Take a `**` of `Q`, a seating `s` for when it stands for none and a
//!    seating `l` for when it stands for more segments than `P` has, all else equal. If no fixed stretch of
//!    `s` lies across that `**`, then `s` serves for any length of it. Else let `B` be the stretch that does.
//!    In `l` no stretch lies across, so `B` is on one side. If on the right: seat what comes before `B` as
//!    `s` does and the rest, with `B`, as `l` does. If on the left: seat all up to `B` as `l` does and the rest
//!    as `s` does. Either way the `AtLeast` between the two parts spans more than it did in `s`, and
//!    nothing lies across: the seating serves for any length of this `**`. Do so for one `**` after the other.
//! 4. Among steady seatings, moving a stretch to the left leaves more room to its right. So seating each one
//!    as far left as it goes finds a steady seating if there is one, as in [`Pattern::matches`].
//!
//! The tests compare the answer with brute force over small patterns.

use super::{Pattern, Token};

impl Pattern {
    /// Whether every topic that `other` matches is matched by `self`.
    ///
    /// ```
    /// use hub_proto::Pattern;
    /// let wide = Pattern::parse("process.**")?;
    /// assert!(wide.contains(&Pattern::parse("process.*.state")?));
    /// assert!(!wide.contains(&Pattern::parse("*.state")?));
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn contains(&self, other: &Self) -> bool {
        let seats = Seats::of(other);
        let (mut at, mut seat) = (0, 0);
        // Whether the next token may sit behind a `**` of `other`: only right after an `AtLeast`.
        let mut free = false;
        let mut last_many: Option<(usize, usize)> = None;
        loop {
            let fits = match self.tokens.get(at) {
                Some(&Token::AtLeast(count)) => {
                    seat += usize::from(count);
                    if seat > seats.list.len() {
                        return false;
                    }
                    at += 1;
                    if at == self.tokens.len() {
                        return true;
                    }
                    last_many = Some((at, seat));
                    free = true;
                    continue;
                }
                Some(Token::One) => seats.get(seat, free).is_some(),
                Some(&Token::Literal { start, end }) => {
                    seats.get(seat, free).is_some_and(|taken| taken.literal == Some(self.literal(start, end)))
                }
                None if seat == seats.list.len() && !seats.many_at_end => return true,
                None => false,
            };
            if fits {
                (at, seat, free) = (at + 1, seat + 1, false);
                continue;
            }
            let Some((after, from)) = &mut last_many else { return false };
            *from += 1;
            if *from > seats.list.len() {
                return false;
            }
            (at, seat, free) = (*after, *from, true);
        }
    }

    /// Whether there could be a topic that both match.
    ///
    /// ```
    /// use hub_proto::Pattern;
    /// let ours = Pattern::parse("a.*")?;
    /// assert!(ours.intersects(&Pattern::parse("**.b")?));
    /// assert!(!ours.intersects(&Pattern::parse("b.**")?));
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn intersects(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.steps(), other.steps());
        // `row[j]`: some list of segments takes us to the step of the row and them to step `j`.
        let mut row = vec![false; theirs.len() + 1];
        row[0] = true;
        for i in 0..=ours.len() {
            let mut next = vec![false; theirs.len() + 1];
            for j in 0..=theirs.len() {
                if !row[j] {
                    continue;
                }
                let (our, their) = (ours.get(i), theirs.get(j));
                if our == Some(&Step::Many) {
                    next[j] = true;
                }
                if their == Some(&Step::Many) {
                    row[j + 1] = true;
                }
                match (our, their) {
                    (Some(Step::Many), Some(Step::One | Step::Literal(_))) => row[j + 1] = true,
                    (Some(Step::One | Step::Literal(_)), Some(Step::Many)) => next[j] = true,
                    (Some(Step::Literal(a)), Some(Step::Literal(b))) => next[j + 1] |= a == b,
                    (Some(Step::One | Step::Literal(_)), Some(Step::One | Step::Literal(_))) => {
                        next[j + 1] = true;
                    }
                    _ => {}
                }
            }
            if i == ours.len() {
                break;
            }
            row = next;
        }
        row[theirs.len()]
    }

    /// The tokens one segment at a time.
    fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        for token in self.tokens.iter() {
            match *token {
                Token::Literal { start, end } => steps.push(Step::Literal(self.literal(start, end))),
                Token::One => steps.push(Step::One),
                Token::AtLeast(count) => {
                    steps.extend((0..count).map(|_| Step::One));
                    steps.push(Step::Many);
                }
            }
        }
        steps
    }
}

#[derive(PartialEq, Eq)]
enum Step<'a> {
    Literal(&'a str),
    One,
    Many,
}

/// The segments every topic of a pattern has, in order: what another pattern's tokens can be seated on.
struct Seats<'a> {
    list: Vec<Seat<'a>>,
    /// Whether a `**` stands behind the last seat.
    many_at_end: bool,
}

struct Seat<'a> {
    /// `None` is a wildcard's: a fresh segment.
    literal: Option<&'a str>,
    /// Whether a `**` stands before this seat, so that it has no fixed distance to the one before.
    many_before: bool,
}

impl<'a> Seats<'a> {
    fn of(pattern: &'a Pattern) -> Self {
        let mut seats = Self { list: Vec::new(), many_at_end: false };
        for step in pattern.steps() {
            match step {
                Step::Literal(text) => seats.push(Some(text)),
                Step::One => seats.push(None),
                Step::Many => seats.many_at_end = true,
            }
        }
        seats
    }

    fn push(&mut self, literal: Option<&'a str>) {
        let many_before = std::mem::take(&mut self.many_at_end);
        self.list.push(Seat { literal, many_before });
    }

    /// The seat, if there is one and it may be taken by a token that is `free` to be anywhere, or that has to
    /// follow its predecessor directly.
    fn get(&self, seat: usize, free: bool) -> Option<&Seat<'a>> {
        self.list.get(seat).filter(|seat| free || !seat.many_before)
    }
}
