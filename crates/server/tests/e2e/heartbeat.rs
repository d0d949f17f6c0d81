//! The heartbeat: a stream that has not committed is kept alive, and still fails over without a trace.

use std::time::Duration;

use pointsman_provider_sim::{Fault, Script};

use crate::checks::{assert_broken_off, assert_whole_from, world_from};
use crate::support::{Answer, World, chat};

const TARGETS: &str = r#"
server: { listen: 127.0.0.1:0, keepalive: 100ms }
targets:
  a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-a, budget: { first_token: 600ms } }
  b: { provider: openai, base_url: "<b>", model: gpt-4o, api_key: sk-b }
"#;

async fn beating(rest: &str) -> World {
    world_from(&["a", "b"], &format!("{TARGETS}{rest}")).await
}

/// What went out before the first event: comment lines and nothing else.
fn heartbeats(answer: &Answer) -> usize {
    let text = answer.text();
    let before = text.split("data:").next().unwrap();
    assert!(before.lines().all(|line| line.is_empty() || line.starts_with(':')), "{before:?}");
    before.lines().filter(|line| line.starts_with(':')).count()
}

fn assert_opened_early(answer: &Answer) {
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-pointsman-early"), Some("true"));
    assert!(answer.header("x-request-id").is_some());
    for name in ["target", "model", "action", "attempts", "reason", "substituted"] {
        assert_eq!(answer.header(&format!("x-pointsman-{name}")), None, "not known yet");
    }
    assert!(heartbeats(answer) >= 1, "{}", answer.text());
}

/// C028, C029: heartbeats in the form that every SDK's parser skips, no commit by them, and then one whole answer.
#[tokio::test]
async fn a_silent_target_is_left_unseen_under_heartbeats() {
    let world = beating("").await;
    world.sim(0).set(Script::role_only_then_silence());
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_opened_early(&answer);
    assert_whole_from(&answer, "b");
    assert!(!answer.text().contains("\nid:") && !answer.text().contains("retry:"), "{}", answer.text());
    let chunks = answer.chunks();
    let told = &chunks[0]["pointsman"];
    assert_eq!(told["target"], "b");
    assert_eq!(told["model"], "gpt-4o");
    assert_eq!(told["action"], "failover");
    assert_eq!(told["attempts"], 2);
    assert_eq!(told["substituted"], false);
    assert_eq!(told["reason"], "a:timeout>b");
    assert_eq!(told["request_id"], answer.header("x-request-id").unwrap());
    assert!(chunks[1..].iter().all(|c| c.get("pointsman").is_none()), "once, on the first event");
    let entry = world.entry(&answer);
    assert!(entry.early);
    assert_eq!((entry.terminal, entry.target.as_deref()), ("success", Some("b")));
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 1));
}

/// C029, C036: once the stream is open an error has no status line left; it is one event, and never an empty 200.
#[tokio::test]
async fn a_failure_after_an_early_opening_is_one_error_event() {
    let world =
        beating("defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }")
            .await;
    world.sim(0).set(Script::role_only_then_silence());
    world.sim(1).set(Script::server_error(500));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_opened_early(&answer);
    let last = assert_broken_off(&answer);
    assert_eq!(answer.chunks().len(), 1);
    assert_eq!(last["pointsman"]["terminal"], "exhausted");
    assert_eq!(last["pointsman"]["retryable"], false);
    assert_eq!(last["pointsman"]["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(world.entry(&answer).terminal, "exhausted");
}

/// C036: the request's own fault, known only after the opening.
#[tokio::test]
async fn a_client_error_after_an_early_opening_keeps_its_words() {
    let world = beating("").await;
    world.sim(0).set(Script::role_only_then_silence());
    world.sim(1).set(Script::invalid_request("temperature"));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_opened_early(&answer);
    let last = assert_broken_off(&answer);
    assert_eq!(last["error"]["type"], "invalid_request_error");
    assert_eq!(last["error"]["code"], "invalid_value");
    assert_eq!(last["error"]["param"], "temperature");
    assert_eq!(last["pointsman"]["terminal"], "rejected");
    assert_eq!(last["pointsman"]["retryable"], false);
}

#[tokio::test]
async fn a_deadline_after_an_early_opening_says_so() {
    let world = beating("defaults: { budget: { deadline: 700ms, min_attempt: 300ms } }").await;
    world.sim(0).set(Script::role_only_then_silence());
    world.sim(1).set(Script::role_only_then_silence());
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_opened_early(&answer);
    let last = assert_broken_off(&answer);
    assert_eq!(last["error"]["type"], "timeout");
    assert_eq!(last["pointsman"]["terminal"], "deadline");
}

/// After commit too: a pause of the provider is bridged by comments, which change nothing in the answer.
#[tokio::test]
async fn a_pause_between_events_is_bridged() {
    let world = beating("").await;
    let pause = Fault::Pause { after: 3, lasting: Duration::from_millis(450) };
    world.sim(0).set(Script::healthy().tokens(10).fault(pause));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(answer.header("x-pointsman-early"), None);
    assert!(answer.text().lines().filter(|l| l.starts_with(':')).count() >= 1, "{}", answer.text());
}

/// Our own heartbeats are no events either: a stall under them still ends when the idle limit says so.
#[tokio::test]
async fn a_stall_ends_though_the_client_gets_heartbeats() {
    let world = beating("defaults: { budget: { idle: 450ms } }").await;
    for provider_beats in [Duration::ZERO, Duration::from_millis(30)] {
        world.sim(0).set(Script::stall_after(3).tokens(10).heartbeat(provider_beats));
        let answer = world.post(&chat("gpt-4o", true)).await;
        let last = assert_broken_off(&answer);
        assert_eq!(last["pointsman"]["terminal"], "partial");
        let beats = answer.text().lines().filter(|l| l.starts_with(':')).count();
        assert!((1..=4).contains(&beats), "the provider's own comments stay away: {}", answer.text());
    }
}

/// Nothing goes out early to a client that wants a plain answer.
#[tokio::test]
async fn a_plain_answer_has_no_heartbeat() {
    let world = beating("").await;
    world.sim(0).set(Script::healthy().delay_headers(Duration::from_millis(450)));
    let answer = world.post(&chat("gpt-4o", false)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(answer.header("x-pointsman-early"), None);
    assert_eq!(answer.header("x-pointsman-target"), Some("a"));
}
