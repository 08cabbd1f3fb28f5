//! Looking at the hubs of a database without being one.

use crate::connect::{self, Server};
use crate::error::{ConnectError, Trouble};
use crate::options::Options;
use crate::schema;
use crate::shared::{hubs, owners};
use hub_core::store::{Heartbeat, Ownership};
use mongodb::bson::doc;

/// Reads who is there, for operators. It makes no indexes and writes nothing.
pub struct Observer {
    server: Server,
}

impl Observer {
    /// Connects to a database that hubs use, or have used.
    ///
    /// # Errors
    /// As [`MongoStore::connect`](crate::MongoStore::connect); also for a database that no hub has used yet.
    pub async fn connect(options: &Options) -> Result<Self, ConnectError> {
        let server = connect::reach(options).await?;
        let database = server.db.database.name().to_owned();
        let error = match schema::version(&server.db).await {
            Ok(Some(found)) if found > schema::VERSION => {
                ConnectError::Schema { database, found, known: schema::VERSION }
            }
            Ok(Some(_)) => return Ok(Self { server }),
            Ok(None) => ConnectError::Settings(format!(
                "no hub has used database {database} of MongoDB at {} yet, or its collection of topics has another \
                 name than {}",
                server.hosts(),
                server.db.topics.name()
            )),
            Err(trouble) => server.told("to read its schema version", &trouble),
        };
        server.db.close().await;
        Err(error)
    }

    /// Gives the connection up. To be called before the program ends.
    pub async fn close(&self) {
        self.server.db.close().await;
    }

    /// Everybody's last heartbeat, whether they live or not: who lives is who counts on.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn hubs(&self) -> Result<Vec<Heartbeat>, ConnectError> {
        self.read("to read the heartbeats", hubs::all(&self.server.db).await)
    }

    /// Every name that was ever owned, with who owns it, if anybody does.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn names(&self) -> Result<Vec<(String, Ownership)>, ConnectError> {
        let names = owners::find(&self.server.db, doc! { "name": { "$exists": true } }).await;
        self.read("to read who serves which groups", names)
    }

    fn read<T>(&self, what: &str, read: Result<T, Trouble>) -> Result<T, ConnectError> {
        read.map_err(|trouble| self.server.told(what, &trouble))
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("hosts", &self.server.hosts()).finish_non_exhaustive()
    }
}
