//! After commit nothing is switched: a break is told once, in the client's dialect, and no other target is called.

use std::time::Duration;

use pointsman_core::domain::DomainKind;
use pointsman_provider_sim::{BrokenEvent, Fault, Script};
use serde_json::{Value, json};

use crate::checks::{assert_broken_off, assert_whole_from, pair};
use crate::support::{Answer, World, chat};

/// The answer of `a` that breaks by this script, its last event, and the world that it happened in.
async fn broken(script: Script) -> (World, Answer, Value) {
    let world = pair("").await;
    world.sim(0).set(script);
    let answer = world.post(&chat("gpt-4o", true)).await;
    let last = assert_partial(&world, &answer);
    (world, answer, last)
}

fn assert_partial(world: &World, answer: &Answer) -> Value {
    let last = assert_broken_off(answer);
    assert_eq!(answer.header("x-pointsman-target"), Some("a"));
    assert_eq!(last["error"]["type"], "upstream_stream_error");
    assert_eq!(last["pointsman"]["terminal"], "partial");
    assert_eq!(last["pointsman"]["retryable"], true);
    assert_eq!(last["pointsman"]["attempts"][0]["failure"], "partial_stream");
    assert_eq!(last["pointsman"]["attempts"][0]["phase"], "committed");
    assert_eq!(answer.fingerprints(), ["fp_a"]);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
    let entry = world.entry(answer);
    assert_eq!((entry.terminal, entry.cause), ("partial", "broken_after_commit"));
    assert_eq!(entry.attempts.len(), 1);
    assert_eq!(entry.attempts[0].failure, Some("partial_stream"));
    assert_ne!(entry.attempts[0].outcome, "succeeded");
    assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 1);
    last
}

fn words(answer: &Answer) -> usize {
    answer.content().split(' ').count()
}

/// C001 (ii), C002: what had arrived is passed on, and the end is no success.
#[tokio::test]
async fn a_cut_connection() {
    let (_world, answer, _) = broken(Script::cut_after(40).tokens(60)).await;
    assert_eq!(words(&answer), 40);
    assert!(answer.content().starts_with("a answers as gpt-4o:"));
}

#[tokio::test]
async fn a_reset_connection() {
    broken(Script::reset_after(40).tokens(60).between_tokens(Duration::from_millis(1))).await;
}

/// C002: a clean end without a finish reason is half an answer.
#[tokio::test]
async fn a_clean_end_without_a_finish_reason() {
    let (_world, answer, _) = broken(Script::end_after(40).tokens(60)).await;
    assert_eq!(words(&answer), 40);
}

/// C001 (iii).
#[tokio::test]
async fn a_stall_past_the_idle_limit() {
    let (world, answer, _) = broken(Script::stall_after(20).tokens(60)).await;
    assert_eq!(words(&answer), 20);
    assert!(world.entry(&answer).duration_ms >= 600);
    // The upstream connection is closed, not left to itself.
    world.sim(0).wait_until(|sim| sim.active_requests() == 0).await.unwrap();
}

/// Heartbeats are bytes too, and no progress is asked of them once output has begun: idle means no event at all.
#[tokio::test]
async fn a_stall_under_heartbeats_ends_as_well() {
    let script = Script::stall_after(20).tokens(60).heartbeat(Duration::from_millis(30));
    let (_world, answer, _) = broken(script).await;
    assert_eq!(words(&answer), 20);
}

/// C030's kin: the provider's words reach the client, masked; its `[DONE]` after the error does not.
#[tokio::test]
async fn an_error_event() {
    let error = json!({"type": "overloaded_error", "message": "Overloaded, key sk-abcdefghijklmnopqrstuvwx"});
    for script in [Script::error_event_after(3, error.clone()), Script::error_then_done(3, error)] {
        let (_world, answer, last) = broken(script).await;
        assert_eq!(words(&answer), 3);
        let message = last["error"]["message"].as_str().unwrap();
        assert!(message.contains("Overloaded"), "{message}");
        assert!(!answer.text().contains("sk-abcdefghijkl"), "{message}");
    }
}

/// C016's kin: a tool call with a hole in it is worth nothing.
#[tokio::test]
async fn a_malformed_event_within_a_tool_call() {
    let script = Script::healthy().tool_call("get_weather", r#"{"city":"Reykjavik","unit":"celsius"}"#);
    let (_world, answer, _) =
        broken(script.fault(Fault::Malformed { after: 2, event: BrokenEvent::TruncatedJson })).await;
    assert!(answer.text().contains("get_weather"));
}

/// C016: half of a call stays half.
#[tokio::test]
async fn a_cut_within_a_tool_call() {
    let script = Script::healthy().tool_call("get_weather", r#"{"city":"Reykjavik","unit":"celsius"}"#);
    broken(script.fault(Fault::Cut { after: 2 })).await;
}

#[tokio::test]
async fn a_malformed_event_within_a_structured_answer() {
    let world = pair("").await;
    world.sim(0).set(Script::malformed_event_at(9).tokens(20));
    let mut request = chat("gpt-4o", true);
    request["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "r", "schema": {}}});
    let answer = world.post(&request).await;
    assert_partial(&world, &answer);
}

/// C001 (iv): in plain text the rest is worth more than one lost event; the loss is counted.
#[tokio::test]
async fn a_malformed_event_in_plain_text_is_dropped_and_counted() {
    for event in [BrokenEvent::TruncatedJson, BrokenEvent::InvalidUtf8] {
        let world = pair("").await;
        world.sim(0).set(Script::healthy().tokens(61).fault(Fault::Malformed { after: 9, event }));
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_whole_from(&answer, "a");
        assert_eq!(words(&answer), 60);
        let entry = world.entry(&answer);
        assert_eq!((entry.terminal, entry.malformed_events), ("success", 1));
        world.assert_untouched("a");
    }
}

/// WHATWG HTML, server-sent events: an event whose data is empty is not dispatched.
#[tokio::test]
async fn an_empty_event_is_nothing() {
    let world = pair("").await;
    world
        .sim(0)
        .set(Script::healthy().tokens(61).fault(Fault::Malformed { after: 9, event: BrokenEvent::Empty }));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!((words(&answer), world.entry(&answer).malformed_events), (60, 0));
}

/// C055's kin: the finish reason makes it complete; the client gets the end marker that was missing.
#[tokio::test]
async fn a_finished_stream_without_the_end_marker_is_complete() {
    let world = pair("").await;
    world.sim(0).set(Script::healthy().no_done());
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    let entry = world.entry(&answer);
    assert_eq!(entry.terminal, "success");
    assert!(entry.usage.is_some_and(|u| u.output_tokens > 0), "{:?}", entry.usage);
    world.assert_untouched("a");
}

/// C001: what is finished is not taken for stalled.
#[tokio::test]
async fn a_finished_stream_that_then_falls_silent_is_complete() {
    let world = pair("").await;
    world.sim(0).set(Script::unended());
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(world.entry(&answer).terminal, "success");
    world.sim(0).wait_until(|sim| sim.active_requests() == 0).await.unwrap();
    world.assert_untouched("a");
}

/// A length stop during reasoning, an immediate stop: an answer with a finish reason and no content is an answer.
#[tokio::test]
async fn a_finish_without_content_is_an_answer() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::healthy().empty_content_finish().finish("length"));
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("x-pointsman-target"), Some("a"));
        assert_eq!(answer.is_done_once(), stream);
        assert!(answer.text().contains(r#""finish_reason":"length""#), "{}", answer.text());
        assert_eq!(world.sim(1).calls(), 0);
    }
}

/// C064: a refusal that arrives as a completion is a success.
#[tokio::test]
async fn a_refusal_in_the_answer_is_an_answer() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::healthy().refusal("I cannot help with that.").finish("content_filter"));
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-pointsman-target"), Some("a"));
        assert_eq!(world.entry(&answer).terminal, "success");
        assert_eq!(world.sim(1).calls(), 0);
        world.assert_untouched("a");
    }
}
