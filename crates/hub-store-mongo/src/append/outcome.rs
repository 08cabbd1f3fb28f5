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
    use super::*;

    #[test]
    fn the_index_is_read_from_the_message() {
        let message = "E11000 duplicate key error collection: prom.events index: topic_seq dup key: { topic: \"a\", seq: 7 }";
        assert_eq!(index_in(message), Some(TOPIC_SEQ));
        let message = "E11000 duplicate key error collection: prom.events index: _id_ dup key: { _id: 1 }";
        assert_eq!(index_in(message), Some("_id_"));
        assert_eq!(index_in("something else"), None);
    }
}
