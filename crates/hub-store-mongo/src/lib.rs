//! The store of event-hub for several hubs over one database: MongoDB.
//!
//! ```no_run
//! use hub_core::Bus;
//! use hub_store_mongo::{MongoStore, Options};
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MongoStore::connect(Options::new("mongodb://localhost:27017/shop?replicaSet=rs0")).await?;
//! let bus = Bus::builder(store).open().await?;
//! # Ok(())
//! # }
//! ```
//!
//! It needs a replica set or a sharded cluster of MongoDB 8.0 or later. Hubs hold no state that is not in the database,
//! and any number of them may use it at once. A sharded `events` has the shard key `{topic: 1}` or `{topic: "hashed"}`.
//!
//! # What is where
//!
//! | collection | holds |
//! | --- | --- |
//! | `events` | the logs of all topics, a document per event; payloads can be queried |
//! | `groups` | groups with their progress, subscriptions, and who owns them |
//! | `topics` | what was cleaned of each topic; the version of the schema |
//! | `dedupe` | ids of events that were cleaned away and may be published again |
//! | `hubs` | heartbeats |
//!
//! # Concerns
//!
//! Every write says `w: majority, j: true`, every read `majority`, from the primary. Nothing is taken from the address's
//! options, so a `?w=1` in it weakens nothing. A topic's `durability = "interval"` is ignored: the answer is `majority`.
//!
//! # Where to look
//!
//! | | |
//! | --- | --- |
//! | `options`, `address`, `connect`, `schema` | the address, the server, the indexes |
//! | `db`, `calls`, `error`, `clock`, `health`, `probe` | what every call has in common |
//! | `document` | events as documents, payloads as BSON |
//! | `append` | numbering, races, doubt |
//! | `groups` | saving groups under a fence |
//! | `read` | the log, its extent, the newest of a key |
//! | `topics`, `clean` | retention and compaction, announced before they happen |
//! | `shared` | heartbeats, owners, news of others' commits |
//! | `outbox` | the outbox of services, in any database |
//! | `observe` | looking at the hubs without being one |

mod address;
mod append;
mod calls;
mod clean;
mod clock;
mod connect;
mod db;
mod deleted;
mod document;
mod error;
mod groups;
mod health;
mod observe;
mod options;
pub mod outbox;
mod probe;
mod read;
mod schema;
mod shared;
mod store;
mod topics;

pub use address::Address;
pub use clock::SteadyClock;
pub use error::ConnectError;
pub use observe::Observer;
pub use options::{Names, Options};
pub use store::{MAX_PAYLOAD, MongoStore};
