//! Where in a topic a reader begins: `from`, with its value in a parameter of its own.

use super::error::{Failure, shown};
use super::query::Params;
use hub_core::Position;
use hub_proto::EventId;

/// The parameters that [`position`] reads.
pub(super) const PARAMETERS: [&str; 4] = ["from", "ts", "afterId", "afterSeq"];

pub(super) const MILLIS: &str = "milliseconds since 1970";
pub(super) const SEQ: &str = "a seq of the topic, or 0";

/// The position that a request names, `None` if it names none. `words` are the positions without a value that the request may name.
///
/// The value of `from=ts`, `from=afterId` and `from=afterSeq` is in the parameter of that name, which alone is enough.
pub(super) fn position(
    params: &Params,
    words: &[(&'static str, Position)],
) -> Result<Option<Position>, Failure> {
    let given = [
        ("ts", params.number("ts", MILLIS)?.map(Position::Time)),
        ("afterId", params.get("afterId").map(EventId::parse).transpose()?.map(Position::AfterId)),
        ("afterSeq", params.number("afterSeq", SEQ)?.map(Position::AfterSeq)),
    ];
    let mut values = given.iter().filter_map(|(name, position)| Some((*name, (*position)?)));
    let value = values.next();
    if let Some((name, (other, _))) = value.map(|(name, _)| name).zip(values.next()) {
        return Err(Failure::bad_request(format!("{name} and {other} are two positions; give one")));
    }
    let Some(from) = params.get("from") else { return Ok(value.map(|(_, position)| position)) };
    match (words.iter().find(|(word, _)| *word == from), value) {
        (Some((_, position)), None) => Ok(Some(*position)),
        (None, Some((name, position))) if name == from => Ok(Some(position)),
        (None, None) if given.iter().any(|(name, _)| *name == from) => {
            Err(Failure::bad_request(format!("from is {from}, and parameter {from} is missing")))
        }
        (Some(_), Some((name, _))) => {
            Err(Failure::bad_request(format!("from is {from}, and {name} is another position; give one")))
        }
        (None, Some((name, _))) if given.iter().any(|(known, _)| *known == from) => {
            Err(Failure::bad_request(format!("from is {from}, and {name} is another position; give one")))
        }
        (None, _) => {
            let words: Vec<_> =
                words.iter().map(|(word, _)| *word).chain(["ts", "afterId", "afterSeq"]).collect();
            Err(Failure::bad_request(format!(
                "from is {}; it must be one of {}",
                shown(from),
                words.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const WORDS: &[(&str, Position)] = &[("earliest", Position::Earliest)];

    fn read(query: &str) -> Result<Option<Position>, String> {
        let params = Params::read(Some(query), &PARAMETERS).unwrap();
        position(&params, WORDS).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_value_alone_names_the_position_and_from_repeats_it() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("from=earliest"), Ok(Some(Position::Earliest)));
        for query in ["ts=5", "from=ts&ts=5"] {
            assert_eq!(read(query), Ok(Some(Position::Time(5))), "{query}");
        }
        for query in ["afterSeq=0", "from=afterSeq&afterSeq=0"] {
            assert_eq!(read(query), Ok(Some(Position::AfterSeq(0))), "{query}");
        }
        let id = "018bcfe5-6800-7000-8000-000000000001";
        let expected = Ok(Some(Position::AfterId(id.parse().unwrap())));
        assert_eq!(read(&format!("afterId={id}")), expected);
        assert_eq!(read(&format!("from=afterId&afterId={id}")), expected);
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_the_names() {
        for (query, says) in [
            ("from=ts", "parameter ts is missing"),
            ("from=afterSeq&ts=5", "from is afterSeq, and ts is another position"),
            ("from=earliest&afterSeq=5", "from is earliest, and afterSeq is another position"),
            ("ts=5&afterSeq=5", "ts and afterSeq are two positions"),
            ("from=latest", "it must be one of earliest, ts, afterId, afterSeq"),
            ("from=x&ts=1", "it must be one of earliest"),
            ("ts=now", "ts is \"now\"; it must be milliseconds since 1970"),
            ("afterSeq=-1", "afterSeq is \"-1\""),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(says), "{query}: {error}");
        }
        assert!(read("afterId=1").is_err());
    }
}
