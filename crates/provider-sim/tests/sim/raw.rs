//! A raw HTTP/1.1 client that reports exactly what it saw, also when HTTP is broken.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Far past anything that takes time here.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// How long nothing must come to be called silence. Too short could only hide a fault, not report one that is none.
const SILENCE: Duration = Duration::from_millis(60);

/// How an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Complete by its framing; the connection is open.
    KeptAlive,
    /// Closed in order before it was complete.
    Closed,
    /// TCP reset.
    Reset,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
    /// Lengths of the HTTP chunks.
    pub(crate) chunks: Vec<usize>,
    /// All bytes.
    pub(crate) raw: Vec<u8>,
    pub(crate) end: End,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A chat request with this body.
pub(crate) fn chat(body: Value) -> Vec<u8> {
    request("POST", "/v1/chat/completions", &body.to_string())
}

pub(crate) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: sim\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// Sends a request on a new connection and reads until the answer is complete or the connection ends.
pub(crate) async fn exchange(addr: SocketAddr, request: &[u8]) -> Seen {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    exchange_on(&mut stream, request).await
}

pub(crate) async fn exchange_on(stream: &mut TcpStream, request: &[u8]) -> Seen {
    exchange_until(stream, request, |_| false).await
}

/// Sends a request and reads until enough has come, the answer is complete or the connection ends.
pub(crate) async fn exchange_until(
    stream: &mut TcpStream,
    request: &[u8],
    enough: impl Fn(&Seen) -> bool,
) -> Seen {
    let mut raw = Vec::new();
    let mut end = stream.write_all(request).await.is_err().then_some(End::Reset);
    while end.is_none() {
        if let Some(seen) = parse(&raw).filter(|seen| seen.end == End::KeptAlive || enough(seen)) {
            return seen;
        }
        end = match timeout(LIMIT, stream.read_buf(&mut raw))
            .await
            .expect("the answer neither goes on nor ends")
        {
            Ok(0) => Some(End::Closed),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Some(End::Reset),
            Err(error) => panic!("{error}"),
        };
    }
    let nothing =
        Seen { status: 0, headers: vec![], body: vec![], chunks: vec![], raw: raw.clone(), end: End::Closed };
    let seen = parse(&raw).unwrap_or(nothing);
    Seen { end: end.unwrap(), ..seen }
}

/// Nothing comes and nothing is closed.
pub(crate) async fn assert_silent(stream: &mut TcpStream) {
    let mut byte = [0];
    if let Ok(read) = timeout(SILENCE, stream.read(&mut byte)).await {
        panic!("not silent: {read:?}");
    }
}

/// What was received so far; `None` before the head is complete. The end is `KeptAlive` if the framing is complete.
fn parse(raw: &[u8]) -> Option<Seen> {
    let at = raw.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(raw[..at].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> =
        lines.map(|line| line.split_once(": ").unwrap()).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    let mut seen =
        Seen { status, headers, body: Vec::new(), chunks: Vec::new(), raw: raw.to_vec(), end: End::Closed };
    let rest = &raw[at + 4..];
    if seen.header("transfer-encoding") == Some("chunked") {
        dechunk(rest, &mut seen);
    } else {
        let length: usize = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
        seen.body = rest[..rest.len().min(length)].to_vec();
        if rest.len() >= length {
            seen.end = End::KeptAlive;
        }
    }
    Some(seen)
}

fn dechunk(mut rest: &[u8], seen: &mut Seen) {
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 {
            if rest.starts_with(b"\r\n") {
                seen.end = End::KeptAlive;
            }
            return;
        }
        seen.body.extend_from_slice(&rest[..rest.len().min(size)]);
        if rest.len() < size + 2 {
            return;
        }
        seen.chunks.push(size);
        assert_eq!(&rest[size..size + 2], b"\r\n");
        rest = &rest[size + 2..];
    }
}

/// Values of the complete events of a stream (WHATWG HTML, server-sent events; LF, CRLF and CR).
pub(crate) fn events(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n").replace('\r', "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut events = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        } else if line.is_empty() && !data.is_empty() {
            events.push(std::mem::take(&mut data).join("\n"));
        }
    }
    events
}
