//! How many tokens a request has: asked of the provider where it counts in the dialect, estimated and marked so elsewhere.

use bytes::Bytes;
use pointsman_core::domain::DomainState;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::support::{Answer, World};

/// One model at two Anthropic targets; one at each other provider.
const TARGETS: &str = r#"
targets:
  a1: { provider: anthropic, base_url: "<a1>", model: claude, upstream_model: claude-sonnet-4-5, api_key: sk-ant-1 }
  a2: { provider: anthropic, base_url: "<a2>", model: claude, upstream_model: claude-sonnet-4-5, api_key: sk-ant-2, priority: 2 }
  o: { provider: openai, base_url: "<o>", model: gpt, upstream_model: gpt-4o, api_key: sk-o }
  g: { provider: gemini, base_url: "<g>", model: flash, upstream_model: gemini-3-flash, api_key: sk-g }
"#;
const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";
const SAYS: &str = "What is the capital of France?";
/// By hand: seven tokens of text, one of the role, three around the message and three before the answer.
const OWN: u64 = 14;

async fn world() -> World {
    world_from(&["a1", "a2", "o", "g"], &format!("{TARGETS}{QUICK}")).await
}

/// A request of each dialect for this model: its path, its body, and where its answer has the number.
fn asked(model: &str) -> [(String, Value, &'static str); 3] {
    let said = json!([{ "role": "user", "content": SAYS }]);
    let contents = json!([{ "role": "user", "parts": [{ "text": SAYS }] }]);
    [
        ("/v1/messages/count_tokens".into(), json!({ "model": model, "messages": said }), "input_tokens"),
        ("/v1/responses/input_tokens".into(), json!({ "model": model, "input": SAYS }), "input_tokens"),
        (format!("/v1beta/models/{model}:countTokens"), json!({ "contents": contents }), "totalTokens"),
    ]
}

impl World {
    async fn count(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Bytes::from(body.to_string()), &[]).await
    }
}

fn assert_estimated(world: &World, answer: &Answer, name: &str, tokens: u64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()[name], tokens, "{}", answer.text());
    assert_eq!(answer.header("x-pointsman-estimated"), Some("true"));
    assert_eq!((answer.header("x-pointsman-target"), answer.header("x-pointsman-action")), (None, None));
    let entry = world.entry(answer);
    assert_eq!((entry.terminal, entry.cause, entry.status), ("success", "estimated", 200));
    assert_eq!((entry.target.as_deref(), entry.usage), (None, None));
}

#[tokio::test]
async fn a_count_is_asked_of_the_provider_in_its_own_dialect() {
    let world = world().await;
    let upstream = [
        ("claude", 0, "/v1/messages/count_tokens"),
        ("gpt", 2, "/v1/responses/input_tokens"),
        ("flash", 3, "/v1/models/gemini-3-flash:countTokens"),
    ];
    for (place, (model, sim, path)) in upstream.into_iter().enumerate() {
        let (asked_at, body, name) = asked(model)[place].clone();
        let answer = world.count(&asked_at, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.json()[name].as_u64().unwrap() > 0, "{}", answer.text());
        assert_eq!(answer.header("x-pointsman-estimated"), None);
        assert_eq!(answer.header("x-pointsman-action"), Some("primary"));
        let received = world.sim(sim).received().pop().unwrap();
        assert_eq!(received.path, path);
        let sent = received.json().unwrap();
        assert!(sent.get("stream").is_none() && sent.get("max_tokens").is_none(), "{sent}");
        let entry = world.entry(&answer);
        let named = asked_at.strip_prefix("/v1/").unwrap_or("countTokens");
        assert_eq!((entry.endpoint, entry.terminal), (Some(named), "success"));
    }
    let received = world.sim(0).received().pop().unwrap();
    assert_eq!(received.json().unwrap()["model"], "claude-sonnet-4-5");
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
}

#[tokio::test]
async fn a_target_of_another_dialect_is_not_asked_and_the_estimate_is_marked() {
    let world = world().await;
    for (path, body, name) in asked("gpt").into_iter().filter(|(path, ..)| !path.contains("input_tokens")) {
        let answer = world.count(&path, &body).await;
        assert_estimated(&world, &answer, name, OWN);
    }
    assert_eq!(world.sim(2).calls(), 0);
    // As OpenAI's newest, and 1,230 for a thousand of text: 9 of 7. Four around the message, the role and the answer's.
    let (path, body, name) = asked("claude")[1].clone();
    assert_estimated(&world, &world.count(&path, &body).await, name, 17);
}

#[tokio::test]
async fn a_count_fails_over_and_is_an_estimate_only_when_nobody_can_say_it() {
    let world = world().await;
    world.sim(0).set(Script::anthropic_error(529, "overloaded_error", "Overloaded", None));
    let (path, body, name) = asked("claude")[0].clone();
    let answer = world.count(&path, &body).await;
    assert_eq!(answer.header("x-pointsman-action"), Some("failover"), "{}", answer.text());
    assert_eq!(answer.header("x-pointsman-estimated"), None);
    world.sim(1).set(Script::server_error(500));
    let answer = world.count(&path, &body).await;
    assert_estimated(&world, &answer, name, 17);
    assert_eq!(answer.header("x-pointsman-attempts"), Some("2"));
}

/// A server that speaks Messages may know nothing of counting: that says nothing of the model, nor of the target.
#[tokio::test]
async fn a_provider_that_does_not_count_is_not_blamed() {
    let world = world().await;
    for sim in [0, 1] {
        world.sim(sim).set(Script::fixed(404, "application/json", r#"{"detail":"Not Found"}"#));
    }
    let (path, body, name) = asked("claude")[0].clone();
    for _ in 0..3 {
        assert_estimated(&world, &world.count(&path, &body).await, name, 17);
    }
    let domains = world.gateway.app().with_fleet(|fleet| fleet.domains_of("a1", world.clock.now()));
    assert!(!domains.is_empty() && domains.iter().all(|domain| domain.state == DomainState::Closed));
    world.sim(0).set(Script::default());
    let answer = world.count(&path, &body).await;
    assert_eq!(answer.header("x-pointsman-target"), Some("a1"), "{}", answer.text());
}

#[tokio::test]
async fn the_requests_own_fault_is_told_and_not_estimated() {
    let world = world().await;
    let (path, body, _) = asked("claude")[0].clone();
    world.sim(0).set(Script::anthropic_error(400, "invalid_request_error", "messages: too odd", None));
    let answer = world.count(&path, &body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["error"]["message"], "messages: too odd");
    let unknown = world.count(&path, &json!({ "model": "nobody", "messages": [] })).await;
    assert_eq!(unknown.status, 404);
    let without = world.count(&path, &json!({ "model": "claude" })).await;
    assert_eq!(without.status, 400);
    let wrong = world.send("GET", "/v1/messages/count_tokens", Bytes::new(), &[]).await;
    assert_eq!(wrong.status, 405);
}

/// What is large is counted beside the worker, and a run of one letter in its time.
#[tokio::test]
async fn a_large_request_is_estimated_too() {
    let world = world().await;
    let body = json!({ "model": "gpt", "messages": [{ "role": "user", "content": "a".repeat(512 * 1024) }] });
    let answer = world.count("/v1/messages/count_tokens", &body).await;
    // Eight letters a token, and seven around it.
    assert_estimated(&world, &answer, "input_tokens", 65_536 + 7);
}
