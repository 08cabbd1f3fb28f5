//! What programs call on any [`EventBus`](hub_proto::bus::EventBus): publish values, and run handlers on events. `hub-core` and `hub-client` bring it
//! along.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what can be called | [`EventBusExt`] |
//! | what a handler gets | [`HandlerContext`] |
//! | what it answers when an event is to come again | [`Failure`] |
//! | how many run at once, and for how long events are held | [`HandlerOptions`] |
//! | how it is stopped | [`Running`] |

mod context;
mod extension;
mod failure;
mod finished;
mod runner;
mod running;

pub use context::HandlerContext;
pub use extension::EventBusExt;
pub use failure::Failure;
pub use running::{HandlerOptions, Running};
