//! What can go wrong, in words without secrets.

pub use hub_core::store::Secrets;
use hub_core::store::{StoreError, shortened};
use sqlx::Error;
use std::time::Duration;

/// Why an outbox could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The address, or the name of the table, cannot be used.
    #[error("{0}")]
    Settings(String),
    /// Nobody answers, or not now. Waiting may help.
    #[error("{at} cannot be reached: {why}")]
    Unreachable {
        /// Where it should be.
        at: String,
        /// What the driver says.
        why: String,
    },
    /// User or password are wrong.
    #[error("{at} refuses the credentials ({why}); check user and password of the address")]
    Credentials {
        /// Where it is.
        at: String,
        /// What the server says.
        why: String,
    },
    /// Nobody has made the table yet.
    #[error("{at} has no table {table} for an outbox; `event-hub outbox init --apply` makes it")]
    NoTable {
        /// Where it is.
        at: String,
        /// The table.
        table: String,
    },
    /// There is a table of that name, and it is no outbox.
    #[error(
        "table {table} of {at} is no outbox ({why}); `event-hub outbox init` prints what it has to look like"
    )]
    OtherTable {
        /// Where it is.
        at: String,
        /// The table.
        table: String,
        /// What the database says.
        why: String,
    },
    /// The database refuses something, such as for lack of rights.
    #[error("{at} refuses {what}: {why}")]
    Refused {
        /// Where it is.
        at: String,
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
#[derive(Debug)]
pub enum Trouble {
    /// It took longer than this.
    Late(Duration),
    /// The driver says so.
    Driver(Error),
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
        }
    }

    /// What happened.
    pub fn words(&self) -> String {
        match self {
            Self::Late(limit) => format!("no answer within {} ms", limit.as_millis()),
            Self::Driver(error) => words(error),
        }
    }

    /// The database's code for it.
    pub fn code(&self) -> Option<String> {
        match self {
            Self::Driver(Error::Database(error)) => error.code().map(|code| code.into_owned()),
            _ => None,
        }
    }

    /// What is wrong with the table, if that is it.
    pub fn table(&self) -> Option<TableTrouble> {
        let Self::Driver(Error::Database(error)) = self else { return None };
        match error.code().as_deref() {
            // A table or its schema; a column or its type.
            Some("42P01" | "3F000") => Some(TableTrouble::Missing),
            Some("42703" | "42804" | "42883" | "42846") => Some(TableTrouble::Other),
            // SQLite has one code for all of them.
            Some("1") if error.message().contains("no such table") => Some(TableTrouble::Missing),
            Some("1") if error.message().contains("no such column") => Some(TableTrouble::Other),
            _ => None,
        }
    }
}

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableTrouble {
    /// It is not there.
    Missing,
    /// It is something else.
    Other,
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match &trouble {
            Trouble::Driver(
                Error::ColumnDecode { .. }
                | Error::Decode(_)
                | Error::ColumnNotFound(_)
                | Error::ColumnIndexOutOfBounds { .. },
            ) => Self::Damaged(trouble.words()),
            _ if trouble.table().is_some() => Self::Unavailable(format!(
                "{}; `event-hub outbox init --apply` makes the table",
                trouble.words()
            )),
            _ => Self::Unavailable(trouble.words()),
        }
    }
}

/// See [`Trouble::is_passing`].
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Io(_) | Error::PoolTimedOut | Error::WorkerCrashed => true,
        Error::Database(error) => error.code().is_some_and(|code| match code.as_ref() {
            // SQLite: busy and locked, with whatever is said about it in the higher bits.
            code if code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 5 | 6)) && code.len() < 5 => {
                true
            }
            // PostgreSQL: connections, resources, conflicts, shutdowns and starts.
            code => {
                ["08", "40", "53"].iter().any(|class| code.starts_with(class))
                    || ["55P03", "57014", "57P01", "57P02", "57P03", "57P05", "25006"].contains(&code)
            }
        }),
        _ => false,
    }
}

/// What the driver says.
fn words(error: &Error) -> String {
    let text = match error {
        Error::Database(error) => match error.code().as_deref() {
            // A statement that the connection had is unknown, or one that it had not is there.
            Some(code @ ("26000" | "42P05")) => format!(
                "{} ({code}); a pooler in transaction mode seems to be in between: use an address of PostgreSQL itself, or \
                 of a pool in session mode",
                error.message()
            ),
            Some(code) => format!("{} ({code})", error.message()),
            None => error.message().to_owned(),
        },
        Error::Io(error) => format!("the connection failed: {error}"),
        Error::PoolTimedOut => {
            "no connection in time: the server is away, or all connections are in use".into()
        }
        error => error.to_string(),
    };
    shortened(text)
}

/// Waits for an answer, but not for ever.
pub async fn within<T, E: Into<Trouble>>(
    limit: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(Trouble::Late(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_wrongly_is_damage_and_all_else_may_pass() {
        let damaged = Trouble::from(Error::ColumnNotFound("ts".into()));
        assert!(matches!(StoreError::from(damaged), StoreError::Damaged(_)));
        let late = Trouble::Late(Duration::from_secs(10));
        assert!(late.is_passing());
        assert_eq!(StoreError::from(late), StoreError::Unavailable("no answer within 10000 ms".into()));
        assert!(Trouble::from(Error::PoolTimedOut).is_passing());
        assert!(!Trouble::from(Error::RowNotFound).is_passing());
    }
}
