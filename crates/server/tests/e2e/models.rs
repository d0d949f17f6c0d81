//! Routes of several models: no substitution is silent, and none happens that the route does not allow.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::{assert_whole_from, world_from};
use crate::support::{World, chat};

const TARGETS: &str = r#"
server: { listen: 127.0.0.1:0, keepalive: 150ms }
targets:
  a: { provider: openai, base_url: "<a>", model: small, upstream_model: vendor-small-1, api_key: sk-a, budget: { first_token: 1s, response: 1s } }
  c: { provider: openai, base_url: "<c>", model: large, upstream_model: vendor-large-9, api_key: sk-c }
models:
  small: { context_window: 8000 }
  large: { context_window: 200000 }
"#;

/// Route `support` of the models `small` (target a) and `large` (target c).
async fn route(rest: &str) -> World {
    let route = format!(
        "defaults: {{ retry: {{ base: 1ms, max: 1ms }}, budget: {{ max_same_target_attempts: 1 }} }}\n\
         routes: {{ support: {{ version: 3, models: [small, large]{rest} }} }}\n"
    );
    world_from(&["a", "c"], &format!("{TARGETS}{route}")).await
}

fn asked_model(world: &World, sim: usize) -> Value {
    let body: Value = serde_json::from_slice(&world.sim(sim).received().last().unwrap().body).unwrap();
    body["model"].clone()
}

#[tokio::test]
async fn the_routes_own_model_answers_under_its_versioned_name() {
    let world = route("").await;
    for stream in [true, false] {
        let answer = world.post(&chat("support", stream)).await;
        assert_whole_from(&answer, "a");
        assert_eq!(answer.header("x-pointsman-route"), Some("support@3"));
        assert_eq!(answer.header("x-pointsman-model"), Some("small"));
        assert_eq!(answer.header("x-pointsman-substituted"), None);
        assert!(answer.text().contains(r#""model":"vendor-small-1""#), "never the alias");
        assert_eq!(asked_model(&world, 0), "vendor-small-1");
        let entry = world.entry(&answer);
        assert_eq!((entry.route.as_deref(), entry.requested.as_str()), (Some("support@3"), "support"));
        assert!(!entry.substituted);
    }
}

/// C071: the answer, the headers and the record name the model that answered.
#[tokio::test]
async fn another_model_answers_and_the_response_says_so() {
    let world = route("").await;
    world.sim(0).set(Script::server_error(500));
    for stream in [true, false] {
        let answer = world.post(&chat("support", stream)).await;
        assert_whole_from(&answer, "c");
        assert_eq!(answer.header("x-pointsman-action"), Some("fallback"));
        assert_eq!(answer.header("x-pointsman-substituted"), Some("true"));
        assert_eq!(answer.header("x-pointsman-model"), Some("large"));
        assert_eq!(answer.header("x-pointsman-reason"), Some("a:server_error>c"));
        assert!(answer.text().contains(r#""model":"vendor-large-9""#));
        assert_eq!(asked_model(&world, 1), "vendor-large-9");
        let entry = world.entry(&answer);
        assert!(entry.substituted);
        assert_eq!(entry.model.as_deref(), Some("large"));
    }
}

/// A stream that was opened early carries the disclosure in its first event.
#[tokio::test]
async fn a_substitution_under_heartbeats_is_told_in_the_first_event() {
    let world = route("").await;
    world.sim(0).set(Script::role_only_then_silence());
    let answer = world.post(&chat("support", true)).await;
    assert_eq!(answer.header("x-pointsman-early"), Some("true"));
    assert_eq!(answer.header("x-pointsman-route"), Some("support@3"));
    assert_whole_from(&answer, "c");
    let told = &answer.chunks()[0]["pointsman"];
    assert_eq!((&told["substituted"], &told["model"]), (&Value::Bool(true), &Value::from("large")));
    assert_eq!(told["action"], "fallback");
}

#[tokio::test]
async fn no_other_model_answers_where_the_route_forbids_it() {
    let world = route(", substitution: { allowed: false }").await;
    world.sim(0).set(Script::server_error(500));
    let answer = world.post(&chat("support", true)).await;
    assert_eq!(answer.status, 503);
    assert_eq!(world.sim(1).calls(), 0);
}

#[tokio::test]
async fn no_other_model_answers_where_the_caller_forbids_it() {
    let world = route("").await;
    world.sim(0).set(Script::server_error(500));
    for reroute in ["failover", "none"] {
        let answer = world.post_with(&chat("support", true), &[("x-pointsman-reroute", reroute)]).await;
        assert_eq!(answer.status, 503);
    }
    let mut request = chat("support", true);
    request["provider"] = serde_json::json!({ "allow_fallbacks": false });
    assert_eq!(world.post(&request).await.status, 503);
    assert_eq!(world.sim(1).calls(), 0);
}

/// A plain model is no route: nothing else may answer for it.
#[tokio::test]
async fn a_model_asked_for_by_its_name_is_not_substituted() {
    let world = route("").await;
    world.sim(0).set(Script::server_error(500));
    assert_eq!(world.post(&chat("small", true)).await.status, 503);
    assert_eq!(world.sim(1).calls(), 0);
}

#[tokio::test]
async fn a_refusal_by_policy_is_not_routed_around() {
    let world = route("").await;
    world.sim(0).set(Script::content_policy());
    let answer = world.post(&chat("support", true)).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.error()["code"], "content_policy_violation");
    assert_eq!(world.sim(1).calls(), 0);
    world.assert_untouched("a");
}

/// C064: and nowhere else.
#[tokio::test]
async fn a_refusal_by_policy_goes_on_where_the_route_says_so() {
    let world = route(", substitution: { allowed: true, on_policy: fallback }").await;
    world.sim(0).set(Script::azure_content_filter());
    let answer = world.post(&chat("support", true)).await;
    assert_whole_from(&answer, "c");
    assert_eq!(answer.header("x-pointsman-substituted"), Some("true"));
    assert_eq!(answer.header("x-pointsman-reason"), Some("a:policy>c"));
    world.assert_untouched("a");
}

/// C014: a prompt that is too long goes to the larger window, and to nothing else.
#[tokio::test]
async fn a_prompt_that_is_too_long_goes_to_the_larger_window() {
    let world = route("").await;
    world.sim(0).set(Script::context_length_exceeded());
    let answer = world.post(&chat("support", true)).await;
    assert_whole_from(&answer, "c");
    assert_eq!(answer.header("x-pointsman-reason"), Some("a:context_overflow>c"));
    world.assert_untouched("a");
    world.sim(1).set(Script::context_length_exceeded());
    let answer = world.post(&chat("support", true)).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.error()["code"], "context_length_exceeded");
}

/// A quarter of the bytes is a rough measure: near a window the tokens are counted before anybody is excluded or asked.
#[tokio::test]
async fn a_prompt_that_is_nearly_too_long_is_counted() {
    let said = |text: String| json!({"model": "support", "messages": [{"role": "user", "content": text}]});
    // The smaller window is 8,000, and an estimate excludes above 9,600. 9,000 words of one token each are 11,250 by their
    // bytes; 10,000 letters and digits in turn are 2,500, and have a token each.
    for (text, who) in [("word ".repeat(9_000), "a"), ("a1".repeat(5_000), "c")] {
        let world = route("").await;
        let answer = world.post(&said(text)).await;
        assert_whole_from(&answer, who);
        assert_eq!(world.entry(&answer).attempts.len(), 1);
    }
}

/// C024's kin: a substitute's own trouble with the request does not hide why it was asked.
#[tokio::test]
async fn the_last_fallbacks_refusal_does_not_hide_the_first_cause() {
    let world = route("").await;
    world.sim(0).set(Script::openai_overloaded());
    world.sim(1).set(Script::invalid_request("prefill"));
    let answer = world.post(&chat("support", true)).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    let message = answer.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("overloaded") && !message.contains("prefill"), "{message}");
}
