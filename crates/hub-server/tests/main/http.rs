//! HTTP, route by route, as a client sees it.

#[path = "http/audit_lines.rs"]
mod audit_lines;
#[path = "http/cloudevents.rs"]
mod cloudevents;
#[path = "http/connections.rs"]
mod connections;
#[path = "http/cors.rs"]
mod cors;
#[path = "http/dashboard.rs"]
mod dashboard;
#[path = "http/deletion.rs"]
mod deletion;
#[path = "http/dlq.rs"]
mod dlq;
#[path = "http/docs.rs"]
mod docs;
#[path = "http/event.rs"]
mod event;
#[path = "http/events.rs"]
mod events;
#[path = "http/export.rs"]
mod export;
#[path = "http/fetch_site.rs"]
mod fetch_site;
#[path = "http/groups.rs"]
mod groups;
#[path = "http/health.rs"]
mod health;
#[path = "http/history.rs"]
mod history;
#[path = "http/latest.rs"]
mod latest;
#[path = "http/lists.rs"]
mod lists;
#[path = "http/live.rs"]
mod live;
#[path = "http/matrix.rs"]
mod matrix;
#[path = "http/openapi.rs"]
mod openapi;
#[path = "http/openapi_world.rs"]
mod openapi_world;
#[path = "http/publish.rs"]
mod publish;
#[path = "http/refused.rs"]
mod refused;
#[path = "http/replay.rs"]
mod replay;
#[path = "http/rights.rs"]
mod rights;
#[path = "http/schema.rs"]
mod schema;
#[path = "http/schemas.rs"]
mod schemas;
#[path = "http/sse.rs"]
mod sse;
#[path = "http/stats.rs"]
mod stats;
#[path = "http/tickets.rs"]
mod tickets;
#[path = "http/waiting.rs"]
mod waiting;
#[path = "http/whoami.rs"]
mod whoami;
#[path = "http/world.rs"]
pub mod world;
#[path = "http/ws.rs"]
mod ws;
