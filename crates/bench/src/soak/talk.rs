//! HTTP/1.1 as the clients of a soak speak it: every answer is read whole and looked at.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::course::Route;

/// A client that is to stop reading takes at most about so many bytes into its socket.
const SMALL_WINDOW: u32 = 16 * 1024;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Chat,
    Messages,
}

/// A request as bytes. `mark` stands in the prompt, in the key and among the tools.
pub(crate) fn request(
    to: SocketAddr,
    dialect: Dialect,
    route: Route,
    stream: bool,
    size: usize,
    mark: &str,
) -> Vec<u8> {
    let words = "and more words ".repeat(size / 15);
    let name = route.name;
    let (path, more) = match dialect {
        Dialect::Chat => ("/v1/chat/completions", String::new()),
        Dialect::Messages => ("/v1/messages", r#","max_tokens":200"#.to_owned()),
    };
    let body = format!(
        r#"{{"model":"{name}","stream":{stream}{more},"messages":[{{"role":"user","content":"{mark} {words}"}}]}}"#
    );
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\nauthorization: Bearer key-{mark}\r\n\
         user-agent: soak/1.0\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `x-pointsman-reason`.
    pub(crate) reason: Option<String>,
    pub(crate) action: Option<String>,
    pub(crate) closes: bool,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The error that it is or ends with.
    pub(crate) fn error(&self) -> Option<Value> {
        if self.status >= 400 {
            return Some(serde_json::from_slice(&self.body).unwrap_or(Value::Null));
        }
        let event = self.body.split(|byte| *byte == b'\n').rfind(|line| line.starts_with(b"data: {"))?;
        let value: Value = serde_json::from_slice(event.get(6..)?).ok()?;
        value.get("error").is_some_and(|error| !error.is_null()).then_some(value)
    }

    /// Whether a stream of this dialect, or a plain answer, came to its proper end.
    pub(crate) fn is_complete(&self, dialect: Dialect, stream: bool) -> bool {
        let end: &[u8] = match (stream, dialect) {
            (false, _) => return serde_json::from_slice::<Value>(&self.body).is_ok(),
            (true, Dialect::Chat) => b"data: [DONE]\n\n",
            (true, Dialect::Messages) => b"data: {\"type\":\"message_stop\"}\n\n",
        };
        self.body.ends_with(end)
    }
}

/// One connection to the gateway.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Talk {
    pub(crate) async fn open(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await.with_context(|| format!("to {to}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// One that takes little before it is full.
    pub(crate) async fn open_small(to: SocketAddr) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(SMALL_WINDOW)?;
        let stream = socket.connect(to).await.with_context(|| format!("to {to}"))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.context("sending")
    }

    /// Reads one answer to its end.
    pub(crate) async fn answer(&mut self) -> Result<Answer> {
        let end = self.until(b"\r\n\r\n", 0).await?;
        let head = std::str::from_utf8(self.buffer.get(..end).unwrap_or_default())?.to_owned();
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let header = |wanted: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(':'));
            lines
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.trim().to_owned())
        };
        let from = end + 4;
        let body = match header("content-length") {
            Some(length) => self.sized(from, length.parse()?).await?,
            None => self.chunked(from).await?,
        };
        Ok(Answer {
            status,
            reason: header("x-pointsman-reason"),
            action: header("x-pointsman-action"),
            closes: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
            body,
        })
    }

    async fn sized(&mut self, from: usize, length: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < from + length {
            self.more().await?;
        }
        let body = self.buffer.get(from..from + length).unwrap_or_default().to_vec();
        self.buffer.drain(..from + length);
        Ok(body)
    }

    async fn chunked(&mut self, mut from: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.until(b"\r\n", from).await?;
            let size = std::str::from_utf8(self.buffer.get(from..line).unwrap_or_default())?;
            let size = usize::from_str_radix(size, 16).context("no chunk size")?;
            let (data, next) = (line + 2, line + 2 + size + 2);
            while self.buffer.len() < next {
                self.more().await?;
            }
            body.extend_from_slice(self.buffer.get(data..data + size).unwrap_or_default());
            from = next;
            if size == 0 {
                self.buffer.drain(..next);
                return Ok(body);
            }
        }
    }

    /// Reads until this is there, and says where.
    pub(crate) async fn until(&mut self, what: &[u8], from: usize) -> Result<usize> {
        loop {
            if let Some(at) = memchr::memmem::find(self.buffer.get(from..).unwrap_or_default(), what) {
                return Ok(from + at);
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await.context("reading")? {
            0 => bail!("the connection ended within an answer"),
            _ => Ok(()),
        }
    }

    /// Reads on and forgets what it reads, until the other side ends the connection; how many bytes came.
    pub(crate) async fn drained(mut self) -> usize {
        let mut seen = self.buffer.len();
        loop {
            self.buffer.clear();
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return seen,
                Ok(more) => seen += more,
            }
        }
    }
}
