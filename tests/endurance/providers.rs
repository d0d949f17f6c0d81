//! Providers that are stopped or killed by their machine.

use std::time::{Duration, Instant};

use crate::gateway::{Gateway, target};
use crate::neighbour::Provider;
use crate::process::PATIENCE;

const ENDLESS: &str = "tokens:5000+slow-tokens:20ms";

async fn behind(first: &str) -> (Provider, Provider, Gateway) {
    let (a, b) = (Provider::start("a", first), Provider::start("b", "healthy"));
    let targets = [target("a", &a.base, ""), target("b", &b.base, ", priority: 2")];
    let gateway = Gateway::start("", &targets).await;
    (a, b, gateway)
}

async fn is_back(gateway: &Gateway, name: &str) {
    let until = Instant::now() + PATIENCE;
    while gateway.streamed_by().await != name {
        assert!(Instant::now() < until, "{name} is not asked any more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_provider_that_is_stopped_in_mid_stream_costs_one_error_and_no_hang() {
    let _turn = crate::turn().await;
    let (a, b, gateway) = behind(ENDLESS).await;
    let mut stream = gateway.ask(true).await;
    stream.until("data: ", 3).await;
    a.signal("-STOP");
    stream.breaks_with_one_error().await;
    gateway.nothing_is_held().await;
    assert_eq!(gateway.answered_by().await.0, "b", "its kernel takes connections, it answers none");
    a.signal("-CONT");
    is_back(&gateway, "a").await;
    drop((a, b));
    gateway.everything_is_back().await;
}

#[tokio::test]
async fn a_provider_that_is_stopped_before_it_answers_is_left_for_another() {
    let _turn = crate::turn().await;
    let (a, b, gateway) = behind("healthy").await;
    a.signal("-STOP");
    for stream in [true, false] {
        let text = gateway.ask(stream).await.rest().await;
        assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("x-pointsman-target: b"), "{text}");
        assert!(text.contains("x-pointsman-reason: a:timeout>b"), "{text}");
    }
    a.signal("-CONT");
    is_back(&gateway, "a").await;
    drop((a, b));
    gateway.everything_is_back().await;
}

#[tokio::test]
async fn a_provider_that_is_killed_in_mid_stream_costs_one_error_at_once() {
    let _turn = crate::turn().await;
    let (a, b, gateway) = behind(ENDLESS).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = gateway.ask(true).await;
        stream.until("data: ", 3).await;
        streams.push(stream);
    }
    a.signal("-KILL");
    for mut stream in streams {
        stream.breaks_with_one_error().await;
    }
    gateway.nothing_is_held().await;
    let (name, took) = gateway.answered_by().await;
    assert_eq!(name, "b");
    assert!(
        took < Duration::from_millis(900),
        "nothing listens there any more, and that is known at once: {took:?}"
    );
    drop((a, b));
    gateway.everything_is_back().await;
}
