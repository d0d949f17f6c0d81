//! What would be done with a request, in words and in codes, without doing it.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::support::{World, chat, world};

fn row<'a>(explained: &'a Value, target: &str) -> &'a Value {
    let rows = explained["targets"].as_array().unwrap();
    rows.iter().find(|r| r["target"] == target).unwrap_or_else(|| panic!("{target}: {explained}"))
}

/// Target, in or out, place in the chain, reason.
fn facts(row: &Value) -> (bool, Option<u64>, &str) {
    (row["in"].as_bool().unwrap(), row["order"].as_u64(), row["reason"].as_str().unwrap())
}

fn says(row: &Value, words: &str) {
    let why = row["why"].as_str().unwrap();
    assert!(why.contains(words), "{why}");
}

/// No path says of which dialect it is.
#[tokio::test]
async fn a_request_of_responses_is_known_by_its_input() {
    let world = world(&[("a", "gpt-4o")], "").await;
    let explained = world.explain(&json!({ "model": "gpt-4o", "input": "x" })).await;
    assert_eq!(explained["first"]["target"], "a", "{explained}");
}

/// On the data plane its path names the model.
#[tokio::test]
async fn a_request_of_gemini_is_known_by_its_contents() {
    let world = world(&[("a", "gpt-4o")], "").await;
    let contents = json!([{ "role": "user", "parts": [{ "text": "x" }] }]);
    for model in ["gpt-4o", "models/gpt-4o"] {
        let explained = world.explain(&json!({ "model": model, "contents": contents })).await;
        assert_eq!(explained["first"]["target"], "a", "{explained}");
        assert_eq!(explained["requested"], "gpt-4o");
    }
    let nameless = world.post_body("/admin/v1/explain", &json!({ "contents": contents })).await;
    assert_eq!(nameless.status, 400);
    assert!(nameless.text().contains("`model` beside its `contents`"), "{}", nameless.text());
}

#[tokio::test]
async fn healthy_targets_are_in_and_the_first_would_be_the_primary() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    let explained = world.explain(&chat("gpt-4o")).await;
    assert_eq!(explained["requested"], "gpt-4o");
    assert_eq!(explained["resolved"], json!({ "route": null, "models": ["gpt-4o"] }));
    assert_eq!(explained["strategy"], "priority");
    assert_eq!(facts(row(&explained, "a")), (true, Some(1), "healthy"));
    assert_eq!(facts(row(&explained, "b")), (true, Some(2), "healthy"));
    says(row(&explained, "a"), "healthy");
    let first = &explained["first"];
    assert_eq!(first["decision"], "attempt");
    assert_eq!(first["target"], "a");
    assert_eq!(first["action"], "primary");
    assert_eq!(first["rule"], "plan");
    let words = explained["words"].as_array().unwrap();
    assert_eq!(words[0], "'gpt-4o' is the model gpt-4o; targets in the order of priority.");
    assert_eq!(words[3], "First: primary on a: the first candidate in order that takes calls.");
}

#[tokio::test]
async fn a_killed_target_is_out_and_the_next_one_would_be_called() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    world.post("/admin/v1/targets/a/kill").await;
    let explained = world.explain(&chat("gpt-4o")).await;
    assert_eq!(facts(row(&explained, "a")), (false, Some(1), "killed"));
    says(row(&explained, "a"), "switched off by an operator");
    assert_eq!(row(&explained, "a")["health"]["state"], "killed");
    assert_eq!(explained["first"]["target"], "b");
}

#[tokio::test]
async fn a_throttled_target_is_out_until_its_rate_limit_is_waited_out() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    world.sims[0].enqueue([Script::openai_rate_limit(40)]);
    world.ask("gpt-4o").await;
    let explained = world.explain(&chat("gpt-4o")).await;
    let a = row(&explained, "a");
    assert_eq!(facts(a), (false, Some(1), "throttled"));
    says(a, "the provider's rate limit is waited out");
    assert_eq!(a["health"]["state"], "throttled");
    let until = a["health"]["until_ms"].as_u64().unwrap();
    assert!((30_000..=40_000).contains(&until), "{until}");
    assert_eq!(explained["first"]["target"], "b");
}

#[tokio::test]
async fn a_model_that_lacks_what_the_request_needs_is_out() {
    let rest = "models:\n  small: { tools: false }\nroutes:\n  any: { models: [gpt-4o, small], substitution: { allowed: true } }\n";
    let world = world(&[("a", "gpt-4o"), ("s", "small")], rest).await;
    let mut body = chat("any");
    body["tools"] = json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]);
    let explained = world.explain(&body).await;
    assert_eq!(facts(row(&explained, "s")), (false, None, "lacks"));
    says(row(&explained, "s"), "the request needs tools, which the model does not have");
    let without = world.explain(&chat("any")).await;
    assert_eq!(facts(row(&without, "s")), (true, Some(2), "healthy"));
}

#[tokio::test]
async fn another_model_is_out_where_the_route_does_not_allow_substitution() {
    let rest =
        "routes:\n  strict: { version: 7, models: [gpt-4o, claude], substitution: { allowed: false } }\n";
    let world = world(&[("a", "gpt-4o"), ("c", "claude")], rest).await;
    let explained = world.explain(&chat("strict")).await;
    assert_eq!(explained["resolved"], json!({ "route": "strict@7", "models": ["gpt-4o", "claude"] }));
    assert_eq!(facts(row(&explained, "c")), (false, None, "substitution_not_allowed"));
    says(row(&explained, "c"), "substitution is not allowed");
    assert_eq!(explained["fallback"]["allowed"], false);
}

#[tokio::test]
async fn the_callers_own_preferences_count_as_on_the_data_plane() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    let mut body = chat("gpt-4o");
    body["provider"] = json!({ "ignore": ["a"] });
    let explained = world.explain(&body).await;
    assert_eq!(facts(row(&explained, "a")), (false, None, "preference"));
    says(row(&explained, "a"), "provider.ignore");

    let headers = [("content-type", "application/json"), ("x-pointsman-strategy", "least-busy")];
    let body = chat("gpt-4o").to_string();
    let by_header = world.admin("POST", "/admin/v1/explain", body.clone().into(), &headers).await;
    assert_eq!(by_header.json()["strategy"], "least-busy");
    let headers = [("content-type", "application/json"), ("x-pointsman-strategy", "fastest")];
    assert_eq!(world.admin("POST", "/admin/v1/explain", body.into(), &headers).await.status, 400);
}

#[tokio::test]
async fn a_route_can_be_asked_for_instead_of_the_model_in_the_body() {
    let rest = "routes:\n  helper: { models: [claude] }\n";
    let world = world(&[("a", "gpt-4o"), ("c", "claude")], rest).await;
    let by_query = world.post_body("/admin/v1/explain?route=helper", &chat("gpt-4o")).await.json();
    assert_eq!(by_query["resolved"]["route"], "helper@1");
    let mut body = chat("gpt-4o");
    body["route"] = "helper".into();
    assert_eq!(world.explain(&body).await["resolved"]["route"], "helper@1");
    // OpenRouter's clients send this, and mean no route.
    body["route"] = "fallback".into();
    assert_eq!(world.explain(&body).await["resolved"]["route"], Value::Null);
    let unknown = world.post_body("/admin/v1/explain?route=helpr", &chat("gpt-4o")).await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("helper"), "{}", unknown.text());
}

#[tokio::test]
async fn a_key_sees_what_it_may_use() {
    let hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let rest = format!("keys:\n  team: {{ hash: \"{hash}\", models: [claude] }}\n");
    let world = world(&[("a", "gpt-4o"), ("c", "claude")], &rest).await;
    let refused = world.post_body("/admin/v1/explain?key=team", &chat("gpt-4o")).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "model_not_allowed"));
    assert_eq!(world.post_body("/admin/v1/explain?key=team", &chat("claude")).await.status, 200);
    assert_eq!(world.post_body("/admin/v1/explain?key=taem", &chat("claude")).await.status, 404);
}

async fn first_of(world: &World, model: &str) -> Value {
    world.explain(&chat(model)).await["first"].clone()
}

#[tokio::test]
async fn a_soon_recovery_would_be_waited_for() {
    let world = world(&[("a", "gpt-4o")], "").await;
    world.sims[0].enqueue([Script::openai_rate_limit(4)]);
    world.ask("gpt-4o").await;
    let first = first_of(&world, "gpt-4o").await;
    assert_eq!(first["decision"], "wait");
    assert!(first["wait_ms"].as_u64().is_some_and(|ms| ms <= 4_000), "{first}");
    assert_eq!(world.sims[0].calls(), 1);
}

#[tokio::test]
async fn a_target_that_is_alone_and_open_would_be_probed_as_a_last_resort() {
    let world = world(&[("a", "gpt-4o")], "").await;
    world.sims[0].set(Script::server_error(500));
    for _ in 0..3 {
        world.ask("gpt-4o").await;
    }
    let explained = world.explain(&chat("gpt-4o")).await;
    assert_eq!(facts(row(&explained, "a")), (false, Some(1), "open"));
    let first = &explained["first"];
    assert_eq!((first["decision"].as_str(), first["target"].as_str()), (Some("last_resort"), Some("a")));
    assert_eq!(world.domain("a", "target").await["state"], "open", "nothing was probed");
}

#[tokio::test]
async fn with_nothing_left_it_says_how_the_request_would_end() {
    let world = world(&[("a", "gpt-4o")], "").await;
    world.post("/admin/v1/targets/a/kill").await;
    let first = first_of(&world, "gpt-4o").await;
    assert_eq!(first["decision"], "stop");
    assert_eq!(first["rule"], "all_blocked");
    assert_eq!(first["terminal"], "exhausted");
    assert_eq!(first["status"], 503);
}

#[tokio::test]
async fn explaining_sends_nothing_changes_nothing_and_repeats_no_content() {
    let rest = "defaults: { strategy: round-robin }\n";
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], rest).await;
    let before = world.get("/admin/v1/targets").await.json();
    let secret = "a-secret-that-only-the-prompt-holds";
    let mut body = chat("gpt-4o");
    body["messages"][0]["content"] = secret.into();
    for _ in 0..5 {
        let explained = world.explain(&body).await;
        assert!(!explained.to_string().contains(secret));
        assert_eq!(explained["first"]["target"], "a", "whoever looks moves nobody's turn");
    }
    assert_eq!(world.get("/admin/v1/targets").await.json(), before);
    assert_eq!(world.get("/admin/v1/requests").await.json()["requests"], json!([]));
    assert_eq!((world.sims[0].calls(), world.sims[1].calls()), (0, 0));
    assert!(!crate::support::logged().contains(secret));
    assert_eq!(world.metric("pointsman_in_flight{target=\"a\"}").await, Some(0.0));
}

#[tokio::test]
async fn what_would_be_refused_on_the_data_plane_is_refused_here_with_the_same_words() {
    let world = world(&[("a", "gpt-4o")], "").await;
    for body in [json!({ "messages": [] }), json!([]), chat("gpt-4"), json!({ "model": 4 })] {
        let explained = world.post_body("/admin/v1/explain", &body).await;
        let served = world.ask_for(&body).await;
        assert_eq!(explained.status, served.status, "{body}");
        assert_eq!(explained.json()["error"]["message"], served.json()["error"]["message"]);
    }
}
