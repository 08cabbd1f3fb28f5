//! What every bus promises, asked of the bus in this process, of a client of a hub, and of a client whose connection is cut again and again.

#[path = "event_bus/cuts.rs"]
mod cuts;
#[path = "event_bus/handling.rs"]
mod handling;
#[path = "event_bus/publishing.rs"]
mod publishing;
#[path = "event_bus/subscribing.rs"]
mod subscribing;

use crate::world::{ALL, World, token};
use cuts::Wire;
use hub_client::{Client, Target};
use hub_core::{Bus, EventBus, MemoryStore};
use hub_proto::bus::{Delivery, EventStream};
use hub_proto::{Position, SubscribeOptions, SubscribeRequest};
use hub_server::Settings;
use std::sync::Arc;
use std::time::Duration;

/// Nothing in a test takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A bus, and what can be done to it.
struct Subject {
    bus: Arc<dyn EventBus>,
    /// The one behind it.
    behind: Bus,
    wire: Option<Wire>,
    /// Its hub, of a client.
    world: Option<World>,
}

impl Subject {
    async fn in_process() -> Self {
        let bus = Bus::builder(MemoryStore::new()).open().await.unwrap();
        Self { bus: Arc::new(bus.clone()), behind: bus, wire: None, world: None }
    }

    async fn client() -> Self {
        let world = World::with(hub_core::Config::default(), Settings::default()).await;
        let bus = connect(&world.address.to_string()).await;
        Self { bus, behind: world.bus().clone(), wire: None, world: Some(world) }
    }

    async fn client_that_is_cut() -> Self {
        let world = World::with(hub_core::Config::default(), Settings::default()).await;
        let wire = Wire::to(world.address).await;
        let bus = connect(&wire.address().to_string()).await;
        Self { bus, behind: world.bus().clone(), wire: Some(wire), world: Some(world) }
    }

    /// Cuts the connection, if there is one that can be cut.
    async fn cut(&self) {
        if let Some(wire) = &self.wire {
            wire.cut().await;
        }
    }

    async fn open(&self, topic: &str, group: Option<&str>, options: SubscribeOptions) -> EventStream {
        let request = SubscribeRequest::new(topic, group).options(options);
        soon(self.bus.open(request)).await.unwrap()
    }
}

async fn connect(address: &str) -> Arc<dyn EventBus> {
    let target = Target::new(format!("ws://{address}/")).unwrap();
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(50));
    let client = Client::builder(target).token(token(ALL)).backoff(first, longest).reconnect_within(first);
    Arc::new(client.connect().await.unwrap())
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// From the beginning of the topic.
fn earliest() -> SubscribeOptions {
    SubscribeOptions { from: Some(Position::Earliest), ..SubscribeOptions::default() }
}

async fn next(stream: &mut EventStream) -> Delivery {
    soon(stream.next_event()).await.unwrap()
}

async fn next_number(stream: &mut EventStream) -> u64 {
    next(stream).await.decode().unwrap()
}

/// Each case is a test of every kind of bus.
macro_rules! of_every_bus {
    ($($module:ident: $($case:ident),+ $(,)?;)+) => {
        of_every_bus!(@kind in_process: $($module: $($case),+;)+);
        of_every_bus!(@kind client: $($module: $($case),+;)+);
        of_every_bus!(@kind client_that_is_cut: $($module: $($case),+;)+);
    };
    (@kind $kind:ident: $($module:ident: $($case:ident),+;)+) => {
        mod $kind {
            $($(
                #[tokio::test]
                async fn $case() {
                    super::$module::$case(&super::Subject::$kind().await).await;
                }
            )+)+
        }
    };
}

of_every_bus! {
    publishing:
        an_event_is_read_as_it_was_published,
        an_id_is_stored_once,
        what_is_refused_names_the_event,
        each_event_of_a_batch_has_an_answer_of_its_own,
        what_is_sent_in_order_stops_at_the_first_refusal,
        events_that_are_sent_one_behind_the_other_keep_their_order;
    subscribing:
        an_event_that_was_acked_does_not_come_again,
        an_event_that_failed_comes_again,
        an_event_that_was_given_back_has_not_failed,
        a_lease_can_be_extended,
        a_member_that_pauses_gets_nothing,
        a_member_that_closes_gives_everything_back,
        a_group_has_the_options_that_were_asked_for,
        a_watcher_reads_from_where_it_wants,
        a_watcher_that_coalesces_gets_the_newest_of_each_key,
        several_topics_are_one_subscription,
        a_subscription_that_makes_no_sense_is_refused,
        a_bus_that_has_stopped_ends_its_subscriptions;
    handling:
        a_handler_gets_every_event,
        an_event_whose_handler_fails_comes_again_as_it_says,
        a_handler_that_panics_has_failed,
        events_of_a_key_are_handled_one_after_the_other,
        so_many_handlers_run_at_once,
        an_event_is_held_for_as_long_as_its_handler_runs,
        an_event_that_is_no_longer_extended_is_lost,
        what_a_handler_publishes_is_stored_once,
        a_handler_that_stops_finishes_what_it_has_begun,
        a_bus_that_stops_waits_for_handlers,
        a_handler_ends_with_its_subscription;
}
