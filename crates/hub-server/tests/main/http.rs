//! HTTP, route by route, as a client sees it.

#[path = "http/cloudevents.rs"]
mod cloudevents;
#[path = "http/deletion.rs"]
mod deletion;
#[path = "http/dlq.rs"]
mod dlq;
#[path = "http/docs.rs"]
mod docs;
#[path = "http/event.rs"]
mod event;
#[path = "http/export.rs"]
mod export;
#[path = "http/groups.rs"]
mod groups;
#[path = "http/health.rs"]
mod health;
#[path = "http/lists.rs"]
mod lists;
#[path = "http/publish.rs"]
mod publish;
#[path = "http/refused.rs"]
mod refused;
#[path = "http/rights.rs"]
mod rights;
#[path = "http/stats.rs"]
mod stats;
#[path = "http/waiting.rs"]
mod waiting;
#[path = "http/world.rs"]
mod world;
