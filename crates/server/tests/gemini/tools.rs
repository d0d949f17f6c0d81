//! Tool loops over two turns. The simulated provider of Gemini checks seals as Google does: a call without one, or with one
//! that it did not make, is a 400.

use bytes::Bytes;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::asked::*;
use crate::support::{Answer, World, chat};

const ARGUMENTS: &str = r#"{"city": "Oslo", "days": 3}"#;

async fn ask_messages(world: &World, body: &Value) -> Answer {
    world.send("POST", "/v1/messages", Bytes::from(body.to_string()), &[]).await
}

fn calls() -> Script {
    Script::healthy().tool_call("get_weather", ARGUMENTS).tool_call("now", "")
}

/// The function calls of an answer, with what stands beside them.
fn called(answer: &Answer) -> Vec<Value> {
    parts(answer).into_iter().filter(|part| part.get("functionCall").is_some()).collect()
}

fn offered() -> Value {
    let tool =
        json!({ "name": "get_weather", "parametersJsonSchema": { "type": "object", "properties": {} } });
    json!([{ "functionDeclarations": [tool, { "name": "now" }] }])
}

/// The conversation after an answer that called both tools, as Google's SDK builds it: the parts as they came, and results by
/// name, the second of which failed.
fn second_turn(answer: &Answer) -> Value {
    let mut body = hello();
    body["tools"] = offered();
    let results = called(answer).into_iter().enumerate().map(|(place, part)| {
        let call = &part["functionCall"];
        let said = if place == 0 { json!({ "output": "Rain" }) } else { json!({ "error": "no clock" }) };
        let mut result = json!({ "name": call["name"], "response": said });
        if let Some(id) = call.get("id") {
            result["id"] = id.clone();
        }
        json!({ "functionResponse": result })
    });
    let results: Vec<Value> = results.collect();
    let contents = body["contents"].as_array_mut().unwrap();
    contents.push(json!({ "role": "model", "parts": parts(answer) }));
    contents.push(json!({ "role": "user", "parts": results }));
    body
}

#[tokio::test]
async fn a_gemini_client_calls_tools_at_every_provider() {
    let world = world("").await;
    let mut first = hello();
    first["tools"] = offered();
    for (sim, model, who) in [(G, "gemini", "g"), (O, "gpt", "o"), (A, "claude", "a")] {
        for stream in [true, false] {
            world.sim(sim).set(calls());
            let answer = world.generate(model, stream, &first).await;
            let calls = called(&answer);
            let names: Vec<&str> = calls.iter().filter_map(|c| c["functionCall"]["name"].as_str()).collect();
            assert_eq!(names, ["get_weather", "now"], "{}", answer.text());
            assert_eq!(calls[0]["functionCall"]["args"], json!({ "city": "Oslo", "days": 3 }));
            assert_eq!(calls[1]["functionCall"]["args"], json!({}), "no arguments are an empty object");
            assert_eq!(finish(&answer), ["STOP"]);
            world.sim(sim).set(Script::healthy());
            assert_generated_by(&world.generate(model, stream, &second_turn(&answer)).await, who);
        }
    }
    let (_, sent) = received(&world, O);
    let results: Vec<&Value> =
        sent["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool").collect();
    assert_eq!((&results[0]["content"], &results[1]["content"]), (&json!("Rain"), &json!("Error: no clock")));
    assert_eq!(results[0]["tool_call_id"], sent["messages"][1]["tool_calls"][0]["id"]);
    let (_, sent) = received(&world, A);
    let results = &sent["messages"][2]["content"];
    assert_eq!((&results[0]["type"], &results[1]["is_error"]), (&json!("tool_result"), &json!(true)));
}

/// The conversation goes on elsewhere: what one provider's model said is history to the other's.
#[tokio::test]
async fn a_tool_loop_goes_on_at_another_provider() {
    let world = world("").await;
    let mut first = hello();
    first["tools"] = offered();
    for (sim, model) in [(G, "gemini"), (O, "gpt"), (A, "claude")] {
        for (other, elsewhere, who) in [(G, "gemini", "g"), (O, "gpt", "o"), (A, "claude", "a")] {
            world.sim(sim).set(calls().reasoning("Hm.", "reasoning_content"));
            let answer = world.generate(model, true, &first).await;
            world.sim(other).set(Script::healthy());
            let answer = world.generate(elsewhere, false, &second_turn(&answer)).await;
            assert_generated_by(&answer, who);
        }
    }
}

#[tokio::test]
async fn a_chat_client_calls_tools_at_google() {
    let world = world("").await;
    let mut body = chat("gemini", false);
    body["tools"] = json!([
        { "type": "function", "function": { "name": "get_weather", "parameters": { "type": "object", "properties": {} } } },
        { "type": "function", "function": { "name": "now" } },
    ]);
    world.sim(G).set(calls());
    let answer = world.post(&body).await.json();
    let message = answer["choices"][0]["message"].clone();
    let calls = message["tool_calls"].as_array().unwrap().clone();
    assert_eq!((calls.len(), &answer["choices"][0]["finish_reason"]), (2, &json!("tool_calls")), "{answer}");
    let arguments: Value = serde_json::from_str(calls[0]["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({ "city": "Oslo", "days": 3 }));
    assert_eq!(calls[1]["function"]["arguments"], "{}");
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(message);
    for call in calls.iter().rev() {
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "ok" }));
    }
    world.sim(G).set(Script::healthy());
    let answer = world.post(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (_, sent) = received(&world, G);
    let own = &sent["contents"][1]["parts"];
    assert_eq!(
        own[0]["thoughtSignature"], "skip_thought_signature_validator",
        "a chat client keeps no seals"
    );
    assert_eq!(own[1].get("thoughtSignature"), None);
    let results = &sent["contents"][2]["parts"];
    assert_eq!(results[0]["functionResponse"]["name"], "get_weather", "in the order of the calls");
}

/// The seal that Google put on a call goes through a client of Messages and back to Google, and to nobody else.
#[tokio::test]
async fn googles_seal_comes_back_through_a_messages_client() {
    let world = world("").await;
    for stream in [true, false] {
        let mut body = json!({
            "model": "gemini", "max_tokens": 900, "stream": stream, "messages": [{ "role": "user", "content": "x" }],
            "tools": [{ "name": "get_weather", "input_schema": { "type": "object" } }],
        });
        world.sim(G).set(Script::healthy().tool_call("get_weather", ARGUMENTS));
        let answer = ask_messages(&world, &body).await;
        let content = if stream { content_of(&answer) } else { answer.json()["content"].clone() };
        let seal = content.as_array().unwrap().iter().find_map(|b| b["signature"].as_str()).expect("a seal");
        let google =
            seal.strip_prefix("pm1.gemini.").and_then(|rest| rest.split_once('.')).unwrap().1.to_owned();
        let call = content.as_array().unwrap().iter().find(|b| b["type"] == "tool_use").unwrap();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({ "role": "assistant", "content": content }));
        messages.push(json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": call["id"], "content": "Rain" }] }));
        world.sim(G).set(Script::healthy());
        let answer = ask_messages(&world, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (_, sent) = received(&world, G);
        let parts = sent["contents"][1]["parts"].as_array().unwrap();
        let sealed = parts.iter().find(|p| p.get("functionCall").is_some()).unwrap();
        assert_eq!(sealed["thoughtSignature"], google.as_str());
        body["model"] = json!("claude");
        let answer = ask_messages(&world, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (call, _) = received(&world, A);
        assert!(!String::from_utf8_lossy(&call.body).contains(&google), "Anthropic is not shown it");
    }
}

/// The blocks that the events of a stream build.
fn content_of(answer: &Answer) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    for event in answer.named_events() {
        let data = &event.data;
        match data["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(data["content_block"].clone()),
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                for (from, to) in [
                    ("text", "text"),
                    ("thinking", "thinking"),
                    ("signature", "signature"),
                    ("partial_json", "json"),
                ] {
                    if let Some(more) = data["delta"][from].as_str() {
                        let before = block[to].as_str().unwrap_or_default().to_owned();
                        block[to] = json!(before + more);
                    }
                }
            }
            "content_block_stop" => {
                let block = blocks.last_mut().unwrap();
                if let Some(input) = block["json"].as_str().map(str::to_owned) {
                    block["input"] = serde_json::from_str(&input).unwrap();
                    block.as_object_mut().unwrap().remove("json");
                }
            }
            _ => {}
        }
    }
    json!(blocks)
}

#[tokio::test]
async fn a_call_that_google_could_not_read_is_asked_for_elsewhere() {
    let world = world(QUICK).await;
    let mut body = hello();
    body["tools"] = offered();
    world.sim(O).set(calls());
    let broken = json!({ "candidates": [{ "finishReason": "MALFORMED_FUNCTION_CALL", "index": 0 }], "responseId": "r", "modelVersion": "m" });
    world.sim(G).set(Script::fixed(200, "application/json", broken.to_string()));
    let answer = world.generate("shared", false, &body).await;
    assert_eq!(answer.header("x-pointsman-target"), Some("o"), "{}", answer.text());
    world.sim(G).set(Script::fixed(200, "text/event-stream", format!("data: {broken}\n\n")));
    let answer = world.generate("shared", true, &body).await;
    assert_eq!(
        (answer.header("x-pointsman-target"), called(&answer).len()),
        (Some("o"), 2),
        "{}",
        answer.text()
    );
}
