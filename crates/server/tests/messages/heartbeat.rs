//! The heartbeat in Messages: a comment before `message_start`, `event: ping` after it; and who answered, inside
//! `message_start`, when the headers went out before that was known.

use std::time::Duration;

use pointsman_provider_sim::{Fault, Script};
use pointsman_wire::grammar::Ending;

use crate::checks::world_from;
use crate::line::{assert_complete_from, assert_ended_by_error, message};
use crate::support::{Answer, World};

const TARGETS: &str = r#"
server: { listen: 127.0.0.1:0, keepalive: 100ms }
targets:
  a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: sk-a, budget: { first_token: 600ms } }
  b: { provider: anthropic, base_url: "<b>", model: claude-opus-5-5, api_key: sk-b }
"#;

async fn beating(rest: &str) -> World {
    world_from(&["a", "b"], &format!("{TARGETS}{rest}")).await
}

/// C028: before `message_start` nothing goes out but comments, which every parser skips.
fn assert_opened_early(answer: &Answer) {
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-pointsman-early"), Some("true"));
    assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
    assert_eq!(answer.header("x-pointsman-target"), None, "not known yet");
    let text = answer.text();
    let before = text.split("event:").next().unwrap();
    assert!(before.starts_with(':'), "{text}");
    assert!(before.lines().all(|line| line.is_empty() || line.starts_with(':')), "{before:?}");
}

/// C029: a silent target is still left unseen under heartbeats.
#[tokio::test]
async fn who_answered_stands_in_message_start_after_an_early_opening() {
    let world = beating("").await;
    world.sim(0).set(Script::role_only_then_silence());
    let answer = world.ask(&message(true)).await;
    assert_opened_early(&answer);
    assert_complete_from(&answer, "b");
    let events = answer.named_events();
    let told = &events[0].data["message"]["pointsman"];
    assert_eq!(told["target"], "b");
    assert_eq!(told["action"], "failover");
    assert_eq!(told["attempts"], 2);
    assert_eq!(told["substituted"], false);
    assert_eq!(told["reason"], "a:timeout>b");
    assert_eq!(told["request_id"], answer.header("request-id").unwrap());
    assert_eq!(answer.text().matches("\"pointsman\"").count(), 1, "once, in the first event");
    assert!(world.entry(&answer).early);
}

/// C029, C036: once the stream is open an error is its one event, and never an empty 200.
#[tokio::test]
async fn a_failure_after_an_early_opening_is_one_error_event() {
    let world =
        beating("defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }")
            .await;
    world.sim(0).set(Script::role_only_then_silence());
    world.sim(1).set(Script::anthropic_overloaded());
    let answer = world.ask(&message(true)).await;
    assert_opened_early(&answer);
    let last = assert_ended_by_error(&answer);
    assert_eq!(answer.named_events().len(), 1, "no message_start of a failed target");
    assert_eq!(last["pointsman"]["terminal"], "exhausted");
    assert_eq!(last["pointsman"]["retryable"], false);
}

/// C036: the request's own fault, known only after the opening, keeps the provider's words.
#[tokio::test]
async fn a_client_error_after_an_early_opening_keeps_its_words() {
    let world = beating("").await;
    world.sim(0).set(Script::role_only_then_silence());
    let said = "max_tokens: must be at least 1";
    world.sim(1).set(Script::anthropic_error(400, "invalid_request_error", said, None));
    let answer = world.ask(&message(true)).await;
    assert_opened_early(&answer);
    let last = assert_ended_by_error(&answer);
    assert_eq!(last["error"]["type"], "invalid_request_error");
    assert_eq!(last["error"]["message"], said);
    assert_eq!(last["pointsman"]["terminal"], "rejected");
}

/// C028: after it the dialect has an event of its own for that.
#[tokio::test]
async fn a_pause_after_message_start_is_bridged_by_pings() {
    let world = beating("").await;
    let pause = Fault::Pause { after: 3, lasting: Duration::from_millis(450) };
    world.sim(0).set(Script::healthy().tokens(10).fault(pause));
    let answer = world.ask(&message(true)).await;
    assert_eq!(answer.ending(), Ending::Complete);
    assert_complete_from(&answer, "a");
    assert!(!answer.text().contains("\n:") && !answer.text().starts_with(':'), "{}", answer.text());
    // The provider's own ping stands behind message_start.
    let ours = answer.named_events().iter().skip(2).filter(|e| e.name == "ping").count();
    assert!(ours >= 1, "{}", answer.text());
}
