//! The program itself, run on real directories.
#![allow(clippy::unwrap_used)]

#[path = "main/audit.rs"]
mod audit;
#[path = "main/backup.rs"]
mod backup;
#[path = "main/cli/mod.rs"]
mod cli;
#[path = "main/client/mod.rs"]
mod client;
#[path = "main/cloudevents.rs"]
mod cloudevents;
#[path = "main/codegen.rs"]
mod codegen;
#[path = "main/config.rs"]
mod config;
#[path = "main/crowd.rs"]
mod crowd;
#[path = "main/damage.rs"]
mod damage;
#[path = "main/endpoint.rs"]
mod endpoint;
#[path = "main/events.rs"]
mod events;
#[path = "main/healthy.rs"]
mod healthy;
#[path = "main/hub.rs"]
mod hub;
#[path = "main/killed.rs"]
mod killed;
#[path = "main/outbox/mod.rs"]
mod outbox;
#[cfg(debug_assertions)]
#[path = "main/panics.rs"]
mod panics;
#[path = "main/policy.rs"]
mod policy;
#[path = "main/push.rs"]
mod push;
#[path = "main/random.rs"]
mod random;
#[path = "main/refused.rs"]
mod refused;
#[path = "main/repairs.rs"]
mod repairs;
#[path = "main/serve.rs"]
mod serve;
#[path = "main/slow.rs"]
mod slow;
#[path = "main/socket.rs"]
mod socket;
#[path = "main/stat.rs"]
mod stat;
#[path = "main/streams.rs"]
mod streams;
#[path = "main/token.rs"]
mod token;
#[path = "main/topics.rs"]
mod topics;
#[cfg(feature = "otlp")]
#[path = "main/tracing.rs"]
mod tracing;
#[path = "main/with_mongo/mod.rs"]
mod with_mongo;
#[path = "main/with_postgres/mod.rs"]
mod with_postgres;
#[path = "main/with_prometheus/mod.rs"]
mod with_prometheus;
#[path = "main/with_schemathesis.rs"]
mod with_schemathesis;
#[path = "main/world.rs"]
mod world;
