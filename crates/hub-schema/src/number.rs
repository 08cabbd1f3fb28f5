//! Numbers as the decimals that they are: JSON bounds neither digits nor exponents, and a double would round.

use std::borrow::Cow;
use std::cmp::Ordering;

/// Digits of a number that are divided in a step.
const DIVIDED_PER_STEP: u64 = 2;
/// Steps for each bit of an exponent whose power of ten is computed.
const STEPS_PER_SQUARING: u64 = 2;

/// The digits before the point, those behind it, and the exponent of the text of a number without its sign.
fn parts(text: &str) -> (&str, &str, &str) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    (whole, fraction, exponent)
}

/// The number that an exponent is. It saturates: an exponent of more than 18 digits is beyond every other number anyway.
fn shift(exponent: &str) -> i64 {
    let shift = exponent.trim_start_matches('+').parse::<i64>().unwrap_or_else(|_| {
        match exponent.trim_start_matches(['+', '-']).trim_start_matches('0').is_empty() {
            true => 0,
            false if exponent.starts_with('-') => i64::MIN / 2,
            false => i64::MAX / 2,
        }
    });
    shift.clamp(i64::MIN / 2, i64::MAX / 2)
}

/// Whether the text of a JSON number is that of an integer, without a copy of its digits.
pub(crate) fn is_integer(text: &str) -> bool {
    let (whole, fraction, exponent) = parts(text.strip_prefix('-').unwrap_or(text));
    let zeros = |digits: &str| digits.bytes().rev().take_while(|digit| *digit == b'0').count();
    let behind = fraction.len() - zeros(fraction);
    // The place of the last digit that is not 0.
    let last = match behind {
        0 if zeros(whole) == whole.len() => return true,
        0 => zeros(whole) as i64,
        _ => -(behind as i64),
    };
    last.saturating_add(shift(exponent)) >= 0
}

/// A number of JSON, exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// Every integer that fits is one of these.
    Int(i64),
    Decimal(Box<Decimal>),
}

/// `±0.d₁d₂… × 10^point`, where the first and the last digit are not 0: equal numbers are equal in every field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    is_negative: bool,
    /// Each 0 to 9.
    digits: Vec<u8>,
    point: i64,
}

impl Number {
    /// Reads the text of a JSON number. What no JSON number looks like gives some number.
    pub fn parse(text: &str) -> Self {
        match text.parse::<i64>() {
            Ok(int) => Self::Int(int),
            Err(_) => Self::parse_decimal(text),
        }
    }

    fn parse_decimal(text: &str) -> Self {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, fraction, exponent) = parts(text);
        let all = whole.bytes().chain(fraction.bytes()).map(|digit| digit.wrapping_sub(b'0') % 10);
        let leading = all.clone().take_while(|digit| *digit == 0).count();
        let mut digits: Vec<u8> = all.skip(leading).collect();
        digits.truncate(digits.iter().rposition(|digit| *digit != 0).map_or(0, |at| at + 1));
        if digits.is_empty() {
            return Self::Int(0);
        }
        let point = (whole.len() as i64 - leading as i64).saturating_add(shift(exponent));
        let decimal = Decimal { is_negative, digits, point };
        decimal.to_int().map_or_else(|| Self::Decimal(Box::new(decimal)), Self::Int)
    }

    /// Whether it has no fraction: `1.0` is an integer.
    pub fn is_integer(&self) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Decimal(decimal) => decimal.exponent() >= 0,
        }
    }

    /// The integer, if it is one that is not negative; the largest there is if it is larger.
    pub fn to_count(&self) -> Option<u64> {
        match self {
            Self::Int(int) => u64::try_from(*int).ok(),
            Self::Decimal(decimal) => (self.is_integer() && !decimal.is_negative).then_some(u64::MAX),
        }
    }

    /// Whether it is above 0.
    pub fn is_positive(&self) -> bool {
        match self {
            Self::Int(int) => *int > 0,
            Self::Decimal(decimal) => !decimal.is_negative,
        }
    }

    /// Whether it is a whole multiple of another number.
    pub fn is_multiple_of(&self, of: &Divisor) -> bool {
        match (self, &of.number) {
            (Self::Int(int), Self::Int(of)) => int.checked_rem(*of).is_none_or(|rest| rest == 0),
            (Self::Int(0), _) => true,
            _ => self.decimal().is_multiple_of(of),
        }
    }

    /// Steps that [`is_multiple_of`](Self::is_multiple_of) takes.
    pub fn division_steps(&self, of: &Divisor) -> u64 {
        match (self, &of.number) {
            (Self::Int(_), Self::Int(_)) => 0,
            _ => {
                let decimal = self.decimal();
                let zeros = decimal.exponent().saturating_sub(of.exponent).max(0);
                let bits = u64::from(i64::BITS - zeros.leading_zeros());
                2 + decimal.digits.len() as u64 / DIVIDED_PER_STEP + bits * STEPS_PER_SQUARING
            }
        }
    }

    fn decimal(&self) -> Cow<'_, Decimal> {
        match self {
            Self::Int(int) => {
                let text = int.unsigned_abs().to_string();
                let kept = text.trim_end_matches('0');
                let digits = kept.bytes().map(|digit| digit - b'0').collect();
                let point = if kept.is_empty() { 0 } else { text.len() as i64 };
                Cow::Owned(Decimal { is_negative: *int < 0, digits, point })
            }
            Self::Decimal(decimal) => Cow::Borrowed(decimal),
        }
    }
}

impl Decimal {
    /// Of the last digit.
    fn exponent(&self) -> i64 {
        self.point.saturating_sub(self.digits.len() as i64)
    }

    fn to_int(&self) -> Option<i64> {
        if self.exponent() < 0 || self.point > 19 {
            return None;
        }
        let zeros = u32::try_from(self.exponent()).ok()?;
        let digits = self.digits.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(*digit));
        let value = digits * 10_i128.pow(zeros);
        i64::try_from(if self.is_negative { -value } else { value }).ok()
    }

    fn is_multiple_of(&self, of: &Divisor) -> bool {
        let Some(zeros) =
            self.exponent().checked_sub(of.exponent).and_then(|zeros| u64::try_from(zeros).ok())
        else {
            // Its last digit, which is not 0, stands behind the last one of the divisor.
            return self.digits.is_empty();
        };
        // The divisor has at most 18 digits, so ten times a rest fits.
        let rest = self.digits.iter().fold(0, |rest, digit| (rest * 10 + u64::from(*digit)) % of.digits);
        let modulus = u128::from(of.digits);
        (u128::from(rest) * power_of_ten(zeros, modulus)).is_multiple_of(modulus)
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (false, false) => self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits)),
            (is_zero, other_is_zero) => other_is_zero.cmp(&is_zero),
        }
    }
}

fn power_of_ten(mut exponent: u64, modulus: u128) -> u128 {
    let (mut power, mut base) = (1 % modulus, 10 % modulus);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power * base % modulus;
        }
        base = base * base % modulus;
        exponent >>= 1;
    }
    power
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Self::Int(left), Self::Int(right)) = (self, other) {
            return left.cmp(right);
        }
        let (left, right) = (self.decimal(), other.decimal());
        match (left.is_negative, right.is_negative) {
            (false, false) => left.cmp_magnitude(&right),
            (true, true) => right.cmp_magnitude(&left),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What numbers may have to be multiples of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    number: Number,
    digits: u64,
    exponent: i64,
}

impl Divisor {
    /// The most digits that a divisor may have.
    pub const DIGITS: usize = 18;

    /// `None` if the number is not above 0 or has too many digits.
    pub fn new(number: Number) -> Option<Self> {
        let decimal = number.decimal();
        if !number.is_positive() || decimal.digits.len() > Self::DIGITS {
            return None;
        }
        let digits = decimal.digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(*digit));
        let exponent = decimal.exponent();
        Some(Self { digits, exponent, number })
    }

    pub fn number(&self) -> &Number {
        &self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text)
    }

    #[test]
    fn equal_numbers_are_equal_however_they_are_written() {
        for (left, right) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("0", "-0.0e5"),
            ("0.5", "5E-1"),
            ("123456789012345678901", "1.23456789012345678901e20"),
            ("-12.50", "-12.5"),
            ("1e400", "10e399"),
        ] {
            assert_eq!(number(left), number(right), "{left} {right}");
        }
    }

    #[test]
    fn numbers_beyond_doubles_keep_their_order() {
        let sorted = [
            "-1e400",
            "-9223372036854775809",
            "-9223372036854775808",
            "-1.5",
            "-1",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000000000001",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551616",
            "18446744073709551617",
            "1e99999999999999999999999",
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (beside, right) in sorted.iter().enumerate() {
                assert_eq!(number(left).cmp(&number(right)), at.cmp(&beside), "{left} {right}");
            }
        }
    }

    #[test]
    fn multiples_are_exact() {
        let is_multiple = |value: &str, of: &str| {
            number(value).is_multiple_of(&Divisor::new(number(of)).expect("a divisor"))
        };
        for (value, of) in [
            ("0.3", "0.1"),
            ("1e300", "7e299"),
            ("18446744073709551618", "3"),
            ("4.02", "0.01"),
            ("0", "3"),
            ("-9", "3"),
            ("1e1000", "0.5"),
        ] {
            let expected = value != "1e300";
            assert_eq!(is_multiple(value, of), expected, "{value} {of}");
        }
        for (value, of) in [("0.35", "0.1"), ("18446744073709551617", "3"), ("10", "3"), ("1e-5", "1")] {
            assert!(!is_multiple(value, of), "{value} {of}");
        }
        assert_eq!(Divisor::new(number("0")), None);
        assert_eq!(Divisor::new(number("-1")), None);
        assert_eq!(Divisor::new(number("1234567890123456789.5")), None);
    }

    #[test]
    fn integers_are_told_from_fractions() {
        for text in ["1", "1.0", "1e3", "12345678901234567890123", "1.5e1", "-0.0e-9", "1200e-2", "100.0E-2"]
        {
            assert!(number(text).is_integer() && is_integer(text), "{text}");
        }
        for text in ["1.5", "1e-1", "12345678901234567890.1", "-1200e-3", "1.05e1", "1e-99999999999999999999"]
        {
            assert!(!number(text).is_integer() && !is_integer(text), "{text}");
        }
        assert_eq!(number("1e30").to_count(), Some(u64::MAX));
        assert_eq!(number("2.0").to_count(), Some(2));
        assert_eq!(number("-1").to_count(), None);
    }
}
