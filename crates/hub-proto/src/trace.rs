//! The trace that an event belongs to: the `traceparent` header of W3C Trace Context.

use std::fmt;
use std::time::SystemTime;

/// The header that names an event's trace.
pub const TRACEPARENT: &str = "traceparent";

/// The header with what tracing systems add to it. The hub stores it and does not read it.
pub const TRACESTATE: &str = "tracestate";

/// The CloudEvents attribute `traceparent`, as the hub stores it.
const CLOUDEVENTS_TRACEPARENT: &str = "ce-traceparent";

/// A trace, and the span of it that published an event.
///
/// ```
/// use hub_proto::TraceContext;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let trace = TraceContext::parse(text).expect("a traceparent");
/// assert!(trace.is_sampled);
/// assert_eq!(trace.to_string(), text);
/// assert_eq!(TraceContext::parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The id of the trace; never zero.
    pub trace_id: u128,
    /// The id of the span that the next one is a child of; never zero.
    pub span_id: u64,
    /// Whether the system that began the trace records it.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` if it is invalid, which W3C Trace Context asks to be ignored. A version later than 00 is read
    /// as far as 00 defines it.
    pub fn parse(text: &str) -> Option<Self> {
        const LENGTH: usize = 55;
        let bytes = text.as_bytes();
        let is_long_enough = bytes.len() == LENGTH
            || (bytes.len() > LENGTH && !text.starts_with("00") && bytes[LENGTH] == b'-');
        let has_hyphens = || bytes[2] == b'-' && bytes[35] == b'-' && bytes[52] == b'-';
        if !is_long_enough || !has_hyphens() || text.starts_with("ff") {
            return None;
        }
        let hex = |from: usize, to: usize| {
            let digits = &bytes[from..to];
            let is_lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let digits = digits.iter().all(is_lower_hex).then(|| std::str::from_utf8(digits).ok())??;
            u128::from_str_radix(digits, 16).ok()
        };
        hex(0, 2)?;
        let (trace_id, span_id, flags) = (hex(3, 35)?, hex(36, 52)? as u64, hex(53, 55)?);
        let is_valid = trace_id != 0 && span_id != 0;
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }

    /// The trace that headers of an event name: `traceparent`, or else the CloudEvents attribute of that name.
    pub fn of_headers(headers: &[(String, String)]) -> Option<Self> {
        let value = |wanted: &str| {
            headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
        };
        value(TRACEPARENT).or_else(|| value(CLOUDEVENTS_TRACEPARENT)).and_then(|text| Self::parse(text))
    }

    /// The same trace with another span as the parent of what follows.
    #[must_use]
    pub fn with_span(self, span_id: u64) -> Self {
        Self { span_id, ..self }
    }
}

/// The trace of an event that is being published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishTrace {
    /// The trace, with the span of the publisher.
    pub context: TraceContext,
    /// When the hub received the event.
    pub received: SystemTime,
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        let trace = TraceContext::parse(GOOD).expect("valid");
        assert_eq!(trace.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(trace.span_id, 0x00f0_67aa_0ba9_02b7);
        assert_eq!(trace.to_string(), GOOD);
        let unsampled = TraceContext::parse(&GOOD.replace("-01", "-00")).expect("valid");
        assert!(!unsampled.is_sampled);
        assert!(
            TraceContext::parse(&GOOD.replace("-01", "-03")).expect("other flags are ignored").is_sampled
        );
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = format!("cc{}-what-comes", &GOOD[2..]);
        assert_eq!(TraceContext::parse(&later), TraceContext::parse(GOOD));
        assert!(TraceContext::parse(&format!("cc{}", &GOOD[2..])).is_some());
    }

    #[test]
    fn an_invalid_traceparent_is_no_trace() {
        let invalid = [
            String::new(),
            "00".into(),
            GOOD.to_uppercase(),
            GOOD.replace("-01", ""),
            GOOD.replace('-', "_"),
            format!("{GOOD}-more"),
            format!("cc{}.more", &GOOD[2..]),
            format!("ff{}", &GOOD[2..]),
            format!("0g{}", &GOOD[2..]),
            GOOD.replace("00f067aa0ba902b7", "0000000000000000"),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            GOOD.replace("4bf9", "+bf9"),
            GOOD.replace("4bf9", "äbf"),
        ];
        for text in invalid {
            assert_eq!(TraceContext::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn the_header_of_the_event_counts_before_that_of_cloudevents() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let other = GOOD.replace("4bf9", "aaaa");
        let both = [header("ce-traceparent", &other), header("Traceparent", GOOD)];
        assert_eq!(TraceContext::of_headers(&both), TraceContext::parse(GOOD));
        assert_eq!(TraceContext::of_headers(&both[..1]), TraceContext::parse(&other));
        assert_eq!(TraceContext::of_headers(&[]), None);
    }
}
