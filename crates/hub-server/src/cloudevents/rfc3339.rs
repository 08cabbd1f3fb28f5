//! Times as CloudEvents write them.

use std::fmt::{self, Display};

/// Milliseconds since 1970 of a time such as `2026-04-01T12:00:00.5+02:00`; `None` if it is none, or before 1970. What is
/// finer than a millisecond is cut off; a leap second is the one after it.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = (digits(date, 0, 4)?, digits(date, 5, 2)?, digits(date, 8, 2)?);
    let is_date = date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-';
    let (time, rest) = rest.split_at_checked(9)?;
    let (hour, minute, second) = (digits(time, 1, 2)?, digits(time, 4, 2)?, digits(time, 7, 2)?);
    let is_time = matches!(time.as_bytes(), [b'T' | b't', _, _, b':', _, _, b':', ..]);
    let in_range = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_date || !is_time || !in_range {
        return None;
    }
    let (fraction, zone) = fraction(rest)?;
    let seconds = days_before(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    u64::try_from(seconds * 1000 + fraction).ok()
}

/// Whether a time is finer than a millisecond: [`millis`] cuts something off.
pub(crate) fn is_finer_than_millis(text: &str) -> bool {
    let Some((_, fraction)) = text.split_once('.') else { return false };
    fraction.bytes().take_while(u8::is_ascii_digit).skip(3).any(|digit| digit != b'0')
}

/// Milliseconds since 1970 as a time in UTC, up to the year 9999.
pub(crate) struct Utc(pub u64);

impl Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        let (year, month, day) = date_of((seconds / 86_400) as i64);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if millis > 0 {
            write!(f, ".{millis:03}")?;
        }
        f.write_str("Z")
    }
}

/// Year, month and day that are so many days after 1 January 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    // At most one year off: a year has between 365 and 366 days.
    let mut year = 1970 + days * 400 / 146_097;
    while days_before(year + 1, 1, 1) <= days {
        year += 1;
    }
    while days_before(year, 1, 1) > days {
        year -= 1;
    }
    let mut left = days - days_before(year, 1, 1);
    let mut month = 1;
    while left >= days_of(year, month) {
        left -= days_of(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

/// The number that `count` digits from `at` on stand for.
fn digits(text: &str, at: usize, count: usize) -> Option<i64> {
    let digits = text.get(at..at + count)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Milliseconds of a fraction of a second, if there is one, and what is behind it.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(text) = text.strip_prefix('.') else { return Some((0, text)) };
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let (given, rest) = text.split_at(count);
    let millis =
        given.bytes().chain(*b"000").take(3).fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    (count > 0).then_some((millis, rest))
}

/// Seconds by which a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes() {
        [b'Z' | b'z'] => return Some(0),
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return None,
    };
    let (hours, minutes) = (digits(zone, 1, 2)?, digits(zone, 4, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1 January 1970 to a date; negative before it.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    // Leap days up to the end of the year before, counted from year 1; 719,162 days are from there to 1970.
    let past = year - 1;
    let years = past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - 719_162;
    years + (1..month).map(|month| days_of(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::{Utc, is_finer_than_millis, millis};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_that_was_written_is_read_as_the_same(time in 0..=hub_proto::limits::TS) {
            prop_assert_eq!(millis(&Utc(time).to_string()), Some(time));
        }
    }

    #[test]
    fn a_time_is_written_in_utc_without_an_empty_fraction() {
        for (time, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_445_000, "2000-02-29T12:30:45Z"),
            (1_775_037_600_500, "2026-04-01T10:00:00.500Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Utc(time).to_string(), expected);
        }
    }

    #[test]
    fn only_digits_behind_the_milliseconds_are_too_fine() {
        for text in ["2026-04-01T12:00:00Z", "2026-04-01T12:00:00.123Z", "2026-04-01T12:00:00.123000+01:00"] {
            assert!(!is_finer_than_millis(text), "{text}");
        }
        assert!(is_finer_than_millis("2026-04-01T12:00:00.1230001Z"));
    }

    #[test]
    fn a_time_is_read_to_the_millisecond() {
        // `date -d TEXT +%s%3N` says the same.
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.001z", 1),
            ("2000-02-29T12:30:45Z", 951_827_445_000),
            ("2026-04-01T12:00:00.5+02:00", 1_775_037_600_500),
            ("2026-04-01t12:00:00.123999-05:30", 1_775_064_600_123),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "now",
            "2026-04-01",
            "2026-04-01 12:00:00Z",
            "2026-04-01T12:00:00",
            "2026-04-01T12:00Z",
            "2026-13-01T12:00:00Z",
            "2026-00-01T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-04-31T12:00:00Z",
            "2026-04-01T24:00:00Z",
            "2026-04-01T12:60:00Z",
            "2026-04-01T12:00:61Z",
            "2026-04-01T12:00:00.Z",
            "2026-04-01T12:00:00+0200",
            "2026-04-01T12:00:00+24:00",
            "2026-04-01T12:00:00Zz",
            "+026-04-01T12:00:00Z",
            "2026-04-01T12:00:00é",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "é026-04-01T12:00:00Z",
            "2026-04-01T1é:00:00Z",
            "2026/04/01T12:00:00Z",
            "2026-04-01T12-00-00Z",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
