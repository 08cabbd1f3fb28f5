//! Where a database is, in words that can be shown.

use crate::db::DATABASE;
use crate::error::{ConnectError, Secrets, words};
use crate::options::Options;
use mongodb::options::{ConnectionString, HostInfo};
use std::fmt;

/// Hosts and database of a connection string, without anything secret.
///
/// ```
/// use hub_store_mongo::Options;
/// let address = Options::new("mongodb://hub:s3cret@db1,db2:27018/shop?replicaSet=rs0").address()?;
/// assert_eq!(address.to_string(), "db1:27017,db2:27018, database shop");
/// # Ok::<(), hub_store_mongo::ConnectError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// With commas between; of a `mongodb+srv://` the name that is looked up.
    pub hosts: String,
    /// The one in the path, else `prom`.
    pub database: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, database {}", self.hosts, self.database)
    }
}

impl Options {
    /// Reads the connection string. Nothing is looked up, and nobody is asked.
    ///
    /// # Errors
    /// [`ConnectError::Settings`] if the driver cannot use it.
    pub fn address(&self) -> Result<Address, ConnectError> {
        let parsed = ConnectionString::parse(&self.uri)
            .map_err(|error| unusable(&Secrets::of(&self.uri).hide(&words(&error))))?;
        let hosts = match &parsed.host_info {
            HostInfo::HostIdentifiers(hosts) => {
                hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            HostInfo::DnsRecord(name) => name.clone(),
            // The driver may learn of other ways.
            _ => "…".to_owned(),
        };
        let database = parsed.default_database.unwrap_or_else(|| DATABASE.to_owned());
        Ok(Address { hosts, database })
    }
}

/// That a connection string leads nowhere, and how one looks.
pub fn unusable(why: &str) -> ConnectError {
    ConnectError::Settings(format!(
        "the address of MongoDB cannot be used: {why}; it looks like mongodb://user:password@host1,host2/database"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_shown_has_no_secret_in_it() {
        for (uri, shown) in [
            ("mongodb://db", "db:27017, database prom"),
            ("mongodb://hub:p%40ss@db:1/", "db:1, database prom"),
            ("mongodb+srv://hub:p%40ss@cluster.example.com/shop?w=1", "cluster.example.com, database shop"),
        ] {
            assert_eq!(Options::new(uri).address().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_the_driver_cannot_use_is_told_without_it() {
        for uri in [
            "mongodb://hub:hun/ter2@db/shop",
            "mongodb://hub:hun@ter2@db/shop",
            "mongodb://hub:hunter2@db:port/shop",
            "mongodb://hub:hunter2@db/sh op$",
            "http://hub:hunter2@db",
        ] {
            let Err(ConnectError::Settings(told)) = Options::new(uri).address() else { panic!("{uri}") };
            assert!(told.contains("cannot be used") && !told.contains("ter2"), "{uri}: {told}");
        }
    }
}
