//! The bus of event-hub: durable topics, competing consumers with leases, dead letters, replay, latest state by key;
//! over a store that is plugged in.
//!
//! Start with [`Bus`]. What is promised is written down in `docs/semantics.md`; how it works inside, in
//! `docs/architecture.md`. The way of an event:
//!
//! | step | where |
//! | --- | --- |
//! | checked, its bytes built once | [`Bus::publish`], `engine` |
//! | waits for the next commit with everything else | `committer` |
//! | made durable, gets its `seq` | [`store::EventStore`] |
//! | kept in memory for those who keep up | `topic` |
//! | given to a member of each group | `group`; the rules are in `group/dispatch.rs`, a plain state machine |
//! | in the consumer's hands, acked | [`Subscription`], [`Delivery`] |
//! | what was done is saved | `saver` |
//! | old and overtaken events leave | `cleaner`, `snapshot` |
//!
//! Several hubs over one store: `cluster`.

mod burst;
mod bus;
mod cleaner;
mod cleaning_time;
mod clock;
mod cluster;
mod coalesce;
mod committer;
mod config;
mod dead_letter;
mod deletion;
mod derived;
mod engine;
mod event_bus;
mod fan;
mod group;
mod in_order;
mod letters;
mod metrics;
pub mod outbox;
mod payload_checks;
mod position;
mod publish;
mod quota;
mod rates;
mod saver;
mod snapshot;
pub mod store;
mod subscribe;
mod supervise;
mod system;
#[cfg(feature = "testkit")]
pub mod testkit;
mod topic;
mod topics;
pub mod trace;

pub use burst::{Added, Burst, Checked};
pub use bus::{Bus, BusBuilder};
pub use clock::{Clock, SystemClock};
pub use cluster::{ClusterConfig, Elsewhere, Held, Luggage, Owner};
pub use committer::Sent;
pub use config::{Config, TopicDurability, TopicSettings};
pub use deletion::DeletedTopic;
pub use group::delivery::Delivery;
pub use group::look::{EventInGroup, EventState, GroupDetail, KeyBlock, MemberStatus, RecentFailure};
pub use group::options::{GroupOptions, GroupRequest};
pub use group::status::{GroupStatus, Oldest, Reason};
pub use hub_handler::{EventBusExt, Failure, HandlerContext, HandlerOptions};
pub use hub_proto::bus::{EventBus, EventStream};
pub use hub_proto::{
    Code, Durability, Error, Event, EventId, Filter, GroupName, IdGenerator, Key, NewEvent, Ordering,
    Pattern, Payload, Position, PublishOptions, Receipt, Result, SubscribeOptions, SubscribeRequest,
    TopicName, TraceContext, limits,
};
pub use in_order::{InOrder, SentInOrder};
pub use letters::{DeadLetter, LetterFilter, LetterPage, LetterRange, Replay, Replayed, SHOWN_ERROR_BYTES};
pub use payload_checks::{PayloadCheck, PayloadChecks};
pub use position::Cursor;
/// The crate whose registry [`BusBuilder::open_with`] takes.
pub use prometheus_client;
pub use publish::{Publish, Publishing};
pub use quota::{Quota, QuotaOf, QuotaUse};
pub use rates::{
    BusyGroup, BusyTopic, DurationBuckets, GroupSample, MeasuredRates, Quantiles, Range, Rated, TopicSample,
};
pub use store::memory::MemoryStore;
pub use store::{Health, StoreError};
pub use subscribe::{ById, Handed, Running, Subscribe, SubscribeGroup, Subscription, Watch, Watched};
pub use system::{SystemEntry, SystemTopic, SystemWatch};

/// Milliseconds: since the Unix epoch, since a start, or of duration.
pub type Millis = u64;

/// The examples of the README and of the pages on the library and the outbox compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/library.md")]
#[doc = include_str!("../../../docs/event-bus.md")]
#[doc = include_str!("../../../docs/outbox.md")]
struct Pages;
