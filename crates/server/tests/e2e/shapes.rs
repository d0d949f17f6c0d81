//! How an answer is released: at once, after a proof of steadiness, whole; and plain answers that run as streams upstream.

use std::time::Duration;

use pointsman_core::domain::DomainKind;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::{alone, assert_broken_off, assert_whole_from, pair};
use crate::support::{World, chat};

/// What a sim was asked for last.
fn asked(world: &World, sim: usize) -> Value {
    serde_json::from_slice(&world.sim(sim).received().last().unwrap().body).unwrap()
}

// stream.hold

#[tokio::test]
async fn a_break_within_the_hold_is_invisible() {
    let world = pair("defaults: { stream: { hold: 40 } }").await;
    world.sim(0).set(Script::cut_after(4).tokens(60));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "b");
    assert_eq!(answer.header("x-pointsman-reason"), Some("a:bad_response>b"));
    assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 1);
}

#[tokio::test]
async fn a_break_after_the_hold_is_told() {
    let world = pair("defaults: { stream: { hold: 10 } }").await;
    world.sim(0).set(Script::cut_after(50).tokens(60));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_eq!(assert_broken_off(&answer)["pointsman"]["terminal"], "partial");
    assert_eq!(answer.content().split(' ').count(), 50, "nothing that was held is lost");
    assert_eq!(world.sim(1).calls(), 0);
}

#[tokio::test]
async fn an_answer_shorter_than_the_hold_comes_whole() {
    let world = pair("defaults: { stream: { hold: 5000 } }").await;
    assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "a");
}

/// A stall within the hold is the idle limit's, and as invisible as a break.
#[tokio::test]
async fn a_stall_within_the_hold_is_invisible() {
    let world = pair("defaults: { stream: { hold: 40 } }").await;
    world.sim(0).set(Script::stall_after(4).tokens(60).heartbeat(Duration::from_millis(30)));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "b");
    assert_eq!(answer.header("x-pointsman-reason"), Some("a:timeout>b"));
}

// stream.buffer

#[tokio::test]
async fn a_buffered_stream_fails_over_however_late_it_breaks() {
    let error = json!({"type": "server_error", "message": "boom"});
    let scripts = [
        Script::cut_after(40).tokens(60),
        Script::end_after(40).tokens(60),
        Script::malformed_event_at(40).tokens(60),
        Script::error_event_after(40, error).tokens(60),
        Script::stall_after(40).tokens(60),
    ];
    for script in scripts {
        let world = pair("defaults: { stream: { buffer: true } }").await;
        world.sim(0).set(script.clone());
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_whole_from(&answer, "b");
        assert_eq!(answer.header("x-pointsman-action"), Some("failover"), "{script:?}");
        assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 1, "{script:?}");
    }
}

#[tokio::test]
async fn a_buffered_stream_that_holds_comes_as_a_stream() {
    let world = pair("defaults: { stream: { buffer: true } }").await;
    world.sim(0).set(Script::healthy().tokens(30).no_done());
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(answer.content().split(' ').count(), 30);
    assert!(world.entry(&answer).usage.is_some());
}

/// Once the answer is finished a buffered stream waits for its end no longer than any other.
#[tokio::test]
async fn a_buffered_stream_that_finishes_without_ending_is_complete() {
    let world = alone("defaults: { stream: { buffer: true } }").await;
    world.sim(0).set(Script::unended());
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    world.assert_untouched("a");
}

// stream.gather

const INTERACTIVE: &str = "defaults: { profile: interactive }";

#[tokio::test]
async fn a_plain_answer_is_gathered_from_a_stream() {
    let world = pair(INTERACTIVE).await;
    let answer = world.post(&chat("gpt-4o", false)).await;
    assert_whole_from(&answer, "a");
    let sent = asked(&world, 0);
    assert_eq!(sent["stream"], true);
    assert_eq!(sent["stream_options"]["include_usage"], true);
    let body = answer.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["choices"][0]["message"]["role"], "assistant");
    assert_eq!(body["choices"][0]["index"], 0);
    let kept = world.entry(&answer).usage.unwrap();
    assert_eq!(body["usage"]["completion_tokens"], kept.output_tokens);
    assert_eq!(body["usage"]["prompt_tokens"], kept.input_tokens);
}

/// The gathered answer says what the plain one would have said.
#[tokio::test]
async fn a_gathered_answer_is_the_plain_one() {
    let scripts = [
        Script::answer("a answers: 北京👍\n\"x\""),
        Script::healthy().tool_call("get_weather", r#"{"city":"Oslo"}"#).tool_call("now", "{}"),
        Script::answer("a answers").reasoning("first this, then that", "reasoning_content"),
        Script::healthy().refusal("I cannot.").finish("content_filter"),
    ];
    for script in scripts {
        let mut seen = Vec::new();
        for rest in [INTERACTIVE, ""] {
            let world = pair(rest).await;
            world.sim(0).set(script.clone());
            let body = world.post(&chat("gpt-4o", false)).await.json();
            assert_eq!(asked(&world, 0)["stream"] == true, !rest.is_empty());
            let choice = &body["choices"][0];
            let message = &choice["message"];
            seen.push(json!({
                "id": body["id"], "model": body["model"], "finish": choice["finish_reason"],
                "content": message["content"], "tools": message["tool_calls"], "refusal": message["refusal"],
                "reasoning": message["reasoning_content"], "usage": body["usage"],
            }));
        }
        assert_eq!(seen[0], seen[1]);
    }
}

/// What gathering is for: a provider that hangs is noticed by the limit of the first output.
#[tokio::test]
async fn a_hung_provider_is_noticed_while_gathering() {
    let scripts = [Script::silence(), Script::role_only_then_silence().heartbeat(Duration::from_millis(30))];
    for script in scripts {
        let world = pair(INTERACTIVE).await;
        world.sim(0).set(script);
        let answer = world.post(&chat("gpt-4o", false)).await;
        assert_whole_from(&answer, "b");
        assert_eq!(answer.header("x-pointsman-reason"), Some("a:timeout>b"));
        assert!(world.entry(&answer).attempts[0].duration_ms < 10_000);
    }
}

#[tokio::test]
async fn a_gathered_stream_that_breaks_fails_over_however_late() {
    for script in [
        Script::cut_after(10).tokens(20),
        Script::stall_after(10).tokens(20),
        Script::end_after(10).tokens(20),
    ] {
        let world = pair(INTERACTIVE).await;
        world.sim(0).set(script);
        assert_whole_from(&world.post(&chat("gpt-4o", false)).await, "b");
    }
}

#[tokio::test]
async fn a_gathered_stream_that_finishes_without_ending_is_complete() {
    let world = alone(INTERACTIVE).await;
    world.sim(0).set(Script::unended());
    assert_whole_from(&world.post(&chat("gpt-4o", false)).await, "a");
    world.assert_untouched("a");
}

/// What a stream may not carry is asked for plainly.
#[tokio::test]
async fn what_a_stream_may_not_carry_is_not_gathered() {
    let wishes = [json!({"n": 2}), json!({"logprobs": true}), json!({"some_new_field": {"x": 1}})];
    for wish in wishes {
        let world = pair(INTERACTIVE).await;
        let mut request = chat("gpt-4o", false);
        request.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        assert_whole_from(&world.post(&request).await, "a");
        assert_ne!(asked(&world, 0)["stream"], true, "{wish}");
    }
}

// model mismatch

#[tokio::test]
async fn another_model_of_the_provider_is_noted() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::healthy().model("gpt-4o-mini-2024-07-18"));
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_whole_from(&answer, "a");
        assert!(answer.text().contains(r#""model":"gpt-4o-mini-2024-07-18""#), "the provider's own value");
        let entry = world.entry(&answer);
        assert_eq!(entry.model_mismatch.as_deref(), Some("gpt-4o-mini-2024-07-18"));
        world.assert_untouched("a");
    }
}

#[tokio::test]
async fn another_model_of_the_provider_is_refused_where_the_route_says_so() {
    for stream in [true, false] {
        let world = pair("defaults: { on_model_mismatch: reject }").await;
        world.sim(0).set(Script::healthy().model("gpt-4o-mini-2024-07-18"));
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_whole_from(&answer, "b");
        assert_eq!(answer.header("x-pointsman-reason"), Some("a:bad_response>b"));
        assert_eq!(world.entry(&answer).model_mismatch, None, "the one who answered is not to blame");
    }
}

#[tokio::test]
async fn a_dated_name_is_the_same_model() {
    let world = pair("defaults: { on_model_mismatch: reject }").await;
    world.sim(0).set(Script::healthy().model("gpt-4o-2024-08-06"));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(world.entry(&answer).model_mismatch, None);
}
