//! The client of event-hub's WebSocket protocol (`docs/protocol.md`).
//!
//! | to | take |
//! | --- | --- |
//! | publish and subscribe, and leave the rest to it | [`Client`] |
//! | talk over one connection, until it ends | [`Connection`] |
//! | say where a hub is | [`Target`] |
//! | show a certificate | [`Certificate`] |
//! | say what to read | [`SubscribeRequest`], [`SubscribeOptions`] |
//! | hold any bus, this one or one in the process | [`EventBus`], [`EventBusExt`] |
//! | know what went wrong | [`Error`], [`ErrorKind`], and [`Code`] for what the hub refused |

mod certificate;
pub mod client;
pub mod connection;
mod error;
mod event_bus;
mod frame;
mod name;
mod target;

pub use certificate::Certificate;
pub use client::{Client, Message, Received, State, Subscription};
pub use connection::{Answer, Arrival, Closed, Connection, Delivered, Deliveries};
pub use error::{Error, ErrorKind, Result};
pub use hub_handler::{EventBusExt, Failure, HandlerContext, HandlerOptions};
pub use hub_proto::bus::{self, EventBus, EventStream};
pub use hub_proto::{
    Code, Durability, Event, EventId, Filter, NewEvent, Ordering, Payload, Position, PublishOptions, Receipt,
    SubscribeOptions, SubscribeRequest, TopicName, WhenFull,
};
pub use name::Name;
pub use target::{Target, shown};

/// The examples of the client's page compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
struct Page;
