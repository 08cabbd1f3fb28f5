//! One stream: what its viewer gets, and what ends it.

use super::figures::Figures;
use super::lists::Lists;
use super::message::put_message;
use super::rows::json;
use super::sampler::Samples;
use super::snapshot::Snapshot;
use super::state::State;
use super::tail::Tail;
use super::visibility::Visibility;
use crate::connections::OpenConnection;
use crate::http::audit::About;
use crate::http::auth::Caller;
use crate::http::error::Failure;
use crate::http::group_detail;
use crate::http::stream::{check, draining, expired, passed};
use crate::limits::{LiveConnection, Work};
use crate::{Hub, Settings};
use bytes::Bytes;
use hub_proto::{Code, Error, GroupName, TopicName};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A message that a viewer gets beside those about samples.
pub(super) enum Feed {
    None,
    Tail(Box<Tail>),
    State(Box<State>),
}

impl Feed {
    /// The next message. Cancel safe.
    async fn next(&mut self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::None => std::future::pending().await,
            Self::Tail(tail) => tail.next().await,
            Self::State(state) => state.next().await,
        }
    }
}

/// What the viewer needs a right to, for as long as the stream is open.
pub(super) enum Subject {
    /// Nothing: it sees what it may see.
    Everything,
    /// To see the topic.
    Seen(TopicName),
    /// To read the topic.
    Read(TopicName),
    /// To see the group.
    Group(TopicName, GroupName),
}

/// A stream under way.
pub(super) struct Viewer {
    pub hub: Hub,
    pub caller: Caller,
    pub subject: Subject,
    /// Changes when rights may have changed.
    pub settings: watch::Receiver<Arc<Settings>>,
    pub samples: Samples,
    pub lists: Lists,
    pub feed: Feed,
    pub progress: Progress,
    /// Its place among the open connections.
    pub open: OpenConnection,
    /// Its place among what its subject has open.
    pub _live: LiveConnection,
}

/// How far a stream is.
pub(super) struct Progress {
    has_begun: bool,
    is_over: bool,
    has_sample: bool,
    visibility: Visibility,
    /// What could be seen before the rights changed, until the viewer was told.
    before: Option<Visibility>,
    /// The group as it was sent.
    group: Vec<u8>,
    /// When the next message may go out.
    resumes_at: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            has_begun: false,
            is_over: false,
            has_sample: false,
            visibility: Visibility::default(),
            before: None,
            group: Vec::new(),
            resumes_at: Instant::now(),
        }
    }
}

/// What happened.
enum Turn {
    Sampled(Option<Arc<Snapshot>>),
    Fed(Result<Vec<u8>, Failure>),
    Resumed,
}

impl Viewer {
    /// The next chunk; `None` after the last.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.open.sent();
        if self.progress.is_over {
            return None;
        }
        let chunk = match std::mem::replace(&mut self.progress.has_begun, true) {
            // At once, so that the client learns that the stream is open.
            false => super::super::events::beginning(),
            true => self.chunk().await.unwrap_or_else(|failure| {
                self.progress.is_over = true;
                tracing::debug!(reason = %failure, "a live stream ended");
                super::super::events::end(&failure)
            }),
        };
        self.open.queue(chunk.len());
        Some(chunk)
    }

    async fn chunk(&mut self) -> Result<Bytes, Failure> {
        loop {
            self.renew()?;
            let now = self.hub.bus().now();
            let time_left = self.caller.expires().map(|expires| expires.saturating_sub(now));
            let (samples, feed, progress) = (&mut self.samples, &mut self.feed, &mut self.progress);
            let has_backlog = self.lists.has_backlog();
            let (resumes_at, has_sample) = (progress.resumes_at, progress.has_sample);
            let next = async {
                // A timer of none takes until tokio comes by.
                if resumes_at > Instant::now() {
                    sleep_until(resumes_at).await;
                }
                if has_backlog {
                    return Turn::Resumed;
                }
                if !has_sample {
                    return Turn::Sampled(samples.first().await);
                }
                tokio::select! {
                    biased;
                    snapshot = samples.next() => Turn::Sampled(snapshot),
                    fed = feed.next() => Turn::Fed(fed),
                }
            };
            let turn = tokio::select! {
                biased;
                () = self.hub.draining().cancelled() => return Err(draining()),
                () = passed(time_left) => return Err(expired()),
                // The hub keeps the sender; the rights are looked at again.
                Ok(()) = self.settings.changed() => continue,
                turn = next => turn,
            };
            let mut text = Vec::new();
            match turn {
                Turn::Resumed => match self.samples.newest() {
                    Some(snapshot) => self.lists.go_on(&snapshot, &self.progress.visibility, &mut text),
                    // The next sample has all rows.
                    None => self.lists.drop_backlog(),
                },
                Turn::Fed(fed) => text = fed?,
                Turn::Sampled(None) => return Err(draining()),
                Turn::Sampled(Some(snapshot)) => self.sampled(&snapshot, &mut text).await?,
            }
            if !text.is_empty() {
                return Ok(self.send(text));
            }
        }
    }

    /// Takes the rights as they are by now, and refuses who has lost what the stream needs.
    fn renew(&mut self) -> Result<(), Failure> {
        if self.caller.renew(&self.hub)? {
            let before = std::mem::take(&mut self.progress.visibility);
            // If they changed twice, what counts is what the viewer was told.
            self.progress.before.get_or_insert(before);
            // What waits was decided about before.
            self.lists.drop_backlog();
        }
        match &self.subject {
            Subject::Everything => Ok(()),
            Subject::Read(topic) => check(&self.hub, &mut self.caller, topic).map(drop),
            Subject::Group(topic, group) => group_detail::must_see(&self.caller, topic, group),
            Subject::Seen(topic) => must_see_topic(&self.caller, topic),
        }
    }

    async fn sampled(&mut self, snapshot: &Arc<Snapshot>, text: &mut Vec<u8>) -> Result<(), Failure> {
        self.progress.has_sample = true;
        let looked_at = self.progress.visibility.update(&self.caller, snapshot).await;
        self.caller.owe(Work::topics(looked_at));
        let visibility = &self.progress.visibility;
        put_message("sample", &json(&Figures::of(snapshot, visibility)), text);
        let before = self.progress.before.take();
        let who = (&self.hub, &self.caller);
        self.lists.sample(who, snapshot, (visibility, before.as_ref()), text);
        if let Subject::Group(topic, group) = &self.subject {
            let detail = group_detail::look(&self.hub, &mut self.caller, topic, group).await?;
            if detail != self.progress.group {
                put_message("group", &detail, text);
                self.progress.group = detail;
            }
        }
        Ok(())
    }

    fn send(&mut self, text: Vec<u8>) -> Bytes {
        let wait = match &self.subject {
            Subject::Read(topic) => self.caller.send_bytes(topic, text.len()),
            _ => self.caller.send_figures(text.len()),
        };
        if let Some(wait) = wait {
            self.progress.resumes_at = Instant::now() + wait;
        }
        text.into()
    }
}

/// Refuses those who may do nothing with a topic.
pub(super) fn must_see_topic(caller: &Caller, topic: &TopicName) -> Result<(), Failure> {
    if caller.sees_topic(topic) {
        return Ok(());
    }
    let text = format!("the token allows nothing on topic {topic}");
    let about = About { topic: Some(topic), ..About::default() };
    Err(caller.refused("read", about, Error::new(Code::Forbidden, text)))
}
