//! Subscribing: say what and how, then open it as a stream, run a handler on it, or watch without a group.

mod by_id;
mod handler;
mod luggage;
mod structure;
mod subscription;
mod watch;

pub use by_id::{ById, Handed};
pub use handler::Running;
pub(crate) use structure::{Doomed, delete, delete_groups_of};
pub use subscription::Subscription;
use watch::Wants;
pub use watch::{Watch, Watched};

use crate::Millis;
use crate::cluster::Luggage;
use crate::engine::{By, Engine};
use crate::fan::Cover;
use crate::group::mailbox::Mailbox;
use crate::group::options::GroupRequest;
use hub_proto::{
    Code, Error, Event, Filter, GroupName, Ordering, Pattern, Position, Result, TopicName, limits, shown,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A filter that is a function: it runs on the member's side and acks what it refuses.
type Predicate = Arc<dyn Fn(&Event) -> bool + Send + Sync>;

/// A subscription in the making. Made by [`Bus::subscribe`](crate::Bus::subscribe).
#[must_use = "a subscription does nothing until it is opened"]
pub struct Subscribe {
    engine: Arc<Engine>,
    target: Target,
    from: Position,
    filter: Option<Filter>,
    coalesce: Option<bool>,
    max_bytes: usize,
    subject: Option<Arc<str>>,
    own_groups: bool,
}

/// What to subscribe to, as the caller wrote it.
#[derive(Clone)]
pub(crate) enum Target {
    /// A topic or a pattern.
    Written(String),
    /// A label for a list of topics.
    List(String, Vec<String>),
}

/// The same, checked.
pub(crate) enum Checked {
    One(TopicName),
    Many(String, Cover),
}

impl Target {
    fn check(&self) -> Result<Checked> {
        match self {
            Self::Written(text) if !text.contains('*') => Ok(Checked::One(TopicName::readable(text)?)),
            Self::Written(text) => Ok(Checked::Many(text.clone(), Cover::Pattern(Pattern::parse(text)?))),
            Self::List(label, topics) => {
                if topics.is_empty() || topics.len() > MAX_LISTED {
                    return Err(Error::bad_request(format!(
                        "the list of topics has {} entries; it must have 1 to {MAX_LISTED}",
                        topics.len()
                    )));
                }
                check_label(label)?;
                let mut names =
                    topics.iter().map(|topic| TopicName::readable(topic)).collect::<Result<Vec<_>>>()?;
                names.sort_unstable();
                names.dedup();
                Ok(Checked::Many(label.clone(), Cover::List(names)))
            }
        }
    }
}

/// The most topics in one list.
const MAX_LISTED: usize = 1000;

/// A label is a name for people, but it is stored: it has the form of a topic. It is kept beside the patterns, so it must
/// not be one: whoever may subscribe to little could change a subscription to more.
pub(crate) fn check_label(label: &str) -> Result<()> {
    if label.contains('*') {
        return Err(Error::bad_request(format!(
            "the label of a list of topics is {}; it must be without *, which is for patterns",
            shown(label)
        )));
    }
    Pattern::parse(label)
        .map(drop)
        .map_err(|error| Error::bad_request(format!("the label of a list of topics: {}", error.msg)))
}

impl Subscribe {
    pub(crate) fn new(engine: Arc<Engine>, target: Target) -> Self {
        let max_bytes = engine.config.member_bytes;
        Self {
            engine,
            target,
            from: Position::Latest,
            filter: None,
            coalesce: None,
            max_bytes,
            subject: None,
            own_groups: false,
        }
    }

    /// On behalf of a subject: what is made counts for its [`Quota`](crate::Quota).
    pub fn on_behalf_of(mut self, subject: &str) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Joins only groups that the [subject](Self::on_behalf_of) made itself, or that no subject made; others are `forbidden`.
    pub fn own_groups_only(mut self, own_groups: bool) -> Self {
        self.own_groups = own_groups;
        self
    }

    /// Where to start; for a group this only places a new one.
    pub fn from(mut self, from: Position) -> Self {
        self.from = from;
        self
    }

    /// Only events that match.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Skips what a newer event of the same key has overtaken. Without a group, [`from`](Self::from) the beginning, that is the newest
    /// state of every key, then live.
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = Some(coalesce);
        self
    }

    /// The most bytes of events that wait for this subscriber; [`Config::member_bytes`](crate::Config) unless set.
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Joins a durable group: each event goes to one of its members, until it is acked.
    pub fn group(self, name: &str) -> SubscribeGroup {
        let config = &self.engine.config;
        let (ack_timeout, max_bytes) = (config.ack_timeout, self.max_bytes);
        let member = MemberOptions { ack_timeout, max_bytes, ..MemberOptions::default() };
        let request =
            GroupRequest { filter: self.filter, coalesce: self.coalesce, ..GroupRequest::default() };
        SubscribeGroup {
            engine: self.engine,
            target: self.target,
            from: self.from,
            group: name.to_owned(),
            request,
            member,
            predicate: None,
            luggage: None,
            subject: self.subject,
            own_groups: self.own_groups,
        }
    }

    /// Without a group: events from now (or from [`from`](Self::from)), no acks, no stored state.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut live = bus.subscribe("prices.**").watch().await?;
    /// bus.publish("prices.eur.usd", json!(1.08)).await?;
    /// match live.recv().await? {
    ///     Watched::Event(event) => println!("{} is now {:?}", event.topic(), event.payload()),
    ///     Watched::Lagged { topic, missed } => println!("too slow: {missed} of {topic} are gone"),
    /// }
    /// # bus.stop().await }
    /// ```
    pub async fn watch(self) -> Result<Watch> {
        let wants =
            Wants { filter: self.filter.unwrap_or_default(), coalesce: self.coalesce.unwrap_or_default() };
        Watch::open(self.engine, self.target.check()?, self.from, wants, self.max_bytes).await
    }
}

/// What a member decides for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberOptions {
    pub max_in_flight: usize,
    pub max_bytes: usize,
    pub ack_timeout: Millis,
    pub concurrency: usize,
    pub batch_size: usize,
    pub manual_ack: bool,
}

impl Default for MemberOptions {
    fn default() -> Self {
        Self {
            max_in_flight: 1000,
            max_bytes: 4 << 20,
            ack_timeout: 30_000,
            concurrency: 1,
            batch_size: 100,
            manual_ack: false,
        }
    }
}

/// A member of a group in the making.
#[must_use = "a subscription does nothing until it is opened"]
pub struct SubscribeGroup {
    engine: Arc<Engine>,
    target: Target,
    from: Position,
    group: String,
    request: GroupRequest,
    member: MemberOptions,
    predicate: Option<Predicate>,
    luggage: Option<Luggage>,
    subject: Option<Arc<str>>,
    own_groups: bool,
}

impl SubscribeGroup {
    /// Where a new group starts. A group that exists goes on where it is.
    pub fn from(mut self, from: Position) -> Self {
        self.from = from;
        self
    }

    /// Everything said about the group at once.
    pub fn options(mut self, request: GroupRequest) -> Self {
        self.request = request;
        self
    }

    /// Only events that match reach the group.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.request.filter = Some(filter);
        self
    }

    /// Only events that `wants` wants reach this member's consumer; it acks the others.
    pub fn filter_fn(mut self, wants: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(wants));
        self
    }

    /// Whether events of one key keep their order.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.request.ordering = Some(ordering);
        self
    }

    /// Skip what a newer event of the same key has overtaken.
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.request.coalesce = Some(coalesce);
        self
    }

    /// Failures after which an event becomes a dead letter.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.request.max_attempts = Some(max_attempts);
        self
    }

    /// The most events this member holds unsettled.
    pub fn max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.member.max_in_flight = max_in_flight;
        self
    }

    /// The most bytes of events that wait for this member; [`Config::member_bytes`](crate::Config) unless set.
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.member.max_bytes = max_bytes;
        self
    }

    /// How long this member may take for an event before it goes to another.
    pub fn ack_timeout(mut self, millis: Millis) -> Self {
        self.member.ack_timeout = millis;
        self
    }

    /// For a handler: how many events it works on at once.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.member.concurrency = concurrency;
        self
    }

    /// The most events that [`Subscription::recv_batch`] brings at once; 100 unless set.
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.member.batch_size = batch_size;
        self
    }

    /// For a handler: returning is not acking, it settles its events itself.
    pub fn manual_ack(mut self, manual_ack: bool) -> Self {
        self.member.manual_ack = manual_ack;
        self
    }

    /// Joins the group and receives its events as a stream.
    pub async fn open(self) -> Result<Subscription> {
        self.check()?;
        self.engine.check_running()?;
        let group = GroupName::parse(&self.group)?;
        let target = self.target.check()?;
        let mut stay = self.engine.own(&group).await?;
        let carried = match &self.luggage {
            Some(luggage) => luggage::unpack(&self.engine, &group, &mut stay, luggage).await?,
            None => BTreeMap::new(),
        };
        let mailbox = Mailbox::new(self.member.max_in_flight, self.member.max_bytes);
        let mailbox = Arc::new(mailbox.of_subject(self.subject.clone()));
        let id = self.engine.new_member();
        let joining = structure::Joining {
            engine: self.engine.clone(),
            request: self.request,
            from: self.from,
            subject: self.subject.clone(),
            own_groups: self.own_groups,
            carried: Arc::new(carried),
        };
        let joined = match target {
            Checked::One(topic) => {
                let topic = self.engine.topic(&topic, By::User(self.subject.as_deref()))?;
                let joined = joining.one(&topic, &group, id, &mailbox, self.member.ack_timeout).await?;
                subscription::Joined { place: subscription::Place::One(joined), topics: 1 }
            }
            Checked::Many(label, cover) => {
                let joined = joining.many(&label, cover, &group, id, &mailbox, self.member.ack_timeout).await;
                let topics = joined?;
                subscription::Joined { place: subscription::Place::Many(label, group), topics }
            }
        };
        if let Some(luggage) = &self.luggage {
            stay.tenure.reported(luggage.hub, luggage.members, self.engine.clock.steady());
        }
        Ok(Subscription::new(self.engine, mailbox, id, joined, self.predicate, self.member.batch_size, stay))
    }

    /// Joins the group and receives its events one by one, to be settled by id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut work = bus.subscribe("jobs").group("workers").open_by_id().await?;
    /// let id = bus.publish("jobs", json!(1)).await?.id;
    /// let handed = work.recv().await?;
    /// assert_eq!(handed.event.id(), id);
    /// work.ack(id, Some(handed.attempt))?;
    /// assert!(work.ack(id, None).is_err(), "settled once");
    /// # bus.stop().await }
    /// ```
    pub async fn open_by_id(self) -> Result<ById> {
        let held = self.luggage.as_ref().map(|luggage| luggage.held.clone()).unwrap_or_default();
        self.open().await.map(|subscription| ById::new(subscription, held))
    }

    /// The member comes from another owner of the group, or is connected to another hub: what it holds there, it goes on
    /// holding here. For [`open_by_id`](Self::open_by_id), which is how hubs serve members.
    pub fn bringing(mut self, luggage: Luggage) -> Self {
        self.luggage = Some(luggage);
        self
    }

    fn check(&self) -> Result<()> {
        self.request.check()?;
        let limit = |name: &str, got: u64, max: u64| match got {
            0 => Err(Error::bad_request(format!("{name} is 0; it must be 1 to {max}"))),
            got if got > max => {
                Err(Error::new(Code::BadRequest, format!("{name} is {got}; it must be 1 to {max}")))
            }
            _ => Ok(()),
        };
        limit("maxInFlight", self.member.max_in_flight as u64, 100_000)?;
        limit("maxBytes", self.member.max_bytes as u64, u32::MAX.into())?;
        limit("batchSize", self.member.batch_size as u64, 100_000)?;
        limit("concurrency", self.member.concurrency as u64, 100_000)?;
        limit("ackTimeoutMs", self.member.ack_timeout, limits::MAX_DELAY_MS)
    }
}
