//! Scenarios 12 to 14: requests that a provider will not serve as they are.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::route::{
    Extra, ask, assert_fallback_answered, assert_primary_answered, calls, world_where, world_with,
};
use crate::support::{Answer, World};

/// The provider's 400 after one call, as a status and not as a broken stream; nothing is blamed, nobody should retry.
fn assert_refused_once(world: &World, answer: &Answer, code: &str) {
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.error()["code"], code);
    assert!(answer.error()["message"].as_str().is_some_and(|m| !m.is_empty()));
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert_eq!(answer.header("x-pointsman-substituted"), None);
    assert_eq!(calls(world), (1, 0));
    world.assert_untouched("primary");
}

#[tokio::test]
async fn scenario_12_a_context_length_error_goes_to_a_larger_model_alone() {
    let windows = |primary: u64, fallback: u64| {
        format!(
            "models: {{ gpt-4o: {{ context_window: {primary} }}, deepseek-chat: {{ context_window: {fallback} }} }}"
        )
    };
    for stream in [true, false] {
        let models = windows(64_000, 128_000);
        let world = world_with(Extra { models: &models, ..Extra::default() }).await;
        world.sim(0).set(Script::context_length_exceeded());
        assert_fallback_answered(&world.post(&ask(stream)).await);
        assert_eq!(calls(&world), (1, 1));
        for (primary, fallback) in [(128_000, 64_000), (128_000, 128_000)] {
            let models = windows(primary, fallback);
            let world = world_with(Extra { models: &models, ..Extra::default() }).await;
            world.sim(0).set(Script::context_length_exceeded());
            let answer = world.post(&ask(stream)).await;
            assert_refused_once(&world, &answer, "context_length_exceeded");
        }
    }
}

#[tokio::test]
async fn scenario_13_a_content_filter_refusal_is_a_clean_error_without_fallback() {
    for (script, code) in [
        (Script::content_policy(), "content_policy_violation"),
        (Script::azure_content_filter(), "content_filter"),
    ] {
        for stream in [true, false] {
            let world = world_where(script.clone()).await;
            let answer = world.post(&ask(stream)).await;
            assert_refused_once(&world, &answer, code);
            assert_eq!(world.entry(&answer).terminal, "policy_stop");
        }
    }
}

/// A request whose last message the model is to continue.
fn ask_with_prefill(stream: bool) -> Value {
    let mut request = ask(stream);
    let begun = json!({ "role": "assistant", "content": "Once upon a" });
    request["messages"].as_array_mut().unwrap().push(begun);
    request
}

/// C024: and so its refusal cannot hide the true cause.
#[tokio::test]
async fn scenario_14_a_fallback_that_rejects_prefill_is_never_sent_one() {
    let models = "models: { deepseek-chat: { prefill: false } }";
    for stream in [true, false] {
        let world = world_with(Extra { models, ..Extra::default() }).await;
        assert_primary_answered(&world.post(&ask_with_prefill(stream)).await, "primary");
        world.sim(0).set(Script::openai_overloaded());
        let answer = world.post(&ask_with_prefill(stream)).await;
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(answer.error()["code"], "server_is_overloaded", "the primary's own failure is told");
        assert_eq!(world.sim(1).calls(), 0);
        assert_fallback_answered(&world.post(&ask(stream)).await);
    }
}

/// The next model of the route that does continue messages answers instead.
#[tokio::test]
async fn scenario_14_a_prefill_passes_over_the_fallback_that_rejects_it() {
    let yaml = r#"
targets:
  primary: { provider: openai, base_url: "<primary>", model: gpt-4o, api_key: sk-p }
  deaf: { provider: openai, base_url: "<deaf>", model: deaf, api_key: sk-d }
  fallback: { provider: openai, base_url: "<fallback>", model: deepseek-chat, api_key: sk-f }
models: { deaf: { prefill: false }, deepseek-chat: { prefill: true } }
routes: { agent: { models: [gpt-4o, deaf, deepseek-chat], profile: interactive } }
"#;
    for stream in [true, false] {
        let world = world_from(&["primary", "deaf", "fallback"], yaml).await;
        world.sim(0).set(Script::openai_overloaded());
        assert_fallback_answered(&world.post(&ask_with_prefill(stream)).await);
        assert_eq!(calls(&world), (2, 0));
    }
}
