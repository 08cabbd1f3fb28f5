//! What every store has to keep, written once.
//!
//! A store hands in a [`StoreFactory`] and gets one test per case with [`conformance_suite!`](crate::conformance_suite).
//! Cases come at two levels: `port` asks the [`EventStore`] itself, `bus` runs the whole engine over it.
//!
//! ```
//! use hub_core::store::{Durability, EventStore};
//! use hub_core::testkit::conformance::{Features, StoreFactory, Support};
//! use hub_core::MemoryStore;
//! use std::sync::Arc;
//!
//! #[derive(Default)]
//! struct Memory(MemoryStore);
//!
//! impl StoreFactory for Memory {
//!     fn features(&self) -> Features {
//!         Features { durability: Durability::Memory, reopen: Support::Yes, manual_clock: Support::Yes }
//!     }
//!
//!     async fn open(&self) -> Arc<dyn EventStore> {
//!         Arc::new(self.0.clone())
//!     }
//! }
//!
//! hub_core::conformance_suite!(memory, Memory::default);
//! # fn main() {}
//! ```

#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

mod bus;
mod lab;
mod list;
mod port;

pub use lab::Lab;

use crate::store::EventStore;
use futures_core::future::BoxFuture;
use hub_proto::Durability;
use std::sync::Arc;

/// Makes stores over one set of data. Every case gets a factory of its own, with no data yet.
pub trait StoreFactory: Send + Sync + 'static {
    /// What the store can do.
    fn features(&self) -> Features;

    /// Opens a store: the first time an empty one; later the same data again, after everything that used the store
    /// before was dropped.
    fn open(&self) -> impl Future<Output = Arc<dyn EventStore>> + Send;
}

/// What a store can do, and why not.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// What it promises to publishers.
    pub durability: Durability,
    /// Whether the same data can be opened again.
    pub reopen: Support,
    /// Whether it works while tokio's clock stands still. One that waits for a socket does not: time would run away
    /// meanwhile. Cases that are about times are then left out, and the others run on the real clock.
    pub manual_clock: Support,
}

/// Whether a store can do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot, for this reason.
    No(&'static str),
}

/// What a case needs of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The same data opened again.
    Reopen,
    /// A clock that stands still until the case moves it.
    ManualClock,
}

/// One thing that a store has to keep.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its theme and its name, a sentence.
    pub name: &'static str,
    /// What it needs.
    pub needs: &'static [Need],
    run: fn(Lab) -> BoxFuture<'static, ()>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).field("needs", &self.needs).finish()
    }
}

/// Runs one case. One whose needs are not met is left out, and says why.
///
/// # Panics
/// If the store does not keep what the case asks for, or if there is no such case.
pub fn run<F: StoreFactory>(name: &str, factory: F) {
    let case = cases().into_iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    let features = factory.features();
    for need in case.needs {
        let support = match need {
            Need::Reopen => features.reopen,
            Need::ManualClock => features.manual_clock,
        };
        if let Support::No(reason) = support {
            eprintln!("left out: {name} needs {need:?}, and the store cannot: {reason}");
            return;
        }
    }
    let manual = features.manual_clock == Support::Yes;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(manual).build();
    runtime.expect("a runtime can be built").block_on(async {
        let lab = Lab::new(factory, manual);
        (case.run)(lab).await;
    });
}

/// Makes the table of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_table {
    ($($level:ident :: $theme:ident $needs:tt { $($case:ident,)* })*) => {
        /// Every case, in the order of the list.
        pub fn cases() -> Vec<Case> {
            vec![$($(Case {
                name: concat!(stringify!($level), "::", stringify!($theme), "::", stringify!($case)),
                needs: needs!($needs),
                run: |lab| Box::pin($level::$theme::$case(lab)),
            },)*)*]
        }
    };
}

/// Makes one test per case.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($($level:ident :: $theme:ident $needs:tt { $($case:ident,)* })*) => {
        $(mod $theme {
            $(#[test]
            fn $case() {
                let name = concat!(stringify!($level), "::", stringify!($theme), "::", stringify!($case));
                $crate::testkit::conformance::run(name, super::make());
            })*
        })*
    };
}

/// `conformance_suite!(name, make)`: a module `name` with one test per case, each over a store of `make()`, which
/// answers a [`StoreFactory`](crate::testkit::conformance::StoreFactory).
#[macro_export]
macro_rules! conformance_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            fn make() -> impl $crate::testkit::conformance::StoreFactory {
                $make()
            }

            $crate::conformance_list!($crate::conformance_tests);
        }
    };
}

macro_rules! needs {
    ([$($need:ident),*]) => { &[$(Need::$need),*] };
}

crate::conformance_list!(crate::conformance_table);
