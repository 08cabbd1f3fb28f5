//! The files of the dashboard: what `web/dist` has, where `web/` is built. The built files are committed under stable names, so a build
//! of the hub needs no other tools.

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::HeaderValue;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hub_proto::{Error, Result};
use std::fmt::Write as _;
use std::io::Write as _;
use tokio::sync::OnceCell;

/// Bytes of a digest that make a tag.
const TAG_BYTES: usize = 16;

/// A file as it was built.
pub(super) struct Source {
    pub path: &'static str,
    pub content_type: &'static str,
    pub bytes: &'static [u8],
}

macro_rules! source {
    ($path:literal, $content_type:literal, $file:literal) => {
        Source {
            path: $path,
            content_type: $content_type,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/", $file)),
        }
    };
}

/// All of them.
pub(super) static SOURCES: [Source; 4] = [
    source!("/", "text/html; charset=utf-8", "index.html"),
    source!("/app.js", "text/javascript; charset=utf-8", "app.js"),
    source!("/app.css", "text/css; charset=utf-8", "app.css"),
    source!("/favicon.svg", "image/svg+xml", "favicon.svg"),
];

/// What is made of a file, once: its tag and its compressed form.
pub(super) struct File {
    /// Of the content. Weak: the bytes may be compressed.
    pub tag: HeaderValue,
    pub gzipped: Bytes,
}

static FILES: OnceCell<Vec<File>> = OnceCell::const_new();

impl File {
    /// What was made of one of the [`SOURCES`].
    ///
    /// # Errors
    /// `internal` if the files cannot be compressed.
    pub async fn at(at: usize) -> Result<&'static Self> {
        // The best compression takes some milliseconds: away from the threads that serve others.
        let make = || async {
            let made = tokio::task::spawn_blocking(|| SOURCES.iter().map(Self::of).collect());
            made.await.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
        };
        let files = FILES.get_or_try_init(make).await;
        let file = files.ok().and_then(|files| files.get(at));
        file.ok_or_else(|| Error::internal("a file of the dashboard cannot be compressed"))
    }

    fn of(source: &Source) -> std::io::Result<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(source.bytes)?;
        let mut tag = String::from("W/\"");
        for byte in &digest(&SHA256, source.bytes).as_ref()[..TAG_BYTES] {
            let _ = write!(tag, "{byte:02x}");
        }
        tag.push('"');
        let tag = HeaderValue::try_from(tag).map_err(std::io::Error::other)?;
        Ok(Self { tag, gzipped: encoder.finish()?.into() })
    }
}
