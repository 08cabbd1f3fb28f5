//! A reader of server-sent events.

use super::world::World;
use reqwest::Response;
use serde_json::Value;
use std::time::Duration;

/// Nothing in a test takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub id: Option<u64>,
    pub event: Option<String>,
    pub data: Value,
    pub retry: Option<u64>,
    pub comments: usize,
}

/// A stream that is open.
pub struct Reader {
    answer: Response,
    text: String,
}

impl Reader {
    /// Opens a stream that has to be answered, and reads its beginning.
    pub async fn open(world: &World, path: &str, token: &str) -> Self {
        Self::of(world.request("GET", path, token).send().await.unwrap()).await
    }

    pub async fn of(answer: Response) -> Self {
        let status = answer.status();
        assert_eq!(answer.headers()["content-type"], "text/event-stream", "{status}");
        assert_eq!(
            (status.as_u16(), &answer.headers()["cache-control"]),
            (200, &"no-store".parse().unwrap())
        );
        assert_eq!(answer.headers()["x-accel-buffering"], "no");
        let mut reader = Self { answer, text: String::new() };
        let first = reader.frame().await.expect("a beginning");
        let retry = first.retry.expect("a hint when to connect again");
        assert!((1_000..3_000).contains(&retry), "{retry}");
        reader
    }

    /// The next frame as it is; `None` at the end of the stream.
    pub async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (parse(frame), rest.to_owned());
                self.text = rest;
                return Some(frame);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.answer.chunk()).await.expect("a frame in time");
            let Some(chunk) = chunk.expect("the stream ends as it should") else {
                assert_eq!(self.text, "", "half a frame");
                return None;
            };
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// The next frame that is no comment.
    pub async fn next(&mut self) -> Frame {
        loop {
            let frame = self.frame().await.expect("an open stream");
            if frame.comments == 0 {
                return frame;
            }
        }
    }

    /// The seqs of the next records, each of which is its frame's id.
    pub async fn seqs(&mut self, count: usize) -> Vec<u64> {
        let mut seqs = Vec::new();
        for _ in 0..count {
            let frame = self.next().await;
            assert_eq!(frame.event, None, "{frame:?}");
            assert_eq!(frame.data["seq"].as_u64(), frame.id);
            seqs.extend(frame.id);
        }
        seqs
    }

    /// Reads on to the end; the code of the last frame, which says why. It comes before a comment is due: the hub was not waiting for
    /// the occasion.
    pub async fn end(mut self) -> String {
        loop {
            let frame = self.frame().await.expect("an end with a reason");
            assert_eq!(frame.comments, 0, "the hub noticed late");
            if frame.event.as_deref() == Some("end") {
                assert!(!frame.data["error"].as_str().unwrap().is_empty());
                assert_eq!(self.frame().await, None, "nothing follows the end");
                return frame.data["code"].as_str().unwrap().to_owned();
            }
        }
    }
}

fn parse(text: &str) -> Frame {
    let mut frame = Frame::default();
    for line in text.lines() {
        match line.split_once(':').expect(line) {
            ("", _) => frame.comments += 1,
            ("id", value) => frame.id = Some(value.trim().parse().unwrap()),
            ("event", value) => frame.event = Some(value.trim().to_owned()),
            ("retry", value) => frame.retry = Some(value.trim().parse().unwrap()),
            ("data", value) => {
                assert!(frame.data.is_null(), "a record is one line: {text}");
                frame.data = serde_json::from_str(value).unwrap();
            }
            other => panic!("{other:?} in {text}"),
        }
    }
    frame
}
