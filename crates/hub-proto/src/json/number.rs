//! Numbers as exact decimals.

use std::io::Write;

/// Appends the one canonical way to write a JSON number: its digits without leading and trailing zeros, and a
/// power of ten unless that is zero. `-0` is `0`. No longer than the input but for a few bytes, whatever the
/// exponent: `1e1000000000` stays an exponent.
pub(super) fn write_canonical(out: &mut Vec<u8>, text: &[u8]) {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = split(text, |b| b == b'e' || b == b'E');
    let (whole, fraction) = split(mantissa, |b| b == b'.');

    let mut digits: Vec<u8> = whole.iter().chain(fraction).copied().skip_while(|&b| b == b'0').collect();
    let significant = digits.iter().rposition(|&b| b != b'0').map_or(0, |last| last + 1);
    let trailing = digits.len() - significant;
    digits.truncate(significant);
    if digits.is_empty() {
        return out.push(b'0');
    }
    if negative {
        out.push(b'-');
    }
    out.append(&mut digits);
    // Lengths of slices fit an i64.
    write_exponent(out, exponent, trailing as i64 - fraction.len() as i64);
}

/// The parts before and behind the first byte that `is_mark`.
fn split(text: &[u8], is_mark: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    match text.iter().position(|&b| is_mark(b)) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// Appends `e` and the sum of an exponent of any length and a shift, or nothing if the sum is zero.
fn write_exponent(out: &mut Vec<u8>, text: &[u8], shift: i64) {
    let negative = text.first() == Some(&b'-');
    let digits = magnitude(text);
    if digits.len() <= 18 {
        // Fits an i64, and so does the sum.
        let value = digits.iter().fold(0_i64, |n, &digit| n * 10 + i64::from(digit.wrapping_sub(b'0') % 10));
        let sum = if negative { -value } else { value } + shift;
        if sum != 0 {
            write!(out, "e{sum}").expect("writing to a Vec never fails");
        }
        return;
    }
    // Beyond that the shift, a length in memory, is far too small to change the sign: add it to the magnitude.
    out.extend_from_slice(if negative { b"e-" } else { b"e" });
    let mut carry = if negative { -shift } else { shift };
    let mut sum = digits.to_vec();
    for digit in sum.iter_mut().rev() {
        carry += i64::from(digit.wrapping_sub(b'0') % 10);
        *digit = b'0' + carry.rem_euclid(10) as u8;
        carry = carry.div_euclid(10);
    }
    if carry > 0 {
        write!(out, "{carry}").expect("writing to a Vec never fails");
    }
    let zeros = sum.iter().take_while(|&&b| b == b'0').count();
    // A carry makes the zeros behind it significant; without one they would be a second way to write it.
    out.extend_from_slice(if carry > 0 { &sum } else { &sum[zeros..] });
}

/// The digits of an exponent that count: without its sign and without leading zeros.
fn magnitude(exponent: &[u8]) -> &[u8] {
    let digits = exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
    let zeros = digits.iter().take_while(|&&b| b == b'0').count();
    &digits[zeros..]
}
