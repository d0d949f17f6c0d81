//! Outages as requests see them: breakers, half-open, last resort, retries; and what clients cannot do to them.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join_all, select};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::Script;
use serde_json::json;

use crate::checks::{alone, assert_whole_from, pair, world_from};
use crate::support::chat;

/// C025, C002: a stream that ends at once counts like any failure; three in a row open the breaker.
#[tokio::test]
async fn a_target_that_ends_every_stream_at_once_is_left_alone() {
    let world = pair("").await;
    world.sim(0).set(Script::end_after(0));
    for _ in 0..6 {
        assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "b");
        // Failures closer together than 100 ms count as one.
        world.clock.advance(Duration::from_millis(150));
    }
    assert_eq!(world.sim(0).calls(), 3);
    assert_eq!(world.domain("a", DomainKind::Target).state, DomainState::Open);
}

/// C103: at the instant that the open time ends a stampede sends one probe, and nobody else waits for it.
#[tokio::test]
async fn a_stampede_at_half_open_sends_one_probe() {
    let world = pair("defaults: { breaker: { failures: 1, open_for: 30s, probes: 1 } }").await;
    world.sim(0).set(Script::silence());
    assert_whole_from(&world.post(&chat("gpt-4o", false)).await, "b");
    assert_eq!(world.domain("a", DomainKind::Target).state, DomainState::Open);
    world.clock.advance(Duration::from_secs(30));
    let request = chat("gpt-4o", false);
    let answers = join_all((0..200).map(|_| world.post(&request))).await;
    let mut waited = 0;
    for answer in &answers {
        assert_whole_from(answer, "b");
        waited += usize::from(answer.header("x-pointsman-attempts") != Some("1"));
    }
    assert_eq!(waited, 1, "the probe itself, which fails over");
    assert_eq!(world.sim(0).calls(), 2);
    assert_eq!(world.domain("a", DomainKind::Target).state, DomainState::Open);
}

/// The way back: probes succeed, the breaker closes.
#[tokio::test]
async fn probes_that_succeed_bring_a_target_back() {
    let world =
        pair("defaults: { breaker: { failures: 1, open_for: 30s, probes: 2, probe_successes: 2 } }").await;
    world.sim(0).enqueue([Script::server_error(500)]);
    assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "b");
    assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "b");
    assert_eq!(world.sim(0).calls(), 1, "open: no call");
    world.clock.advance(Duration::from_secs(30));
    for state in [DomainState::HalfOpen, DomainState::Closed] {
        assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "a");
        assert_eq!(world.domain("a", DomainKind::Target).state, state);
    }
}

/// C015: one error of the only target does not make the model dark.
#[tokio::test]
async fn the_only_target_is_asked_again_after_an_error() {
    let world = alone("defaults: { budget: { max_same_target_attempts: 1 } }\n").await;
    world.sim(0).enqueue([Script::server_error(500)]);
    assert_eq!(world.post(&chat("gpt-4o", true)).await.status, 503);
    assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "a");
}

/// C015: a limit is waited for where that is short.
#[tokio::test]
async fn the_only_target_is_waited_for_after_a_rate_limit() {
    let world = alone("throttle: { initial: 400ms }\n").await;
    world.sim(0).enqueue([Script::rate_limit(pointsman_provider_sim::Guidance::Absent)]);
    assert_eq!(world.post(&chat("gpt-4o", true)).await.status, 429);
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(answer.header("x-pointsman-action"), Some("primary"));
}

/// C015: with its breaker open the only target is probed early rather than not at all.
#[tokio::test]
async fn the_only_target_is_probed_early_as_a_last_resort() {
    let world = alone(
        "defaults: { breaker: { failures: 1, open_for: 10m }, budget: { max_same_target_attempts: 1 } }\n",
    )
    .await;
    world.sim(0).enqueue([Script::server_error(500)]);
    assert_eq!(world.post(&chat("gpt-4o", true)).await.status, 503);
    assert_eq!(world.domain("a", DomainKind::Target).state, DomainState::Open);
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert!(
        world.entry(&answer).duration_ms < 2_000 + 3_000,
        "within 2 s of its recovery, and a busy machine's while"
    );
}

/// Two probes hang at a provider that had been silent: the hasty one makes room for whoever comes after the recovery, long
/// before `first_token` (30 s) is over.
#[tokio::test]
async fn the_only_target_is_back_within_two_seconds_of_a_silence() {
    let world =
        alone("defaults: { breaker: { failures: 1, open_for: 10m }, retry: { base: 1ms, max: 2ms } }\n")
            .await;
    for _ in 0..5 {
        // What is usual must be known.
        assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "a");
    }
    world.sim(0).set(Script::server_error(500));
    assert_eq!(world.post(&chat("gpt-4o", true)).await.status, 503);
    world.sim(0).set(Script::silence());
    let calls = world.sim(0).calls();
    let request = chat("gpt-4o", true);
    let (one, other) = (pin!(world.post(&request)), pin!(world.post(&request)));
    let first_to_end = select(one, other);
    let recovery = async {
        world.sim(0).wait_until(|sim| sim.calls() == calls + 2).await.expect("both probes hang");
        world.sim(0).set(Script::default());
        world.post(&request).await
    };
    let (cut, answer) = tokio::join!(first_to_end, recovery);
    assert_eq!(cut.factor_first().0.status, 504, "the hasty probe");
    assert_whole_from(&answer, "a");
    assert!(
        world.entry(&answer).duration_ms < 2_000 + 3_000,
        "within 2 s of its recovery, and a busy machine's while"
    );
    assert_eq!(world.domain("a", DomainKind::Target).state, DomainState::HalfOpen);
    assert_whole_from(&world.post(&request).await, "a");
    assert_eq!(world.domain("a", DomainKind::Target).state, DomainState::Closed);
}

/// C007: one owner of retries, who counts them.
#[tokio::test]
async fn retries_are_counted_once() {
    for (same, most, calls) in [(1, 4, 1), (2, 4, 2), (3, 4, 3), (4, 4, 4), (1, 1, 1)] {
        let budget = format!("max_same_target_attempts: {same}, max_attempts: {most}");
        let health = "breaker: { failures: 100 }, retry: { base: 1ms, max: 2ms }";
        let world = alone(&format!("defaults: {{ budget: {{ {budget} }}, {health} }}\n")).await;
        world.sim(0).set(Script::server_error(500));
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_eq!(answer.status, 503);
        assert_eq!(world.sim(0).calls(), calls, "{budget}");
        assert_eq!(answer.json()["pointsman"]["attempts"].as_array().unwrap().len() as u64, calls);
    }
}

/// A request that says of itself that it is a retry is not retried on top.
#[tokio::test]
async fn an_sdks_retry_is_not_retried_again() {
    let world = alone("defaults: { retry: { base: 1ms, max: 2ms } }\n").await;
    world.sim(0).set(Script::server_error(500));
    let headers = [("x-stainless-retry-count", "1")];
    assert_eq!(world.post_with(&chat("gpt-4o", true), &headers).await.status, 503);
    assert_eq!(world.sim(0).calls(), 1);
}

/// C104: an error as first event is one attempt like any other, of the same budget.
#[tokio::test]
async fn an_overload_told_in_the_stream_is_retried_within_the_same_budget() {
    let overloaded = json!({"type": "overloaded_error", "message": "Overloaded"});
    let world = alone("defaults: { retry: { base: 1ms, max: 2ms } }\n").await;
    world.sim(0).enqueue([Script::error_event_first(overloaded.clone())]);
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(answer.header("x-pointsman-action"), Some("retry"));
    assert_eq!(world.sim(0).calls(), 2);

    world.sim(0).set(Script::error_event_first(overloaded));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.error()["code"], "server_is_overloaded");
    assert_eq!(world.sim(0).calls(), 4);
}

/// C065: a 529 ends as what an OpenAI client understands.
#[tokio::test]
async fn a_529_that_stays_is_a_503_for_the_client() {
    let world = alone("defaults: { retry: { base: 1ms, max: 2ms } }\n").await;
    world.sim(0).set(Script::anthropic_style_529());
    for stream in [true, false] {
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(answer.error()["type"], "service_unavailable_error");
        assert_eq!(answer.error()["code"], "server_is_overloaded");
    }
}

/// C013: no client can put a target out of service by being impatient.
#[tokio::test]
async fn a_tiny_deadline_of_a_caller_harms_no_target() {
    let world = alone("defaults: { budget: { min_attempt: 10ms } }\n").await;
    world.sim(0).set(Script::healthy().delay_headers(Duration::from_secs(5)));
    for round in 0..10 {
        let headers = [("x-pointsman-deadline-ms", "60")];
        let answer = world.post_with(&chat("gpt-4o", round % 2 == 0), &headers).await;
        assert_eq!(answer.status, 504, "{}", answer.text());
        assert_eq!(answer.error()["code"], "timeout");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(answer.json()["pointsman"]["terminal"], "deadline", "{}", answer.text());
        world.clock.advance(Duration::from_millis(150));
    }
    assert!(world.sim(0).calls() > 0, "attempts were made");
    world.assert_untouched("a");
    world.sim(0).set(Script::healthy());
    assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "a");
}

/// C013: nor is an attempt begun for which no time is left.
#[tokio::test]
async fn nothing_is_sent_when_no_time_is_left() {
    let world = alone("").await;
    let headers = [("x-pointsman-deadline-ms", "50")];
    let answer = world.post_with(&chat("gpt-4o", true), &headers).await;
    assert_eq!(answer.status, 504);
    assert_eq!(world.sim(0).calls(), 0);
    assert_eq!(answer.json()["pointsman"]["attempts"], json!([]));
}

/// Kills hold: a killed target gets nothing, not even as a last resort.
#[tokio::test]
async fn a_killed_target_gets_nothing() {
    let world = pair("").await;
    world.gateway.app().with_fleet(|fleet| assert!(fleet.set_killed("a", true)));
    assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "b");
    world.gateway.app().with_fleet(|fleet| assert!(fleet.set_killed("b", true)));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_eq!(answer.status, 503);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (0, 1));
}

/// An endpoint that refuses connections is one domain: all of its targets are left at once.
#[tokio::test]
async fn targets_of_a_dead_endpoint_share_its_breaker() {
    let yaml = r#"
targets:
  a1: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-1 }
  a2: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-2 }
  b: { provider: openai, base_url: "<b>", model: gpt-4o, api_key: sk-b }
defaults: { breaker: { failures: 1 } }
"#;
    let world = world_from(&["a", "b"], yaml).await;
    world.sim(0).kill().await.unwrap();
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "b");
    assert_eq!(answer.header("x-pointsman-reason"), Some("a1:connect>b"));
}
