//! Clients that are stopped or killed by their machine, and those that stop reading.

use std::time::{Duration, Instant};

use pointsman_provider_sim::{Script, Sim, SimConfig};

use crate::client::Asked;
use crate::gateway::{Gateway, target, yaml};
use crate::neighbour::Endless;
use crate::process::{PATIENCE, chat};

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_client_that_is_stopped_in_mid_stream_is_let_go() {
    let _turn = crate::turn().await;
    let provider = Endless::start().await;
    let gateway = Gateway::start("", &[target("a", &provider.base, "")]).await;
    let mut asked = Asked::chat_with_small_window(gateway.data, &chat("m", true)).await;
    asked.until("data: ", 1).await;
    let client = asked.handed_to_a_process();
    client.signal("-STOP");
    until("the provider is let go", || provider.streams() == 0).await;
    gateway.nothing_is_held().await;
    drop(provider);
    // The client is still there, and takes nothing of its process any more.
    gateway.everything_is_back().await;
    drop(client);
}

#[tokio::test]
async fn a_client_that_is_killed_in_mid_stream_takes_its_upstream_call_with_it() {
    let _turn = crate::turn().await;
    let provider = Sim::start(SimConfig::named("a")).await.unwrap();
    provider.set(Script::healthy().tokens(100_000).between_tokens(Duration::from_millis(20)));
    let gateway = Gateway::start("", &[target("a", &provider.base_url(), "")]).await;
    let mut asked = gateway.ask(true).await;
    asked.until("data: ", 3).await;
    let client = asked.handed_to_a_process();
    client.signal("-KILL");
    provider.wait_until(|sim| sim.active_requests() == 0 && sim.aborted() == 1).await.unwrap();
    gateway.nothing_is_held().await;
    assert_eq!(gateway.target("a").await["domains"][0]["failures_in_a_row"], 0);
    drop(provider);
    gateway.everything_is_back().await;
}

/// What a client does not take stays with its provider.
#[tokio::test]
async fn clients_that_stop_reading_take_little_memory_and_are_let_go() {
    let _turn = crate::turn().await;
    const CLIENTS: u64 = 30;
    // Per stream: what is read ahead, an event in the making, what the connection has buffered.
    const EACH: u64 = 256 << 10;
    let provider = Endless::start().await;
    // Longer than what follows takes: they are looked at before they are let go.
    let file = yaml("", &[target("a", &provider.base, "")]).replace("write: 1s", "write: 5s");
    let gateway = Gateway::with(&file).await;
    // The first answer takes memory that all later ones share.
    gateway.streamed_by().await;
    let before = gateway.resident();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut asked = Asked::chat_with_small_window(gateway.data, &chat("m", true)).await;
        asked.until("data: ", 1).await;
        clients.push(asked);
    }
    let grown = gateway.resident().saturating_sub(before);
    assert!(grown < CLIENTS * EACH, "{grown} bytes for {CLIENTS} streams");
    until("all providers are let go", || provider.streams() == 0).await;
    gateway.nothing_is_held().await;
    drop((clients, provider));
    gateway.everything_is_back().await;
}
