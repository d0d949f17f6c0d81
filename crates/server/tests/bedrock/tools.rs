//! Tool loops over two turns. The simulated provider checks what Bedrock checks: that each call has its result right behind it,
//! and that the tools of a conversation are told.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::asked::*;
use crate::support::Answer;

const ARGUMENTS: &str = r#"{"city": "Oslo", "days": 3}"#;
const IMAGE: &str = "iVBORw0KGgo=";

fn calls() -> Script {
    let script = Script::healthy().reasoning("Hm.", "reasoning_content");
    script.tool_call("get_weather", ARGUMENTS).tool_call("now", "")
}

fn with_tools(client: Client) -> Value {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let mut body = client.hello();
    body["tools"] = match client {
        Client::Chat => json!([
            { "type": "function", "function": { "name": "get_weather", "parameters": schema } },
            { "type": "function", "function": { "name": "now" } },
        ]),
        Client::Responses => json!([
            { "type": "function", "name": "get_weather", "parameters": schema },
            { "type": "function", "name": "now", "parameters": {} },
        ]),
        Client::Messages => json!([
            { "name": "get_weather", "input_schema": schema },
            { "name": "now", "input_schema": { "type": "object" } },
        ]),
        Client::Gemini => {
            json!([{ "functionDeclarations": [{ "name": "get_weather", "parametersJsonSchema": schema }, { "name": "now" }] }])
        }
    };
    match client {
        Client::Messages => body["thinking"] = json!({ "type": "enabled", "budget_tokens": 2_000 }),
        Client::Responses => body["reasoning"] = json!({ "effort": "low" }),
        Client::Chat | Client::Gemini => {}
    }
    body
}

/// The conversation with the answer and the results of both calls, as the client's SDK builds it. The second failed where the
/// dialect can say so.
fn second_turn(client: Client, answer: &Answer) -> Value {
    let mut body = with_tools(client);
    let whole = client.whole(answer);
    let push = |list: &mut Value, more: Value| list.as_array_mut().unwrap().push(more);
    match client {
        Client::Chat => {
            let message = whole["choices"][0]["message"].clone();
            let calls = message["tool_calls"].as_array().unwrap().clone();
            push(&mut body["messages"], message);
            for call in calls.iter().rev() {
                push(
                    &mut body["messages"],
                    json!({ "role": "tool", "tool_call_id": call["id"], "content": "ok" }),
                );
            }
        }
        Client::Responses => {
            for item in whole["output"].as_array().unwrap() {
                push(&mut body["input"], item.clone());
            }
            for item in whole["output"].as_array().unwrap().iter().filter(|i| i["type"] == "function_call") {
                let url = format!("data:image/png;base64,{IMAGE}");
                let output = json!([{ "type": "input_text", "text": "ok" }, { "type": "input_image", "image_url": url }]);
                push(
                    &mut body["input"],
                    json!({ "type": "function_call_output", "call_id": item["call_id"], "output": output }),
                );
            }
        }
        Client::Messages => {
            let blocks = whole["content"].clone();
            let calls: Vec<&Value> =
                blocks.as_array().unwrap().iter().filter(|b| b["type"] == "tool_use").collect();
            let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": IMAGE } });
            let results = json!([
                { "type": "tool_result", "tool_use_id": calls[0]["id"], "content": [{ "type": "text", "text": "ok" }, image] },
                { "type": "tool_result", "tool_use_id": calls[1]["id"], "content": "no clock", "is_error": true },
            ]);
            push(&mut body["messages"], json!({ "role": "assistant", "content": blocks }));
            push(&mut body["messages"], json!({ "role": "user", "content": results }));
        }
        Client::Gemini => {
            let parts = whole["candidates"][0]["content"]["parts"].clone();
            let calls = parts.as_array().unwrap().iter().filter_map(|part| part.get("functionCall"));
            let results: Vec<Value> = calls
                .map(|call| json!({ "functionResponse": { "id": call["id"], "name": call["name"], "response": { "output": "ok" } } }))
                .collect();
            push(&mut body["contents"], json!({ "role": "model", "parts": parts }));
            push(&mut body["contents"], json!({ "role": "user", "parts": results }));
        }
    }
    body
}

#[tokio::test]
async fn clients_of_every_dialect_call_tools_over_two_turns() {
    let world = world("").await;
    for client in CLIENTS {
        for stream in [true, false] {
            world.sim(B).set(calls());
            let answer = client.ask(&world, "bedrock", stream, &with_tools(client)).await;
            let second = second_turn(client, &answer);
            world.sim(B).set(Script::healthy());
            let answer = client.ask(&world, "bedrock", stream, &second).await;
            client.assert_answered_by(&answer, "b");
            let (_, sent) = received(&world, B);
            let messages = sent["messages"].as_array().unwrap();
            let called: Vec<&Value> =
                messages[1]["content"].as_array().unwrap().iter().filter_map(|b| b.get("toolUse")).collect();
            assert_eq!(called[0]["input"], json!({ "city": "Oslo", "days": 3 }), "{client:?}");
            assert_eq!((&called[1]["name"], &called[1]["input"]), (&json!("now"), &json!({})));
            let mut results: Vec<&Value> =
                messages[2]["content"].as_array().unwrap().iter().map(|b| &b["toolResult"]).collect();
            results.sort_by_key(|result| result["toolUseId"] != called[0]["toolUseId"]);
            assert_eq!(results[0]["toolUseId"], called[0]["toolUseId"]);
            assert_eq!(results[1]["toolUseId"], called[1]["toolUseId"]);
            if matches!(client, Client::Responses | Client::Messages) {
                assert_eq!(results[0]["content"][1]["image"]["source"]["bytes"], IMAGE, "{client:?}");
            }
            if client == Client::Messages {
                assert_eq!(results[1]["status"], "error");
            }
        }
    }
}

/// The provider's seal comes back to it in the client's own place for such, and to nobody else.
#[tokio::test]
async fn thoughts_come_back_sealed_to_their_own_target_alone() {
    let world = world("").await;
    for client in [Client::Messages, Client::Responses] {
        world.sim(B).set(calls());
        let answer = client.ask(&world, "bedrock", true, &with_tools(client)).await;
        let second = second_turn(client, &answer);
        world.sim(B).set(Script::healthy());
        client.assert_answered_by(&client.ask(&world, "bedrock", false, &second).await, "b");
        let (_, sent) = received(&world, B);
        let thought = &sent["messages"][1]["content"][0]["reasoningContent"]["reasoningText"];
        assert_eq!(thought["text"], "Hm.", "{client:?}: {sent}");
        assert!(thought["signature"].as_str().unwrap().starts_with("c2lnbmF0dXJl"), "{thought}");
        // The same conversation at another target of the same model.
        client.assert_answered_by(&client.ask(&world, "shared", false, &second).await, "b");
        let (_, sent) = received(&world, B);
        assert!(!sent.to_string().contains("reasoningContent"), "{client:?}: {sent}");
    }
}
