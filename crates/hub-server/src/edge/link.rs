//! A connection to another hub.

use crate::Hub;
use hub_client::{Connection, ErrorKind, Target};
use hub_core::store::HubInfo;
use hub_proto::{Code, Error};
use std::borrow::Cow;
use std::time::Duration;

/// A hub that is alive answers sooner; for one that is not, the next owner is looked for.
const CONNECT: Duration = Duration::from_secs(2);
/// Answers may wait for the store.
const ANSWER: Duration = Duration::from_secs(10);
/// Whether the owner lives is known by its heartbeats; this is for connections that something in between has dropped.
const IDLE: Duration = Duration::from_secs(20);

/// Why something at another hub did not work.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It may work in a moment, there or elsewhere.
    Again(Cow<'static, str>),
    /// It will not.
    Ended(Error),
}

/// Connects to a hub, and says who this one is.
pub(super) async fn connect(hub: &Hub, to: &HubInfo) -> Result<Connection, Trouble> {
    let again = |what: &'static str| Trouble::Again(what.into());
    let edge = hub.edge();
    let me = hub.bus().hub().ok_or(again("this hub is alone on its store"))?;
    let key = edge.key.as_ref().ok_or(again("this hub has no credential for other hubs"))?;
    if to.address.is_empty() {
        return Err(again("the hub that serves the group has no address"));
    }
    let token = key.token(me.id, to.id, hub.bus().now());
    let target = target(&to.address, edge.roots.as_deref())?;
    let target = match edge.certificate() {
        Some(certificate) => target.client_certificate(certificate),
        None => target,
    };
    let connection = Connection::connect(&target).await?;
    connection.authenticate(token.expose()).await?;
    Ok(connection)
}

/// A hub's address is a URL, or a host and a port.
fn target(address: &str, roots: Option<&[u8]>) -> Result<Target, Trouble> {
    let url = match address.contains("://") {
        true => address.to_owned(),
        false => format!("ws://{address}/"),
    };
    let target = Target::new(url)?.connect_timeout(CONNECT).answer_timeout(ANSWER).idle_timeout(IDLE);
    Ok(match roots {
        Some(pem) => target.root_certificates(pem)?,
        None => target,
    })
}

impl From<hub_client::Error> for Trouble {
    fn from(error: hub_client::Error) -> Self {
        match (error.kind(), error.refusal()) {
            (ErrorKind::Refused, Some(refusal)) => refusal.clone().into(),
            _ => Self::Again(error.to_string().into()),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error.code {
            // Of these the user knows nothing: they are between the hubs.
            Code::NotOwner
            | Code::Unavailable
            | Code::Unauthorized
            | Code::NoToken
            | Code::JwtInvalid
            | Code::TokenExpired
            | Code::RateLimited => Self::Again(error.msg),
            _ => Self::Ended(error),
        }
    }
}
