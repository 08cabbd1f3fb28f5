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
mod port;

pub use lab::Lab;

use crate::store::{Durability, EventStore};
use futures_core::future::BoxFuture;
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

/// Every case there is: the one list of names, handed to `$then`.
///
/// A module's needs stand before its cases. A case that is not listed is unused code, which does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ($then:path) => {
        $then! {
            port::append [] {
                events_get_gapless_seqs_in_the_order_of_the_batch,
                each_topic_counts_on_its_own,
                seqs_go_on_in_the_next_commit,
                commit_times_never_decrease_when_the_clock_goes_back,
                the_answer_is_the_record_that_readers_see,
                the_durability_is_the_declared_one,
                payload_bytes_stay_as_they_were_written,
                every_optional_field_is_kept,
                an_event_as_large_as_allowed_is_kept,
                an_empty_commit_changes_nothing,
            }
            port::ids [] {
                a_known_id_appends_nothing_and_answers_its_place,
                an_id_twice_in_one_batch_is_appended_once,
                an_id_on_another_topic_is_another_event,
                another_payload_or_key_is_not_the_same,
                payloads_are_compared_as_json,
                a_cleaned_id_is_remembered_as_long_as_asked,
                a_cleaned_id_still_tells_another_payload_apart,
                the_seq_of_an_id_is_found,
            }
            port::read [] {
                reading_starts_after_a_seq,
                reading_at_the_end_brings_nothing,
                a_read_stops_at_its_limit_of_events,
                a_read_stops_at_its_limit_of_bytes,
                a_read_brings_at_least_one_event,
                holes_are_left_out,
                bounds_follow_the_log,
                the_seq_before_a_time_is_found,
                an_unknown_topic_answers_defaults,
            }
            port::newest [] {
                the_newest_record_of_each_key_is_answered,
                tombstones_are_answered_by_key_and_left_out_of_pages,
                records_replayed_for_one_group_are_passed_over,
                pages_go_in_byte_order_of_the_keys,
                a_page_stops_at_its_limits_and_brings_at_least_one,
                the_newest_by_seq_counts_and_not_by_time,
            }
            port::clean [] {
                an_empty_policy_keeps_everything,
                what_was_committed_before_a_time_goes,
                the_oldest_go_until_the_rest_fits,
                compaction_keeps_the_newest_of_each_key,
                compaction_leaves_keyless_records_alone,
                a_tombstone_stays_for_its_grace,
                an_older_value_does_not_come_back_with_a_tombstone_gone,
                compaction_makes_room_before_size_does,
                seqs_go_on_after_everything_was_cleaned,
                cleaning_twice_changes_nothing_more,
                cleaning_concerns_one_topic,
            }
            port::records [] {
                a_group_is_loaded_as_it_was_written,
                progress_brings_a_group_forward,
                a_changed_group_keeps_its_progress,
                progress_of_an_unknown_group_is_ignored,
                a_group_that_is_gone_is_not_loaded,
                a_group_made_again_starts_without_progress,
                a_subscription_is_loaded_as_it_was_written,
                a_subscription_that_is_gone_is_not_loaded,
                writing_a_record_twice_changes_nothing_more,
                records_of_one_commit_count_in_their_order,
            }
            port::reopened [Reopen] {
                events_are_the_same_bytes_after_a_reopen,
                seqs_and_ids_go_on_after_a_reopen,
                commit_times_do_not_go_back_after_a_reopen,
                what_was_cleaned_stays_cleaned_after_a_reopen,
                cleaned_ids_are_remembered_after_a_reopen,
                the_newest_by_key_is_known_after_a_reopen,
                groups_and_subscriptions_survive_a_reopen,
                an_emptied_topic_keeps_its_count_after_a_reopen,
            }
        }
    };
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

conformance_list!(conformance_table);
