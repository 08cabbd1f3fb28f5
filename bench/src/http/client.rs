//! A request over a bare socket, whose answer is read as bytes: what is measured is the hub, not a client library.

use crate::wire::TOKEN;
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 256 << 10;

/// An answer that is being read.
pub struct Answer {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// What was read behind the head.
    rest: Vec<u8>,
}

impl Answer {
    /// Asks for a path and reads the head of the answer, which is to be 200.
    pub async fn get(address: SocketAddr, path: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await.context("connecting")?;
        stream.set_nodelay(true)?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let (mut buffer, mut head) = (vec![0; BLOCK_BYTES], Vec::new());
        let end = loop {
            let read = stream.read(&mut buffer).await?;
            ensure!(read > 0, "{path}: the connection has ended");
            head.extend_from_slice(&buffer[..read]);
            if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
        };
        ensure!(head.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&head[..end]));
        let rest = head.split_off(end);
        Ok(Self { stream, buffer, rest })
    }

    /// The next bytes, with the frames of the transfer; empty at the end of the connection.
    pub async fn next(&mut self) -> Result<&[u8]> {
        if !self.rest.is_empty() {
            self.buffer[..self.rest.len()].copy_from_slice(&self.rest);
            let read = self.rest.len();
            self.rest.clear();
            return Ok(&self.buffer[..read]);
        }
        let read = self.stream.read(&mut self.buffer).await?;
        Ok(&self.buffer[..read])
    }

    /// Reads until so many copies of a byte sequence have come, each of which lies within one line.
    pub async fn read_lines(&mut self, start: &[u8], count: usize) -> Result<()> {
        let (mut found, mut line) = (0, Vec::new());
        while found < count {
            let block = self.next().await?;
            ensure!(!block.is_empty(), "the answer ended after {found} of {count}");
            let mut parts = block.split(|byte| *byte == b'\n');
            let first = parts.next().unwrap_or_default();
            if line.len() < start.len() {
                line.extend_from_slice(&first[..first.len().min(start.len() - line.len())]);
            }
            for part in parts {
                found += usize::from(line.starts_with(start));
                line.clear();
                line.extend_from_slice(&part[..part.len().min(start.len())]);
            }
        }
        Ok(())
    }
}
