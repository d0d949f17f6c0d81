//! Clients of one dialect in front of targets of another: what reaches the provider, what comes back, and that a failover
//! across dialects is as safe as within one.

use pointsman_provider_sim::{Received, Script};
use pointsman_wire::grammar::Ending;
use serde_json::{Value, json};

use crate::checks::{assert_broken_off, world_from};
use crate::line::{assert_complete_from, assert_ended_by_error};
use crate::support::{Answer, World, chat};

/// One model, first at an OpenAI target `o`, then at an Anthropic target `a`.
const TARGETS: &str = r#"
targets:
  o: { provider: openai, base_url: "<o>", model: shared, upstream_model: gpt-4o, api_key: sk-o }
  a: { provider: anthropic, base_url: "<a>", model: shared, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a, priority: 2 }
  only-o: { provider: openai, base_url: "<o>", model: gpt, upstream_model: gpt-4o, api_key: sk-o }
  only-a: { provider: anthropic, base_url: "<a>", model: claude, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a }
"#;
const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

async fn world(rest: &str) -> World {
    world_from(&["o", "a"], &format!("{TARGETS}{rest}")).await
}

fn message(model: &str, stream: bool) -> Value {
    json!({
        "model": model, "max_tokens": 256, "stream": stream,
        "messages": [{ "role": "user", "content": "Say something." }],
    })
}

fn received(world: &World, sim: usize) -> (Received, Value) {
    let received = world.sim(sim).received().pop().expect("a call");
    let body = serde_json::from_slice(&received.body).unwrap();
    (received, body)
}

fn header<'a>(received: &'a Received, name: &str) -> Option<&'a str> {
    received.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn text_of_chat(answer: &Answer) -> String {
    if answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
        return answer.content();
    }
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

/// A whole answer of Chat Completions, whoever gave it.
fn assert_whole_chat(answer: &Answer, who: &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(text_of_chat(answer).starts_with(&format!("{who} answers")), "{}", answer.text());
    if answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
        assert!(answer.is_done_once(), "{}", answer.text());
        assert_eq!(answer.finish_reasons(), ["stop"]);
    }
}

#[tokio::test]
async fn a_chat_client_is_answered_by_an_anthropic_target() {
    let world = world("").await;
    for stream in [true, false] {
        let mut body = chat("claude", stream);
        body["temperature"] = json!(0.5);
        let answer = world.post(&body).await;
        assert_whole_chat(&answer, "a");
        assert_eq!(answer.header("x-pointsman-target"), Some("only-a"));
        assert_eq!(answer.header("x-pointsman-loss"), None);
        let (call, sent) = received(&world, 1);
        assert_eq!(call.path, "/v1/messages");
        assert_eq!(header(&call, "x-api-key"), Some("sk-ant-a"));
        assert_eq!(header(&call, "anthropic-version"), Some("2023-06-01"));
        assert_eq!(header(&call, "authorization"), None);
        assert_eq!(sent["model"], "claude-sonnet-4-5");
        assert_eq!(sent["stream"], stream);
        assert_eq!(sent["max_tokens"], 64_000);
        assert_eq!(sent["temperature"], 0.5);
        assert_eq!(sent["messages"][0]["role"], "user");
        let usage = world.entry(&answer).usage;
        assert!(usage.is_some_and(|u| u.input_tokens > 0 && u.output_tokens > 0), "{usage:?}");
    }
}

#[tokio::test]
async fn a_chat_client_is_told_of_usage_if_it_asked() {
    let world = world("").await;
    let mut body = chat("claude", true);
    let usages = |answer: &Answer| answer.chunks().iter().filter(|c| c["usage"].is_object()).count();
    assert_eq!(usages(&world.post(&body).await), 0);
    body["stream_options"] = json!({ "include_usage": true });
    let answer = world.post(&body).await;
    assert_eq!(usages(&answer), 1);
    let last = answer.chunks().pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    let total = last["usage"]["prompt_tokens"].as_u64().unwrap()
        + last["usage"]["completion_tokens"].as_u64().unwrap();
    assert_eq!(last["usage"]["total_tokens"], total);
}

#[tokio::test]
async fn a_messages_client_is_answered_by_an_openai_target() {
    let world = world("").await;
    for stream in [true, false] {
        let mut body = message("gpt", stream);
        body["system"] = json!("Be brief.");
        let beta = [("anthropic-beta", "effort-2025-11-24")];
        let answer = world.ask_with(&body, &beta).await;
        assert_complete_from(&answer, "o");
        let (call, sent) = received(&world, 0);
        assert_eq!(call.path, "/v1/chat/completions");
        assert_eq!(header(&call, "authorization"), Some("Bearer sk-o"));
        for theirs in ["x-api-key", "anthropic-version", "anthropic-beta"] {
            assert_eq!(header(&call, theirs), None, "{theirs}");
        }
        assert_eq!(sent["messages"][0], json!({ "role": "system", "content": "Be brief." }));
        assert_eq!(sent["max_completion_tokens"], 256);
        assert_eq!(sent["stream"], stream);
        if stream {
            assert_eq!(sent["stream_options"], json!({ "include_usage": true }));
            let last = answer.named_events().into_iter().rev().find(|e| e.name == "message_delta").unwrap();
            assert!(last.data["usage"]["output_tokens"].as_u64().is_some_and(|n| n > 0), "{:?}", last.data);
        }
    }
}

/// Before the first output nothing is seen of the other dialect's failure.
#[tokio::test]
async fn failover_across_dialects_is_invisible_before_commit() {
    // `o` is given little time, `a` as much as it needs on a busy machine.
    let hurried = "api_key: sk-o, budget: { first_token: 400ms, response: 400ms } }\n  a:";
    let targets = TARGETS.replace("api_key: sk-o }\n  a:", hurried);
    for script in [Script::status(503), Script::reset_before_headers(), Script::role_only_then_silence()] {
        let world = world_from(&["o", "a"], &format!("{targets}{QUICK}")).await;
        world.sim(0).set(script);
        for stream in [true, false] {
            let answer = world.post(&chat("shared", stream)).await;
            assert_whole_chat(&answer, "a");
            assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
        }
        assert_complete_from(&world.ask(&message("shared", true)).await, "a");
    }
}

#[tokio::test]
async fn a_messages_client_fails_over_from_anthropic_to_openai() {
    let swapped = TARGETS
        .replace(", priority: 2", "")
        .replace("api_key: sk-o }\n  a:", "api_key: sk-o, priority: 2 }\n  a:");
    let world = world_from(&["o", "a"], &format!("{swapped}{QUICK}")).await;
    world.sim(1).set(Script::status(529));
    for stream in [true, false] {
        let answer = world.ask(&message("shared", stream)).await;
        assert_complete_from(&answer, "o");
        assert_eq!(answer.header("x-pointsman-reason"), Some("a:overloaded>o"));
    }
    assert_eq!(world.sim(1).calls(), 2);
}

/// After it, one error in the client's own dialect, and no other target.
#[tokio::test]
async fn a_break_after_commit_is_told_once_in_the_clients_dialect() {
    let world = world("").await;
    world.sim(1).set(Script::cut_after(5).tokens(9));
    let answer = world.post(&chat("claude", true)).await;
    let last = assert_broken_off(&answer);
    assert_eq!(last["pointsman"]["terminal"], "partial");
    assert_eq!(answer.content().split_whitespace().count(), 5);
    world.sim(0).set(Script::cut_after(5).tokens(9));
    let answer = world.ask(&message("gpt", true)).await;
    let last = assert_ended_by_error(&answer);
    assert_eq!(last["pointsman"]["terminal"], "partial");
    assert_eq!(answer.ending(), Ending::Error);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 1));
}

#[tokio::test]
async fn tool_calls_arrive_whole_in_the_other_dialect() {
    let world = world("").await;
    let arguments = r#"{"city": "Oslo", "days": 3}"#;
    for sim in [0, 1] {
        world.sim(sim).set(Script::healthy().tool_call("get_weather", arguments));
    }
    let mut body = chat("claude", true);
    body["tools"] = json!([{ "type": "function", "function": { "name": "get_weather", "parameters": { "type": "object" } } }]);
    let answer = world.post(&body).await;
    assert_eq!(answer.finish_reasons(), ["tool_calls"], "{}", answer.text());
    let calls: Vec<Value> = answer
        .chunks()
        .iter()
        .flat_map(|c| c["choices"][0]["delta"]["tool_calls"].as_array().cloned().unwrap_or_default())
        .collect();
    assert_eq!(calls[0]["function"]["name"], "get_weather");
    let joined: String = calls.iter().filter_map(|c| c["function"]["arguments"].as_str()).collect();
    let parsed: Value = serde_json::from_str(&joined).unwrap();
    assert_eq!(parsed, json!({ "city": "Oslo", "days": 3 }));
    let mut body = message("gpt", false);
    body["tools"] = json!([{ "name": "get_weather", "input_schema": { "type": "object" } }]);
    let answer = world.ask(&body).await;
    let content = answer.json()["content"].clone();
    let call = content.as_array().unwrap().iter().find(|b| b["type"] == "tool_use").expect("a call").clone();
    assert_eq!((&call["name"], &call["input"]), (&json!("get_weather"), &parsed));
    assert_eq!(answer.json()["stop_reason"], "tool_use");
}

/// What is lost is told by its place, never by its value.
#[tokio::test]
async fn what_a_request_loses_stands_in_a_header() {
    let world = world("").await;
    let mut body = chat("claude", true);
    body["seed"] = json!(4711);
    body["temperature"] = json!(1.5);
    let answer = world.post(&body).await;
    assert_whole_chat(&answer, "a");
    assert_eq!(answer.header("x-pointsman-loss"), Some("seed dropped, temperature changed"));
    body["model"] = json!("gpt");
    assert_eq!(world.post(&body).await.header("x-pointsman-loss"), None, "the same dialect loses nothing");
}

#[tokio::test]
async fn a_route_that_loses_nothing_refuses_before_anything_is_sent() {
    let world = world("defaults: { on_loss: reject }\n").await;
    let mut body = chat("claude", false);
    body["seed"] = json!(4711);
    let answer = world.post(&body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let error = answer.json()["error"].clone();
    assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &json!("seed")));
    assert!(error["message"].as_str().unwrap().contains("`/seed`"), "{error}");
    assert!(!answer.text().contains("4711"));
    assert_eq!(world.sim(1).calls(), 0);
}

#[tokio::test]
async fn what_the_other_dialect_cannot_say_goes_to_a_target_that_can() {
    let world = world("").await;
    let mut body = chat("claude", false);
    body["n"] = json!(2);
    let answer = world.post(&body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["error"]["param"], "n");
    assert_eq!(world.sim(1).calls(), 0);
    let second = format!("{TARGETS}routes: {{ r: {{ models: [shared] }} }}\n")
        .replace(", priority: 2", ", priority: 0");
    let world = world_from(&["o", "a"], &second).await;
    body["model"] = json!("shared");
    let answer = world.post(&body).await;
    assert_eq!(answer.header("x-pointsman-target"), Some("o"), "{}", answer.text());
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
}

/// Whoever was passed over says nothing of what befell the others.
#[tokio::test]
async fn an_outage_behind_a_target_that_was_passed_over_is_told_as_an_outage() {
    let first = TARGETS.replace(", priority: 2", ", priority: 0");
    let world = world_from(&["o", "a"], &format!("{first}{QUICK}")).await;
    world.sim(0).set(Script::status(503));
    let mut body = chat("shared", false);
    body["n"] = json!(2);
    let answer = world.post(&body).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
}

/// What one model of a provider cannot do, another of the same provider may.
#[tokio::test]
async fn a_model_that_is_passed_over_speaks_for_itself_only() {
    let yaml = r#"
targets:
  newest: { provider: anthropic, base_url: "<o>", model: m, upstream_model: claude-opus-5-5, api_key: sk-ant-a }
  older: { provider: anthropic, base_url: "<a>", model: m, upstream_model: claude-sonnet-4-5, api_key: sk-ant-b, priority: 2 }
"#;
    let world = world_from(&["o", "a"], yaml).await;
    let mut body = chat("m", false);
    body["tools"] = json!([{ "type": "function", "function": { "name": "f" } }]);
    body["tool_choice"] = json!("required");
    let answer = world.post(&body).await;
    assert_eq!(answer.header("x-pointsman-target"), Some("older"), "{}", answer.text());
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (0, 1));
}

/// A provider that is cut off within a tool call, with an end marker all the same.
#[tokio::test]
async fn a_call_that_ends_in_its_middle_is_no_call() {
    let world = world("").await;
    let chunk =
        |delta: Value| json!({ "id": "c", "model": "gpt-4o", "choices": [{ "index": 0, "delta": delta }] });
    let call = json!({ "tool_calls": [{ "index": 0, "id": "x", "function": { "name": "f", "arguments": "{\"a\":" } }] });
    let body =
        format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", chunk(json!({ "content": "Well" })), chunk(call));
    world.sim(0).set(Script::fixed(200, "text/event-stream", body));
    let answer = world.ask(&message("gpt", true)).await;
    assert_ended_by_error(&answer);
}

/// A provider's refusal of the request itself reaches the client in the client's shape.
#[tokio::test]
async fn a_provider_that_refuses_the_request_is_heard() {
    let world = world("").await;
    let refusal = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "messages: too odd" } });
    world.sim(1).set(Script::fixed(400, "application/json", refusal.to_string()));
    let answer = world.post(&chat("claude", true)).await;
    assert_eq!(answer.status, 400);
    let error = answer.json()["error"].clone();
    assert_eq!(
        (&error["message"], &error["type"]),
        (&json!("messages: too odd"), &json!("invalid_request_error"))
    );
    let refusal = json!({ "error": { "message": "too odd", "type": "invalid_request_error", "param": "messages", "code": null } });
    world.sim(0).set(Script::fixed(400, "application/json", refusal.to_string()));
    let answer = world.ask(&message("gpt", true)).await;
    assert_eq!(answer.status, 400);
    let body = answer.json();
    assert_eq!((&body["type"], &body["error"]["message"]), (&json!("error"), &json!("too odd")));
}

/// What cannot be read as the client's own dialect is the client's fault, before anything is sent.
#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused_with_its_place() {
    let world = world("").await;
    let mut body = chat("claude", false);
    body["messages"] = json!([{ "role": "robot", "content": "x" }]);
    let answer = world.post(&body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["error"]["param"], "messages.0.role");
    assert_eq!(world.sim(1).calls(), 0);
}

/// A stream that was opened early says in its first event who answers.
#[tokio::test]
async fn an_early_stream_says_who_answers_in_the_clients_dialect() {
    let yaml = format!("server: {{ listen: 127.0.0.1:0, keepalive: 100ms }}\n{TARGETS}");
    let world = world_from(&["o", "a"], &yaml).await;
    for sim in [0, 1] {
        world.sim(sim).set(Script::healthy().delay_first_token(std::time::Duration::from_millis(400)));
    }
    let answer = world.post(&chat("claude", true)).await;
    assert_eq!(answer.header("x-pointsman-early"), Some("true"));
    let told = answer.chunks().iter().find_map(|c| c.get("pointsman").cloned()).expect("who answers");
    assert_eq!(told["target"], "only-a");
    let answer = world.ask(&message("gpt", true)).await;
    assert_complete_from(&answer, "o");
    assert_eq!(answer.named_events()[0].data["message"]["pointsman"]["target"], "only-o");
}

/// A plain answer that is gathered from the provider's stream.
#[tokio::test]
async fn a_gathered_answer_is_translated_too() {
    let world = world("defaults: { stream: { gather: on } }\n").await;
    assert_whole_chat(&world.post(&chat("claude", false)).await, "a");
    let (_, sent) = received(&world, 1);
    assert_eq!(sent["stream"], true);
    assert_complete_from(&world.ask(&message("gpt", false)).await, "o");
}

#[tokio::test]
async fn losses_are_counted_by_target() {
    let world = world("").await;
    let mut body = chat("claude", false);
    body["seed"] = json!(1);
    world.post(&body).await;
    let app = world.gateway.app();
    let metrics = app.metrics.render(app);
    assert!(metrics.contains("pointsman_losses_total{target=\"only-a\"} 1"), "{metrics}");
}
