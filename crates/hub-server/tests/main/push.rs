//! Push subscriptions, against endpoints that listen on sockets of their own.

#[path = "push/addresses.rs"]
mod addresses;
#[path = "push/answers.rs"]
mod answers;
#[path = "push/away.rs"]
mod away;
#[path = "push/endpoint.rs"]
pub mod endpoint;
#[path = "push/hubs.rs"]
mod hubs;
#[path = "push/managing.rs"]
mod managing;
#[path = "push/order.rs"]
mod order;
#[path = "push/sent.rs"]
mod sent;
