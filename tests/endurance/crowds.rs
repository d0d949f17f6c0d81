//! Clients in their thousands that do not stay.

use std::sync::Arc;
use std::time::Duration;

use pointsman_provider_sim::{Script, Sim, SimConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::{Asked, request};
use crate::gateway::{Gateway, target, yaml};
use crate::process::{CHAT, chat};

const CLIENTS: usize = 10_000;
/// At the same time.
const TOGETHER: usize = 200;

/// How far a client gets before it leaves.
#[derive(Clone, Copy, Debug)]
enum Point {
    Connected,
    WithinHeaders,
    AfterHeaders,
    WithinBody,
    Asked,
    WithinAnswer,
}

const POINTS: [Point; 6] = [
    Point::Connected,
    Point::WithinHeaders,
    Point::AfterHeaders,
    Point::WithinBody,
    Point::Asked,
    Point::WithinAnswer,
];

/// Half of them say goodbye, half reset the connection.
async fn come_and_go(address: std::net::SocketAddr, number: usize) {
    let stream = !number.is_multiple_of(3);
    let text = request(address, "POST", CHAT, &chat("m", stream));
    let head = text.find("\r\n\r\n").unwrap() + 4;
    let sent = match POINTS[number % POINTS.len()] {
        Point::Connected => 0,
        Point::WithinHeaders => head / 2,
        Point::AfterHeaders => head,
        Point::WithinBody => head + (text.len() - head) / 2,
        Point::Asked | Point::WithinAnswer => text.len(),
    };
    let mut asked = Asked::text(TcpStream::connect(address).await.unwrap(), &text[..sent]).await;
    if matches!(POINTS[number % POINTS.len()], Point::WithinAnswer) {
        asked.until("HTTP/1.1 200 ", 1).await;
    }
    if number.is_multiple_of(2) {
        asked.stream.set_zero_linger().unwrap();
    } else {
        // It may have been answered and closed already.
        asked.stream.shutdown().await.unwrap_or_default();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_that_come_and_go_leave_nothing() {
    let _turn = crate::turn().await;
    let provider = Sim::start(SimConfig::named("a")).await.unwrap();
    let script = Script::healthy().tokens(50).between_tokens(Duration::from_millis(5));
    provider.set(script.delay_headers(Duration::from_millis(20)));
    // The crowd takes all of a small machine: no limit is to strike.
    let file = yaml("", &[target("a", &provider.base_url(), "")]).replace(": 1s", ": 20s");
    let gateway = Arc::new(Gateway::with(&file).await);
    let mut crowd = JoinSet::new();
    for place in 0..TOGETHER {
        let address = gateway.data;
        crowd.spawn(async move {
            for number in (place..CLIENTS).step_by(TOGETHER) {
                come_and_go(address, number).await;
            }
        });
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
    gateway.nothing_is_held().await;
    provider.wait_until(|sim| sim.active_requests() == 0).await.unwrap();
    let a = gateway.target("a").await;
    assert_eq!(a["state"], "closed", "who leaves says nothing of the target: {a}");
    assert_eq!(gateway.answered_by().await.0, "a");
    drop(provider);
    gateway.everything_is_back().await;
}
