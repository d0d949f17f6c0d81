//! The table of errors, row by row: status, type, code, and what an SDK is told of coming back.

use std::time::Duration;

use bytes::Bytes;
use pointsman_core::domain::DomainKind;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::{alone, pair, world_from};
use crate::support::{Answer, World, chat};

const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

/// One row: status, type, code, `x-should-retry`, and between which seconds `retry-after` lies.
struct Row(u16, &'static str, Value, Option<&'static str>, Option<(u64, u64)>);

fn assert_row(answer: &Answer, Row(status, kind, code, should_retry, retry_after): &Row) {
    let text = answer.text();
    assert_eq!(answer.status, *status, "{text}");
    let error = answer.error();
    assert_eq!((&error["type"], &error["code"]), (&json!(kind), code), "{text}");
    let mut keys: Vec<&str> = error.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["code", "message", "param", "type"], "{text}");
    assert!(!text.contains("None"), "{text}");
    assert_eq!(answer.header("x-should-retry"), *should_retry, "{text}");
    let after = answer.header("retry-after").map(|v| v.parse::<u64>().unwrap());
    match (after, retry_after) {
        (None, None) => {}
        (Some(after), Some((least, most))) => assert!((*least..=*most).contains(&after), "{after}: {text}"),
        other => panic!("retry-after: {other:?}: {text}"),
    }
    let body = answer.json();
    assert_eq!(body["pointsman"]["request_id"], answer.header("x-request-id").unwrap(), "{text}");
    for key in ["terminal", "reason"] {
        assert!(body["pointsman"][key].is_string(), "{text}");
    }
}

fn overloaded(should_retry: &'static str, after: Option<(u64, u64)>) -> Row {
    Row(503, "service_unavailable_error", json!("server_is_overloaded"), Some(should_retry), after)
}

async fn both(first: Script, second: Script) -> (World, Answer) {
    let world = pair(QUICK).await;
    world.sim(0).set(first);
    world.sim(1).set(second);
    let answer = world.post(&chat("gpt-4o", true)).await;
    (world, answer)
}

// Exhausted

#[tokio::test]
async fn all_met_rate_limits() {
    let (_world, answer) = both(Script::openai_rate_limit(90), Script::openai_rate_limit(60)).await;
    let row = Row(429, "rate_limit_error", json!("rate_limit_exceeded"), Some("false"), Some((40, 60)));
    assert_row(&answer, &row);
    assert_eq!(answer.json()["pointsman"]["terminal"], "exhausted");
    let ms = answer.json()["pointsman"]["retry_after_ms"].as_u64().unwrap();
    assert!((40_000..=60_000).contains(&ms), "{ms}");
}

#[tokio::test]
async fn all_quotas_are_used_up() {
    let (_world, answer) = both(Script::openai_quota(), Script::payment_required()).await;
    assert_row(&answer, &Row(429, "insufficient_quota", json!("insufficient_quota"), Some("false"), None));
}

#[tokio::test]
async fn servers_failed_in_different_ways() {
    for (first, second) in [
        (Script::server_error(500), Script::openai_overloaded()),
        (Script::openai_overloaded(), Script::openai_rate_limit(60)),
        (Script::server_error(500), Script::openai_quota()),
    ] {
        let world = pair(QUICK).await;
        world.sim(0).set(first);
        world.sim(1).set(second);
        let answer = world.post(&chat("gpt-4o", true)).await;
        let after = answer.header("retry-after").map(|_| (1, 300));
        assert_row(&answer, &overloaded("false", after));
        let attempts = answer.json()["pointsman"]["attempts"].clone();
        assert_eq!(attempts[0]["target"], "a");
        assert_eq!(attempts[0]["action"], "primary");
        assert_eq!(attempts[1]["action"], "failover");
        assert!(attempts[1]["ms"].is_u64() && attempts[1]["phase"].is_string());
    }
}

/// What no client may take for load has a code that says so.
#[tokio::test]
async fn nobody_gave_an_answer_that_can_be_used() {
    for script in [Script::healthy().html(), Script::invalid_api_key(), Script::model_not_found("x")] {
        let (_world, answer) = both(script.clone(), script).await;
        let after = answer.header("retry-after").map(|_| (1, 300));
        let row = Row(503, "service_unavailable_error", json!("upstream_failed"), Some("false"), after);
        assert_row(&answer, &row);
    }
}

#[tokio::test]
async fn all_ran_out_of_time() {
    let yaml = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-a }
  b: { provider: openai, base_url: "<b>", model: gpt-4o, api_key: sk-b }
defaults: { budget: { first_token: 200ms, response: 200ms } }
"#;
    for stream in [true, false] {
        let world = world_from(&["a", "b"], yaml).await;
        world.sim(0).set(Script::silence());
        world.sim(1).set(Script::silence());
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_row(&answer, &Row(504, "timeout", json!("timeout"), Some("false"), None));
        assert_eq!(answer.json()["pointsman"]["attempts"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn the_deadline_is_over() {
    for stream in [true, false] {
        let world = alone("defaults: { budget: { deadline: 1s, min_attempt: 400ms } }").await;
        world.sim(0).set(Script::silence());
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_row(&answer, &Row(504, "timeout", json!("timeout"), Some("false"), None));
        assert_eq!(answer.json()["pointsman"]["terminal"], "deadline");
        world.assert_untouched("a");
    }
}

/// The reserve: with another candidate left no attempt takes all the time there is.
#[tokio::test]
async fn a_slow_first_target_leaves_time_for_the_next() {
    let yaml = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-a }
  b: { provider: openai, base_url: "<b>", model: gpt-4o, api_key: sk-b }
defaults: { budget: { deadline: 8s, reserve_for_fallback: 7s, min_attempt: 500ms } }
"#;
    let world = world_from(&["a", "b"], yaml).await;
    world.sim(0).set(Script::silence());
    let answer = world.post(&chat("gpt-4o", true)).await;
    crate::checks::assert_whole_from(&answer, "b");
    world.assert_untouched("a");
}

/// When another target is limited that is no reason to send the same wrong request again later.
#[tokio::test]
async fn a_wrong_request_is_not_told_when_to_come_back() {
    let (world, _) = both(Script::openai_rate_limit(90), Script::healthy()).await;
    world.sim(1).set(Script::invalid_request("x"));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (400, None));
}

// A side effect may have happened

#[tokio::test]
async fn what_may_have_had_an_effect_is_not_sent_again() {
    let headers = [("x-pointsman-side-effects", "possible")];
    let scripts = [
        Script::reset_before_headers(),
        Script::close_after_read(),
        Script::silence(),
        Script::server_error(500),
        Script::cut_after(0),
    ];
    for script in scripts {
        for stream in [true, false] {
            let world = pair(QUICK).await;
            world.sim(0).set(script.clone());
            let answer = world.post_with(&chat("gpt-4o", stream), &headers).await;
            let row =
                Row(409, "invalid_request_error", json!("reconciliation_required"), Some("false"), None);
            assert_row(&answer, &row);
            assert_eq!(answer.json()["pointsman"]["terminal"], "reconciliation_required");
            assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0), "{script:?}");
            let entry = world.entry(&answer);
            assert_eq!(entry.attempts[0].outcome, "unknown", "never written down as failed");
        }
    }
}

#[tokio::test]
async fn what_was_refused_or_never_sent_may_go_elsewhere_all_the_same() {
    let headers = [("x-pointsman-side-effects", "possible")];
    for script in [Script::openai_rate_limit(60), Script::openai_overloaded(), Script::invalid_api_key()] {
        let world = pair(QUICK).await;
        world.sim(0).set(script);
        crate::checks::assert_whole_from(&world.post_with(&chat("gpt-4o", true), &headers).await, "b");
    }
    let world = pair(QUICK).await;
    world.sim(0).kill().await.unwrap();
    crate::checks::assert_whole_from(&world.post_with(&chat("gpt-4o", true), &headers).await, "b");
}

// Nothing was sent

#[tokio::test]
async fn all_are_throttled() {
    let (world, _) = both(Script::openai_rate_limit(90), Script::openai_rate_limit(60)).await;
    let answer = world.post(&chat("gpt-4o", false)).await;
    let row = Row(429, "rate_limit_error", json!("rate_limit_exceeded"), Some("true"), Some((40, 60)));
    assert_row(&answer, &row);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 1));
}

#[tokio::test]
async fn all_are_out_of_service() {
    let world = pair("").await;
    world.gateway.app().with_fleet(|fleet| fleet.set_killed("a", true) && fleet.set_killed("b", true));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_row(&answer, &overloaded("true", Some((1, 60))));
}

/// Isolated accounts are asked again by their due probe and not before: the client is told when that is.
#[tokio::test]
async fn all_are_isolated() {
    let (world, _) = both(Script::openai_quota(), Script::openai_quota()).await;
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_row(&answer, &overloaded("true", Some((240, 300))));
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 1));
    let due = world.due_in("a", DomainKind::Account);
    assert!(due <= Duration::from_secs(300), "{due:?}");
}

// The caller's own credential

const OWN_KEY: &str = r#"
targets: { a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: caller } }
"#;

/// Only here a refused credential is the client's affair, and told in the provider's words.
#[tokio::test]
async fn the_callers_own_credential_is_refused() {
    let headers = [("x-pointsman-provider-key-openai", "sk-callers-own-key-0123456789")];
    for stream in [true, false] {
        let world = world_from(&["a"], OWN_KEY).await;
        world.sim(0).set(Script::invalid_api_key());
        let answer = world.post_with(&chat("gpt-4o", stream), &headers).await;
        assert_row(&answer, &own_fault(401, json!("invalid_api_key")));
        assert!(answer.error()["message"].as_str().unwrap().starts_with("Incorrect API key provided"));
        assert!(!answer.text().contains("sk-callers"), "{}", answer.text());
        assert_eq!(world.sim(0).calls(), 1);
        world.assert_untouched("a");
    }
}

/// What the caller's account meets is passed on with its status, and throttles nobody else.
#[tokio::test]
async fn the_callers_own_account_is_limited_or_spent() {
    let headers = [("x-pointsman-provider-key-openai", "sk-callers-own-key-0123456789")];
    let cases = [
        (Script::openai_rate_limit(30), "requests", "rate_limit_exceeded", Some((30, 30))),
        (Script::openai_quota(), "insufficient_quota", "insufficient_quota", None),
    ];
    for (script, kind, code, after) in cases {
        let world = world_from(&["a"], OWN_KEY).await;
        world.sim(0).set(script);
        let answer = world.post_with(&chat("gpt-4o", true), &headers).await;
        assert_row(&answer, &Row(429, kind, json!(code), Some("false"), after));
        world.assert_untouched("a");
        world.sim(0).set(Script::healthy());
        let answer = world.post_with(&chat("gpt-4o", true), &headers).await;
        crate::checks::assert_whole_from(&answer, "a");
    }
}

#[tokio::test]
async fn the_callers_own_credential_is_missing() {
    let world = world_from(&["a"], OWN_KEY).await;
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_row(&answer, &own_fault(401, json!("provider_key_missing")));
    assert!(answer.error()["message"].as_str().unwrap().contains("x-pointsman-provider-key-"));
    assert_eq!(world.sim(0).calls(), 0);
}

// Ours to refuse

#[tokio::test]
async fn no_target_keeps_what_is_asked_of_data_handling() {
    let world = pair("").await;
    let mut request = chat("gpt-4o", true);
    request["provider"] = json!({ "zdr": true });
    let answer = world.post(&request).await;
    assert_row(&answer, &own_fault(403, json!("no_compliant_target")));
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (0, 0));
}

async fn refused(body: impl Into<Bytes>) -> Answer {
    let world = pair("").await;
    let answer = world.send("POST", "/v1/chat/completions", body.into(), &[]).await;
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (0, 0));
    answer
}

fn own_fault(status: u16, code: Value) -> Row {
    Row(status, "invalid_request_error", code, Some("false"), None)
}

#[tokio::test]
async fn an_unknown_model_with_the_names_that_are_close() {
    let world = pair("").await;
    let answer = world.post(&chat("gpt-4", true)).await;
    assert_row(&answer, &own_fault(404, json!("model_not_found")));
    let error = answer.error();
    assert_eq!(error["param"], "model");
    assert!(error["message"].as_str().unwrap().contains("gpt-4o"), "{error}");
    let answer = world.post(&chat("zzzzzzzzzz", true)).await;
    assert_row(&answer, &own_fault(404, json!("model_not_found")));
    // C081 (iv): no other spelling of a name is that name.
    for name in ["GPT-4O", "gpt-4o ", " gpt-4o", "gpt-4o\u{0}"] {
        assert_eq!(world.post(&chat(name, true)).await.status, 404, "{name:?}");
    }
}

#[tokio::test]
async fn json_that_cannot_be_read() {
    for body in [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"model\": \"gpt-4o\", \"messages\": [}",
        "{\"model\":\"gpt-4o\"} trailing",
    ] {
        assert_row(&refused(body).await, &own_fault(400, Value::Null));
    }
    assert_row(
        &refused(&b"{\"model\":\"gpt-4o\",\"x\":\"\xff\xfe\"}"[..]).await,
        &own_fault(400, Value::Null),
    );
}

#[tokio::test]
async fn a_field_of_the_wrong_kind_is_named() {
    let cases = [
        (json!({"messages": []}), "model"),
        (json!({"model": 7, "messages": []}), "model"),
        (json!({"model": "", "messages": []}), "model"),
        (json!({"model": "gpt-4o", "messages": [], "stream": "yes"}), "stream"),
    ];
    for (body, param) in cases {
        let answer = refused(body.to_string()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert_eq!(answer.error()["param"], param, "{body}: {}", answer.text());
    }
}

/// C081 (vi): nobody may be let in by the first and served by the second.
#[tokio::test]
async fn a_duplicate_key_of_what_routes() {
    for body in [
        r#"{"model":"gpt-4o","model":"gpt-4o","messages":[]}"#,
        r#"{"model":"gpt-4o","messages":[],"\u006dodel":"other"}"#,
        r#"{"model":"gpt-4o","messages":[],"stream":true,"stream":false}"#,
    ] {
        let answer = refused(body).await;
        assert_row(&answer, &own_fault(400, Value::Null));
        assert!(
            ["model", "stream"].contains(&answer.error()["param"].as_str().unwrap()),
            "{}",
            answer.text()
        );
    }
}

/// C086.
#[tokio::test]
async fn a_body_that_is_nested_too_deep() {
    let deep = format!(r#"{{"model":"gpt-4o","messages":{}{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    assert_row(&refused(deep).await, &own_fault(400, Value::Null));
}

/// C086.
#[tokio::test]
async fn a_body_that_is_too_large() {
    let yaml = r#"
server: { listen: 127.0.0.1:0, max_body: 100KiB }
targets: { a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-a } }
"#;
    let world = world_from(&["a"], yaml).await;
    let mut request = chat("gpt-4o", true);
    request["messages"][0]["content"] = json!("x".repeat(150 * 1024));
    let answer = world.post(&request).await;
    assert_row(&answer, &own_fault(413, json!("request_too_large")));
    request["messages"][0]["content"] = json!("x".repeat(50 * 1024));
    assert_eq!(world.post(&request).await.status, 200);
}

#[tokio::test]
async fn a_wrong_method_and_a_wrong_path() {
    let world = pair("").await;
    for method in ["GET", "PUT", "DELETE"] {
        let answer = world.send(method, "/v1/chat/completions", Bytes::new(), &[]).await;
        assert_row(&answer, &own_fault(405, json!("method_not_allowed")));
    }
    for path in [
        "/v1/chat/completion",
        "/",
        "/v2/chat/completions",
        "/v1/chat/completions/extra",
        "/v1/v1/chat/completions",
    ] {
        let answer = world.send("POST", path, Bytes::from(chat("gpt-4o", true).to_string()), &[]).await;
        assert_row(&answer, &own_fault(404, json!("unknown_url")));
    }
}

#[tokio::test]
async fn a_model_that_is_not_listed() {
    let world = pair("").await;
    assert_eq!(world.get("/v1/models/gpt-4o").await.status, 200);
    assert_row(&world.get("/v1/models/gpt-5").await, &own_fault(404, json!("model_not_found")));
    assert_row(&world.get("/v1/nothing").await, &own_fault(404, json!("unknown_url")));
}

/// Base URLs that people already use work.
#[tokio::test]
async fn the_endpoint_is_there_under_the_usual_bases() {
    let world = pair("").await;
    for path in ["/v1/chat/completions", "/chat/completions", "/openai/v1/chat/completions"] {
        let answer = world.send("POST", path, Bytes::from(chat("gpt-4o", true).to_string()), &[]).await;
        crate::checks::assert_whole_from(&answer, "a");
    }
    // C081 (ii): a query names no model.
    let path = "/v1/chat/completions?model=other";
    let answer = world.send("POST", path, Bytes::from(chat("gpt-4o", true).to_string()), &[]).await;
    crate::checks::assert_whole_from(&answer, "a");
}
