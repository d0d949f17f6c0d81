//! A gateway in front of one bare socket, and a client that is one too.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::domain::DomainState;
use pointsman_server::{Clock, Running, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A provider that reads each request and then does with its connection what it is told.
pub async fn provider<F, Fut>(answer: F) -> String
where
    F: Fn(TcpStream) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let answer: Arc<dyn Fn(TcpStream) -> Answering + Send + Sync> = Arc::new(move |s| Box::pin(answer(s)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                read_request(&mut stream).await;
                answer(stream).await;
            });
        }
    });
    format!("http://{address}/v1")
}

/// A provider that always answers with these bytes and closes.
pub async fn says(answer: impl Into<Vec<u8>>) -> String {
    let answer: Arc<Vec<u8>> = Arc::new(answer.into());
    provider(move |mut stream| {
        let answer = Arc::clone(&answer);
        async move {
            // The gateway may have had enough of it before the end.
            stream.write_all(&answer).await.ok();
            stream.shutdown().await.ok();
        }
    })
    .await
}

async fn read_request(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    while let Some(missing) = missing(&seen) {
        let mut buffer = vec![0; missing.max(1)];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
        }
    }
}

/// How many bytes of a message with a `content-length` are still to come; `None` when it is whole.
fn missing(seen: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(seen).to_lowercase();
    let Some(end) = text.find("\r\n\r\n") else { return Some(1) };
    let length = text.split("content-length: ").nth(1).and_then(|t| t.split("\r\n").next()?.parse().ok());
    let whole = end + 4 + length.unwrap_or(0);
    (seen.len() < whole).then(|| whole - seen.len())
}

pub const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
pub const TEXT: &str = r#"data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#;
pub const FINISH: &str = r#"data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

/// A whole plain answer with this text.
pub fn plain(text: &str) -> String {
    let body = format!(
        r#"{{"id":"c","object":"chat.completion","model":"gpt-4o","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}"#
    );
    json_answer(200, &body)
}

pub fn json_answer(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A gateway with one target `a` at this address; `server` and `target` are more keys of theirs, `rest` more of the file.
pub fn gateway(url: &str, server: &str, target: &str, rest: &str) -> Running {
    let yaml = format!(
        "server: {{ listen: 127.0.0.1:0{server} }}\nadmin: {{ listen: 127.0.0.1:0 }}\ntargets:\n  a: {{ provider: openai, base_url: \"{url}\"{target} }}\n{rest}"
    );
    let loaded = pointsman_config::parse(&yaml, "test.yaml", &BTreeMap::new());
    let loaded = loaded.unwrap_or_else(|e| panic!("{e}\n{yaml}"));
    start(loaded.config, Clock::default(), None).unwrap()
}

pub const GPT: &str = ", model: gpt-4o, api_key: sk-upstream-a";

/// Nothing counts against target `a`.
pub fn assert_untouched(gateway: &Running) {
    let app = gateway.app();
    let now = app.clock.now();
    for domain in app.with_fleet(|fleet| fleet.domains_of("a", now)) {
        assert_eq!((domain.state, domain.failures_in_a_row), (DomainState::Closed, 0), "{domain:?}");
    }
}

/// The head and body of a Chat Completions request for `gpt-4o`.
pub fn request(gateway: &Running, stream: bool, headers: &str) -> String {
    let body = format!(
        r#"{{"model":"gpt-4o","stream":{stream},"messages":[{{"role":"user","content":"Say something."}}]}}"#
    );
    request_with(gateway, headers, &body)
}

pub fn request_with(gateway: &Running, headers: &str, body: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        gateway.data_addr(),
        body.len()
    )
}

pub async fn connect(gateway: &Running) -> TcpStream {
    TcpStream::connect(gateway.data_addr()).await.unwrap()
}

/// Sends these bytes and reads all that comes back.
pub async fn talk(gateway: &Running, bytes: &str) -> String {
    let mut stream = connect(gateway).await;
    stream.write_all(bytes.as_bytes()).await.unwrap();
    read_all(&mut stream).await
}

pub async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    timeout(Duration::from_secs(30), reading).await.expect("an end within half a minute").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Waits until it is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let looking = async {
        while !is_so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(10), looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}
