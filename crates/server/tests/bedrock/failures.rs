//! What goes wrong, before and after the first output.

use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::{Fault, Script};
use serde_json::{Value, json};

use crate::asked::*;
use crate::checks::world_from;

/// A stream that ends in this failure after so many outputs.
fn broken_after(after: usize, event: Value) -> Script {
    Script::healthy().fault(Fault::Error { after, event, done: false, first: false })
}

#[tokio::test]
async fn a_throttled_or_broken_bedrock_fails_over_unseen() {
    for fault in [
        Script::status(429),
        Script::status(500),
        Script::status(503),
        Script::status(424),
        Script::status(408),
        Script::reset_before_headers(),
    ] {
        for client in [Client::Chat, Client::Messages] {
            for stream in [true, false] {
                let world = world(QUICK).await;
                world.sim(B).set(fault.clone());
                let answer = client.ask(&world, "shared", stream, &client.hello()).await;
                client.assert_answered_by(&answer, "o");
                assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
            }
        }
    }
}

#[tokio::test]
async fn an_overloaded_other_fails_over_to_bedrock_before_the_first_output() {
    let world = world(QUICK).await;
    for (sim, model) in [(A, "other"), (O, "another")] {
        world.sim(sim).set(Script::status(503));
        for client in CLIENTS {
            for stream in [true, false] {
                client.assert_answered_by(&client.ask(&world, model, stream, &client.hello()).await, "b");
            }
        }
    }
}

/// Each exception that a stream of Converse may begin with, and Bedrock's own failures.
#[tokio::test]
async fn an_exception_before_the_first_output_fails_over() {
    for kind in [
        "throttlingException",
        "modelStreamErrorException",
        "internalServerException",
        "serviceUnavailableException",
    ] {
        let world = world(QUICK).await;
        let error = json!({ "type": kind, "message": "boom", "originalStatusCode": 500 });
        world.sim(B).set(broken_after(0, error));
        let answer = Client::Chat.ask(&world, "shared", true, &Client::Chat.hello()).await;
        Client::Chat.assert_answered_by(&answer, "o");
        assert_eq!(answer.header("x-pointsman-action"), Some("failover"), "{kind}");
    }
}

#[tokio::test]
async fn after_the_first_output_a_break_is_said_once_in_every_dialect() {
    let exception = json!({ "type": "modelStreamErrorException", "message": "boom" });
    for fault in [
        Script::cut_after(3).tokens(9),
        broken_after(3, exception).tokens(9),
        broken_after(3, json!({ "type": "error", "message": "x" })).tokens(9),
        Script::healthy().tokens(9).finish("malformed_tool_use"),
    ] {
        let world = world("").await;
        world.sim(B).set(fault);
        for client in CLIENTS {
            let answer = client.ask(&world, "bedrock", true, &client.hello()).await;
            let told = client.told(&answer);
            let is_error = |event: &&Value| {
                event.get("error").is_some_and(|e| !e.is_null()) || event["type"] == "response.failed"
            };
            assert_eq!(told.iter().filter(is_error).count(), 1, "{client:?}: {}", answer.text());
            assert!(is_error(&told.last().unwrap()), "nothing follows it: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_stream_without_its_end_is_no_answer() {
    let world = world("").await;
    world.sim(B).set(Script::cut_after(0));
    let answer = Client::Chat.ask(&world, "shared", true, &Client::Chat.hello()).await;
    Client::Chat.assert_answered_by(&answer, "o");
}

#[tokio::test]
async fn a_refused_request_is_told_and_counts_against_nobody() {
    let world = world(QUICK).await;
    let refused = json!({ "message": "Input is too long for requested model." }).to_string();
    let script = Script::fixed(400, "application/json", refused)
        .header("x-amzn-errortype", "ValidationException:http://internal.amazon.com/coral/");
    world.sim(B).set(script);
    let answer = Client::Chat.ask(&world, "bedrock", false, &Client::Chat.hello()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    world.assert_untouched("only-b");
}

#[tokio::test]
async fn without_a_credential_the_target_is_to_blame_and_another_answers() {
    let targets = r#"
targets:
  b: { provider: bedrock, base_url: "<b>", region: us-east-1, model: m, upstream_model: m, aws_profile: of-nobody-at-all }
  o: { provider: openai, base_url: "<o>", model: m, api_key: sk-o, priority: 2 }
"#;
    let world = world_from(&["b", "o"], &format!("{targets}{QUICK}")).await;
    let answer = Client::Chat.ask(&world, "m", true, &Client::Chat.hello()).await;
    Client::Chat.assert_answered_by(&answer, "o");
    assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
    assert!(world.sim(0).received().is_empty(), "nothing was sent");
    // As with a key that is refused, two requests say for certain that it is the account.
    let second = Client::Messages.ask(&world, "m", true, &Client::Messages.hello()).await;
    Client::Messages.assert_answered_by(&second, "o");
    assert_eq!(world.domain("b", DomainKind::Account).state, DomainState::Isolated);
    let attempt = world.entry(&answer).attempts[0].clone();
    assert!(format!("{attempt:?}").contains("of-nobody-at-all"), "{attempt:?}");
}
