//! Scenarios 15 and 16: an outage and its end, and what is counted.

use std::time::Duration;

use futures_util::future::{join, join_all};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::time::Instant;
use pointsman_provider_sim::Script;

use crate::route::{
    Extra, ask, ask_with_usage, assert_fallback_answered, assert_primary_answered, calls, world_where,
    world_with,
};
use crate::support::World;

const OUTAGE: u64 = 60;
const EVERY: usize = 4;

/// Puts the clock forward to this second after `begun`. The clock runs on meanwhile: each request has its time on the
/// schedule however long the one before it took.
fn advance_to(world: &World, begun: Instant, second: u64) {
    let at = begun.after(Duration::from_secs(second));
    assert!(world.clock.now() <= at, "the machine is too slow for the schedule");
    world.clock.advance(at.since(world.clock.now()));
}

/// A request every 4 s through a minute of outage and the time after it. The primary answers by this script while it is
/// down; without one nobody listens.
async fn outage_and_recovery(down: Option<Script>, offset: u64) {
    // Silence is noticed sooner than after the profile's 5 s, so that a request is over before the next one.
    let world = world_with(Extra { primary: ", budget: { first_token: 2s }", ..Extra::default() }).await;
    assert_primary_answered(&world.post(&ask(true)).await, "primary");
    world.sim(0).reset_counters();
    match &down {
        None => world.sim(0).kill().await.unwrap(),
        Some(script) => world.sim(0).set(script.clone()),
    }
    let begun = world.clock.now();
    for second in (offset..OUTAGE).step_by(EVERY) {
        advance_to(&world, begun, second);
        assert_fallback_answered(&world.post(&ask(second % 8 < 4)).await);
    }
    let reached = world.sim(0).calls();
    assert!(reached <= 8, "{down:?}: {reached} calls reached the primary while it was down");
    advance_to(&world, begun, OUTAGE);
    match down {
        None => world.sim(0).revive().await.unwrap(),
        Some(_) => world.sim(0).set(Script::healthy()),
    }
    let mut back = None;
    for second in (offset..OUTAGE + 48).step_by(EVERY).filter(|second| *second >= OUTAGE) {
        advance_to(&world, begun, second);
        let answer = world.post(&ask(second % 8 < 4)).await;
        if answer.header("x-pointsman-target") == Some("primary") {
            assert_primary_answered(&answer, "primary");
            back = back.or(Some(second));
        } else {
            assert_eq!(back, None, "once back, it stays back");
            assert_fallback_answered(&answer);
        }
    }
    let back = back.unwrap_or_else(|| panic!("{down:?}: never back on the primary"));
    assert!(back - OUTAGE <= 30, "{down:?}: back {} s after the recovery", back - OUTAGE);
    assert_eq!(world.domain("primary", DomainKind::Target).state, DomainState::Closed);
}

#[tokio::test]
async fn scenario_15_a_minute_of_refused_connections() {
    outage_and_recovery(None, 1).await;
}

#[tokio::test]
async fn scenario_15_a_minute_of_503() {
    for offset in [1, 3] {
        outage_and_recovery(Some(Script::openai_overloaded()), offset).await;
    }
}

#[tokio::test]
async fn scenario_15_a_minute_of_silence() {
    outage_and_recovery(Some(Script::silence()), 1).await;
}

/// The same where requests overlap, since silence lasts longer than the time between two: everything five times as fast,
/// on the real clock.
#[tokio::test]
async fn scenario_15_a_minute_of_silence_that_requests_overlap_in() {
    let fifth = |seconds: u64| Duration::from_millis(seconds * 200);
    let route = ", budget: { first_token: 1s }, breaker: { open_for: 6s, slow_start: 6s }, \
                 cooldown: { window: 24s, base: 12s }";
    let world = world_with(Extra { route, ..Extra::default() }).await;
    world.sim(0).set(Script::silence());
    let begun = tokio::time::Instant::now();
    let recovery = async {
        tokio::time::sleep_until(begun + fifth(OUTAGE)).await;
        let reached = world.sim(0).calls();
        world.sim(0).set(Script::healthy());
        reached
    };
    let requests = (0..OUTAGE + 32).step_by(EVERY).map(async |second| {
        tokio::time::sleep_until(begun + fifth(second)).await;
        let answer = world.post(&ask(second % 8 == 0)).await;
        let by_primary = answer.header("x-pointsman-target") == Some("primary");
        if by_primary {
            assert_primary_answered(&answer, "primary")
        } else {
            assert_fallback_answered(&answer)
        }
        by_primary
    });
    let (reached, by_primary) = join(recovery, join_all(requests)).await;
    assert!(reached <= 8, "{reached} calls reached the primary while it was down");
    // Those after the recovery were asked within 30 s of it.
    let (during, after) = by_primary.split_at(15);
    assert!(during.iter().all(|by_primary| !by_primary));
    assert!(after.iter().any(|by_primary| *by_primary), "not back within 30 s of the recovery");
}

/// The numbers of one metric by its labels, of all lines that begin with this name.
fn metric(text: &str, name: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    lines.map(|(labels, value)| (labels.to_owned(), value.parse().unwrap())).collect()
}

fn labelled(metrics: &[(&str, f64)]) -> Vec<(String, f64)> {
    metrics.iter().map(|(labels, value)| ((*labels).to_owned(), *value)).collect()
}

/// What is counted is the answer of the one that answered. Its price is 1 and 2 USD per million tokens, so that its cost
/// in millionths of a dollar is its input tokens and twice its output tokens.
#[tokio::test]
async fn scenario_16_only_the_one_that_answered_is_counted() {
    let models = "models: { gpt-4o: { price: { input: 100, output: 400 } }, deepseek-chat: { price: { input: 1, output: 2 } } }";
    let world = world_with(Extra { models, ..Extra::default() }).await;
    world.sim(0).set(Script::openai_overloaded());
    world.sim(1).set(Script::healthy().tokens(25));
    let answer = world.post(&ask_with_usage()).await;
    assert_fallback_answered(&answer);
    assert_eq!(calls(&world), (2, 1));
    assert!(answer.chunks().iter().all(|c| c["model"] == "deepseek-chat"), "{}", answer.text());

    let entry = world.entry(&answer);
    let usage = entry.usage.expect("usage");
    let told = answer.chunks().last().unwrap()["usage"].clone();
    assert_eq!((told["completion_tokens"].as_u64(), usage.output_tokens), (Some(25), 25));
    assert_eq!(told["prompt_tokens"].as_u64(), Some(usage.input_tokens));
    assert_eq!((entry.model.as_deref(), entry.target.as_deref()), (Some("deepseek-chat"), Some("fallback")));
    assert!(entry.substituted);
    assert_eq!(entry.cost_micro_usd, Some(usage.input_tokens + 2 * 25));
    let attempts: Vec<_> = entry.attempts.iter().map(|a| (a.target.as_str(), a.action, a.outcome)).collect();
    let expected = [
        ("primary", "primary", "failed"),
        ("primary", "retry", "failed"),
        ("fallback", "fallback", "succeeded"),
    ];
    assert_eq!(attempts, expected);

    let text = world.gateway.app().metrics.render(world.gateway.app());
    let requests = r#"{route="agent",dialect="chat",terminal="success",action="fallback"}"#;
    assert_eq!(metric(&text, "pointsman_requests_total"), labelled(&[(requests, 1.0)]));
    assert_eq!(
        metric(&text, "pointsman_success_after_failover_total"),
        labelled(&[(r#"{route="agent"}"#, 1.0)])
    );
    assert_eq!(metric(&text, "pointsman_success_raw_total"), []);
    let mut attempts = metric(&text, "pointsman_attempts_total");
    attempts.sort_by(|a, b| a.0.cmp(&b.0));
    let failed = r#"outcome="failed",kind="overloaded"}"#;
    let expected = [
        (r#"{target="fallback",action="fallback",outcome="succeeded",kind="none"}"#, 1.0),
        (&format!(r#"{{target="primary",action="primary",{failed}"#), 1.0),
        (&format!(r#"{{target="primary",action="retry",{failed}"#), 1.0),
    ];
    assert_eq!(attempts, labelled(&expected));
    let tokens = metric(&text, "pointsman_tokens_total");
    assert!(!tokens.is_empty() && tokens.iter().all(|(labels, _)| labels.contains(r#"target="fallback""#)));
    let output = r#"{model="deepseek-chat",target="fallback",kind="output"}"#.to_owned();
    assert!(tokens.contains(&(output, 25.0)), "{tokens:?}");
}

/// Tokens that came from a cache cost less and those that went into it more, where prices say so: 1 and 12 in place of 10.
#[tokio::test]
async fn scenario_16_what_came_from_a_cache_and_what_went_into_it_have_prices_of_their_own() {
    let models = "models: { gpt-4o: { price: { input: 10, output: 2, cache_read: 1, cache_write: 12 } }, deepseek-chat: {} }";
    let world = world_with(Extra { models, ..Extra::default() }).await;
    world.sim(0).set(Script::healthy().tokens(25).cached(40, 30));
    let answer = world.post(&ask_with_usage()).await;
    assert_primary_answered(&answer, "primary");
    let entry = world.entry(&answer);
    let usage = entry.usage.expect("usage");
    assert_eq!((usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens), (40, 30, 25));
    let rest = usage.input_tokens - 40 - 30;
    assert_eq!(entry.cost_micro_usd, Some(10 * rest + 40 + 12 * 30 + 2 * 25));
}

/// A request that nobody answers is no completion either.
#[tokio::test]
async fn scenario_16_a_request_that_nobody_answered_has_no_usage() {
    let world = world_where(Script::openai_overloaded()).await;
    world.sim(1).set(Script::openai_overloaded());
    let answer = world.post(&ask(false)).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    let entry = world.entry(&answer);
    assert_eq!((entry.usage, entry.cost_micro_usd), (None, None));
    assert_eq!((entry.terminal, entry.target.as_deref()), ("exhausted", None));
    assert!(entry.attempts.iter().all(|a| a.outcome == "failed"), "{:?}", entry.attempts);
    let text = world.gateway.app().metrics.render(world.gateway.app());
    assert_eq!(metric(&text, "pointsman_tokens_total"), []);
    assert_eq!(metric(&text, "pointsman_success_after_failover_total"), []);
}
