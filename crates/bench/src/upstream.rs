//! A provider that costs next to nothing: answers are made once and written as they are.
//!
//! The first part of a path says which answer it is: `/small/…` (1 KB), `/large/…` (100 KB), `/fail/…` (503) or
//! `/stream/EVENTS/MICROSECONDS/…`, an event stream at that pace whose first event comes at once.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

/// A request's head may be so long, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// What each event says.
const WORDS: &str = "twenty-four letters here";

/// The answers, ready to be sent.
struct Answers {
    small: Vec<u8>,
    large: Vec<u8>,
    fail: Vec<u8>,
    head: Vec<u8>,
    first: Vec<u8>,
    event: Vec<u8>,
    last: Vec<u8>,
}

/// Serves until standard input ends. Prints the port first.
pub(crate) async fn serve() -> Result<()> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let listener = socket.listen(4_096).context("the provider cannot listen")?;
    println!("{}", listener.local_addr()?.port());
    // Whoever started this holds the other end: no provider outlives its bench.
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        accepted = accept(listener) => accepted,
        ended = ended => { ended??; Ok(()) }
    }
}

async fn accept(listener: TcpListener) -> Result<()> {
    let answers = Arc::new(Answers::new());
    loop {
        let (stream, _) = listener.accept().await?;
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            // A client that leaves in the middle is what some measures do.
            drop(converse(stream, &answers).await);
        });
    }
}

async fn converse(mut stream: TcpStream, answers: &Answers) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    while let Some(head) = head(&mut stream, &mut buffer).await? {
        let (path, body) = understood(buffer.get(..head).unwrap_or_default())?;
        buffer.drain(..head);
        skip(&mut stream, &mut buffer, body).await?;
        answer(&mut stream, answers, &path).await?;
    }
    Ok(())
}

/// Reads until a head is there and answers its length; `None` when the connection ends instead.
async fn head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<usize>> {
    loop {
        if let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            return Ok(Some(end + 4));
        }
        if buffer.len() > MAX_HEAD {
            bail!("the head of a request is too long");
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// The path of a request and the length of its body.
fn understood(head: &[u8]) -> Result<(String, usize)> {
    let text = std::str::from_utf8(head)?;
    let path = text.split(' ').nth(1).context("no path")?.to_owned();
    let mut lengths = text.lines().filter_map(|line| line.split_once(':'));
    let length = lengths.rfind(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    Ok((path, length.map_or(Ok(0), |(_, value)| value.trim().parse())?))
}

async fn skip(stream: &mut TcpStream, buffer: &mut Vec<u8>, mut length: usize) -> Result<()> {
    loop {
        let here = length.min(buffer.len());
        buffer.drain(..here);
        length -= here;
        if length == 0 {
            return Ok(());
        }
        if stream.read_buf(buffer).await? == 0 {
            bail!("the body broke off");
        }
    }
}

async fn answer(stream: &mut TcpStream, answers: &Answers, path: &str) -> Result<()> {
    let mut parts = path.trim_start_matches('/').split('/');
    let whole = match parts.next() {
        Some("small") => &answers.small,
        Some("large") => &answers.large,
        Some("fail") => &answers.fail,
        Some("stream") => {
            let events = parts.next().context("how many events?")?.parse()?;
            let every = Duration::from_micros(parts.next().context("how often?")?.parse()?);
            return events_at(stream, answers, events, every).await;
        }
        _ => bail!("nothing is known of {path}"),
    };
    Ok(stream.write_all(whole).await?)
}

async fn events_at(stream: &mut TcpStream, answers: &Answers, events: u32, every: Duration) -> Result<()> {
    let began = Instant::now();
    stream.write_all(&[answers.head.as_slice(), &answers.first].concat()).await?;
    for number in 1..events {
        sleep_until(began + every * number).await;
        stream.write_all(&answers.event).await?;
    }
    Ok(stream.write_all(&answers.last).await?)
}

impl Answers {
    fn new() -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let end = format!("{}{}", event("{}", "\"stop\""), "data: [DONE]\n\n");
        let fail = r#"{"error":{"message":"The server is overloaded.","type":"server_error","code":null}}"#;
        let said = format!(r#"{{"role":"assistant","content":"{WORDS}"}}"#);
        let more = format!(r#"{{"content":"{WORDS}"}}"#);
        Self {
            small: whole("200 OK", &completion(700)),
            large: whole("200 OK", &completion(100_000)),
            fail: whole("503 Service Unavailable", fail),
            head: head.into(),
            first: chunk(&event(&said, "null")),
            event: chunk(&event(&more, "null")),
            last: [chunk(&end).as_slice(), b"0\r\n\r\n"].concat(),
        }
    }
}

fn whole(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into()
}

fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into()
}

/// An answer whose text has so many bytes.
fn completion(text: usize) -> String {
    let text = "words ".repeat(text / 6);
    format!(
        r#"{{"id":"chatcmpl-0123456789abcdefghijklmnopqrs","object":"chat.completion","created":1790000000,"model":"bench","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":200,"completion_tokens":150,"total_tokens":350}}}}"#
    )
}

fn event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-0123456789abcdefghijklmnopqrs\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"bench\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}],\"usage\":null}}\n\n"
    )
}
