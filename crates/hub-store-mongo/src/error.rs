//! What can go wrong, in words without secrets.

mod selection;

pub use hub_core::store::Secrets;

use hub_core::store::{StoreError, shortened};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use std::time::Duration;

/// Why a store could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The address or the names of collections cannot be used.
    #[error("{0}")]
    Settings(String),
    /// Nobody answers, or the replica set has no primary at present. Waiting may help.
    #[error("MongoDB at {hosts} cannot be reached: {why}")]
    Unreachable {
        /// Where it should be.
        hosts: String,
        /// What the driver says.
        why: String,
    },
    /// User or password are wrong.
    #[error(
        "MongoDB at {hosts} refuses the credentials ({why}); check user, password and authSource of the address"
    )]
    Credentials {
        /// Where it is.
        hosts: String,
        /// What the server says.
        why: String,
    },
    /// A single server without an oplog: neither majority writes nor change streams.
    #[error(
        "MongoDB at {hosts} is a standalone server; event-hub needs a replica set. One node is enough: start mongod \
         with --replSet rs0 and call rs.initiate() once"
    )]
    Standalone {
        /// Where it is.
        hosts: String,
    },
    /// The server lacks what is needed.
    #[error("MongoDB at {hosts} is version {version}; event-hub needs 8.0 or later")]
    TooOld {
        /// Where it is.
        hosts: String,
        /// What it is.
        version: String,
    },
    /// An index that is needed cannot be made.
    #[error("index {index} of collection {collection} cannot be made: {why}. {remedy}")]
    Index {
        /// The collection.
        collection: String,
        /// The index.
        index: String,
        /// What the server says.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The database was written by a later version.
    #[error(
        "database {database} has schema version {found}, and this event-hub knows {known}: use the version that \
         wrote it, or a later one"
    )]
    Schema {
        /// The database.
        database: String,
        /// Its version.
        found: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// The server refuses something, such as for lack of rights.
    #[error("MongoDB at {hosts} refuses {what}: {why}")]
    Refused {
        /// Where it is.
        hosts: String,
        /// What was asked for.
        what: String,
        /// What it says.
        why: String,
    },
}

impl ConnectError {
    /// Whether it is worth waiting and trying again.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// A call that failed, or took too long.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// It took longer than this.
    Late(Duration),
    /// The driver says so.
    Driver(Error),
    /// What came back is not what was written.
    Damaged(String),
    /// Others are in the way all the time.
    Busy(&'static str),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl Trouble {
    /// Whether the same call may succeed later without anybody doing anything about it.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Late(_) => true,
            Self::Driver(error) => is_passing(error),
            Self::Damaged(_) | Self::Busy(_) => false,
        }
    }

    /// What happened.
    pub fn words(&self) -> String {
        match self {
            Self::Late(limit) => format!("no answer within {} ms", limit.as_millis()),
            Self::Driver(error) => words(error),
            Self::Damaged(what) => what.clone(),
            Self::Busy(what) => (*what).to_owned(),
        }
    }
}

impl From<StoreError> for Trouble {
    /// Of what was found while reading documents.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged(what) => Self::Damaged(what),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Damaged(what) => Self::Damaged(what),
            trouble => Self::Unavailable(trouble.words()),
        }
    }
}

/// Codes of the server that mean "not now" or "not here": elections, shutdowns, waits that ran out.
const PASSING: [i32; 27] = [
    6, 7, 24, 43, 46, 50, 64, 89, 91, 100, 112, 133, 134, 175, 189, 202, 234, 262, 317, 9001, 10107, 11600,
    11601, 11602, 13388, 13435, 13436,
];

/// Whether a code of the server means "not now" or "not here".
pub fn is_passing_code(code: i32) -> bool {
    PASSING.contains(&code)
}

/// See [`Trouble::is_passing`].
pub fn is_passing(error: &Error) -> bool {
    match error.kind.as_ref() {
        ErrorKind::Io(_) | ErrorKind::ServerSelection { .. } | ErrorKind::ConnectionPoolCleared { .. } => {
            true
        }
        ErrorKind::DnsResolve { .. } => true,
        ErrorKind::Command(error) => PASSING.contains(&error.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => true,
        ErrorKind::Write(WriteFailure::WriteError(error)) => PASSING.contains(&error.code),
        ErrorKind::InsertMany(error) => {
            let passing = |code: &i32| PASSING.contains(code);
            error.write_concern_error.is_some()
                || error.write_errors.iter().flatten().all(|error| passing(&error.code))
        }
        ErrorKind::BulkWrite(error) => {
            !error.write_concern_errors.is_empty()
                || error.write_errors.values().all(|error| PASSING.contains(&error.code))
        }
        _ => {
            error.contains_label(mongodb::error::RETRYABLE_WRITE_ERROR)
                || error.contains_label(mongodb::error::TRANSIENT_TRANSACTION_ERROR)
        }
    }
}

/// What the driver says, without what nobody needs: labels, replies, topologies of a page.
pub fn words(error: &Error) -> String {
    let text = match error.kind.as_ref() {
        ErrorKind::Command(error) => format!("{} ({} {})", error.message, error.code, error.code_name),
        ErrorKind::Io(error) => format!("the connection failed: {error}"),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => {
            format!("{} ({} {})", error.message, error.code, error.code_name)
        }
        ErrorKind::Write(WriteFailure::WriteError(error)) => format!("{} ({})", error.message, error.code),
        ErrorKind::InsertMany(error) => {
            match (&error.write_concern_error, error.write_errors.iter().flatten().next()) {
                (Some(error), _) => format!("{} ({} {})", error.message, error.code, error.code_name),
                (None, Some(error)) => format!("{} ({})", error.message, error.code),
                (None, None) => "an insert failed without a reason".into(),
            }
        }
        ErrorKind::BulkWrite(bulk) => {
            let concern = bulk.write_concern_errors.first();
            let concern =
                concern.map(|error| format!("{} ({} {})", error.message, error.code, error.code_name));
            let write = bulk.write_errors.values().next();
            let write = write.map(|error| format!("{} ({})", error.message, error.code));
            let source = std::error::Error::source(error).map(ToString::to_string);
            concern.or(write).or(source).unwrap_or_else(|| "a write failed without a reason".into())
        }
        ErrorKind::ServerSelection { message, .. } => selection::words(message),
        kind => kind.to_string(),
    };
    shortened(text)
}
