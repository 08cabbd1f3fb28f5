//! Reading the header with which a proxy begins a connection.

mod header;

pub(super) use header::Source;

use header::{BadHeader, MAX_BYTES, Parsed, parse};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Why a connection has no header.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoHeader {
    #[error("bad PROXY header: {0}")]
    Bad(#[from] BadHeader),
    #[error("the connection ended before its PROXY header did")]
    Ended,
    #[error("the PROXY header could not be read: {0}")]
    Failed(#[from] io::Error),
}

/// Reads the header and not one byte more: what follows it is TLS or HTTP.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Source, NoHeader> {
    let (mut bytes, mut filled) = ([0; MAX_BYTES], 0);
    loop {
        let whole = match parse(&bytes[..filled])? {
            Parsed::Complete { source, .. } => return Ok(source),
            Parsed::Incomplete { at_least } => at_least,
        };
        match stream.read(&mut bytes[filled..whole]).await? {
            0 => return Err(NoHeader::Ended),
            more => filled += more,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::header::tests::encode;
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn what_follows_the_header_stays_in_the_stream() {
        let client = "192.0.2.1:4711".parse().unwrap();
        let mut sent = encode(client, "192.0.2.2:443".parse().unwrap(), b"\x04\x00\x01x");
        sent.extend_from_slice(b"GET / HTTP/1.1\r\n");
        // Byte by byte, and all at once.
        for piece in [1, sent.len()] {
            let (mut near, mut far) = tokio::io::duplex(piece);
            let bytes = sent.clone();
            let writing = tokio::spawn(async move {
                far.write_all(&bytes).await.unwrap();
            });
            assert_eq!(read(&mut near).await.unwrap(), Source::Client(client));
            let mut rest = Vec::new();
            near.read_to_end(&mut rest).await.unwrap();
            writing.await.unwrap();
            assert_eq!(rest, b"GET / HTTP/1.1\r\n");
        }
    }

    #[tokio::test]
    async fn a_connection_without_a_header_is_noticed_at_its_first_byte() {
        let (mut near, mut far) = tokio::io::duplex(64);
        far.write_all(b"G").await.unwrap();
        assert!(matches!(read(&mut near).await, Err(NoHeader::Bad(BadHeader::Signature))));
        let (mut near, far) = tokio::io::duplex(64);
        drop(far);
        assert!(matches!(read(&mut near).await, Err(NoHeader::Ended)));
    }
}
