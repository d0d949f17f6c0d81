//! Vectors of different models do not mix: who may make them.

use serde_json::{Value, json};

use crate::checks::world_from;
use crate::support::World;
use crate::whole::assert_from;
use pointsman_provider_sim::Script;

async fn world(substitution: &str) -> World {
    let yaml = format!(
        r#"
targets:
  a: {{ provider: openai, base_url: "<a>", model: small, api_key: sk-a }}
  b: {{ provider: openai, base_url: "<b>", model: large, api_key: sk-b }}
routes:
  vectors: {{ models: [small, large]{substitution} }}
defaults: {{ retry: {{ base: 1ms, max: 1ms }}, budget: {{ max_same_target_attempts: 1 }} }}
"#
    );
    world_from(&["a", "b"], &yaml).await
}

fn request() -> Value {
    json!({ "model": "vectors", "input": "one" })
}

#[tokio::test]
async fn a_route_that_merely_lists_two_models_never_swaps_them() {
    let world = world("").await;
    world.sim(0).set(Script::server_error(500));
    let answer = world.ask("embeddings", &request()).await;
    assert_eq!(answer.status, 503);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
    // A conversation may go there, as ever.
    let chat = world.post(&crate::support::chat("vectors", false)).await;
    assert_eq!(chat.header("x-pointsman-substituted"), Some("true"));
}

#[tokio::test]
async fn a_route_that_says_so_goes_to_the_other_model_and_tells() {
    let world = world(", substitution: { allowed: true }").await;
    world.sim(0).set(Script::server_error(500));
    let answer = world.ask("embeddings", &request()).await;
    assert_from(&answer, "b", "data");
    assert_eq!(answer.header("x-pointsman-action"), Some("fallback"));
    assert_eq!(answer.header("x-pointsman-substituted"), Some("true"));
    assert_eq!(answer.header("x-pointsman-model"), Some("large"));
}

/// What a caller lists in its body is no word of the operator's.
#[tokio::test]
async fn a_list_of_models_in_the_body_swaps_none_either() {
    let world = world("").await;
    world.sim(0).set(Script::server_error(500));
    let body = json!({ "model": "small", "models": ["large"], "input": "one" });
    assert_eq!(world.ask("embeddings", &body).await.status, 503);
    assert_eq!(world.sim(1).calls(), 0);
    let sent = world.sim(0).received()[0].json().unwrap();
    assert_eq!(sent, json!({ "model": "small", "input": "one" }), "our own field is no provider's");
}

#[tokio::test]
async fn vectors_come_in_the_form_and_number_that_was_asked_for() {
    let world = world("").await;
    let body = json!({ "model": "small", "input": ["one", "two", "one"], "dimensions": 6 });
    let answer = world.ask("embeddings", &body).await.json();
    let vectors: Vec<&Value> = answer["data"].as_array().unwrap().iter().map(|d| &d["embedding"]).collect();
    assert_eq!((vectors.len(), vectors[0].as_array().unwrap().len()), (3, 6));
    assert!(vectors[0] == vectors[2] && vectors[0] != vectors[1]);
}
