//! What Bedrock's Converse refuses of a request, and what it takes.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::bedrock::{converse, hi};
use crate::raw::exchange;
use crate::sim;

/// The sentence that a request with these fields is refused with; nothing if it is taken.
async fn refused(fields: Value) -> Option<String> {
    let mut body = hi();
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    let sim = sim(Script::healthy()).await;
    let seen = exchange(sim.addr(), &converse("m", false, body)).await;
    if seen.status == 200 {
        return None;
    }
    assert_eq!(seen.status, 400);
    assert!(seen.header("x-amzn-errortype").unwrap().starts_with("ValidationException:"));
    Some(seen.json()["message"].as_str().unwrap().to_owned())
}

fn said(role: &str, block: Value) -> Value {
    json!({"role": role, "content": [block]})
}

fn hello() -> Value {
    said("user", json!({"text": "Hi"}))
}

fn call(id: &str) -> Value {
    json!({"toolUse": {"toolUseId": id, "name": "f", "input": {}}})
}

fn result(id: &str) -> Value {
    json!({"toolResult": {"toolUseId": id, "content": [{"text": "1"}], "status": "success"}})
}

fn tools() -> Value {
    json!({"tools": [{"toolSpec": {"name": "f", "description": "F", "inputSchema": {"json": {"type": "object"}}}}]})
}

#[tokio::test]
async fn a_conversation_of_all_that_a_translator_writes_is_taken() {
    let mut tools = tools();
    tools["toolChoice"] = json!({"tool": {"name": "f"}});
    tools["tools"].as_array_mut().unwrap().push(json!({"cachePoint": {"type": "default"}}));
    let body = json!({
        "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
        "messages": [
            {"role": "user", "content": [{"text": "What is this?"}, {"image": {"format": "png", "source": {"bytes": "AAAA"}}}]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "AAAA"}}}, call("call.1:a"),
            ]},
            {"role": "user", "content": [result("call.1:a"), {"text": "Go on."}]},
            {"role": "system", "content": [{"text": "Stay brief."}]},
        ],
        "inferenceConfig": {"maxTokens": 1, "temperature": 1, "topP": 0.5, "stopSequences": ["a"]},
        "toolConfig": tools, "additionalModelRequestFields": {"top_k": 5},
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": "{}", "name": "a"}}}},
    });
    assert_eq!(refused(body).await, None);
}

#[tokio::test]
async fn fields_that_are_not_known_or_of_another_kind_are_refused_with_their_place() {
    for (fields, place) in [
        (json!({"max_tokens": 5}), "#/: extraneous key [max_tokens]"),
        (json!({"inferenceConfig": {"topK": 5}}), "#/inferenceConfig: extraneous key [topK]"),
        (
            json!({"messages": [{"role": "user", "content": "Hi"}]}),
            "#/messages/0/content: the value is of a wrong type",
        ),
        (
            json!({"messages": [said("user", json!({"type": "text", "text": "Hi"}))]}),
            "#/messages/0/content/0: extraneous key [type]",
        ),
        (json!({"system": "Be brief."}), "#/system: the value is of a wrong type"),
        (
            json!({"toolConfig": {"tools": [], "toolChoice": {"none": {}}}}),
            "#/toolConfig/toolChoice: extraneous key [none]",
        ),
    ] {
        let message = refused(fields).await.unwrap();
        assert!(message.contains(place), "{message}");
    }
}

#[tokio::test]
async fn a_conversation_begins_with_the_user_and_alternates() {
    for (messages, message) in [
        (json!([]), "A conversation must start with a user message."),
        (json!([said("assistant", json!({"text": "a"}))]), "A conversation must start with a user message."),
        (json!([hello(), hello()]), "A conversation must alternate between user and assistant roles."),
        (json!([hello(), said("tool", json!({"text": "a"}))]), "'tool' at 'messages.2.member.role'"),
        (json!([{"role": "user", "content": []}]), "messages.0 is empty. Add a ContentBlock"),
        (json!([said("user", json!({"text": " "}))]), "messages.0.content.0 is blank."),
        (json!([said("user", json!({}))]), "messages.0.content.0 must set exactly one member, and sets 0"),
    ] {
        let said = refused(json!({ "messages": messages })).await.unwrap();
        assert!(said.contains(message), "{said}");
    }
}

#[tokio::test]
async fn calls_have_their_results_in_the_next_message_and_valid_ids() {
    let long = "c".repeat(65);
    for (messages, message) in [
        (
            json!([hello(), said("assistant", call("a")), hello()]),
            "Expected toolResult blocks at messages.2.content for the following Ids: a",
        ),
        (
            json!([said("user", result("a"))]),
            "toolResult blocks at messages.0.content exceeds the number of toolUse blocks",
        ),
        (
            json!([hello(), said("assistant", call(&long)), said("user", result(&long))]),
            "length less than or equal to 64",
        ),
        (
            json!([hello(), said("assistant", call("a b")), said("user", result("a b"))]),
            "pattern: [a-zA-Z0-9_.:-]+",
        ),
        (
            json!([
                hello(),
                said("assistant", json!({"toolUse": {"toolUseId": "a", "name": "f", "input": "{}"}}))
            ]),
            "messages.1.content.0.toolUse.input is invalid. Provide a json object",
        ),
    ] {
        let said = refused(json!({"messages": messages, "toolConfig": tools()})).await.unwrap();
        assert!(said.contains(message), "{said}");
    }
    let without =
        refused(json!({"messages": [hello(), said("assistant", call("a")), said("user", result("a"))]}))
            .await;
    assert_eq!(
        without.unwrap(),
        "The toolConfig field must be defined when using toolUse and toolResult content blocks."
    );
}

#[tokio::test]
async fn tools_have_a_name_a_description_and_an_object_schema() {
    let spec = |spec: Value| json!({"toolConfig": {"tools": [{ "toolSpec": spec }]}});
    let object = json!({"json": {"type": "object"}});
    let twice = tools()["tools"][0].clone();
    for (fields, message) in [
        (json!({"toolConfig": {"tools": []}}), "'toolConfig.tools' failed to satisfy constraint"),
        (spec(json!({"name": "a b", "inputSchema": object})), "pattern: [a-zA-Z0-9_-]+"),
        (spec(json!({"name": "f", "description": "", "inputSchema": object})), "toolSpec.description"),
        (
            spec(json!({"name": "f", "inputSchema": {"json": {}}})),
            "inputSchema.json.type must be one of the following: object",
        ),
        (json!({"toolConfig": {"tools": [twice, twice]}}), "tool name f more than once"),
        (
            json!({"toolConfig": {"tools": [twice], "toolChoice": {"tool": {"name": "g"}}}}),
            "tool name g at toolConfig.toolChoice.tool",
        ),
        (json!({"toolConfig": {"tools": [twice], "toolChoice": {}}}), "exactly one of auto, any and tool"),
        (json!({"inferenceConfig": {"temperature": 1.5}}), "Value '1.5' at 'inferenceConfig.temperature'"),
        (json!({"inferenceConfig": {"maxTokens": 0}}), "Value '0' at 'inferenceConfig.maxTokens'"),
    ] {
        let said = refused(fields).await.unwrap();
        assert!(said.contains(message), "{said}");
    }
}
