//! The table of errors in Anthropic's words, row by row: status, type, and what an SDK is told of coming back.

use bytes::Bytes;
use pointsman_provider_sim::Script;
use serde_json::json;

use crate::checks::world_from;
use crate::line::{QUICK, VERSION, alone, assert_complete_from, hash, message, pair};
use crate::support::{Answer, World};

/// One row: status, type, `x-should-retry`, and between which seconds `retry-after` lies.
#[derive(Clone, Copy)]
struct Row(u16, &'static str, Option<&'static str>, Option<(u64, u64)>);

/// C061: Anthropic's envelope and nothing of another dialect's.
fn assert_row(answer: &Answer, Row(status, kind, should_retry, retry_after): Row) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!(kind)), "{text}");
    let mut keys: Vec<&str> = body["error"].as_object().unwrap().keys().map(String::as_str).collect();
    keys.retain(|key| *key != "details");
    keys.sort_unstable();
    assert_eq!(keys, ["message", "type"], "{text}");
    assert!(body["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{text}");
    assert!(!text.contains("None"), "{text}");
    let id = answer.header("request-id").expect("the id where Anthropic's SDKs look for it");
    assert_eq!(answer.header("x-request-id"), Some(id));
    assert_eq!((&body["request_id"], &body["pointsman"]["request_id"]), (&json!(id), &json!(id)), "{text}");
    for key in ["terminal", "reason"] {
        assert!(body["pointsman"][key].is_string(), "{text}");
    }
    assert_eq!(answer.header("x-should-retry"), should_retry, "{text}");
    let after = answer.header("retry-after").map(|v| v.parse::<u64>().unwrap());
    match (after, retry_after) {
        (None, None) => {}
        (Some(after), Some((least, most))) => assert!((least..=most).contains(&after), "{after}: {text}"),
        other => panic!("retry-after: {other:?}: {text}"),
    }
}

fn own_fault(status: u16, kind: &'static str) -> Row {
    Row(status, kind, Some("false"), None)
}

/// Both targets fail; a stream and a plain answer say the same.
async fn both(first: Script, second: Script, expected: Row) -> World {
    let mut last = None;
    for stream in [false, true] {
        let world = pair(QUICK).await;
        world.sim(0).set(first.clone());
        world.sim(1).set(second.clone());
        let answer = world.ask(&message(stream)).await;
        // When to come back is told where it is known.
        let Row(.., after) = expected;
        let known = answer.header("retry-after").and(Some((1, 300)));
        let row = Row(expected.0, expected.1, expected.2, if after == ANY { known } else { after });
        assert_row(&answer, row);
        assert_eq!(answer.json()["pointsman"]["terminal"], "exhausted");
        last = Some(world);
    }
    last.unwrap()
}

/// `retry-after` may be there or not.
const ANY: Option<(u64, u64)> = Some((0, 0));

// Exhausted

#[tokio::test]
async fn all_met_rate_limits() {
    let row = Row(429, "rate_limit_error", Some("false"), Some((40, 60)));
    let world = both(Script::anthropic_rate_limit(90), Script::anthropic_rate_limit(60), row).await;
    // Now nothing is sent, and coming back helps.
    let answer = world.ask(&message(false)).await;
    assert_row(&answer, Row(429, "rate_limit_error", Some("true"), Some((40, 60))));
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 1));
}

#[tokio::test]
async fn all_accounts_are_spent() {
    let row = own_fault(402, "billing_error");
    let world = both(Script::anthropic_credit_balance(), Script::anthropic_spend_limit(), row).await;
    let answer = world.ask(&message(true)).await;
    assert_row(&answer, Row(529, "overloaded_error", Some("true"), Some((240, 300))));
}

/// C065: load stays 529.
#[tokio::test]
async fn all_are_overloaded_or_broken() {
    let row = Row(529, "overloaded_error", Some("false"), ANY);
    both(Script::anthropic_overloaded(), Script::anthropic_overloaded(), row).await;
    both(Script::anthropic_api_error(), Script::anthropic_overloaded(), row).await;
    both(Script::anthropic_overloaded(), Script::anthropic_rate_limit(60), row).await;
}

/// What no client may take for load: never 401 for a fault of the gateway's own credentials.
#[tokio::test]
async fn nobody_gave_an_answer_that_can_be_used() {
    let refused = Script::anthropic_error(401, "authentication_error", "invalid x-api-key", None);
    let unknown = Script::anthropic_error(404, "not_found_error", "model: claude-opus-5-5", None);
    for script in [Script::healthy().html(), refused, unknown] {
        both(script.clone(), script, Row(500, "api_error", Some("false"), ANY)).await;
    }
}

#[tokio::test]
async fn all_ran_out_of_time() {
    let yaml = r#"
targets:
  a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: sk-a }
  b: { provider: anthropic, base_url: "<b>", model: claude-opus-5-5, api_key: sk-b }
defaults: { budget: { first_token: 200ms, response: 200ms } }
"#;
    for stream in [true, false] {
        let world = world_from(&["a", "b"], yaml).await;
        world.sim(0).set(Script::silence());
        world.sim(1).set(Script::silence());
        assert_row(&world.ask(&message(stream)).await, own_fault(504, "timeout_error"));
    }
}

#[tokio::test]
async fn the_deadline_is_over() {
    let world = alone("defaults: { budget: { deadline: 1s, min_attempt: 400ms } }").await;
    world.sim(0).set(Script::silence());
    let answer = world.ask(&message(true)).await;
    assert_row(&answer, own_fault(504, "timeout_error"));
    assert_eq!(answer.json()["pointsman"]["terminal"], "deadline");
}

#[tokio::test]
async fn what_may_have_had_an_effect_is_not_sent_again() {
    let world = pair(QUICK).await;
    world.sim(0).set(Script::reset_before_headers());
    let answer = world.ask_with(&message(true), &[("x-pointsman-side-effects", "possible")]).await;
    assert_row(&answer, own_fault(409, "invalid_request_error"));
    assert_eq!(answer.json()["pointsman"]["terminal"], "reconciliation_required");
    assert_eq!(world.sim(1).calls(), 0);
}

// Nothing was sent

#[tokio::test]
async fn all_are_out_of_service() {
    let world = pair("").await;
    world.gateway.app().with_fleet(|fleet| fleet.set_killed("a", true) && fleet.set_killed("b", true));
    let answer = world.ask(&message(true)).await;
    assert_row(&answer, Row(529, "overloaded_error", Some("true"), Some((1, 60))));
}

// The request's own fault

/// C062: the provider's status and words reach the client, nobody else is asked, and nobody is to blame.
#[tokio::test]
async fn the_providers_refusal_of_the_request_is_passed_on() {
    let cases = [
        (400, "invalid_request_error", "messages.0.content: Field required"),
        (413, "request_too_large", "Request exceeds the maximum size"),
        (422, "invalid_request_error", "tools.0.input_schema: invalid"),
    ];
    for (status, kind, said) in cases {
        for stream in [true, false] {
            let world = pair("").await;
            world.sim(0).set(Script::anthropic_error(status, kind, said, None));
            let answer = world.ask(&message(stream)).await;
            assert_row(&answer, own_fault(status, kind));
            assert_eq!(answer.json()["error"]["message"], said);
            assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
            world.assert_untouched("a");
        }
    }
}

/// C014: coding agents compact their history when they read these words.
#[tokio::test]
async fn a_prompt_that_is_too_long() {
    for stream in [true, false] {
        let world = pair("").await;
        for sim in &world.sims {
            sim.set(Script::anthropic_prompt_too_long());
        }
        let answer = world.ask(&message(stream)).await;
        assert_row(&answer, own_fault(400, "invalid_request_error"));
        assert_eq!(answer.json()["error"]["message"], "prompt is too long: 209303 tokens > 200000 maximum");
        world.assert_untouched("a");
    }
}

/// C014: other servers have other words for it; a client of Messages knows one.
#[tokio::test]
async fn a_prompt_that_is_too_long_in_the_words_of_another_server() {
    let yaml = r#"targets: { a: { provider: vllm, base_url: "<a>", model: claude-opus-5-5 } }"#;
    let world = world_from(&["a"], yaml).await;
    world.sim(0).set(Script::vllm_context_length());
    let answer = world.ask(&message(true)).await;
    assert_row(&answer, own_fault(400, "invalid_request_error"));
    let said = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.starts_with("prompt is too long: This model's maximum context length is 32768"), "{said}");
}

// Ours to refuse

#[tokio::test]
async fn an_unknown_model_with_the_names_that_are_close() {
    let world = pair("").await;
    let mut body = message(true);
    body["model"] = json!("claude-opus-5");
    let answer = world.ask(&body).await;
    assert_row(&answer, own_fault(404, "not_found_error"));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("claude-opus-5-5"));
}

#[tokio::test]
async fn no_wrong_or_insufficient_gateway_key() {
    let keys = format!("keys: {{ team: {{ hash: \"{}\", models: [other] }} }}\n", hash("pk-team"));
    let rest = "  o: { provider: openai, model: other, api_key: sk-o }\n";
    let world = pair(&format!("{rest}{keys}")).await;
    assert_row(&world.ask(&message(true)).await, own_fault(401, "authentication_error"));
    let wrong = world.ask_with(&message(true), &[("x-api-key", "pk-wrong")]).await;
    assert_row(&wrong, own_fault(401, "authentication_error"));
    let barred = world.ask_with(&message(true), &[("x-api-key", "pk-team")]).await;
    assert_row(&barred, own_fault(403, "permission_error"));
}

#[tokio::test]
async fn no_target_keeps_what_is_asked_of_data_handling() {
    let world = pair("").await;
    let mut body = message(true);
    body["provider"] = json!({ "zdr": true });
    assert_row(&world.ask(&body).await, own_fault(403, "permission_error"));
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (0, 0));
}

#[tokio::test]
async fn a_request_that_cannot_be_read() {
    let world = pair("").await;
    for body in
        ["", "{", "[]", r#"{"messages":[]}"#, r#"{"model":"claude-opus-5-5","stream":"yes","messages":[]}"#]
    {
        let answer = world.send("POST", "/v1/messages", Bytes::from(body), &[VERSION]).await;
        assert_row(&answer, own_fault(400, "invalid_request_error"));
    }
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (0, 0));
}

#[tokio::test]
async fn a_body_that_is_too_large() {
    let yaml = r#"
server: { listen: 127.0.0.1:0, max_body: 100KiB }
targets: { a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: sk-a } }
"#;
    let world = world_from(&["a"], yaml).await;
    let mut body = message(true);
    body["messages"][0]["content"] = json!("x".repeat(150 * 1024));
    assert_row(&world.ask(&body).await, own_fault(413, "request_too_large"));
}

/// The path tells the dialect, whether a version is sent or not.
#[tokio::test]
async fn a_wrong_method_and_a_wrong_path() {
    let world = pair("").await;
    let answer = world.send("GET", "/v1/messages", Bytes::new(), &[]).await;
    assert_row(&answer, own_fault(405, "invalid_request_error"));
    for path in ["/v1/messages/extra", "/v1/messages/count_tokens/more"] {
        let answer = world.send("POST", path, Bytes::from(message(false).to_string()), &[]).await;
        assert_row(&answer, own_fault(404, "not_found_error"));
    }
}

/// A header that some clients send with everything does not change the language of a path that has its own.
#[tokio::test]
async fn an_error_of_chat_completions_stays_one() {
    let world = pair("").await;
    let answer = world.send("POST", "/v1/chat/completions", Bytes::from("{"), &[VERSION]).await;
    assert_eq!(answer.status, 400);
    let body = answer.json();
    assert!(body.get("type").is_none() && body["error"].get("param").is_some(), "{body}");
    let elsewhere = world.send("POST", "/v1/nothing", Bytes::from("{}"), &[VERSION]).await;
    assert_row(&elsewhere, own_fault(404, "not_found_error"));
}

// The caller's own credential

#[tokio::test]
async fn the_callers_own_credential_is_missing_or_refused() {
    let yaml = r#"targets: { a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: caller } }"#;
    let world = world_from(&["a"], yaml).await;
    assert_row(&world.ask(&message(true)).await, own_fault(401, "authentication_error"));
    let own = [("x-pointsman-provider-key-anthropic", "sk-ant-callers-own-0123456789")];
    assert_complete_from(&world.ask_with(&message(true), &own).await, "a");
    assert_eq!(world.sim(0).received()[0].header("x-api-key"), Some("sk-ant-callers-own-0123456789"));
    world.sim(0).set(Script::anthropic_error(401, "authentication_error", "invalid x-api-key", None));
    let answer = world.ask_with(&message(true), &own).await;
    assert_row(&answer, own_fault(401, "authentication_error"));
    assert_eq!(answer.json()["error"]["message"], "invalid x-api-key");
    world.assert_untouched("a");
}
