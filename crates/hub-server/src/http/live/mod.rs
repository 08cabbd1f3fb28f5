//! `GET /live`: what the dashboard shows, as it changes, as server-sent events.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what can be asked for, and by whom | here |
//! | one sample a second, while somebody watches | `sampler` |
//! | what a sample looks at, and what it has | `collector`, `snapshot` |
//! | topics and groups as rows; rows that changed | `rows`, `table` |
//! | what of a sample a viewer may see | `visibility` |
//! | one stream: its turns, and what ends it | `viewer` |
//! | the message `sample` | `figures` |
//! | `topics`, `groups`, `problems` | `lists`, `problems` |
//! | `tail` | `tail`, `matcher` |
//! | `state` | `state` |
//! | how messages are written | `message` |
//!
//! A stream costs what its viewer may see of what has changed. Rows are written as JSON once for all viewers; a viewer that reads
//! slowly gets the newest sample, and nothing is queued for it.

mod collector;
mod figures;
mod lists;
mod matcher;
mod message;
mod problems;
mod rows;
mod sampler;
mod snapshot;
mod state;
mod table;
mod tail;
mod viewer;
mod visibility;

pub(crate) use sampler::Sampler;

use super::audit::About;
use super::auth::Caller;
use super::cursors::exists;
use super::error::{Answer, Failure, shown};
use super::events::NO_BUFFERING;
use super::group_detail;
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::connections::ConnectionKind;
use crate::limits::{LiveConnection, Work};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::stream;
use hub_proto::{GroupName, TopicName, limits};
use lists::{Lists, Wanted};
use matcher::Matcher;
use std::convert::Infallible;
use tail::Tail;
use viewer::{Feed, Progress, Subject, Viewer, must_see_topic};

/// The views.
pub(super) const VIEWS: [&str; 6] = ["overview", "topics", "topic", "groups", "group", "state"];

/// What a viewer looks at.
enum View {
    Overview,
    Topics,
    Topic(TopicName),
    Groups(Option<TopicName>),
    Group(TopicName, GroupName),
    State(TopicName),
}

impl View {
    fn of(params: &Params) -> Result<Self, Failure> {
        let name = params.required("view")?;
        let view = match name {
            "overview" => Self::Overview,
            "topics" => Self::Topics,
            "topic" => Self::Topic(params.topic()?),
            "groups" => Self::Groups(params.get("topic").map(|_| params.topic()).transpose()?),
            "group" => Self::Group(params.topic()?, GroupName::parse(params.required("group")?)?),
            "state" => Self::State(params.topic()?),
            other => {
                return Err(Failure::bad_request(format!(
                    "view is {}; it must be one of {}",
                    shown(other),
                    VIEWS.join(", ")
                )));
            }
        };
        let taken: &[&str] = match name {
            "topic" => &["topic", "q", "key"],
            "groups" | "state" => &["topic"],
            "group" => &["topic", "group"],
            _ => &[],
        };
        match ["topic", "group", "q", "key"]
            .into_iter()
            .find(|name| params.get(name).is_some() && !taken.contains(name))
        {
            None => Ok(view),
            Some(unused) => Err(Failure::bad_request(format!(
                "view {name} takes no {unused}; {}",
                if taken.is_empty() {
                    "leave it out".to_owned()
                } else {
                    format!("it takes {}", taken.join(", "))
                }
            ))),
        }
    }

    /// The topic that the sampler has to look at for it.
    fn topic(&self) -> Option<&TopicName> {
        match self {
            Self::Overview | Self::Topics => None,
            Self::Groups(topic) => topic.as_ref(),
            Self::Topic(topic) | Self::Group(topic, _) | Self::State(topic) => Some(topic),
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Overview | Self::Topics | Self::Groups(None) => Subject::Everything,
            Self::Groups(Some(topic)) => Subject::Seen(topic.clone()),
            Self::Topic(topic) | Self::State(topic) => Subject::Read(topic.clone()),
            Self::Group(topic, group) => Subject::Group(topic.clone(), group.clone()),
        }
    }

    fn wanted(&self) -> Wanted {
        match self {
            Self::Overview => Wanted::Overview,
            Self::Topics => Wanted::Topics(None),
            Self::Topic(topic) => Wanted::Topics(Some(topic.clone())),
            Self::Groups(topic) => Wanted::Groups(topic.clone()),
            Self::Group(..) | Self::State(_) => Wanted::Nothing,
        }
    }
}

pub(super) async fn live(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["view", "topic", "group", "q", "key"])?;
    let view = View::of(&params)?;
    let text = bounded(&params, "q", Matcher::MAX_TEXT_BYTES)?;
    let key = bounded(&params, "key", limits::KEY_BYTES)?;
    caller.take_one()?;
    let subject = view.subject();
    match &subject {
        Subject::Everything => {}
        Subject::Seen(topic) => must_see_topic(&caller, topic)?,
        Subject::Read(topic) => caller.must(Action::Subscribe, Target::Topic(topic), None)?,
        Subject::Group(topic, group) => group_detail::must_see(&caller, topic, group)?,
    }
    if let Some(topic) = view.topic() {
        exists(hub.bus(), topic)?;
    }
    if let View::Group(topic, group) = &view {
        group_detail::look(&hub, &mut caller, topic, group).await?;
    }
    let live = count(&hub, &caller, &view)?;
    let feed = match &view {
        View::Topic(topic) => {
            let (tail, read) = Tail::open(hub.bus(), topic, Matcher::new(key, text)).await?;
            caller.owe(Work::bytes(read));
            Feed::Tail(Box::new(tail))
        }
        View::State(topic) => Feed::State(Box::new(state::State::open(hub.bus(), topic).await?)),
        _ => Feed::None,
    };
    let open = caller.open_stream(&hub, ConnectionKind::Live);
    open.set_subscriptions(usize::from(matches!(subject, Subject::Read(_))));
    let viewer = Viewer {
        settings: hub.follow(),
        samples: hub.sampler().watch(view.topic().cloned()),
        lists: Lists::new(view.wanted()),
        hub,
        caller,
        subject,
        feed,
        progress: Progress::default(),
        open,
        _live: live,
    };
    let chunks = stream::unfold(viewer, |mut viewer| async move {
        let chunk = viewer.next().await?;
        Some((Ok::<_, Infallible>(chunk), viewer))
    });
    let head = [(header::CONTENT_TYPE, "text/event-stream"), NO_BUFFERING];
    Ok((head, Body::from_stream(chunks)).into_response())
}

fn bounded<'a>(params: &'a Params, name: &str, most: usize) -> Result<Option<&'a str>, Failure> {
    match params.get(name) {
        Some(text) if text.len() > most => {
            let bytes = text.len();
            Err(Failure::bad_request(format!("{name} has {bytes} bytes; at most {most} are allowed")))
        }
        given => Ok(given),
    }
}

/// Counts a stream as a connection of its subject, and with a subscription if it reads a topic.
fn count(hub: &Hub, caller: &Caller, view: &View) -> Result<LiveConnection, Failure> {
    let limits = &hub.settings().limits;
    let reads = matches!(view, View::Topic(_) | View::State(_));
    let live = hub.live().connect(caller.subject(), limits).and_then(|mut live| {
        if reads {
            live.subscribe(1, limits)?;
        }
        Ok(live)
    });
    let about = About { topic: view.topic().map(TopicName::as_str), ..About::default() };
    live.map_err(|error| caller.refused("subscribe", about, error))
}
