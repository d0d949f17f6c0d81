//! Peers that vanish without a word: no FIN, no RST, and everything that is sent to them is lost.

use std::time::Duration;

use pointsman_provider_sim::{Script, Sim, SimConfig};

use crate::client::{Asked, request};
use crate::gateway::{Gateway, target};
use crate::neighbour::{Endless, Way};
use crate::process::{CHAT, chat};

async fn sim(name: &str, script: Script) -> Sim {
    Sim::start(SimConfig { default: script, ..SimConfig::named(name) }).await.unwrap()
}

#[tokio::test]
async fn a_provider_that_vanishes_in_mid_stream_costs_one_error() {
    let _turn = crate::turn().await;
    let a = sim("a", Script::healthy().tokens(1_000).between_tokens(Duration::from_millis(20))).await;
    let way = Way::to(a.addr()).await;
    let gateway = Gateway::start("", &[target("a", &way.base(), "")]).await;
    let mut stream = gateway.ask(true).await;
    stream.until("data: ", 3).await;
    way.vanish();
    stream.breaks_with_one_error().await;
    a.set(Script::healthy());
    assert_eq!(gateway.answered_by().await.0, "a", "there is another way to it");
    drop((a, way));
    gateway.everything_is_back().await;
}

/// A firewall forgets connections that were idle for long. The first request that meets that is rescued by another
/// target; no later one meets it again.
#[tokio::test]
async fn kept_connections_that_vanished_cost_one_wait_and_no_breaker() {
    let _turn = crate::turn().await;
    const KEPT: usize = 8;
    let a = sim("a", Script::slow_headers(Duration::from_millis(200))).await;
    let b = sim("b", Script::healthy()).await;
    let way = Way::to(a.addr()).await;
    let targets = [target("a", &way.base(), ""), target("b", &b.base_url(), ", priority: 2")];
    // One pool for all, so that it is known which request gets which connection.
    let gateway = Gateway::start(", runtime: shared", &targets).await;
    let mut together = Vec::new();
    for _ in 0..KEPT {
        together.push(gateway.ask(false).await);
    }
    for asked in &mut together {
        assert!(asked.rest().await.contains("x-pointsman-target: a"));
    }
    assert_eq!(way.accepted(), KEPT);
    a.set(Script::healthy());
    way.vanish();
    assert_eq!(gateway.answered_by().await.0, "b", "who meets it is rescued");
    for _ in 0..KEPT {
        assert_eq!(gateway.answered_by().await.0, "a");
    }
    assert_eq!(gateway.target("a").await["state"], "closed");
    drop((a, b, way));
    gateway.everything_is_back().await;
}

#[tokio::test]
async fn a_shared_http2_connection_that_vanished_gets_no_second_request() {
    let _turn = crate::turn().await;
    let gateway = crate::handshakes::behind_http2("1s").await;
    let mut stream = gateway.gateway.ask(true).await;
    stream.until("data: ", 1).await;
    gateway.way.vanish();
    stream.breaks_with_one_error().await;
    let accepted = gateway.way.accepted();
    assert_eq!(gateway.gateway.answered_by().await.0, "a");
    assert_eq!(gateway.way.accepted(), accepted + 1, "by a new connection");
    let gateway = gateway.alone();
    gateway.everything_is_back().await;
}

/// From now on everything that comes for this socket is lost before anything answers it.
fn vanish(asked: &Asked) {
    // Classic BPF: `ret #0`, keep nothing of a packet.
    let nothing = socket2::SockFilter::new(0x06, 0, 0, 0);
    socket2::SockRef::from(&asked.stream).attach_filter(&[nothing]).unwrap();
}

/// Nobody takes what is sent to it, not even its kernel; and what is sent is far less than what sockets can hold.
#[tokio::test]
async fn a_client_that_vanishes_in_mid_stream_is_let_go() {
    let _turn = crate::turn().await;
    let a = sim("a", Script::healthy().tokens(5_000).between_tokens(Duration::from_millis(20))).await;
    let gateway = Gateway::start("", &[target("a", &a.base_url(), "")]).await;
    let mut asked = gateway.ask(true).await;
    asked.until("data: ", 3).await;
    vanish(&asked);
    a.wait_until(|sim| sim.active_requests() == 0 && sim.aborted() == 1).await.unwrap();
    gateway.nothing_is_held().await;
    drop(a);
    gateway.everything_is_back().await;
    drop(asked);
}

/// Its kernel takes what it can hold; nobody reads it.
#[tokio::test]
async fn a_client_behind_a_proxy_that_hangs_is_let_go() {
    let _turn = crate::turn().await;
    let provider = Endless::start().await;
    let gateway = Gateway::start("", &[target("a", &provider.base, "")]).await;
    let way = Way::to(gateway.data).await;
    let stream = tokio::net::TcpStream::connect(way.address).await.unwrap();
    let mut asked = Asked::text(stream, &request(gateway.data, "POST", CHAT, &chat("m", true))).await;
    asked.until("data: ", 1).await;
    way.vanish();
    gateway.nothing_is_held().await;
    drop(provider);
    gateway.everything_is_back().await;
    drop(asked);
}
