//! `POST /backup`: holds the files of the embedded store in place while a program on the same machine copies them.
//!
//! The answer is a stream. Its first line says which files there are and where the log ends; then a line comes now and then, and the
//! files are held until the client ends the answer. Nothing has to be renewed, and a client that is gone holds nothing.
//!
//! The hub neither copies nor takes a path from the client: what may be read and written is decided by the rights of the process that
//! copies.

use super::audit::About;
use super::auth::Caller;
use super::error::{Answer, Failure, in_time};
use super::query::Params;
use super::stream::while_valid;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::connections::{ConnectionKind, OpenConnection};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hub_core::store::PinnedFiles;
use hub_proto::Pattern;
use serde_json::json;
use std::time::Duration;

/// A line is sent this often: a client that is gone is noticed, and proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub(super) async fn backup(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let all = Pattern::parse("**")?;
    caller.administrate(Target::Pattern(&all), About { target: Some("backup"), ..About::default() })?;
    let Some(pinned) = in_time(hub.bus().pin_files()).await? else {
        return Err(no_files(hub.bus().store_name()));
    };
    let head = head(&pinned);
    tracing::info!(segment = pinned.end.segment, commit = pinned.end.commit, "backup began: files are held");
    let open = caller.open_stream(&hub, ConnectionKind::Backup);
    let pin = PinStream { hub, caller, all, pinned, _open: open };
    let rest = stream::try_unfold(pin, |mut pin| async move {
        pin.next().await?;
        Ok(Some((Bytes::from_static(b"{}\n"), pin)))
    });
    let body = Body::from_stream(stream::iter([Ok::<_, Ended>(head)]).chain(rest));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// The refusal of a store that has no files here.
fn no_files(store: &str) -> Failure {
    Failure::bad_request(match store {
        "mongodb" => {
            "this hub keeps its events in MongoDB: back that up with mongodump, or with snapshots of its file systems"
                .to_owned()
        }
        store => format!("a {store} store has no files; a backup is for the embedded store"),
    })
}

/// The first line.
fn head(pinned: &PinnedFiles) -> Bytes {
    let end = pinned.end;
    let line = json!({
        "directory": pinned.directory.to_string_lossy(),
        "manifest": BASE64_STANDARD.encode(&pinned.manifest),
        "segment": end.segment,
        // Beyond what every client takes for a number.
        "nonce": format!("{:016x}", end.nonce),
        "bytes": end.bytes,
        "commit": end.commit,
    });
    format!("{line}\n").into()
}

/// An answer that ends before the client ends it: with an error, so that the client can tell.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Ended(String);

/// The rest of an answer: the files are held until it is dropped.
struct PinStream {
    hub: Hub,
    caller: Caller,
    all: Pattern,
    pinned: PinnedFiles,
    /// Its place among the open connections.
    _open: OpenConnection,
}

impl PinStream {
    /// Waits for the next line, while the token has the right.
    async fn next(&mut self) -> Result<(), Ended> {
        let hub = self.hub.clone();
        let allowed = self.caller.still_may(&hub, Action::Admin, Target::Pattern(&self.all));
        let left = self.caller.expires().map(|expires| expires.saturating_sub(hub.bus().now()));
        let wait = async {
            allowed?;
            tokio::time::sleep(KEEP_ALIVE).await;
            Ok(())
        };
        while_valid(&hub, left, wait).await.map_err(|failure| Ended(failure.to_string()))
    }
}

impl Drop for PinStream {
    fn drop(&mut self) {
        tracing::info!(commit = self.pinned.end.commit, "backup ended: files are released");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_files_says_how_it_is_backed_up() {
        let mongo = no_files("mongodb").to_string();
        assert!(mongo.contains("mongodump") && mongo.contains("snapshots"), "{mongo}");
        let memory = no_files("memory").to_string();
        assert!(memory.contains("a memory store has no files"), "{memory}");
    }
}
