//! What `explain` says of an endpoint.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::support::World;

const YAML: &str = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: small, api_key: sk-a }
  b: { provider: groq, base_url: "<a>", model: small, api_key: sk-b }
  c: { provider: openai, base_url: "<a>", model: large, api_key: sk-c }
routes: { vectors: { models: [small, large] } }
"#;

fn explain(world: &World, endpoint: Option<&str>, body: &Value) -> Value {
    let headers = HeaderMap::new();
    let body = body.to_string();
    let explained = world.gateway.app().explain(body.as_bytes(), endpoint, None, None, &headers);
    serde_json::to_value(explained.unwrap()).unwrap()
}

fn reasons(explained: &Value) -> Vec<(&str, bool, &str)> {
    let rows = explained["targets"].as_array().unwrap().iter();
    rows.map(|r| {
        let word = |key: &str| r[key].as_str().unwrap();
        (word("target"), r["in"].as_bool().unwrap(), word("reason"))
    })
    .collect()
}

#[tokio::test]
async fn a_target_without_the_endpoint_is_out_and_says_why() {
    let world = world_from(&["a"], YAML).await;
    let explained = explain(&world, Some("embeddings"), &json!({ "model": "vectors", "input": "x" }));
    assert_eq!(
        reasons(&explained),
        [("a", true, "healthy"), ("b", false, "endpoint"), ("c", false, "substitution_not_written")]
    );
    assert_eq!(explained["targets"][1]["why"], "its provider has no endpoint for embeddings");
    assert_eq!(explained["fallback"]["allowed"], false);
    assert_eq!(explained["first"]["target"], "a");
    let chat = json!({ "model": "vectors", "messages": [] });
    let explained = explain(&world, None, &chat);
    assert_eq!(reasons(&explained).iter().filter(|(_, is_in, _)| *is_in).count(), 3);
    assert_eq!(world.sim(0).calls(), 0);
}

#[tokio::test]
async fn nobody_who_has_the_endpoint_is_told_to_the_client() {
    let yaml = r#"targets: { a: { provider: anthropic, base_url: "<a>", model: m, api_key: sk-a } }"#;
    let world = world_from(&["a"], yaml).await;
    let answer = world.ask("embeddings", &json!({ "model": "m", "input": "x" })).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (400, &json!("unsupported")));
    let message = answer.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("a: its provider has no endpoint for embeddings"), "{message}");
    assert_eq!(world.sim(0).calls(), 0);
}

#[tokio::test]
async fn an_endpoint_that_does_not_exist_is_named() {
    let world = world_from(&["a"], YAML).await;
    let (app, headers) = (world.gateway.app(), HeaderMap::new());
    let error = app.explain(b"{}", Some("embedings"), None, None, &headers).unwrap_err();
    assert_eq!(error.status, 404);
    assert_eq!(error.message, "There is no endpoint 'embedings'. Close names: embeddings.");
}
