//! Providers that stall before a request can be sent, and HTTP/2 connections that many requests share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pointsman_provider_sim::{Sim, SimConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::client::Asked;
use crate::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, INTERNAL_ERROR};
use crate::gateway::{Gateway, target, yaml};
use crate::neighbour::Way;
use crate::process::PATIENCE;

/// A server whose connections are handled by this.
async fn server<F, Fut>(handle: F) -> SocketAddr
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(handle(stream));
        }
    });
    address
}

/// Reads and forgets until the other side ends the connection.
async fn silent(mut stream: TcpStream) {
    let mut bytes = vec![0; 16 << 10];
    while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// Whoever stalls is left for another target in time, and nothing stays behind.
async fn is_left(base: &str, more: &str, body: &str) {
    let b = Sim::start(SimConfig::named("b")).await.unwrap();
    let targets = [target("a", base, more), target("b", &b.base_url(), ", priority: 2")];
    let gateway = Gateway::start("", &targets).await;
    let begun = Instant::now();
    let mut asked = Vec::new();
    for _ in 0..20 {
        asked.push(Asked::chat(gateway.data, body).await);
    }
    for asked in &mut asked {
        let text = asked.rest().await;
        assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("x-pointsman-target: b"), "{text}");
    }
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    drop(b);
    gateway.everything_is_back().await;
}

#[tokio::test]
async fn a_tls_handshake_that_stalls_is_left_for_another_target() {
    let _turn = crate::turn().await;
    let address = server(silent).await;
    is_left(&format!("https://{address}/v1"), "", &crate::process::chat("m", false)).await;
}

#[tokio::test]
async fn an_http2_peer_that_never_sends_its_settings_is_left_for_another_target() {
    let _turn = crate::turn().await;
    let address = server(silent).await;
    is_left(&format!("http://{address}/v1"), ", http: 2", &crate::process::chat("m", false)).await;
}

/// Its windows are those of RFC 9113 (65,535 bytes), and it never opens them again.
#[tokio::test]
async fn an_http2_peer_that_opens_no_window_is_left_for_another_target() {
    let _turn = crate::turn().await;
    let address = server(async |stream| {
        let mut frames = Frames::accept(stream, None).await;
        while frames.read().await.is_some() {}
    })
    .await;
    let words = "word ".repeat(40_000);
    let body = format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "{words}"}}]}}"#);
    is_left(&format!("http://{address}/v1"), ", http: 2", &body).await;
}

/// A gateway whose one target speaks HTTP/2, on a way on which everything may vanish.
pub(crate) struct BehindHttp2 {
    pub(crate) gateway: Gateway,
    pub(crate) way: Way,
    peer: Peer,
}

impl BehindHttp2 {
    /// Only the gateway: the provider goes.
    pub(crate) fn alone(self) -> Gateway {
        self.peer.ends.send_replace(true);
        self.gateway
    }
}

/// Its streams may be silent for so long.
pub(crate) async fn behind_http2(idle: &str) -> BehindHttp2 {
    let peer = Peer::start().await;
    let way = Way::to(peer.address).await;
    let file = yaml(", runtime: shared", &[target("a", &way.base(), ", http: 2")]);
    let gateway = Gateway::with(&file.replace("idle: 1s", &format!("idle: {idle}"))).await;
    BehindHttp2 { gateway, way, peer }
}

/// A provider that speaks HTTP/2 in the clear: it answers plain requests, and begins streams without ending them.
struct Peer {
    address: SocketAddr,
    streams: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    ends: watch::Sender<bool>,
}

impl Peer {
    async fn start() -> Self {
        let (ends, ended) = watch::channel(false);
        let (streams, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begun, opened) = (Arc::clone(&streams), Arc::clone(&connections));
        let address = server(move |stream| {
            opened.fetch_add(1, Ordering::SeqCst);
            speak(stream, Arc::clone(&begun), ended.clone())
        })
        .await;
        Self { address, streams, connections, ends }
    }
}

const CHUNK: &str = r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Well"},"finish_reason":null}]}"#;
const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Well"},"finish_reason":"stop"}]}"#;

async fn speak(stream: TcpStream, begun: Arc<AtomicUsize>, mut ended: watch::Receiver<bool>) {
    let mut frames = Frames::accept(stream, None).await;
    frames.opens_windows = true;
    let mut bodies: HashMap<u32, Vec<u8>> = HashMap::new();
    loop {
        let over = async { ended.wait_for(|ended| *ended).await.is_ok() };
        let read = tokio::select! {
            biased;
            frame = frames.read() => Some(frame),
            _ = over => None,
        };
        let Some(frame) = read else {
            // All streams that there are were taken notice of.
            return frames.go_away(u32::MAX >> 1, INTERNAL_ERROR).await;
        };
        let Some(frame) = frame else { return };
        let body = bodies.entry(frame.stream).or_default();
        if frame.kind == DATA {
            body.extend_from_slice(&frame.payload);
        }
        if !matches!(frame.kind, HEADERS | DATA) || frame.flags & END_STREAM == 0 {
            continue;
        }
        let streamed = String::from_utf8_lossy(body).replace(' ', "").contains(r#""stream":true"#);
        respond(&mut frames, frame.stream, streamed).await;
        begun.fetch_add(usize::from(streamed), Ordering::SeqCst);
    }
}

/// `:status: 200` and the content type, by their places in HPACK's static table (RFC 7541, appendix A): 8 and 31.
async fn respond(frames: &mut Frames<TcpStream>, stream: u32, streamed: bool) {
    let (kind, body, flags) = match streamed {
        true => ("text/event-stream", format!("data: {CHUNK}\n\n"), 0),
        false => ("application/json", ANSWER.to_owned(), END_STREAM),
    };
    let mut head = vec![0x88, 0x0f, 31 - 15, u8::try_from(kind.len()).unwrap()];
    head.extend_from_slice(kind.as_bytes());
    frames.write(HEADERS, END_HEADERS, stream, &head).await;
    frames.write(DATA, flags, stream, body.as_bytes()).await;
}

/// So many requests share a connection: as many as one loss can hurt.
const SHARE: usize = 32;

/// They are told by GOAWAY, and count as one, however long it takes to tell all of their clients.
#[tokio::test]
async fn all_streams_that_are_lost_with_one_connection_are_one_failure() {
    let _turn = crate::turn().await;
    let world = behind_http2("20s").await;
    let mut streams = vec![world.gateway.ask(true).await];
    // The first opens the connection that the others find.
    streams[0].until("data: ", 1).await;
    for _ in 1..SHARE {
        streams.push(world.gateway.ask(true).await);
    }
    for stream in &mut streams {
        stream.until("data: ", 1).await;
    }
    assert_eq!(world.peer.streams.load(Ordering::SeqCst), SHARE);
    assert_eq!(world.peer.connections.load(Ordering::SeqCst), 1);
    world.peer.ends.send_replace(true);
    for stream in &mut streams {
        stream.breaks_with_one_error().await;
    }
    world.gateway.nothing_is_held().await;
    let a = world.gateway.target("a").await;
    let failures = a["domains"].as_array().unwrap().iter().map(|d| d["failures_in_a_row"].as_u64().unwrap());
    assert_eq!(failures.max(), Some(1), "{a}");
    assert_eq!(a["state"], "closed");
    world.alone().everything_is_back().await;
}

/// A peer that takes the connection and sends bytes that are no HTTP, for ever and slowly.
#[tokio::test]
async fn a_peer_that_drips_its_headers_is_left_for_another_target() {
    let _turn = crate::turn().await;
    let address = server(async |mut stream: TcpStream| {
        if stream.write_all(b"HTTP/1.1 200 OK\r\nx-slow: ").await.is_err() {
            return;
        }
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    is_left(&format!("http://{address}/v1"), "", &crate::process::chat("m", false)).await;
}
