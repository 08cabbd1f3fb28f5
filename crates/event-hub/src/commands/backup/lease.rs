//! Files that a hub holds in place as long as its answer is read.

use crate::http::{HttpHub, is_refusal};
use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hub_store_embedded::backup::LogEnd;
use reqwest::Response;
use serde::Deserialize;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;

/// The first line of the answer.
#[derive(Deserialize)]
struct Head {
    directory: PathBuf,
    manifest: String,
    segment: u64,
    nonce: String,
    bytes: u64,
    commit: u64,
}

/// See the module.
pub struct FileLease {
    pub directory: PathBuf,
    pub manifest: Vec<u8>,
    pub end: LogEnd,
    answer: Response,
}

impl FileLease {
    /// Asks the hub.
    pub async fn of(hub: &HttpHub) -> Result<Self> {
        let answer = hub.post_stream("/backup").await;
        let mut answer = answer.map_err(|error| match is_refusal(&error) {
            true => error,
            false => anyhow!(
                "{error}; `event-hub backup DIR --offline --data DATA` copies the directory of a hub that is stopped"
            ),
        })?;
        let head: Head = serde_json::from_slice(&first_line(&mut answer).await?)
            .context("the hub answered, but not with its files")?;
        let end = LogEnd {
            segment: head.segment,
            nonce: u64::from_str_radix(&head.nonce, 16).context("the nonce of the hub's answer")?,
            bytes: head.bytes,
            commit: head.commit,
        };
        let manifest = BASE64_STANDARD.decode(&head.manifest).context("the manifest of the hub's answer")?;
        Ok(Self { directory: head.directory, manifest, end, answer })
    }

    /// Waits for the copy. Answers, too, why the hub has released the files before it was done.
    pub async fn while_copying<T>(mut self, copying: impl Future<Output = T>) -> (T, Option<String>) {
        let mut copying = pin!(copying);
        loop {
            tokio::select! {
                biased;
                copied = &mut copying => return (copied, None),
                line = self.answer.chunk() => match line {
                    Ok(Some(_)) => {}
                    // A copy that has found all files is good; one that has not names what is missing.
                    Ok(None) => return (copying.await, Some("it ended its answer".to_owned())),
                    Err(error) => return (copying.await, Some(error.to_string())),
                },
            }
        }
    }
}

async fn first_line(answer: &mut Response) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    while let Some(chunk) = answer.chunk().await.context("the hub's answer broke off")? {
        match chunk.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                line.extend_from_slice(&chunk[..end]);
                return Ok(line);
            }
            None => line.extend_from_slice(&chunk),
        }
    }
    Err(anyhow!("the hub's answer ended before its first line did"))
}
