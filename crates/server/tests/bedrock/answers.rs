//! Texts, thoughts and images: what reaches Bedrock, what comes back.

use pointsman_provider_sim::Script;
use serde_json::json;

use crate::asked::*;

#[tokio::test]
async fn clients_of_every_dialect_are_answered_by_bedrock() {
    let world = world("").await;
    for client in CLIENTS {
        for stream in [true, false] {
            let answer = client.ask(&world, "bedrock", stream, &client.hello()).await;
            client.assert_answered_by(&answer, "b");
            assert_eq!(answer.header("x-pointsman-target"), Some("only-b"));
            let (call, sent) = received(&world, B);
            let end = if stream { "converse-stream" } else { "converse" };
            let path = format!("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/{end}");
            assert!(call.path.ends_with(&path), "{}", call.path);
            let accept = if stream { "application/vnd.amazon.eventstream" } else { "application/json" };
            assert_eq!(call.header("accept"), Some(accept));
            assert_eq!(call.header("authorization"), Some("Bearer bedrock-key-b"));
            assert_eq!(
                sent["messages"],
                json!([{ "role": "user", "content": [{ "text": "Say something." }] }])
            );
            let usage = world.entry(&answer).usage;
            assert!(usage.is_some_and(|u| u.input_tokens > 0 && u.output_tokens > 0), "{client:?} {usage:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_has_an_id_and_the_models_name_though_bedrock_gives_neither() {
    let world = world("").await;
    for stream in [true, false] {
        let answer = Client::Chat.ask(&world, "bedrock", stream, &Client::Chat.hello()).await;
        let first = Client::Chat.told(&answer).remove(0);
        assert_eq!(first["model"], "us.anthropic.claude-sonnet-4-5-20250929-v1:0");
        assert_eq!(first["id"], answer.header("x-request-id").unwrap());
        assert_eq!(
            answer.header("x-pointsman-upstream-request-id").map(|id| id.starts_with("req_sim_")),
            Some(true)
        );
    }
}

#[tokio::test]
async fn usage_is_told_though_it_comes_after_the_end() {
    let world = world("").await;
    let mut body = Client::Chat.hello();
    body["stream_options"] = json!({ "include_usage": true });
    let answer = Client::Chat.ask(&world, "bedrock", true, &body).await;
    let last = Client::Chat.told(&answer).pop().unwrap();
    assert!(last["usage"]["prompt_tokens"].as_u64() > Some(0), "{last}");
    assert!(last["usage"]["completion_tokens"].as_u64() > Some(0), "{last}");
    assert!(answer.is_done_once());
    let answer = Client::Messages.ask(&world, "bedrock", true, &Client::Messages.hello()).await;
    let usage = Client::Messages.whole(&answer)["usage"].clone();
    assert!(usage["input_tokens"].as_u64() > Some(0) && usage["output_tokens"].as_u64() > Some(0), "{usage}");
}

#[tokio::test]
async fn thoughts_are_thoughts_in_every_dialect() {
    let world = world("").await;
    world.sim(B).set(Script::healthy().reasoning("Let me think.", "reasoning_content"));
    for client in CLIENTS {
        for stream in [true, false] {
            let answer = client.ask(&world, "bedrock", stream, &client.hello()).await;
            assert_eq!(client.said(&answer).1, "Let me think.", "{client:?}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn why_an_answer_ended_is_said_in_the_clients_words() {
    let world = world("").await;
    for (reason, words) in [
        ("length", ["length", "incomplete", "max_tokens", "MAX_TOKENS"]),
        ("content_filter", ["content_filter", "incomplete", "refusal", "SAFETY"]),
        ("guardrail_intervened", ["content_filter", "incomplete", "refusal", "SAFETY"]),
        (
            "model_context_window_exceeded",
            ["length", "incomplete", "model_context_window_exceeded", "MAX_TOKENS"],
        ),
    ] {
        world.sim(B).set(Script::healthy().finish(reason));
        for (client, word) in CLIENTS.into_iter().zip(words) {
            for stream in [true, false] {
                let answer = client.ask(&world, "bedrock", stream, &client.hello()).await;
                assert_eq!(client.said(&answer).2, word, "{client:?} {reason}: {}", answer.text());
            }
        }
    }
}

#[tokio::test]
async fn an_image_and_a_form_reach_bedrock() {
    let world = world("").await;
    let mut body = Client::Chat.hello();
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } });
    body["messages"][0]["content"] = json!([{ "type": "text", "text": "What is it?" }, image]);
    let schema = json!({ "type": "object", "properties": { "x": { "type": "integer" } }, "additionalProperties": false });
    body["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "s", "schema": schema } });
    let answer = Client::Chat.ask(&world, "bedrock", false, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (_, sent) = received(&world, B);
    assert_eq!(
        sent["messages"][0]["content"][1],
        json!({ "image": { "format": "png", "source": { "bytes": "iVBORw0KGgo=" } } })
    );
    let form = &sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"];
    let told: serde_json::Value = serde_json::from_str(form["schema"].as_str().unwrap()).unwrap();
    assert_eq!((told, &form["name"]), (schema, &json!("s")));
}

#[tokio::test]
async fn a_plain_answer_that_is_gathered_from_a_stream() {
    let world = world("defaults: { stream: { gather: on } }\n").await;
    for client in CLIENTS {
        let answer = client.ask(&world, "bedrock", false, &client.hello()).await;
        client.assert_answered_by(&answer, "b");
        assert!(received(&world, B).0.path.ends_with("/converse-stream"));
    }
}
