//! Finding the server, and whether it will do.

use crate::address;
use crate::db::{self, Db};
use crate::error::{ConnectError, Secrets, Trouble};
use crate::options::Options;
use crate::schema;
use mongodb::Client;
use mongodb::bson::doc;
use mongodb::error::ErrorKind;
use mongodb::options::ClientOptions;
use std::time::Duration;

/// The wire version of MongoDB 8.0, the first whose `bulkWrite` spans documents of one call.
const WIRE_8_0: i32 = 25;

/// What is known of the place, for errors.
pub struct Place {
    pub hosts: String,
    secrets: Secrets,
}

/// A server that will do.
pub struct Server {
    pub db: Db,
    place: Place,
}

impl Server {
    /// Where it is.
    pub fn hosts(&self) -> &str {
        &self.place.hosts
    }

    /// Something went wrong with what was asked for.
    pub fn told(&self, what: &str, trouble: &Trouble) -> ConnectError {
        self.place.told(what, trouble)
    }
}

/// Connects, checks the server, and makes the indexes.
pub async fn connect(options: &Options) -> Result<Db, ConnectError> {
    let server = reach(options).await?;
    let ensured = schema::ensure(&server.db).await.map_err(|error| match error {
        schema::EnsureError::Told(error) => error,
        schema::EnsureError::Trouble(what, trouble) => server.told(&what, &trouble),
    });
    if ensured.is_err() {
        server.db.close().await;
    }
    ensured.map(|()| server.db)
}

/// Connects and checks the server. Nothing is written.
pub async fn reach(options: &Options) -> Result<Server, ConnectError> {
    options.names.check().map_err(ConnectError::Settings)?;
    let (client, place) = client(&options.uri, &options.app_name, options.call_limit).await?;
    let db = Db::new(client, options);
    if let Err(error) = check_server(&db, &place).await {
        db.close().await;
        return Err(error);
    }
    Ok(Server { db, place })
}

/// A client of an address, which says the same about concerns whatever the address says.
pub async fn client(uri: &str, app_name: &str, limit: Duration) -> Result<(Client, Place), ConnectError> {
    let secrets = Secrets::of(uri);
    let mut parsed = match db::within(limit, ClientOptions::parse(uri)).await {
        Ok(parsed) => parsed,
        Err(trouble) => return Err(unusable(&trouble, &secrets)),
    };
    let hosts: Vec<String> = parsed.hosts.iter().map(ToString::to_string).collect();
    db::harden(&mut parsed);
    parsed.app_name = Some(app_name.to_owned());
    let client = Client::with_options(parsed).map_err(|error| unusable(&error.into(), &secrets))?;
    Ok((client, Place { hosts: hosts.join(","), secrets }))
}

/// An address that leads nowhere.
fn unusable(trouble: &Trouble, secrets: &Secrets) -> ConnectError {
    let why = secrets.hide(&trouble.words());
    // The records behind a `mongodb+srv://` may come back.
    if trouble.is_passing() {
        return ConnectError::Unreachable { hosts: "the name in the address".into(), why };
    }
    address::unusable(&why)
}

async fn check_server(db: &Db, place: &Place) -> Result<(), ConnectError> {
    let hello = db.call(db.client.database("admin").run_command(doc! { "hello": 1 })).await;
    let hello = hello.map_err(|trouble| place.told("a greeting", &trouble))?;
    let hosts = place.hosts.clone();
    if hello.get_bool("isreplicaset").unwrap_or(false) {
        let why = "its replica set has not been initiated yet (rs.initiate())".into();
        return Err(ConnectError::Unreachable { hosts, why });
    }
    let is_router = hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
    if !hello.contains_key("setName") && !is_router {
        return Err(ConnectError::Standalone { hosts });
    }
    if hello.get_i32("maxWireVersion").unwrap_or(0) < WIRE_8_0 {
        let build = db.call(db.client.database("admin").run_command(doc! { "buildInfo": 1 })).await;
        let version = build.ok().and_then(|build| build.get_str("version").map(str::to_owned).ok());
        return Err(ConnectError::TooOld {
            hosts,
            version: version.unwrap_or_else(|| "of before 8.0".into()),
        });
    }
    // Somebody has to answer as one who may read: a greeting takes no credentials.
    let read = db.call(db.topics.find_one(doc! { "_id": schema::SCHEMA })).await;
    read.map(drop)
        .map_err(|trouble| place.told(&format!("to read database {}", db.database.name()), &trouble))
}

impl Place {
    /// Something went wrong with what was asked for.
    pub fn told(&self, what: &str, trouble: &Trouble) -> ConnectError {
        let (hosts, why) = (self.hosts.clone(), self.secrets.hide(&trouble.words()));
        if let Trouble::Driver(error) = trouble
            && matches!(error.kind.as_ref(), ErrorKind::Authentication { .. })
        {
            return ConnectError::Credentials { hosts, why };
        }
        if trouble.is_passing() {
            return ConnectError::Unreachable { hosts, why };
        }
        ConnectError::Refused { hosts, what: what.into(), why }
    }
}
