//! Times and sizes as people write them.

const TIMES: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 24 * 3_600_000)];
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// `1500ms`, `30s`, `5m`, `24h`, `30d` in milliseconds.
pub fn parse_time(text: &str) -> Option<u64> {
    parse(text, &TIMES)
}

/// `512B`, `64KiB`, `4MiB`, `1GiB` in bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    parse(text, &SIZES)
}

/// Milliseconds in the largest unit that is exact.
pub fn time(millis: u64) -> String {
    write(millis, &TIMES)
}

/// Bytes in the largest unit that is exact.
pub fn size(bytes: u64) -> String {
    write(bytes, &SIZES)
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn write(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |&&(_, factor): &&(&str, u64)| value >= factor && value.is_multiple_of(factor);
    let (name, factor) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    format!("{}{name}", value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for millis in [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 3_600_000, 86_400_000] {
            assert_eq!(parse_time(&time(millis)), Some(millis), "{}", time(millis));
        }
        for bytes in [0, 1, 1023, 1024, 4 << 20, (1 << 30) + 1] {
            assert_eq!(parse_size(&size(bytes)), Some(bytes), "{}", size(bytes));
        }
        assert_eq!([time(90_000), size(4 << 20)], ["90s", "4MiB"]);
        assert_eq!(parse_time("5 s"), Some(5_000));
    }

    #[test]
    fn what_has_no_unit_or_does_not_fit_is_nothing() {
        for text in ["", "5", "s", "5 weeks", "-5s", "1.5s", "99999999999999999999s", "9999999999999999999d"]
        {
            assert_eq!(parse_time(text), None, "{text}");
        }
        for text in ["5", "5MB", "5 kib"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
