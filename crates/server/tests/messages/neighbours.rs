//! Messages beside Chat Completions: each dialect goes to targets that speak it as it is; what models there are, and what `explain` says of a Messages request.

use http::HeaderMap;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::line::{VERSION, assert_complete_from, message};
use crate::support::{Answer, World, chat};

/// One model each, and one that a server of one's own serves in both dialects.
async fn both_dialects() -> World {
    let yaml = r#"
targets:
  a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: sk-a }
  o: { provider: openai, base_url: "<o>", model: gpt-4o, api_key: sk-o }
  v: { provider: vllm, base_url: "<v>", model: qwen }
"#;
    world_from(&["a", "o", "v"], yaml).await
}

async fn message_for(world: &World, model: &str) -> Answer {
    let mut body = message(true);
    body["model"] = json!(model);
    world.ask(&body).await
}

#[tokio::test]
async fn a_server_of_ones_own_takes_both() {
    let world = both_dialects().await;
    assert_complete_from(&message_for(&world, "qwen").await, "v");
    crate::checks::assert_whole_from(&world.post(&chat("qwen", true)).await, "v");
    let paths: Vec<String> = world.sim(2).received().iter().map(|r| r.path.clone()).collect();
    assert_eq!(paths, ["/v1/messages", "/v1/chat/completions"]);
}

/// A rate limit met in one dialect holds in the other: it is the account's.
#[tokio::test]
async fn what_is_known_of_a_target_holds_in_either_dialect() {
    let world = both_dialects().await;
    world.sim(2).set(Script::anthropic_rate_limit(60));
    assert_eq!(message_for(&world, "qwen").await.status, 429);
    let answer = world.post(&chat("qwen", false)).await;
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
    assert_eq!(world.sim(2).calls(), 1);
}

#[tokio::test]
async fn models_are_listed_in_the_callers_dialect() {
    let world = both_dialects().await;
    let list = world.send("GET", "/v1/models", bytes::Bytes::new(), &[VERSION]).await.json();
    let ids: Vec<&Value> = list["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["claude-opus-5-5", "gpt-4o", "qwen"]);
    assert_eq!((&list["has_more"], &list["first_id"], &list["last_id"]), (&json!(false), ids[0], ids[2]));
    let one = world.send("GET", "/v1/models/claude-opus-5-5", bytes::Bytes::new(), &[VERSION]).await.json();
    assert_eq!((&one["type"], &one["id"]), (&json!("model"), &json!("claude-opus-5-5")));
    assert!(one["display_name"].is_string() && one["created_at"].is_string(), "{one}");
    let unknown = world.send("GET", "/v1/models/claude-9", bytes::Bytes::new(), &[VERSION]).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"]["type"], "not_found_error");
    assert_eq!(world.get("/v1/models").await.json()["object"], "list");
}

/// The header tells `explain` the dialect, as it does the list of models.
#[tokio::test]
async fn a_messages_request_is_explained_as_one() {
    let world = both_dialects().await;
    let explain = |body: Value, dialect: bool| {
        let mut headers = HeaderMap::new();
        if dialect {
            headers.insert(VERSION.0, VERSION.1.parse().unwrap());
        }
        let body = body.to_string();
        let explained = world.gateway.app().explain(body.as_bytes(), None, None, None, &headers);
        serde_json::to_value(explained.unwrap()).unwrap()
    };
    let explained = explain(message(true), true);
    assert_eq!(explained["first"]["target"], "a", "{explained}");
    let mut for_gpt = message(true);
    for_gpt["model"] = json!("gpt-4o");
    let explained = explain(for_gpt, true);
    assert_eq!(explained["first"]["target"], "o", "it is translated: {explained}");
    let explained = explain(chat("gpt-4o", true), false);
    assert_eq!(explained["first"]["target"], "o", "{explained}");
    assert!(world.sims.iter().all(|sim| sim.calls() == 0), "nothing is sent");
}
