//! Clients: as many connections as wanted, each with one request after the other, at a pace or as fast as it goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Whoever does not answer within this does not answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is asked, where, and with which status it should be answered.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) status: u16,
}

impl Question {
    /// A Chat Completions request of about `size` bytes.
    pub(crate) fn new(to: SocketAddr, path: &str, model: &str, size: usize, stream: bool) -> Self {
        let text = "words ".repeat(size.saturating_sub(150) / 6);
        let body = format!(
            r#"{{"model":"{model}","stream":{stream},"temperature":0.5,"max_tokens":1000,"messages":[{{"role":"system","content":"Be brief."}},{{"role":"user","content":"{text}"}}]}}"#
        );
        Self::post(to, path, &body)
    }

    /// The same as a Messages request.
    pub(crate) fn messages(to: SocketAddr, model: &str, size: usize, stream: bool) -> Self {
        let text = "words ".repeat(size.saturating_sub(150) / 6);
        let body = format!(
            r#"{{"model":"{model}","stream":{stream},"temperature":0.5,"max_tokens":1000,"system":"Be brief.","messages":[{{"role":"user","content":"{text}"}}]}}"#
        );
        Self::post(to, "/v1/messages", &body)
    }

    fn post(to: SocketAddr, path: &str, body: &str) -> Self {
        let length = body.len();
        let bytes = format!(
            "POST {path} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\naccept: */*\r\nauthorization: Bearer bench\r\nuser-agent: bench/1.0\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Self { to, bytes: bytes.into_bytes().into(), status: 200 }
    }

    /// The same, to be answered with this status.
    pub(crate) fn answered(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

/// What the clients saw. Times are in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// From sending to the first byte of the answer's body.
    pub(crate) first: Vec<u32>,
    /// From sending to the last byte.
    pub(crate) total: Vec<u32>,
    pub(crate) wrong: u64,
}

impl Seen {
    fn add(&mut self, more: Self) {
        self.first.extend(more.first);
        self.total.extend(more.total);
        self.wrong += more.wrong;
    }
}

/// How requests follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// The next as soon as the last is answered.
    Closed,
    /// So many a second over all connections, whatever the answers do. What waits for its connection waits visibly: its
    /// time runs from the moment when it was due.
    Open(u32),
}

/// Asks over `connections` for this long.
pub(crate) async fn run(
    question: &Question,
    connections: u32,
    arrival: Arrival,
    lasting: Duration,
) -> Result<Seen> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::connect(question.clone()).await?);
    }
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for (place, client) in (0..).zip(clients) {
        let gap = match arrival {
            Arrival::Closed => None,
            Arrival::Open(rate) => {
                let gap = Duration::from_secs(1) * connections / rate;
                Some((began + gap * place / connections, gap))
            }
        };
        tasks.spawn(client.ask(gap, began + lasting));
    }
    let mut seen = Seen::default();
    while let Some(joined) = tasks.join_next().await {
        seen.add(joined.context("a client died")??);
    }
    if seen.total.is_empty() || seen.wrong > 0 {
        bail!("of {} answers {} were not {}", seen.total.len(), seen.wrong, question.status);
    }
    Ok(seen)
}

/// Opens so many streams and answers once the first event of each is here. They are open as long as the clients live.
pub(crate) async fn hold(question: &Question, streams: u32) -> Result<Vec<Client>> {
    let mut held = Vec::new();
    for _ in 0..streams {
        let mut client = Client::connect(question.clone()).await?;
        client.stream.write_all(&question.bytes).await?;
        held.push(client);
    }
    for client in &mut held {
        timeout(PATIENCE, client.first_event()).await.context("a stream did not begin")??;
    }
    Ok(held)
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    question: Question,
    buffer: Vec<u8>,
}

/// How the body of an answer ends.
enum Length {
    Bytes(usize),
    Chunked,
}

impl Client {
    async fn connect(question: Question) -> Result<Self> {
        let stream = TcpStream::connect(question.to).await.with_context(|| format!("to {}", question.to))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, question, buffer: Vec::new() })
    }

    async fn ask(mut self, gap: Option<(Instant, Duration)>, until: Instant) -> Result<Seen> {
        let mut seen = Seen::default();
        let mut due = gap.map(|(first, _)| first);
        loop {
            let mut sent = Instant::now();
            if let (Some(at), Some((_, gap))) = (due, gap) {
                if at > sent {
                    sleep_until(at).await;
                    sent = Instant::now();
                } else {
                    sent = at;
                }
                due = Some(at + gap);
            }
            if sent >= until {
                return Ok(seen);
            }
            let answered = timeout(PATIENCE, self.exchange()).await;
            let (status, first) = answered.context("no answer in time")??;
            seen.first.push(micros(first - sent));
            seen.total.push(micros(sent.elapsed()));
            seen.wrong += u64::from(status != self.question.status);
        }
    }

    /// One request and its answer: the status, and when the body began.
    async fn exchange(&mut self) -> Result<(u16, Instant)> {
        self.buffer.clear();
        self.stream.write_all(&self.question.bytes).await?;
        let (status, head, length) = self.head().await?;
        while self.buffer.len() <= head && !matches!(length, Length::Bytes(0)) {
            self.more().await?;
        }
        let first = Instant::now();
        loop {
            let whole = match length {
                Length::Bytes(bytes) => self.buffer.len() >= head + bytes,
                Length::Chunked => self.buffer.ends_with(b"\r\n0\r\n\r\n"),
            };
            if whole {
                return Ok((status, first));
            }
            // Only the end of a chunked body is looked at.
            if matches!(length, Length::Chunked) && self.buffer.len() > head + 64 * 1024 {
                self.buffer.drain(head..self.buffer.len() - 16);
            }
            self.more().await?;
        }
    }

    async fn head(&mut self) -> Result<(u16, usize, Length)> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                let text = std::str::from_utf8(self.buffer.get(..end).unwrap_or_default())?;
                let status = text.split(' ').nth(1).context("no status")?.parse()?;
                let mut lines = text.lines().filter_map(|line| line.split_once(':'));
                let length = lines.rfind(|(name, _)| name.eq_ignore_ascii_case("content-length"));
                let length = match length {
                    Some((_, value)) => Length::Bytes(value.trim().parse()?),
                    None => Length::Chunked,
                };
                return Ok((status, end + 4, length));
            }
            self.more().await?;
        }
    }

    async fn first_event(&mut self) -> Result<()> {
        while memchr::memmem::find(&self.buffer, b"data:").is_none() {
            self.more().await?;
        }
        Ok(())
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => bail!("the connection ended in the middle of an answer"),
            _ => Ok(()),
        }
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
