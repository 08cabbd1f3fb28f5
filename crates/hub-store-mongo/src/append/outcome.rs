//! What the answer to an insert means.

use crate::error::{Trouble, is_passing};
use crate::schema::TOPIC_SEQ;
use mongodb::error::{ErrorKind, InsertManyError};

/// A duplicate key.
const DUPLICATE: i32 = 11000;

/// What is known after an ordered insert.
#[derive(Debug)]
pub enum Outcome {
    /// Everything is durable.
    Done,
    /// The first `durable` documents are; the next one clashed; those behind it were not tried.
    Clash {
        /// How many got through.
        durable: usize,
        /// With what.
        with: Clash,
    },
    /// Nothing is known: one has to look.
    Doubt(Doubt),
}

/// Which index refused a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// The number is taken: another hub was faster.
    Seq,
    /// The id is there, or this very document is: it was published before.
    Id,
}

/// Why nothing is known.
#[derive(Debug)]
pub struct Doubt {
    pub trouble: Trouble,
    /// The document that the server refuses, now and later: too large, or against rules of the collection.
    pub refused: Option<usize>,
}

/// Reads an answer. Write concern errors come first: beside one, what the answer says about documents may be undone.
pub fn of<T>(answer: Result<T, Trouble>) -> Outcome {
    let trouble = match answer {
        Ok(_) => return Outcome::Done,
        Err(trouble) => trouble,
    };
    let Trouble::Driver(error) = &trouble else { return Outcome::Doubt(Doubt { trouble, refused: None }) };
    let ErrorKind::InsertMany(failed) = error.kind.as_ref() else {
        return Outcome::Doubt(Doubt { trouble, refused: None });
    };
    if let Some((durable, with)) = clash(failed) {
        return Outcome::Clash { durable, with };
    }
    let first = failed.write_errors.iter().flatten().next();
    let refused = first.filter(|_| !is_passing(error)).map(|error| error.index);
    Outcome::Doubt(Doubt { trouble, refused })
}

/// A duplicate key and nothing else.
fn clash(failed: &InsertManyError) -> Option<(usize, Clash)> {
    if failed.write_concern_error.is_some() {
        return None;
    }
    let [error] = failed.write_errors.as_deref()? else { return None };
    if error.code != DUPLICATE {
        return None;
    }
    // The driver passes the key pattern on in the message only. Indexes have names of ours; whatever else it says is
    // taken for an id, and looked up.
    let with = if index_in(&error.message) == Some(TOPIC_SEQ) { Clash::Seq } else { Clash::Id };
    Some((error.index, with))
}

/// The index in `E11000 duplicate key error collection: DB.COLL index: NAME dup key: {…}`.
fn index_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(" index: ")?;
    rest.split_once(" dup key").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mongodb::error::Error;
    use serde_json::{Value, json};
    use std::time::Duration;

    const SEQ: &str = "E11000 duplicate key error collection: prom.events index: topic_seq dup key: { topic: \"a\", seq: 7 }";

    fn answer(failed: Value) -> Outcome {
        let failed: InsertManyError = serde_json::from_value(failed).unwrap();
        of::<()>(Err(Trouble::Driver(Error::from(ErrorKind::InsertMany(failed)))))
    }

    fn write_error(index: usize, code: i32, message: &str) -> Value {
        json!({ "index": index, "code": code, "errmsg": message })
    }

    #[test]
    fn a_number_that_is_taken_tells_how_many_got_through() {
        let outcome = answer(json!({ "writeErrors": [write_error(3, 11000, SEQ)] }));
        assert!(matches!(outcome, Outcome::Clash { durable: 3, with: Clash::Seq }), "{outcome:?}");
    }

    #[test]
    fn whatever_else_is_there_twice_is_looked_up() {
        for index in ["topic_id", "_id_", "somebody_elses"] {
            let message =
                format!("E11000 duplicate key error collection: a.b index: {index} dup key: {{ id: 1 }}");
            let outcome = answer(json!({ "writeErrors": [write_error(0, 11000, &message)] }));
            assert!(matches!(outcome, Outcome::Clash { durable: 0, with: Clash::Id }), "{outcome:?}");
        }
        let outcome = answer(json!({ "writeErrors": [write_error(0, 11000, "in other words")] }));
        assert!(matches!(outcome, Outcome::Clash { with: Clash::Id, .. }), "{outcome:?}");
    }

    /// What an answer says about documents beside a write concern error may be undone by an election.
    #[test]
    fn a_write_concern_error_comes_before_write_errors() {
        for code in [64, 11602] {
            let concern = json!({ "code": code, "codeName": "", "errmsg": "no majority" });
            let both = json!({ "writeErrors": [write_error(3, 11000, SEQ)], "writeConcernError": concern });
            let alone = json!({ "writeConcernError": concern });
            for failed in [both, alone] {
                let outcome = answer(failed);
                let Outcome::Doubt(doubt) = outcome else { panic!("{outcome:?}") };
                assert!(doubt.refused.is_none() && doubt.trouble.is_passing());
            }
        }
    }

    #[test]
    fn any_other_error_is_doubt() {
        let outcome = answer(json!({ "writeErrors": [write_error(2, 121, "against the rules")] }));
        let Outcome::Doubt(doubt) = outcome else { panic!("{outcome:?}") };
        assert!(doubt.refused == Some(2) && !doubt.trouble.is_passing());
        let outcome = answer(json!({ "writeErrors": [write_error(2, 91, "shutting down")] }));
        let Outcome::Doubt(doubt) = outcome else { panic!("{outcome:?}") };
        assert!(doubt.refused.is_none() && doubt.trouble.is_passing());
        let lost =
            Error::from(ErrorKind::Io(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()));
        for trouble in [Trouble::Driver(lost), Trouble::Late(Duration::from_secs(1))] {
            let outcome = of::<()>(Err(trouble));
            assert!(matches!(&outcome, Outcome::Doubt(doubt) if doubt.trouble.is_passing()), "{outcome:?}");
        }
        assert!(matches!(of(Ok(())), Outcome::Done));
    }
}
