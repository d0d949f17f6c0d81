//! One client connection: reads requests, runs the steps of the answers, notices when the client leaves.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::catalogue;
use crate::control;
use crate::decide::{Decision, decide};
use crate::plan::{Heartbeat, Plan, Step, head_bytes};
use crate::request::{Framing, Head, MAX_BODY, MAX_HEAD, Refusal, chunk_size, refuse};
use crate::state::{Gauge, InUse, State};

/// A connection without a complete request for so long is closed.
const IDLE: Duration = Duration::from_secs(300);
/// Bytes that a client may send ahead while its request is being answered.
const MAX_AHEAD: usize = 64 * 1024;
/// Lateness of a timer that is made up for; tokio's timers have steps of a millisecond.
const TIMER_SLACK: Duration = Duration::from_millis(3);
/// How long a connection with a refused request is read on, so that the client gets to see the refusal.
const DRAIN: Duration = Duration::from_secs(5);

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    KeepAlive,
    Close,
    Reset,
    /// The client left before the answer was complete.
    Gone,
}

/// Serves one connection until it ends.
pub(crate) async fn serve(stream: TcpStream, state: Arc<State>) {
    let _open = InUse::new(&state, Gauge::Connections);
    let number = state.number_connection();
    let mut socket = Socket { stream, buffer: BytesMut::new() };
    if state.resets_connection() {
        return socket.reset();
    }
    loop {
        let next = match timeout(IDLE, socket.read_request()).await {
            Ok(Ok(request)) => answer(&mut socket, request, number, &state).await,
            Ok(Err(ReadError::Refused(refusal))) => return socket.refuse(&refusal).await,
            Ok(Err(ReadError::Closed)) | Err(_) => return,
        };
        match next {
            Next::KeepAlive => {}
            Next::Close | Next::Gone => return,
            Next::Reset => return socket.reset(),
        }
    }
}

pub(crate) struct Request {
    pub(crate) head: Head,
    pub(crate) body: Bytes,
}

/// Why no request could be read.
enum ReadError {
    Closed,
    Refused(Refusal),
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The client closed or reset the connection.
struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

async fn answer(socket: &mut Socket, request: Request, connection: u64, state: &Arc<State>) -> Next {
    let keep_alive = request.head.keep_alive();
    if request.head.target.starts_with(control::PREFIX) {
        let (status, body) =
            control::respond(state, &request.head.method, &request.head.target, &request.body);
        return socket.reply(status, "application/json", body.into(), keep_alive).await;
    }
    let in_use = InUse::new(state, Gauge::Requests);
    let plan = match decide(&request, connection, state) {
        Decision::Script(plan) => plan,
        Decision::Reply(status, body) => {
            return socket.reply(status, "application/json", body.into(), keep_alive).await;
        }
    };
    let next = match socket.run(plan).await {
        Ok(Next::KeepAlive) if !keep_alive => Next::Close,
        Ok(next) => next,
        Err(Gone) => Next::Gone,
    };
    if next == Next::Gone {
        state.count_aborted();
    }
    drop(in_use);
    next
}

struct Socket {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Socket {
    async fn read_request(&mut self) -> Result<Request, ReadError> {
        let too_long = refuse(431, "Request head is over 64 KiB");
        let head = Head::parse(&self.read_until(b"\r\n\r\n", MAX_HEAD, too_long).await?)?;
        let framing = head.framing()?;
        if head.expects_continue() {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = match framing {
            Framing::Length(length) => self.read_exact(length).await?,
            Framing::Chunked => self.read_chunked().await?,
        };
        Ok(Request { head, body })
    }

    async fn read_chunked(&mut self) -> Result<Bytes, ReadError> {
        let mut body = BytesMut::new();
        loop {
            let size = chunk_size(&self.read_line().await?)?;
            if size == 0 {
                while !self.read_line().await?.is_empty() {}
                return Ok(body.freeze());
            }
            if size > MAX_BODY || body.len() + size > MAX_BODY {
                return Err(refuse(413, "Request body is over 64 MiB").into());
            }
            body.extend_from_slice(&self.read_exact(size).await?);
            if !self.read_line().await?.is_empty() {
                return Err(refuse(400, "A chunk is longer than its size").into());
            }
        }
    }

    async fn read_line(&mut self) -> Result<Bytes, ReadError> {
        self.read_until(b"\r\n", 1024, refuse(400, "A chunk size or trailer line is too long")).await
    }

    /// Bytes before this pattern, which is taken too.
    async fn read_until(
        &mut self,
        pattern: &[u8],
        limit: usize,
        too_long: Refusal,
    ) -> Result<Bytes, ReadError> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, pattern)
                && at <= limit
            {
                let mut taken = self.buffer.split_to(at + pattern.len());
                taken.truncate(at);
                return Ok(taken.freeze());
            }
            if self.buffer.len() > limit {
                return Err(too_long.into());
            }
            self.read_more().await?;
        }
    }

    async fn read_exact(&mut self, length: usize) -> Result<Bytes, ReadError> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn read_more(&mut self) -> Result<(), ReadError> {
        self.buffer.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(ReadError::Closed),
            _ => Ok(()),
        }
    }

    async fn run(&mut self, plan: Plan) -> Result<Next, Gone> {
        let mut pending = Bytes::new();
        let mut due = Instant::now();
        for step in plan.steps {
            match step {
                Step::Head(bytes) => pending = bytes,
                Step::Wait(lasting, beat) => {
                    self.send(&std::mem::take(&mut pending), plan.split).await?;
                    // A time that the clock cannot show never comes.
                    let until = lasting.and_then(|lasting| next_due(due).checked_add(lasting));
                    due = until.unwrap_or(due);
                    self.wait(until, beat, plan.split).await?;
                }
                Step::Close | Step::Reset => {
                    self.send(&std::mem::take(&mut pending), plan.split).await?;
                    return Ok(if step == Step::Reset { Next::Reset } else { Next::Close });
                }
                body => {
                    if plan.split {
                        self.send(&std::mem::take(&mut pending), true).await?;
                        self.send_body_split(&body).await?;
                    } else {
                        let bytes = [std::mem::take(&mut pending), framed(&body)].concat();
                        self.send(&bytes, false).await?;
                    }
                }
            }
        }
        Ok(Next::KeepAlive)
    }

    /// One HTTP chunk per byte, one write per HTTP chunk; the terminator goes with the last byte.
    async fn send_body_split(&mut self, body: &Step) -> Result<(), Gone> {
        let (Step::Chunk(bytes) | Step::LastChunk(bytes)) = body else {
            return self.send(&framed(body), true).await;
        };
        let last = matches!(body, Step::LastChunk(_));
        for (index, byte) in bytes.iter().enumerate() {
            let mut chunk = vec![b'1', b'\r', b'\n', *byte, b'\r', b'\n'];
            if last && index + 1 == bytes.len() {
                chunk.extend_from_slice(b"0\r\n\r\n");
            }
            self.send(&chunk, false).await?;
        }
        if last && bytes.is_empty() {
            self.send(b"0\r\n\r\n", false).await?;
        }
        Ok(())
    }

    /// Waits until then, or for ever, with heartbeats.
    async fn wait(
        &mut self,
        until: Option<Instant>,
        beat: Option<Heartbeat>,
        split: bool,
    ) -> Result<(), Gone> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let turn = beat.as_ref().map(|beat| beat.every.max(Duration::from_millis(1)));
            match (left, turn, &beat) {
                (None, None, _) => return self.left().await,
                (Some(left), turn, _) if turn.is_none_or(|turn| turn >= left) => {
                    return self.pause(left).await;
                }
                (_, Some(turn), Some(beat)) => {
                    self.pause(turn).await?;
                    self.send(&framed(&Step::Chunk(beat.bytes.clone())), split).await?;
                }
                _ => return Ok(()),
            }
        }
    }

    async fn pause(&mut self, lasting: Duration) -> Result<(), Gone> {
        tokio::select! {
            biased;
            () = sleep(lasting) => Ok(()),
            gone = self.left() => gone,
        }
    }

    /// Resolves when the client has left; what it sends ahead is kept, up to a bound.
    async fn left(&mut self) -> Result<(), Gone> {
        let (mut reader, _) = self.stream.split();
        watch(&mut reader, &mut self.buffer).await
    }

    async fn send(&mut self, bytes: &[u8], bytewise: bool) -> Result<(), Gone> {
        let step = if bytewise { 1 } else { bytes.len().max(1) };
        let (mut reader, mut writer) = self.stream.split();
        for part in bytes.chunks(step) {
            tokio::select! {
                biased;
                written = writer.write_all(part) => written?,
                gone = watch(&mut reader, &mut self.buffer) => gone?,
            }
        }
        Ok(())
    }

    async fn reply(&mut self, status: u16, content_type: &str, body: Bytes, keep_alive: bool) -> Next {
        let mut headers = vec![
            ("content-type".to_owned(), content_type.to_owned()),
            ("content-length".to_owned(), body.len().to_string()),
        ];
        if !keep_alive {
            headers.push(("connection".to_owned(), "close".to_owned()));
        }
        match self.send(&[head_bytes(status, &headers), body].concat(), false).await {
            Ok(()) if keep_alive => Next::KeepAlive,
            Ok(()) => Next::Close,
            Err(Gone) => Next::Gone,
        }
    }

    /// Answers what could not be read, and takes in what the client still sends: closing at once would reset the
    /// connection and might lose the answer.
    async fn refuse(mut self, refusal: &Refusal) {
        let body = catalogue::refused(refusal.message);
        self.reply(refusal.status, "application/json", body.into(), false).await;
        if self.stream.shutdown().await.is_ok() {
            let drained = timeout(DRAIN, async {
                while self.read_more().await.is_ok() {
                    self.buffer.clear();
                }
            });
            drained.await.unwrap_or_default();
        }
    }

    /// Closes with a TCP reset (`SO_LINGER` of zero).
    fn reset(self) {
        // If the option cannot be set the connection closes in order: less of a fault, nothing worse.
        self.stream.set_zero_linger().unwrap_or_default();
    }
}

/// Where a wait counts from: when the last one was due, so that the timer's rounding does not add up over many tokens;
/// but from now if something else has held us up since.
fn next_due(due: Instant) -> Instant {
    if due.elapsed() < TIMER_SLACK { due } else { Instant::now() }
}

async fn watch(reader: &mut tokio::net::tcp::ReadHalf<'_>, buffer: &mut BytesMut) -> Result<(), Gone> {
    loop {
        if buffer.len() >= MAX_AHEAD {
            return std::future::pending().await;
        }
        buffer.reserve(4 * 1024);
        if reader.read_buf(buffer).await? == 0 {
            return Err(Gone);
        }
    }
}

/// A step's bytes as they go on the wire.
fn framed(step: &Step) -> Bytes {
    let chunk = |bytes: &Bytes, half: bool| {
        let sent = if half { bytes.len() / 2 } else { bytes.len() };
        let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
        out.extend_from_slice(bytes.get(..sent).unwrap_or_default());
        if !half {
            out.extend_from_slice(b"\r\n");
        }
        out
    };
    match step {
        Step::Raw(bytes) | Step::Head(bytes) => bytes.clone(),
        // One without bytes would be the end of the body.
        Step::Chunk(bytes) if bytes.is_empty() => Bytes::new(),
        Step::Chunk(bytes) => chunk(bytes, false).into(),
        Step::HalfChunk(bytes) => chunk(bytes, true).into(),
        Step::LastChunk(bytes) if bytes.is_empty() => Bytes::from_static(b"0\r\n\r\n"),
        Step::LastChunk(bytes) => [chunk(bytes, false), b"0\r\n\r\n".to_vec()].concat().into(),
        Step::Wait(..) | Step::Close | Step::Reset => Bytes::new(),
    }
}
