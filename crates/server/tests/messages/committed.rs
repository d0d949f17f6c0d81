//! After the first output nothing is switched: a break is told once, as `event: error`, and no other target is called.

use std::time::Duration;

use pointsman_core::domain::DomainKind;
use pointsman_provider_sim::{BrokenEvent, Fault, Script};
use pointsman_wire::grammar::Ending;
use serde_json::{Value, json};

use crate::line::{assert_complete_from, assert_ended_by_error, message, pair};
use crate::support::{Answer, World};

/// The answer of `a` that breaks by this script, its last event, and the world that it happened in.
async fn broken(script: Script) -> (World, Answer, Value) {
    let world = pair("").await;
    world.sim(0).set(script);
    let answer = world.ask(&message(true)).await;
    let last = assert_ended_by_error(&answer);
    assert_eq!(answer.header("x-pointsman-target"), Some("a"));
    assert_eq!(last["error"]["type"], "api_error");
    assert_eq!(last["pointsman"]["terminal"], "partial");
    assert_eq!(last["pointsman"]["attempts"][0]["failure"], "partial_stream");
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
    let entry = world.entry(&answer);
    assert_eq!((entry.terminal, entry.cause), ("partial", "broken_after_commit"));
    assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 1);
    (world, answer, last)
}

fn word_count(answer: &Answer) -> usize {
    answer.words().split_whitespace().count()
}

/// C001 (ii), C002, C016: what had arrived is passed on, and the end is no success.
#[tokio::test]
async fn a_connection_that_breaks() {
    let (_world, answer, _) = broken(Script::cut_after(40).tokens(60)).await;
    assert_eq!(word_count(&answer), 40);
    broken(Script::reset_after(40).tokens(60).between_tokens(Duration::from_millis(1))).await;
    let (_world, answer, _) = broken(Script::end_after(40).tokens(60)).await;
    assert_eq!(word_count(&answer), 40);
}

/// C001 (iii).
#[tokio::test]
async fn a_stall_past_the_idle_limit() {
    let (world, answer, _) = broken(Script::stall_after(20).tokens(60)).await;
    assert_eq!(word_count(&answer), 20);
    world.sim(0).wait_until(|sim| sim.active_requests() == 0).await.unwrap();
}

/// C030: the provider's words reach the client, masked, once.
#[tokio::test]
async fn an_error_event() {
    let error = json!({"type": "overloaded_error", "message": "Overloaded, key sk-abcdefghijklmnopqrstuvwx"});
    let (_world, answer, last) = broken(Script::error_event_after(3, error)).await;
    assert_eq!(word_count(&answer), 3);
    let said = last["error"]["message"].as_str().unwrap();
    assert!(said.contains("Overloaded") && !said.contains("sk-abc"), "{said}");
}

/// C016: half of a tool call stays half: nothing completes it, and nothing closes its block.
#[tokio::test]
async fn a_half_sent_tool_call() {
    let script = Script::cut_after(2).tool_call("pay", r#"{"amount":5,"to":"somebody with a long name"}"#);
    let (_world, answer, _) = broken(script).await;
    let events = answer.named_events();
    assert_eq!(events.iter().filter(|e| e.name == "content_block_start").count(), 1);
    assert_eq!(events.iter().filter(|e| e.name == "content_block_stop").count(), 0);
}

/// C001 (iv): in plain text one lost event is better than a lost answer; the record counts it.
#[tokio::test]
async fn a_malformed_event_in_plain_text_is_dropped() {
    let world = pair("").await;
    world.sim(0).set(Script::malformed_event_at(10).tokens(30));
    let answer = world.ask(&message(true)).await;
    assert_complete_from(&answer, "a");
    assert_eq!(word_count(&answer), 29);
    assert_eq!(world.entry(&answer).malformed_events, 1);
}

/// In a tool call's input a hole would change what is done.
#[tokio::test]
async fn a_malformed_event_in_a_tool_call_is_one_error() {
    let arguments = r#"{"amount":5,"to":"somebody with a long name","note":"for the points"}"#;
    let fault = Fault::Malformed { after: 2, event: BrokenEvent::default() };
    broken(Script::answer("").tool_call("pay", arguments).fault(fault)).await;
}

/// A complete answer whose `message_stop` never comes is complete all the same.
#[tokio::test]
async fn an_answer_that_lacks_only_its_end() {
    for script in [Script::healthy().no_done(), Script::unended()] {
        let world = pair("").await;
        world.sim(0).set(script);
        let answer = world.ask(&message(true)).await;
        assert_eq!(answer.ending(), Ending::Complete);
        assert_complete_from(&answer, "a");
        assert_eq!(world.entry(&answer).terminal, "success");
    }
}

#[tokio::test]
async fn however_a_provider_spells_its_stream_it_is_read() {
    let scripts = [
        Script::healthy().crlf(),
        Script::healthy().cr(),
        Script::healthy().bom(),
        Script::healthy().split_every_byte(),
        Script::healthy().no_space_after_colon(),
        Script::healthy().comments(),
    ];
    for script in scripts {
        let world = pair("").await;
        world.sim(0).set(script);
        assert_complete_from(&world.ask(&message(true)).await, "a");
        assert_eq!(world.sim(1).calls(), 0);
    }
}
