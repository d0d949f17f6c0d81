//! A client that sends any body and sees how the answer ends.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::World;

/// What came, and whether it came to its end.
#[derive(Debug)]
pub struct Seen {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    pub whole: bool,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

impl World {
    /// Sends a body of this type and reads until the connection ends.
    pub async fn raw(&self, path: &str, content_type: &str, body: &[u8]) -> Seen {
        let mut stream = self.open(path, content_type, body).await;
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes)).await;
        // A reset tells as much as an end.
        drop(read.expect("the answer ends"));
        seen(&bytes)
    }

    pub async fn open(&self, path: &str, content_type: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.gateway.data_addr()).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            self.gateway.data_addr(),
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        stream
    }
}

fn seen(bytes: &[u8]) -> Seen {
    let at = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut seen = Seen { status, head, body: Vec::new(), whole: false };
    let mut rest = &bytes[at + 4..];
    if seen.header("transfer-encoding") != Some("chunked") {
        let length: usize = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
        seen.whole = rest.len() == length;
        seen.body = rest.to_vec();
        return seen;
    }
    while let Some(line) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let chunk = &rest[line + 2..];
        if size == 0 {
            seen.whole = true;
            break;
        }
        seen.body.extend_from_slice(&chunk[..size.min(chunk.len())]);
        if chunk.len() < size + 2 {
            break;
        }
        rest = &chunk[size + 2..];
    }
    seen
}
