//! Every endpoint, by what it is about.

mod access;
mod groups;
mod health;
mod hub;
mod letters;
mod live;
mod publishing;
mod push;
mod reading;
mod schemas;

pub(in super::super) use access::*;
pub(in super::super) use groups::*;
pub(in super::super) use health::*;
pub(in super::super) use hub::*;
pub(in super::super) use letters::*;
pub(in super::super) use live::*;
pub(in super::super) use publishing::*;
pub(in super::super) use push::*;
pub(in super::super) use reading::*;
pub(in super::super) use schemas::*;

use super::{Answer, Body, Content, Endpoint, Kind, Needs, Param, Verb};

const MILLIS: Kind = Kind::Number(0, u64::MAX);
const CLOUDEVENTS: &str = "application/cloudevents-batch+json";

/// One that reads.
const fn get(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    needs: Needs,
    params: &'static [Param],
    content: &'static [Content],
) -> Endpoint {
    Endpoint {
        method: Verb::Get,
        path,
        name,
        summary,
        needs,
        params,
        headers: &[],
        body: None,
        answer: Answer::of(content),
        refusals: &[],
    }
}

/// One that deletes, which takes the admin right and can find nothing.
const fn delete(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    params: &'static [Param],
    content: &'static [Content],
) -> Endpoint {
    let endpoint = get(path, name, summary, Needs::Right("admin"), params, content);
    Endpoint { method: Verb::Delete, refusals: &[404], ..endpoint }
}

/// One that takes a body.
const fn post(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    needs: Needs,
    body: &'static [Content],
    content: &'static [Content],
) -> Endpoint {
    let endpoint = get(path, name, summary, needs, &[], content);
    Endpoint { method: Verb::Post, body: Some(Body { is_required: true, content: body }), ..endpoint }
}
