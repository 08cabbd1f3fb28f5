//! The HTTP API as data: every endpoint with its parameters, body and answers. The router and `/openapi.json` are made from the same
//! descriptions, and the tests send requests for each of them: no path is undocumented, and none is documented that is not there.
//!
//! | to know about | look at |
//! | --- | --- |
//! | every endpoint | `endpoints` |
//! | schemas with a name | `components` |
//! | the parts of schemas | `schema` |
//! | refusals | `refusals` |
//! | how the document is written | `document` |

mod components;
mod document;
mod endpoints;
mod refusals;
mod schema;

pub(super) use endpoints::*;

use crate::Hub;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, Route};
use axum::{Extension, Router};
use bytes::Bytes;
use schema::Schema;
use std::convert::Infallible;
use tower::{Layer, Service};

/// One method of one path.
pub(super) struct Endpoint {
    pub method: Verb,
    /// As the router takes it: `/publish/{topic}`.
    pub path: &'static str,
    /// The name of the operation, unique among all.
    pub name: &'static str,
    /// What it does, as a sentence.
    pub summary: &'static str,
    pub needs: Needs,
    /// Those of the path and of the query.
    pub params: &'static [Param],
    /// Those that are headers.
    pub headers: &'static [Param],
    pub body: Option<Body>,
    pub answer: Answer,
    /// Statuses of refusals that not every endpoint has.
    pub refusals: &'static [u16],
}

impl Endpoint {
    /// The same with further statuses of refusals.
    const fn refusing(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    /// As OpenAPI writes it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Anybody.
    Nothing,
    /// Anybody; the token follows on the WebSocket.
    TokenOnSocket,
    /// A token, unless the hub listens on loopback only.
    TokenBeyondLoopback,
    /// Any token.
    Token,
    /// A token with this right on what is asked for.
    Right(&'static str),
}

/// A parameter of the query or of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    pub name: &'static str,
    pub kind: Kind,
    pub is_required: bool,
    /// What it means.
    pub about: &'static str,
    /// A value that it may have; none if it is empty.
    pub example: &'static str,
}

impl Param {
    /// One that may be left out.
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, is_required: false, about, example: "" }
    }

    /// One that has to be there.
    pub const fn required(
        name: &'static str,
        kind: Kind,
        about: &'static str,
        example: &'static str,
    ) -> Self {
        Self { name, kind, is_required: true, about, example }
    }
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The name of a topic that can be published to.
    NewTopic,
    /// The name of a topic.
    Topic,
    /// The name of a topic, or a pattern.
    TopicOrPattern,
    /// The name of a group.
    Group,
    /// The id of an event.
    Id,
    /// An entity key.
    Key,
    /// Any text, also an empty one.
    AnyText,
    /// Any text that is not empty.
    Text,
    /// The same of at most so many bytes.
    TextUpTo(usize),
    /// The id of a trace, in hexadecimal.
    TraceId,
    /// A whole number within bounds.
    Number(u64, u64),
    /// `1` or `0`.
    Flag,
    /// One of some words.
    OneOf(&'static [&'static str]),
}

/// Parameters that several endpoints have.
mod params {
    use super::{Kind, Param};
    use hub_proto::limits;

    pub const TOPIC: Param = Param::required("topic", Kind::Topic, "The topic.", "orders.created");
    pub const GROUP: Param = Param::required("group", Kind::Group, "The group.", "billing");
    pub const AFTER: Param = Param::new("after", Kind::Text, "`next` of the page before.");
    pub const LIMIT: Param = Param::new(
        "limit",
        Kind::Number(1, limits::SCAN_MAX as u64),
        "How many entries; 1,000 unless given.",
    );
    /// Of lists whose entries are larger.
    pub const FEWER: Param = Param::new(
        "limit",
        Kind::Number(1, limits::BATCH_EVENTS as u64),
        "How many entries; 100 unless given.",
    );
    pub const AFTER_SEQ: Param =
        Param::new("afterSeq", Kind::Number(0, u64::MAX), "Only events behind this seq.");
    pub const FROM_TS: Param = Param::new(
        "fromTs",
        Kind::Number(0, u64::MAX),
        "Only events committed from this time on, in milliseconds since 1970.",
    );
    pub const TO_TS: Param = Param::new(
        "toTs",
        Kind::Number(0, u64::MAX),
        "Only events committed before this time, in milliseconds since 1970.",
    );
}

/// A body or an answer in one content type.
pub(super) struct Content {
    /// The content type, without its parameters.
    pub kind: &'static str,
    pub schema: Schema,
    /// Of a text that carries JSON values, one per line or message: their schema.
    pub items: Option<Schema>,
    /// By name: JSON for the content types of JSON, the text itself for others.
    pub examples: Examples,
}

/// Examples by name.
pub(super) type Examples = &'static [(&'static str, &'static str)];

impl Content {
    /// JSON.
    pub const fn json(schema: Schema, examples: Examples) -> Self {
        Self::json_as("application/json", schema, examples)
    }

    /// JSON under another content type.
    pub const fn json_as(kind: &'static str, schema: Schema, examples: Examples) -> Self {
        Self { kind, schema, items: None, examples }
    }

    /// Text.
    pub const fn text(kind: &'static str, examples: Examples) -> Self {
        Self { kind, schema: schema::text, items: None, examples }
    }

    /// Text that carries JSON values.
    pub const fn stream(kind: &'static str, items: Schema, examples: Examples) -> Self {
        Self { kind, schema: schema::text, items: Some(items), examples }
    }
}

/// The body of a request.
pub(super) struct Body {
    pub is_required: bool,
    /// By content type, the usual one first.
    pub content: &'static [Content],
}

/// The answer to a request that is not refused.
pub(super) struct Answer {
    /// By content type, the usual one first.
    pub content: &'static [Content],
    /// Further statuses that are no refusals in JSON, such as 304: when they come, and what they carry.
    pub others: &'static [(u16, &'static str, &'static [Content])],
}

impl Answer {
    pub const fn of(content: &'static [Content]) -> Self {
        Self { content, others: &[] }
    }
}

/// A router and the endpoints that it has.
#[derive(Default)]
pub(super) struct Api {
    router: Router<Hub>,
    endpoints: Vec<&'static Endpoint>,
}

impl Api {
    /// Adds an endpoint with its handler.
    pub fn at(mut self, endpoint: &'static Endpoint, handler: MethodRouter<Hub>) -> Self {
        self.router = self.router.route(endpoint.path, handler);
        self.endpoints.push(endpoint);
        self
    }

    /// Adds the endpoints of another one.
    pub fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.endpoints.extend(other.endpoints);
        self
    }

    /// Puts a layer around everything that was added so far.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.router = self.router.layer(layer);
        self
    }

    /// The router. Its handlers can read the [`Document`] of all endpoints.
    pub fn finish(self) -> Router<Hub> {
        let document = serde_json::to_vec(&document::openapi(&self.endpoints)).unwrap_or_default();
        self.router.layer(Extension(Document(document.into())))
    }
}

/// `/openapi.json`, as text.
#[derive(Clone)]
pub(super) struct Document(pub Bytes);
