//! Clients that misbehave, and what is left of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pointsman_core::domain::DomainState;
use pointsman_provider_sim::{Sim, SimConfig};
use pointsman_store::{Filter, RequestEntry};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{World, world_of};

/// Far more than anything here takes, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway with these settings of `server:`, in front of sims named `a`, `b`, … that serve `gpt-4o`, each with more
/// settings of its target; then the rest of the file. `<a>` stands for the base URL of `a`.
pub async fn gateway(server: &str, targets: &[&str], rest: &str) -> World {
    let mut sims = Vec::new();
    let mut yaml = format!("server: {{ listen: 127.0.0.1:0{server} }}\nadmin: {{ listen: 127.0.0.1:0 }}\n");
    yaml.push_str("targets:\n");
    for (name, more) in ["a", "b", "c", "d"].iter().zip(targets) {
        let sim = Sim::start(SimConfig::named(*name)).await.unwrap();
        let model = if more.contains("model:") { "" } else { "model: gpt-4o, " };
        let key =
            if more.contains("api_key:") { String::new() } else { format!("api_key: sk-upstream-{name}, ") };
        let more = more.trim_start_matches(", ");
        let url = sim.base_url();
        yaml.push_str(&format!(
            "  {name}: {{ provider: openai, base_url: \"{url}\", {model}{key}{more} }}\n"
        ));
        sims.push(sim);
    }
    yaml.push_str(rest);
    for sim in &sims {
        yaml = yaml.replace(&format!("<{}>", sim.name()), &sim.base_url());
    }
    world_of(sims, &yaml)
}

/// Waits until this holds, and says what did not.
pub async fn eventually<T: std::fmt::Debug + PartialEq>(what: &str, wanted: T, now: impl Fn() -> T) {
    let until = Instant::now() + PATIENCE;
    while now() != wanted {
        assert!(Instant::now() < until, "{what}: {:?} and not {wanted:?}", now());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All that a request may hold of the gateway.
#[derive(Debug, Default, PartialEq)]
pub struct Held {
    pub connections: usize,
    pub in_flight: usize,
    pub body_bytes: usize,
    pub open_streams: i64,
    pub upstream_in_use: usize,
    pub upstream_requests: usize,
    pub target_in_flight: u32,
    pub queued: usize,
}

impl World {
    pub fn held(&self) -> Held {
        let app = self.gateway.app();
        let upstream = self.gateway.upstream_stats();
        let (target_in_flight, queued) = app.with_fleet(|fleet| {
            let calls = fleet.targets().map(|(_, state)| state.in_flight).sum();
            (calls, fleet.queue.iter().map(|(_, waiting)| waiting).sum())
        });
        Held {
            connections: self.gateway.connections(),
            in_flight: app.admission.in_flight(),
            body_bytes: app.admission.body_bytes(),
            open_streams: app.metrics.open_streams(),
            upstream_in_use: upstream.in_use,
            upstream_requests: upstream.requests,
            target_in_flight,
            queued,
        }
    }

    /// Nothing is left of anyone.
    pub async fn everything_is_back(&self) {
        eventually("held by the gateway", Held::default(), || self.held()).await;
        for sim in &self.sims {
            sim.wait_until(|sim| sim.active_requests() == 0).await.unwrap();
        }
    }

    /// Nothing that happened counts against any target.
    pub fn nobody_is_blamed(&self) {
        let now = self.clock.now();
        for domain in self.gateway.app().with_fleet(|fleet| fleet.domains(now)) {
            assert_eq!(domain.state, DomainState::Closed, "{domain:?}");
            assert_eq!(domain.failures_in_a_row, 0, "{domain:?}");
        }
    }

    /// All records, the newest first.
    pub fn records(&self) -> Vec<Arc<RequestEntry>> {
        self.gateway.app().ledger.list(&Filter { limit: 10_000, ..Filter::default() })
    }

    /// The one record that there is or will be.
    pub async fn record(&self) -> Arc<RequestEntry> {
        eventually("records", 1, || self.records().len()).await;
        self.records().remove(0)
    }

    pub fn host(&self) -> String {
        self.gateway.data_addr().to_string()
    }

    pub async fn connect(&self) -> Raw {
        Raw::connect(self.gateway.data_addr()).await
    }
}

/// `POST /v1/chat/completions` as HTTP/1.1 text.
pub fn http1(world: &World, body: &Value, headers: &[(&str, &str)]) -> String {
    http1_to(&world.host(), body, headers)
}

pub fn http1_to(host: &str, body: &Value, headers: &[(&str, &str)]) -> String {
    let body = body.to_string();
    let mut text = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n" + &body
}

/// An HTTP/1.1 connection, byte by byte.
pub struct Raw {
    pub stream: TcpStream,
    seen: Vec<u8>,
}

impl Raw {
    pub async fn connect(address: std::net::SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), seen: Vec::new() }
    }

    pub async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until this has been seen, and gives everything so far.
    pub async fn until(&mut self, what: &str) -> String {
        let reading = async {
            let mut searched = 0_usize;
            loop {
                let from = searched.saturating_sub(what.len());
                if String::from_utf8_lossy(&self.seen[from..]).contains(what) {
                    return String::from_utf8_lossy(&self.seen).into_owned();
                }
                searched = self.seen.len();
                let read = self.stream.read_buf(&mut self.seen).await.unwrap();
                assert!(read > 0, "closed before {what:?}: {}", String::from_utf8_lossy(&self.seen));
            }
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("{what:?} did not come"))
    }

    /// Reads until the other side closes (or resets), and gives everything.
    pub async fn rest(&mut self) -> String {
        let reading = async { while self.stream.read_buf(&mut self.seen).await.is_ok_and(|n| n > 0) {} };
        timeout(PATIENCE, reading).await.expect("the connection is closed");
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Reads one answer of announced length.
    pub async fn sized(&mut self) -> String {
        let head = self.until("\r\n\r\n").await.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.expect("a length is announced").parse().unwrap();
        let whole = head.find("\r\n\r\n").unwrap() + 4 + length;
        while self.seen.len() < whole {
            let read =
                timeout(PATIENCE, self.stream.read_buf(&mut self.seen)).await.expect("it goes on").unwrap();
            assert!(read > 0, "the connection was closed in the middle of an answer");
        }
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Forgets what was read.
    pub fn forget(&mut self) {
        self.seen.clear();
    }

    /// TCP reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// An HTTP/2 connection with prior knowledge.
pub struct Http2 {
    pub sender: http2::SendRequest<Full<Bytes>>,
    _driving: JoinHandle<()>,
    host: String,
}

impl Http2 {
    pub async fn connect(world: &World) -> Self {
        Self::with_window(world, 1 << 20).await
    }

    /// The gateway may send so many bytes that were not taken.
    pub async fn with_window(world: &World, window: u32) -> Self {
        let stream = TcpStream::connect(world.gateway.data_addr()).await.unwrap();
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        let driving = tokio::spawn(async move {
            // How it ended does not matter to those who look at the streams.
            drop(connection.await);
        });
        Self { sender, _driving: driving, host: world.host() }
    }

    pub fn request(&self, body: &Value) -> Request<Full<Bytes>> {
        Request::post(format!("http://{}/v1/chat/completions", self.host))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap()
    }

    pub async fn post(&mut self, body: &Value) -> hyper::Result<Response<Incoming>> {
        let request = self.request(body);
        self.sender.send_request(request).await
    }
}

/// How a client goes away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Manner {
    Close,
    Reset,
    /// HTTP/2 `RST_STREAM`: the connection stays.
    Stream,
}

pub const MANNERS: [Manner; 3] = [Manner::Close, Manner::Reset, Manner::Stream];

/// A client with one request, which it will not wait for.
pub enum Guest {
    One(Raw, Manner),
    Two(Http2, JoinHandle<()>, Arc<std::sync::Mutex<Vec<u8>>>),
}

impl Guest {
    pub async fn ask(world: &World, body: &Value, manner: Manner) -> Self {
        if manner != Manner::Stream {
            let mut raw = world.connect().await;
            raw.send(&http1(world, body, &[])).await;
            return Self::One(raw, manner);
        }
        let http2 = Http2::connect(world).await;
        let answer = http2.sender.clone().send_request(http2.request(body));
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let taken = Arc::clone(&seen);
        let reading = tokio::spawn(async move {
            let mut body = answer.await.unwrap().into_body();
            while let Some(Ok(frame)) = body.frame().await {
                taken.lock().unwrap().extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
            }
        });
        Self::Two(http2, reading, seen)
    }

    /// Reads until this came.
    pub async fn until(&mut self, what: &str) {
        match self {
            Self::One(raw, _) => drop(raw.until(what).await),
            Self::Two(_, _, seen) => {
                eventually(what, true, || String::from_utf8_lossy(&seen.lock().unwrap()).contains(what))
                    .await;
            }
        }
    }

    /// Goes away. What is returned keeps the connection of an HTTP/2 client that only gave up its request.
    pub fn leave(self) -> Option<Http2> {
        match self {
            Self::One(raw, Manner::Reset) => raw.reset(),
            Self::One(raw, _) => drop(raw),
            Self::Two(http2, reading, _) => {
                reading.abort();
                return Some(http2);
            }
        }
        None
    }
}

/// A tool definition, small.
pub fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object", "properties": {} } } })
}
