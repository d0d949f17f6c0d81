//! A client that goes away takes everything with it: its upstream call, its place, its memory; and nobody is blamed.

use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::{Fault, Script};
use pointsman_server::Running;

use crate::clients::{Guest, Held, Http2, MANNERS, Manner, eventually, gateway, http1};
use crate::support::{World, chat};

const TICK: Duration = Duration::from_millis(50);

/// The client left after this many calls; the record says so, nothing is left and nobody is blamed.
async fn is_forgotten(world: &World, calls: u64, guest: Guest) {
    let connection = guest.leave();
    for sim in &world.sims {
        sim.wait_until(|sim| sim.active_requests() == 0).await.unwrap();
    }
    let kept = usize::from(connection.is_some());
    let held = Held { connections: kept, ..Held::default() };
    eventually("held by the gateway", held, || world.held()).await;
    let record = world.record().await;
    assert_eq!((record.terminal, record.status), ("cancelled", 499), "{record:?}");
    assert_eq!(record.cause, "client_gone");
    // Long enough for a retry or failover that must not come.
    tokio::time::sleep(TICK * 2).await;
    assert_eq!(world.sims.iter().map(|sim| sim.calls()).sum::<u64>(), calls);
    world.nobody_is_blamed();
    drop(connection);
    world.everything_is_back().await;
}

/// C032: however it leaves, and whatever the provider is doing at that moment.
async fn leaves_while(script: Script, stream: bool, seen: Option<&str>) {
    for manner in MANNERS {
        let world = gateway("", &["", ""], "").await;
        world.sim(0).set(script.clone());
        let mut guest = Guest::ask(&world, &chat("gpt-4o", stream), manner).await;
        world.sim(0).wait_until(|sim| sim.active_requests() == 1).await.unwrap();
        if let Some(seen) = seen {
            guest.until(seen).await;
        }
        is_forgotten(&world, 1, guest).await;
        assert_eq!(world.sim(0).aborted(), 1, "{manner:?}: the provider saw it leave");
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_providers_headers() {
    leaves_while(Script::silence(), true, None).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_its_stream_is_held_for_the_first_output() {
    leaves_while(Script::role_only_then_silence(), true, None).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_heartbeats_keep_the_provider_busy() {
    leaves_while(Script::heartbeats_only(TICK), true, None).await;
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_its_stream() {
    leaves_while(Script::healthy().tokens(1_000).between_tokens(TICK), true, Some("data: ")).await;
    leaves_while(Script::stall_after(3), true, Some("data: ")).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_its_plain_answer_is_made() {
    leaves_while(Script::silence(), false, None).await;
    leaves_while(Script::slow_headers(Duration::from_secs(60)), false, None).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_its_plain_answer_is_gathered_from_a_stream() {
    for manner in MANNERS {
        let world = gateway("", &[""], "defaults: { stream: { gather: on } }\n").await;
        world.sim(0).set(Script::stall_after(2));
        let guest = Guest::ask(&world, &chat("gpt-4o", false), manner).await;
        world.sim(0).wait_until(|sim| sim.active_requests() == 1).await.unwrap();
        assert!(world.sim(0).received()[0].stream);
        is_forgotten(&world, 1, guest).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_that_was_opened_early() {
    for manner in MANNERS {
        let world = gateway(", keepalive: 50ms", &["", ""], "").await;
        world.sim(0).set(Script::role_only_then_silence());
        let mut guest = Guest::ask(&world, &chat("gpt-4o", true), manner).await;
        guest.until(":").await;
        guest.until("\n\n").await;
        is_forgotten(&world, 1, guest).await;
    }
}

#[tokio::test]
async fn no_attempt_starts_for_a_client_that_left_during_a_backoff() {
    for manner in MANNERS {
        // The provider says when it may be asked again, so that the wait is long and known.
        let rest = "defaults: { retry: { base: 20s, max: 60s } }\nqueue: { max_wait: 60s }\n";
        let world = gateway("", &[""], rest).await;
        world.sim(0).set(Script::openai_rate_limit(20));
        let guest = Guest::ask(&world, &chat("gpt-4o", true), manner).await;
        world.sim(0).wait_until(|sim| sim.calls() == 1 && sim.active_requests() == 0).await.unwrap();
        eventually("waiting", 0, || world.held().target_in_flight).await;
        assert_eq!(world.held().in_flight, 1, "{manner:?}: the request waits");
        drop(guest.leave());
        world.everything_is_back().await;
        let record = world.record().await;
        assert_eq!((record.terminal, record.status), ("cancelled", 499), "{record:?}");
        assert_eq!(world.sim(0).calls(), 1);
    }
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_gives_up_its_place() {
    for manner in MANNERS {
        let world = gateway("", &["limits: { concurrency: 1 }"], "queue: { max_wait: 60s, max: 1 }\n").await;
        world.sim(0).set(Script::silence());
        let first = Guest::ask(&world, &chat("gpt-4o", true), manner).await;
        world.sim(0).wait_until(|sim| sim.active_requests() == 1).await.unwrap();
        let second = Guest::ask(&world, &chat("gpt-4o", true), manner).await;
        eventually("queued", 1, || world.held().queued).await;
        let left = second.leave();
        eventually("queued", 0, || world.held().queued).await;
        drop((left, first.leave()));
        world.everything_is_back().await;
        assert_eq!(world.sim(0).calls(), 1, "{manner:?}: who left the queue was never sent");
        assert!(world.records().iter().all(|r| r.terminal == "cancelled"));
        world.nobody_is_blamed();
    }
}

/// A probe whose client leaves says nothing about the target, and its permit is free for the next.
#[tokio::test]
async fn an_aborted_probe_gives_its_permit_back() {
    let world =
        gateway("", &[""], "defaults: { breaker: { failures: 3, open_for: 30s, probes: 2 } }\n").await;
    world.sim(0).set(Script::server_error(500));
    let alone = [("x-pointsman-max-attempts", "1")];
    for _ in 0..3 {
        assert_eq!(world.post_with(&chat("gpt-4o", false), &alone).await.status, 503);
        // Failures that come together count as one.
        world.clock.advance(Duration::from_secs(2));
    }
    let state = |world: &World| {
        let now = world.clock.now();
        let views = world.gateway.app().with_fleet(|fleet| fleet.domains_of("a", now));
        views.into_iter().find(|v| v.kind == DomainKind::Target).unwrap().state
    };
    assert_eq!(state(&world), DomainState::Open);
    world.clock.advance(Duration::from_secs(31));
    world.sim(0).set(Script::silence());
    for round in 0..3 {
        let mut guests = Vec::new();
        for place in 1..=2 {
            guests.push(Guest::ask(&world, &chat("gpt-4o", true), Manner::Close).await);
            let all = round * 2 + 3 + place;
            world.sim(0).wait_until(|sim| sim.calls() == all).await.unwrap();
        }
        assert_eq!(state(&world), DomainState::HalfOpen);
        drop(guests);
        world.everything_is_back().await;
    }
    assert_eq!(state(&world), DomainState::HalfOpen, "leaving clients neither close nor open it");
    world.sim(0).set(Script::healthy());
    assert_eq!(world.post(&chat("gpt-4o", false)).await.status, 200);
    assert_eq!(world.post(&chat("gpt-4o", false)).await.status, 200);
    assert_eq!(state(&world), DomainState::Closed);
}

/// C033, as far as it is built: what the provider reported until then stays in the record.
#[tokio::test]
async fn what_was_used_before_the_client_left_is_recorded() {
    let world = gateway("", &[""], "").await;
    let script = Script::healthy().tokens(1_000).between_tokens(TICK);
    world.sim(0).set(script.usage(pointsman_provider_sim::UsageShape::EveryChunk));
    let mut guest = Guest::ask(&world, &chat("gpt-4o", true), Manner::Close).await;
    guest.until("data: ").await;
    is_forgotten(&world, 1, guest).await;
    let record = world.record().await;
    assert_eq!(record.attempts.len(), 1);
    assert_eq!(record.attempts[0].failure, Some("cancelled"), "{record:?}");
    assert!(record.usage.is_some_and(|u| u.input_tokens > 0), "{record:?}");
}

/// C034: an event reaches the client before the provider sends the next, whatever the client would accept.
#[tokio::test]
async fn every_event_is_flushed_as_it_comes() {
    let world = gateway("", &[""], "").await;
    world.sim(0).set(Script::answer("one two three").fault(Fault::Stall { after: 1 }));
    let mut raw = world.connect().await;
    let headers = [("accept-encoding", "gzip, br")];
    raw.send(&http1(&world, &chat("gpt-4o", true), &headers)).await;
    let text = raw.until("one").await;
    let head = text.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert!(head.contains("x-accel-buffering: no"), "{head}");
    assert!(head.contains("cache-control: no-cache"), "{head}");
    assert!(!head.contains("content-encoding") && !head.contains("content-length"), "{head}");
    assert_eq!(world.sim(0).active_requests(), 1, "the provider has more to say");
    drop(raw);
    world.everything_is_back().await;
}

/// An answer of many large events, 40 MB in all: more than all sockets on the way can hold.
fn flood() -> Script {
    let mut script = Script::healthy().tokens(20_000);
    script.answer.text = Some(format!("{} ", "x".repeat(2_000)).repeat(20_000));
    script
}

async fn waits_for_the_client(world: &World) {
    let open = |running: &Running| running.app().metrics.open_streams();
    eventually("streams", 1, || open(&world.gateway)).await;
    // Back-pressure reaches the provider: its answer would be over in no time otherwise.
    tokio::time::sleep(TICK * 6).await;
    assert_eq!(world.sim(0).active_requests(), 1, "the provider still waits to be read");
    assert!(world.held().body_bytes < 4 << 20, "{:?}", world.held());
}

/// A client that takes nothing slows the provider, and is let go after `budget.write`; the target did nothing wrong.
#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go() {
    let world = gateway("", &[""], "defaults: { budget: { write: 1s } }\n").await;
    world.sim(0).set(flood());
    let mut raw = world.connect().await;
    raw.send(&http1(&world, &chat("gpt-4o", true), &[])).await;
    waits_for_the_client(&world).await;
    world.everything_is_back().await;
    assert_eq!(world.record().await.terminal, "cancelled");
    assert_eq!(world.sim(0).aborted(), 1);
    world.nobody_is_blamed();
    drop(raw);
}

/// The same by HTTP/2, whose windows stop a stream without stopping the connection.
#[tokio::test]
async fn an_http2_stream_that_is_not_read_is_let_go() {
    let world = gateway("", &[""], "defaults: { budget: { write: 1s } }\n").await;
    world.sim(0).set(flood());
    let mut client = Http2::with_window(&world, 64 << 10).await;
    let answer = client.post(&chat("gpt-4o", true)).await.unwrap();
    waits_for_the_client(&world).await;
    eventually("streams", 0, || world.held().open_streams).await;
    assert_eq!(world.record().await.terminal, "cancelled");
    world.sim(0).set(Script::healthy());
    let other = client.post(&chat("gpt-4o", false)).await.unwrap();
    assert_eq!(other.status(), 200, "its connection serves on");
    drop((answer, other, client));
    world.everything_is_back().await;
    world.nobody_is_blamed();
}

/// Slow is not gone: who takes a large event bit by bit gets all of it, however long it takes in all.
#[tokio::test]
async fn a_client_that_reads_slowly_and_steadily_gets_everything() {
    let world = gateway("", &[""], "defaults: { budget: { write: 2s } }\n").await;
    let word = "y".repeat(400_000);
    world.sim(0).set(Script::answer(word.clone()));
    let mut client = Http2::with_window(&world, 64 << 10).await;
    let mut body = client.post(&chat("gpt-4o", true)).await.unwrap().into_body();
    let begun = Instant::now();
    let mut taken = Vec::new();
    while let Some(frame) = body.frame().await {
        taken.extend_from_slice(&frame.unwrap().into_data().unwrap());
        tokio::time::sleep(TICK * 3).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(2), "longer than a stall may last");
    let text = String::from_utf8(taken).unwrap();
    assert!(text.contains(&word) && text.ends_with("data: [DONE]\n\n"));
}

/// A provider that gives up on a stream which the client held up for long is not to blame.
#[tokio::test]
async fn a_stream_that_breaks_after_the_client_held_it_up_blames_nobody() {
    let world = gateway("", &[""], "").await;
    world.sim(0).set(flood());
    // Its small window is full at once, however busy this machine is.
    let mut client = Http2::with_window(&world, 64 << 10).await;
    let answer = client.post(&chat("gpt-4o", true)).await.unwrap();
    waits_for_the_client(&world).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.sim(0).close_connections();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let last = text.rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty()).unwrap();
    assert!(last.starts_with(b"data: {\"error\""), "{:?}", String::from_utf8_lossy(last));
    drop(client);
    world.everything_is_back().await;
    assert_eq!(world.record().await.terminal, "partial");
    world.nobody_is_blamed();
}
