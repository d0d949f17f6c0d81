//! Leaving in good order: said in time, streams finished, nothing lost while the delay lasts, and an end to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use pointsman_provider_sim::{Script, Sim};
use pointsman_server::App;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::clients::{Http2, PATIENCE, Raw, eventually, gateway, http1_to};
use crate::support::{World, chat};

/// A gateway that is on its way out.
struct Leaving {
    sims: Vec<Sim>,
    app: Arc<App>,
    address: SocketAddr,
    gone: JoinHandle<()>,
}

impl Leaving {
    /// What a signal to end does.
    async fn start(world: World) -> Self {
        let World { sims, gateway, .. } = world;
        let (app, address) = (Arc::clone(gateway.app()), gateway.data_addr());
        let gone = tokio::spawn(gateway.shut_down());
        eventually("draining", true, || app.is_draining()).await;
        Self { sims, app, address, gone }
    }

    /// A request on a connection of its own, to its end.
    async fn ask(&self, text: &str) -> String {
        let mut raw = Raw::connect(self.address).await;
        raw.send(text).await;
        raw.rest().await
    }

    fn chat(&self, stream: bool) -> String {
        http1_to(&self.address.to_string(), &chat("gpt-4o", stream), &[])
    }

    async fn until_nobody_listens(&self) {
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).await.is_ok() {
            assert!(Instant::now() < until, "it still listens");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// It ends by itself, and nothing is left in flight.
    async fn ends(self) -> Vec<Sim> {
        timeout(PATIENCE, self.gone).await.expect("it ends").unwrap();
        assert_eq!((self.app.admission.in_flight(), self.app.admission.body_bytes()), (0, 0));
        assert_eq!(self.app.metrics.open_streams(), 0);
        self.sims
    }
}

fn slow() -> Script {
    Script::healthy().tokens(30).between_tokens(Duration::from_millis(50))
}

/// C087: a load balancer learns of it while everything is still served.
#[tokio::test]
async fn while_the_delay_lasts_requests_are_served_and_told_to_turn_elsewhere() {
    let world = gateway(", drain: { delay: 2s, timeout: 20s }", &[""], "").await;
    let leaving = Leaving::start(world).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", leaving.address);
    let ready = leaving.ask(&get("/readyz")).await;
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    let alive = leaving.ask(&get("/healthz")).await;
    assert!(alive.starts_with("HTTP/1.1 200 "), "{alive}");
    for stream in [false, true] {
        let answer = leaving.ask(&leaving.chat(stream)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
        assert!(answer.contains(if stream { "[DONE]" } else { "\"usage\"" }), "{answer}");
    }
    let sims = leaving.ends().await;
    assert_eq!(sims[0].calls(), 2);
}

/// C087: twenty streams that have begun come to their end.
#[tokio::test]
async fn streams_that_run_are_finished() {
    let world = gateway(", drain: { delay: 0s, timeout: 20s }", &[""], "").await;
    world.sim(0).set(slow());
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut raw = world.connect().await;
        raw.send(&http1_to(&world.host(), &chat("gpt-4o", true), &[])).await;
        raw.until("data: ").await;
        streams.push(raw);
    }
    let leaving = Leaving::start(world).await;
    leaving.until_nobody_listens().await;
    for mut raw in streams {
        let text = raw.rest().await;
        assert_eq!(text.matches("data: [DONE]").count(), 1, "{text}");
        assert!(!text.contains("\"error\""), "{text}");
        assert!(text.ends_with("0\r\n\r\n"), "the answer ends in good order: {text}");
    }
    let sims = leaving.ends().await;
    assert_eq!((sims[0].calls(), sims[0].aborted()), (20, 0));
}

/// A request that was under way tells its client to turn elsewhere as well.
#[tokio::test]
async fn an_answer_that_was_begun_before_says_so_too() {
    let world = gateway(", drain: { delay: 0s, timeout: 20s }", &[""], "").await;
    world.sim(0).set(Script::slow_headers(Duration::from_millis(500)));
    let mut raw = world.connect().await;
    raw.send(&http1_to(&world.host(), &chat("gpt-4o", false), &[])).await;
    world.sim(0).wait_until(|sim| sim.active_requests() == 1).await.unwrap();
    let leaving = Leaving::start(world).await;
    let text = raw.rest().await;
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("\"usage\""), "{text}");
    assert!(text.to_ascii_lowercase().contains("connection: close"), "{text}");
    leaving.ends().await;
}

#[tokio::test]
async fn after_the_delay_nobody_is_let_in_and_open_connections_hear_why() {
    let world = gateway(", drain: { delay: 100ms, timeout: 20s }", &[""], "").await;
    let mut open = world.connect().await;
    let get = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", world.host());
    open.send(&get).await;
    open.until("ok").await;
    open.forget();
    let leaving = Leaving::start(world).await;
    leaving.until_nobody_listens().await;
    open.send(&leaving.chat(false)).await;
    let text = open.rest().await.to_ascii_lowercase();
    assert!(text.starts_with("http/1.1 503 "), "{text}");
    for said in ["retry-after: 1", "x-should-retry: true", "connection: close", "server_is_overloaded"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let sims = leaving.ends().await;
    assert_eq!(sims[0].calls(), 0);
}

/// What does not end by itself is ended, with a word in the client's dialect.
#[tokio::test]
async fn after_the_timeout_streams_end_with_one_error() {
    let world = gateway(", drain: { delay: 0s, timeout: 200ms }", &[""], "").await;
    world.sim(0).set(Script::stall_after(3));
    let mut raw = world.connect().await;
    raw.send(&http1_to(&world.host(), &chat("gpt-4o", true), &[])).await;
    raw.until("data: ").await;
    let leaving = Leaving::start(world).await;
    let text = raw.rest().await;
    assert_eq!(text.matches("data: {\"error\"").count(), 1, "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    assert!(text.contains(r#""terminal":"partial""#), "{text}");
    assert!(text.ends_with("0\r\n\r\n"), "{text}");
    let sims = leaving.ends().await;
    sims[0].wait_until(|sim| sim.active_requests() == 0 && sim.aborted() == 1).await.unwrap();
}

/// So are requests that have had no answer yet: a plain one, a stream before its first output, and one that heartbeats
/// have opened.
#[tokio::test]
async fn after_the_timeout_requests_without_an_answer_get_one() {
    for (stream, early) in [(false, false), (true, false), (true, true)] {
        let keepalive = if early { "50ms" } else { "20s" };
        let server = format!(", keepalive: {keepalive}, drain: {{ delay: 0s, timeout: 300ms }}");
        let world = gateway(&server, &["", ""], "").await;
        world.sim(0).set(Script::silence());
        let mut raw = world.connect().await;
        raw.send(&http1_to(&world.host(), &chat("gpt-4o", stream), &[])).await;
        world.sim(0).wait_until(|sim| sim.active_requests() == 1).await.unwrap();
        if early {
            raw.until(":").await;
            raw.until("\r\n\r\n").await;
        }
        let leaving = Leaving::start(world).await;
        let text = raw.rest().await;
        assert_eq!(text.matches("{\"error\"").count(), 1, "{stream} {early}: {text}");
        assert!(text.contains("shutting down"), "{text}");
        if !early {
            assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        }
        let sims = leaving.ends().await;
        sims[0].wait_until(|sim| sim.active_requests() == 0).await.unwrap();
        assert_eq!((sims[0].calls(), sims[1].calls()), (1, 0), "no attempt starts at the end");
    }
}

/// C087: HTTP/2 says it by GOAWAY: no new request on that connection, what runs is finished, others are served.
#[tokio::test]
async fn http2_connections_are_told_by_goaway() {
    let world = gateway(", drain: { delay: 3s, timeout: 20s }", &[""], "").await;
    world.sim(0).set(slow());
    let mut client = Http2::connect(&world).await;
    let running = client.post(&chat("gpt-4o", true)).await.unwrap();
    let mut next = Http2::connect(&world).await;
    let leaving = Leaving::start(world).await;
    let until = Instant::now() + PATIENCE;
    while client.post(&chat("gpt-4o", true)).await.is_ok() {
        assert!(Instant::now() < until, "it still takes requests");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answer = next.post(&chat("gpt-4o", false)).await.expect("a fresh connection is served in the delay");
    assert_eq!(answer.status(), 200);
    let text = running.into_body().collect().await.unwrap().to_bytes();
    assert!(text.ends_with(b"data: [DONE]\n\n"), "{text:?}");
    leaving.ends().await;
}

/// C087: a rolling restart behind a balancer that looks at readiness loses nothing.
#[tokio::test]
async fn a_rolling_restart_loses_no_request() {
    let old = gateway(", drain: { delay: 2s, timeout: 20s }", &[""], "").await;
    let new = Arc::new(gateway("", &[""], "").await);
    let address = old.gateway.data_addr();
    let served = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let clients = (0..4).map(|n| {
        let (new, served) = (Arc::clone(&new), Arc::clone(&served));
        tokio::spawn(async move {
            while served[1].load(Ordering::Relaxed) < 20 {
                let ready = is_ready(address).await;
                let place = usize::from(!ready);
                let address = if ready { address } else { new.gateway.data_addr() };
                let mut raw = Raw::connect(address).await;
                raw.send(&http1_to(
                    &address.to_string(),
                    &chat("gpt-4o", n % 2 == 0),
                    &[("connection", "close")],
                ))
                .await;
                let text = raw.rest().await;
                assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
                assert!(text.contains("[DONE]") || text.contains("\"usage\""), "{text}");
                served[place].fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    eventually("served by the old one", true, || served[0].load(Ordering::Relaxed) >= 20).await;
    let leaving = Leaving::start(old).await;
    for client in clients {
        client.await.unwrap();
    }
    leaving.ends().await;
}

async fn is_ready(address: SocketAddr) -> bool {
    if TcpStream::connect(address).await.is_err() {
        return false;
    }
    let mut raw = Raw::connect(address).await;
    raw.send(&format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).await;
    raw.rest().await.starts_with("HTTP/1.1 200 ")
}
