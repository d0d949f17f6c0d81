//! Scenarios 8 to 11: what happens after the primary's first output.

use std::time::{Duration, Instant};

use pointsman_core::domain::DomainKind;
use pointsman_provider_sim::Script;
use serde_json::Value;

use crate::checks::assert_broken_off;
use crate::route::{
    Extra, ask, ask_with_usage, assert_fallback_answered, assert_primary_answered, calls, world_where,
    world_with,
};
use crate::support::{Answer, World};

/// The profile waits 15 s for the next event; here the primary has less, so that a stall is seen soon.
const IDLE: &str = ", budget: { idle: 500ms }";

/// A primary that breaks off by this script; `route` is more of the route.
async fn world_that_breaks(script: Script, route: &str) -> World {
    let world = world_with(Extra { primary: IDLE, route, ..Extra::default() }).await;
    world.sim(0).set(script);
    world
}

fn words(answer: &Answer) -> usize {
    answer.content().split(' ').count()
}

/// The client has what came, one error and no end; nobody else was asked, and the record says so.
fn assert_told(world: &World, answer: &Answer) {
    let last = assert_broken_off(answer);
    assert_eq!(last["pointsman"]["terminal"], "partial");
    assert_eq!(answer.fingerprints(), ["fp_primary"]);
    assert_eq!(calls(world), (1, 0));
    let entry = world.entry(answer);
    assert_eq!((entry.terminal, entry.attempts.len()), ("partial", 1));
    assert_eq!(entry.attempts[0].failure, Some("partial_stream"));
    assert_eq!(world.domain("primary", DomainKind::Target).failures_in_a_row, 1);
}

/// Told where the beginning was released; whole where nothing was: with `stream.buffer`, and in a plain answer.
async fn told_or_whole(script: Script) {
    let world = world_that_breaks(script.clone(), "").await;
    let answer = world.post(&ask(true)).await;
    assert_told(&world, &answer);
    assert_eq!(words(&answer), 40, "what had arrived is passed on");
    for (route, stream) in [(", stream: { buffer: true }", true), ("", false)] {
        let world = world_that_breaks(script.clone(), route).await;
        assert_fallback_answered(&world.post(&ask(stream)).await);
        assert_eq!(calls(&world), (1, 1), "{route}");
    }
}

#[tokio::test]
async fn scenario_08_a_stream_that_is_cut_after_40_of_60_tokens() {
    told_or_whole(Script::cut_after(40).tokens(60)).await;
}

#[tokio::test]
async fn scenario_09_a_stream_that_stalls_after_40_of_60_tokens() {
    told_or_whole(Script::stall_after(40).tokens(60)).await;
}

#[tokio::test]
async fn scenario_10_a_malformed_tenth_event_in_plain_text_is_a_recorded_loss() {
    let world = world_where(Script::malformed_event_at(9).tokens(60)).await;
    let answer = world.post(&ask(true)).await;
    assert_primary_answered(&answer, "primary");
    assert_eq!(words(&answer), 59, "the rest arrives");
    assert_eq!(calls(&world), (1, 0));
    assert_eq!((world.entry(&answer).terminal, world.entry(&answer).malformed_events), ("success", 1));
    let metrics = world.gateway.app().metrics.render(world.gateway.app());
    assert!(metrics.contains(r#"pointsman_malformed_events_total{target="primary"} 1"#), "{metrics}");
    world.assert_untouched("primary");
    // Of a plain answer nothing is released yet: a whole one is to be had.
    assert_fallback_answered(&world.post(&ask(false)).await);
    assert_eq!(calls(&world), (2, 1));
}

#[tokio::test]
async fn scenario_10_a_malformed_tenth_event_in_a_tool_call_is_one_honest_error() {
    let arguments = format!(r#"{{"query":"{}"}}"#, "word ".repeat(40));
    let world = world_where(Script::malformed_event_at(9).tool_call("search", &arguments)).await;
    let answer = world.post(&ask(true)).await;
    assert!(answer.text().contains(r#""name":"search""#), "{}", answer.text());
    assert_told(&world, &answer);
    // Not one tool call too many: the fragments are one call's, and it is seen to be incomplete.
    let fragments = answer.chunks().into_iter();
    let calls =
        fragments.filter_map(|c| c["choices"][0]["delta"]["tool_calls"][0]["id"].as_str().map(str::len));
    assert_eq!(calls.count(), 1);
}

/// The usage that a stream's last chunk told.
fn told_usage(answer: &Answer) -> Value {
    let usages: Vec<Value> =
        answer.chunks().iter().map(|c| c["usage"].clone()).filter(Value::is_object).collect();
    assert_eq!(usages.len(), 1, "{}", answer.text());
    usages[0].clone()
}

#[tokio::test]
async fn scenario_11_a_stream_without_done_is_finalised_at_once_and_its_usage_kept() {
    let world = world_where(Script::healthy().tokens(60).no_done()).await;
    let begun = Instant::now();
    let answer = world.post(&ask_with_usage()).await;
    // The profile's idle limit, which nobody may have waited for, is 15 s.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_primary_answered(&answer, "primary");
    assert_eq!(words(&answer), 60);
    assert_eq!(calls(&world), (1, 0));
    let entry = world.entry(&answer);
    let kept = entry.usage.expect("usage is kept");
    let told = told_usage(&answer);
    assert_eq!((entry.terminal, kept.output_tokens), ("success", 60));
    assert_eq!(told["completion_tokens"], kept.output_tokens);
    assert_eq!(told["prompt_tokens"], kept.input_tokens);
    world.assert_untouched("primary");
    // One that leaves its connection open after the finish reason, too, is not waited for until that limit.
    world.sim(0).set(Script::unended());
    let begun = Instant::now();
    assert_primary_answered(&world.post(&ask(true)).await, "primary");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
