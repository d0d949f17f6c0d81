//! Failover before the first output is invisible: whatever the first target does until then, the client gets one
//! complete message of the second.

use std::time::Duration;

use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::{Fault, Script};
use serde_json::json;

use crate::line::{asked_directly, assert_complete_from, message, pair};
use crate::support::{Answer, World};

fn assert_failed_over(world: &World, answer: &Answer, kind: &str, calls: u64) {
    assert_complete_from(answer, "b");
    assert_eq!(answer.header("x-pointsman-target"), Some("b"));
    assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
    assert_eq!(answer.header("x-pointsman-attempts"), Some("2"));
    assert_eq!(answer.header("x-pointsman-reason"), Some(format!("a:{kind}>b").as_str()));
    assert_eq!(answer.header("x-pointsman-substituted"), None);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (calls, 1));
    let entry = world.entry(answer);
    assert_eq!((entry.dialect, entry.terminal, entry.target.as_deref()), ("messages", "success", Some("b")));
    let failures: Vec<_> = entry.attempts.iter().map(|a| a.failure).collect();
    assert_eq!(failures, [Some(kind), None]);
    world.assert_untouched("b");
}

/// A stream, then a plain answer, each in a world of its own.
async fn invisible(script: Script, kind: &str) {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(script.clone());
        let answer = world.ask(&message(stream)).await;
        assert_failed_over(&world, &answer, kind, 1);
    }
}

/// C102: nothing is written anew on the way back either.
#[tokio::test]
async fn a_healthy_answer_is_the_providers_byte_for_byte() {
    for stream in [false, true] {
        let (through, direct) = (pair("").await, pair("").await);
        let script = Script::answer("zwölf Boxkämpfer — ✓ 🚂").reasoning("one two", "thinking");
        through.sim(0).set(script.clone());
        direct.sim(0).set(script);
        let answer = through.ask(&message(stream)).await;
        assert_eq!(answer.body, asked_directly(direct.sim(0), &message(stream)).await);
        assert_eq!(answer.header("x-pointsman-target"), Some("a"));
        assert_eq!(answer.header("x-pointsman-action"), Some("primary"));
        assert_eq!(answer.header("x-pointsman-attempts"), Some("1"));
        assert!(
            answer.header("x-pointsman-upstream-request-id").is_some_and(|id| id.starts_with("req_sim_"))
        );
    }
}

#[tokio::test]
async fn a_healthy_primary_answers_in_good_order() {
    let world = pair("").await;
    for stream in [false, true] {
        assert_complete_from(&world.ask(&message(stream)).await, "a");
    }
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (2, 0));
}

#[tokio::test]
async fn a_provider_that_is_not_there() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).kill().await.unwrap();
        let answer = world.ask(&message(stream)).await;
        assert_failed_over(&world, &answer, "connect", 0);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_before_an_answer() {
    invisible(Script::reset_before_headers(), "connect").await;
    invisible(Script::close_after_read(), "connect").await;
}

/// C003.
#[tokio::test]
async fn silence_past_the_limit() {
    invisible(Script::silence(), "timeout").await;
}

/// C065: 529 is Anthropic's own word for load.
#[tokio::test]
async fn an_error_status() {
    invisible(Script::anthropic_overloaded(), "overloaded").await;
    invisible(Script::anthropic_api_error(), "server_error").await;
    invisible(Script::cdn_html(502), "server_error").await;
    invisible(Script::status(504), "timeout").await;
    let refused = Script::anthropic_error(401, "authentication_error", "invalid x-api-key", None);
    invisible(refused, "auth").await;
}

/// C008: nobody waits for it while another has room.
#[tokio::test]
async fn a_rate_limit_throttles_and_goes_elsewhere() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::anthropic_rate_limit(47));
        let answer = world.ask(&message(stream)).await;
        assert_failed_over(&world, &answer, "rate_limit", 1);
        assert_eq!(world.domain("a", DomainKind::Rate).state, DomainState::Throttled);
        let due = world.due_in("a", DomainKind::Rate);
        assert!((Duration::from_secs(30)..=Duration::from_secs(48)).contains(&due), "{due:?}");
    }
}

/// C011: a spent account comes as a 400, and as a 429 that waiting does not help; neither is the request's fault.
#[tokio::test]
async fn a_spent_account_is_isolated_whatever_its_status() {
    for script in [Script::anthropic_credit_balance(), Script::anthropic_spend_limit()] {
        for stream in [true, false] {
            let world = pair("").await;
            world.sim(0).set(script.clone());
            let answer = world.ask(&message(stream)).await;
            assert_failed_over(&world, &answer, "quota_exhausted", 1);
            assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Isolated);
            // The next request does not pay for it again.
            assert_complete_from(&world.ask(&message(stream)).await, "b");
            assert_eq!(world.sim(0).calls(), 1);
        }
    }
}

/// C030: 200, then `event: error`. It is what a 529 is, not a success.
#[tokio::test]
async fn an_error_event_in_place_of_output() {
    let overloaded = json!({"type": "overloaded_error", "message": "Overloaded"});
    let failure = json!({"type": "api_error", "message": "Internal server error"});
    invisible(Script::error_event_first(overloaded.clone()), "overloaded").await;
    invisible(Script::error_event_after(0, overloaded), "overloaded").await;
    invisible(Script::error_event_after(0, failure), "server_error").await;
}

/// C004's kin: `message_start` is no output, and the quota is the account's.
#[tokio::test]
async fn a_quota_error_after_message_start() {
    for stream in [true, false] {
        let world = pair("").await;
        let error = json!({
            "type": "rate_limit_error", "message": "m", "details": {"error_code": "enforced_spend_limit_reached"},
        });
        world.sim(0).set(Script::error_event_after(0, error));
        let answer = world.ask(&message(stream)).await;
        assert_failed_over(&world, &answer, "quota_exhausted", 1);
        assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Isolated);
    }
}

/// C016, C019: `message_start` and pings are no progress, and nothing of them is left in the answer.
#[tokio::test]
async fn message_start_and_pings_and_then_nothing() {
    invisible(Script::role_only_then_silence(), "timeout").await;
    invisible(Script::role_only_then_silence().heartbeat(Duration::from_millis(20)), "timeout").await;
    invisible(Script::heartbeats_only(Duration::from_millis(20)), "timeout").await;
}

/// C001 (i).
#[tokio::test]
async fn a_stream_that_breaks_before_its_first_output() {
    for script in [Script::cut_after(0), Script::reset_after(0), Script::end_after(0)] {
        invisible(script, "bad_response").await;
    }
}

#[tokio::test]
async fn an_answer_that_is_none() {
    for script in [
        Script::healthy().html(),
        Script::healthy().empty_body(),
        Script::healthy().choices_empty(),
        Script::malformed_event_at(0),
    ] {
        invisible(script, "bad_response").await;
    }
}

/// A tool call is output: once its block has begun there is no way back, and before it there is.
#[tokio::test]
async fn a_tool_call_survives_failover_exactly_once() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::cut_after(0).tool_call("pay", r#"{"amount":5}"#));
        world.sim(1).set(Script::healthy().tool_call("pay", r#"{"amount":5}"#));
        let answer = world.ask(&message(stream)).await;
        assert_eq!(answer.header("x-pointsman-target"), Some("b"), "{}", answer.text());
        assert_eq!(tool_blocks(&answer), 1, "{}", answer.text());
    }
}

fn tool_blocks(answer: &Answer) -> usize {
    if !answer.is_stream() {
        let content = answer.json()["content"].clone();
        return content.as_array().unwrap().iter().filter(|block| block["type"] == "tool_use").count();
    }
    answer.named_events().iter().filter(|e| e.data["content_block"]["type"] == "tool_use").count()
}

/// C019: thinking is output; a model that thinks first is not taken for a silent one.
#[tokio::test]
async fn thinking_is_progress() {
    let world = pair("").await;
    let script = Script::answer("a answers late").reasoning("one two three", "thinking");
    world.sim(0).set(script.fault(Fault::Pause { after: 1, lasting: Duration::from_millis(150) }));
    assert_complete_from(&world.ask(&message(true)).await, "a");
}

/// In the profile `interactive` a plain answer is gathered from a stream, and is the message that a plain call gives.
#[tokio::test]
async fn a_gathered_message_is_the_plain_one() {
    let yaml = "routes: { chatty: { models: [claude-opus-5-5], profile: interactive } }\n";
    let scripts = [
        Script::healthy(),
        Script::answer("zwölf Boxkämpfer").reasoning("one two three", "thinking"),
        Script::answer("").tool_call("get_weather", r#"{"city":"Paris","days":[1,2]}"#),
    ];
    for script in scripts {
        let (world, direct) = (pair(yaml).await, pair("").await);
        world.sim(0).set(script.clone());
        direct.sim(0).set(script);
        let mut body = message(false);
        body["model"] = json!("chatty");
        let answer = world.ask(&body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(world.sim(0).received()[0].stream, "asked for as a stream");
        let plain: serde_json::Value =
            serde_json::from_slice(&asked_directly(direct.sim(0), &message(false)).await).unwrap();
        assert_eq!(answer.json(), plain);
    }
}
