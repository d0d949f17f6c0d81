//! OpenAI Responses: passed through to a provider that speaks it, and translated for those that do not.

use bytes::Bytes;
use pointsman_provider_sim::{Received, Script};
use pointsman_wire::grammar::{Ending, ResponsesGrammar};
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::line::assert_complete_from;
use crate::support::{Answer, World, chat};

/// Targets that speak Responses (`o`, twice), Messages (`a`) and only Chat Completions (`c`).
const TARGETS: &str = r#"
targets:
  o1: { provider: openai, base_url: "<o>", model: gpt, upstream_model: gpt-5.6, api_key: sk-o, dialect: responses }
  p2: { provider: openai, base_url: "<p>", model: gpt, upstream_model: gpt-5.6, api_key: sk-p, dialect: responses, priority: 2 }
  only-a: { provider: anthropic, base_url: "<a>", model: claude, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a }
  only-c: { provider: groq, base_url: "<c>", model: llama, api_key: sk-c }
  a-first: { provider: anthropic, base_url: "<a>", model: mixed, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a }
  c-second: { provider: groq, base_url: "<c>", model: mixed, upstream_model: llama, api_key: sk-c, priority: 2 }
  o-third: { provider: openai, base_url: "<o>", model: mixed, upstream_model: gpt-5.6, api_key: sk-o, dialect: responses, priority: 3 }
"#;
const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1, max_attempts: 4 } }\n";

const O: usize = 0;
const P: usize = 1;
const A: usize = 2;
const C: usize = 3;

async fn world(rest: &str) -> World {
    world_from(&["o", "p", "a", "c"], &format!("{TARGETS}{rest}")).await
}

fn request(model: &str, stream: bool) -> Value {
    json!({ "model": model, "input": "Say something.", "stream": stream })
}

fn received(world: &World, sim: usize) -> (Received, Value) {
    let received = world.sim(sim).received().pop().expect("a call");
    let body = serde_json::from_slice(&received.body).unwrap();
    (received, body)
}

impl World {
    async fn respond(&self, body: &Value) -> Answer {
        self.send("POST", "/v1/responses", Bytes::from(body.to_string()), &[]).await
    }
}

impl Answer {
    /// How a Responses stream ended; it must be one that the official accumulators take.
    fn end_of_responses(&self) -> Ending {
        let mut grammar = ResponsesGrammar::new();
        for event in self.named_events() {
            let data = event.data.to_string();
            let checked = grammar.event(Some(event.name.as_bytes()), data.as_bytes());
            checked.unwrap_or_else(|e| panic!("{e}: {}", self.text()));
        }
        grammar.end().unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The response itself: the answer, or what the last event holds.
    fn response(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        if self.is_stream() {
            return self.named_events().pop().expect("an event").data["response"].clone();
        }
        self.json()
    }
}

fn text_of(response: &Value) -> String {
    let output = response["output"].as_array().cloned().unwrap_or_default();
    let parts = output.iter().flat_map(|item| item["content"].as_array().cloned().unwrap_or_default());
    parts.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
}

fn assert_response_from(answer: &Answer, who: &str) {
    let response = answer.response();
    if answer.is_stream() {
        assert_eq!(answer.end_of_responses(), Ending::Complete);
    }
    assert_eq!((&response["object"], &response["status"]), (&json!("response"), &json!("completed")));
    assert!(text_of(&response).starts_with(&format!("{who} answers")), "{response}");
}

#[tokio::test]
async fn a_provider_of_the_same_dialect_gets_the_clients_own_bytes() {
    let world = world("").await;
    for stream in [true, false] {
        let body = format!(
            r#"{{"stream":{stream}, "input":[{{"role":"user","content":"x"}}],"temperature": 1.0, "model":"gpt","include":["reasoning.encrypted_content"],"top_p":1e0}}"#
        );
        let answer = world.send("POST", "/v1/responses", Bytes::from(body.clone()), &[]).await;
        assert_response_from(&answer, "o");
        let (call, _) = received(&world, O);
        assert_eq!(call.path, "/v1/responses");
        assert_eq!(String::from_utf8(call.body.to_vec()).unwrap(), body.replace("\"gpt\"", "\"gpt-5.6\""));
        let usage = world.entry(&answer).usage;
        assert!(usage.is_some_and(|u| u.input_tokens > 0 && u.output_tokens > 0), "{usage:?}");
    }
}

#[tokio::test]
async fn every_mount_of_the_path_is_the_same() {
    let world = world("").await;
    for path in ["/responses", "/v1/responses", "/openai/v1/responses"] {
        let body = Bytes::from(request("gpt", false).to_string());
        assert_response_from(&world.send("POST", path, body, &[]).await, "o");
    }
    let wrong = world.send("GET", "/v1/responses", Bytes::new(), &[]).await;
    assert_eq!(wrong.status, 405);
    let none = world.respond(&json!({ "model": "gpt" })).await;
    assert_eq!(none.status, 400);
    assert_eq!(none.error()["param"], "input");
}

#[tokio::test]
async fn a_failure_before_the_first_output_is_not_seen() {
    let hurried = TARGETS.replace(
        "dialect: responses }\n  p2",
        "dialect: responses, budget: { first_token: 400ms, response: 400ms } }\n  p2",
    );
    for script in [
        Script::status(503),
        Script::reset_before_headers(),
        Script::role_only_then_silence(),
        Script::response_failed_after(0, "server_error"),
        Script::flat_error_after(0, "server_is_overloaded"),
        Script::healthy().html(),
    ] {
        let world = world_from(&["o", "p", "a", "c"], &format!("{hurried}{QUICK}")).await;
        world.sim(O).set(script.clone());
        for stream in [true, false] {
            let answer = world.respond(&request("gpt", stream)).await;
            assert_response_from(&answer, "p");
            assert_eq!(answer.header("x-pointsman-action"), Some("failover"), "{script:?}");
        }
    }
}

/// `error` events are overlooked by Codex, and by the SDKs in part: a break is a failed response, the last event.
#[tokio::test]
async fn a_break_after_commit_is_a_failed_response() {
    let world = world("").await;
    for (sim, model) in [(O, "gpt"), (A, "claude"), (C, "llama")] {
        world.sim(sim).set(Script::cut_after(5).tokens(9));
        let answer = world.respond(&request(model, true)).await;
        assert_eq!(answer.end_of_responses(), Ending::Error, "{}", answer.text());
        let last = answer.named_events().pop().unwrap();
        assert_eq!(last.name, "response.failed");
        assert_eq!(last.data["pointsman"]["terminal"], "partial");
        assert_eq!(last.data["response"]["error"]["code"], "upstream_failed");
    }
    assert_eq!(world.sim(P).calls(), 0);
}

#[tokio::test]
async fn a_provider_that_fails_after_output_is_heard_once() {
    let world = world("").await;
    world.sim(O).set(Script::response_failed_after(5, "server_error"));
    let answer = world.respond(&request("gpt", true)).await;
    assert_eq!(answer.end_of_responses(), Ending::Error);
    let failures = answer.named_events().iter().filter(|e| e.name == "response.failed").count();
    assert_eq!(failures, 1);
}

#[tokio::test]
async fn a_responses_client_is_answered_by_providers_of_other_dialects() {
    let world = world("").await;
    for (sim, who, model, path) in
        [(A, "a", "claude", "/v1/messages"), (C, "c", "llama", "/openai/v1/chat/completions")]
    {
        for stream in [true, false] {
            let mut body = request(model, stream);
            body["instructions"] = json!("Be brief.");
            body["metadata"] = json!({ "k": "v" });
            body["max_output_tokens"] = json!(300);
            let answer = world.respond(&body).await;
            assert_response_from(&answer, who);
            let (call, _) = received(&world, sim);
            assert_eq!(call.path.trim_start_matches("/openai"), path.trim_start_matches("/openai"));
            let response = answer.response();
            assert_eq!(response["instructions"], "Be brief.", "a response repeats what was asked");
            assert_eq!((&response["metadata"], &response["store"]), (&json!({ "k": "v" }), &json!(false)));
            // The sim of a provider that is not asked for usage tells none in a stream.
            let counted = response["usage"]["total_tokens"].as_u64().is_some_and(|n| n > 0);
            assert!(counted || (stream && sim == C), "{response}");
        }
    }
}

/// A failover walks over three dialects, and the client sees one answer of its own.
#[tokio::test]
async fn a_failover_over_three_dialects_is_one_answer() {
    let world = world(QUICK).await;
    world.sim(A).set(Script::status(529));
    world.sim(C).set(Script::status(503));
    for stream in [true, false] {
        assert_response_from(&world.respond(&request("mixed", stream)).await, "o");
        let answer = world.post(&chat("mixed", stream)).await;
        let text = if stream { answer.content() } else { answer.text().to_owned() };
        assert!(text.contains("o answers"), "{}", answer.text());
        let message = json!({
            "model": "mixed", "max_tokens": 64, "stream": stream,
            "messages": [{ "role": "user", "content": "Say something." }],
        });
        assert_complete_from(&world.ask(&message).await, "o");
    }
    assert_eq!(received(&world, O).0.path, "/v1/responses");
}

fn weather(kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    match kind {
        "messages" => json!([{ "name": "get_weather", "input_schema": schema }]),
        "chat" => {
            json!([{ "type": "function", "function": { "name": "get_weather", "parameters": schema } }])
        }
        _ => json!([{ "type": "function", "name": "get_weather", "parameters": schema, "strict": false }]),
    }
}

/// What the model thought and called goes back to the provider that did, in its own words, when the conversation goes on.
#[tokio::test]
async fn thoughts_and_calls_of_another_dialect_come_back_to_their_origin() {
    let world = world("").await;
    world.sim(A).set(
        Script::healthy()
            .reasoning("Let me look.", "thinking")
            .tool_call("get_weather", r#"{"city": "Oslo"}"#),
    );
    for stream in [true, false] {
        let mut body = request("claude", stream);
        body["tools"] = weather("responses");
        body["reasoning"] = json!({ "effort": "low", "summary": "auto" });
        body["max_output_tokens"] = json!(4096);
        let answer = world.respond(&body).await;
        if stream {
            assert_eq!(answer.end_of_responses(), Ending::Complete);
        }
        let output = answer.response()["output"].as_array().cloned().unwrap();
        let of = |kind: &str| output.iter().find(|item| item["type"] == kind).cloned();
        let thoughts = of("reasoning").unwrap_or_else(|| panic!("{output:?}"));
        let call = of("function_call").unwrap_or_else(|| panic!("{output:?}"));
        assert_eq!(thoughts["summary"][0]["text"], "Let me look.");
        assert!(thoughts["encrypted_content"].as_str().is_some_and(|seal| seal.starts_with("pm1.messages.")));
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({ "city": "Oslo" }));
        let mut input = vec![json!({ "role": "user", "content": "Say something." })];
        input.extend(output);
        input.push(json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "Rain." }));
        body["input"] = json!(input);
        let again = world.respond(&body).await;
        assert_eq!(again.status, 200, "{}", again.text());
        let (_, sent) = received(&world, A);
        let assistant = &sent["messages"][1]["content"];
        assert_eq!(
            (&assistant[0]["type"], &assistant[0]["thinking"]),
            (&json!("thinking"), &json!("Let me look."))
        );
        assert!(assistant[0]["signature"].as_str().is_some_and(|s| !s.is_empty() && !s.starts_with("pm1.")));
        let used = assistant.as_array().unwrap().iter().find(|b| b["type"] == "tool_use").unwrap();
        assert_eq!(used["input"], json!({ "city": "Oslo" }));
        // To another provider the same conversation goes without them.
        body["model"] = json!("gpt");
        let other = world.respond(&body).await;
        assert_eq!(other.status, 200, "{}", other.text());
        let (_, sent) = received(&world, O);
        assert!(!sent.to_string().contains("pm1."), "{sent}");
    }
}

/// The other way round: a client of Messages in front of a provider of Responses.
#[tokio::test]
async fn a_messages_client_hands_sealed_reasoning_back_to_its_origin() {
    let rest = "models: { gpt: { reasoning: true } }\n";
    let world = world(rest).await;
    world.sim(O).set(
        Script::healthy()
            .reasoning("Let me look.", "summary")
            .tool_call("get_weather", r#"{"city": "Oslo"}"#),
    );
    let mut body = json!({
        "model": "gpt", "max_tokens": 4096, "stream": false, "tools": weather("messages"),
        "thinking": { "type": "enabled", "budget_tokens": 2048 },
        "messages": [{ "role": "user", "content": "Weather?" }],
    });
    let answer = world.ask(&body).await;
    let content = answer.json()["content"].as_array().cloned().unwrap();
    assert!(
        content[0]["signature"].as_str().is_some_and(|seal| seal.starts_with("pm1.responses.")),
        "{content:?}"
    );
    let call = content.iter().find(|b| b["type"] == "tool_use").cloned().unwrap();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": content }));
    messages.push(json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": call["id"], "content": "Rain." }] }));
    let again = world.ask(&body).await;
    assert_eq!(again.status, 200, "{}", again.text());
    let (_, sent) = received(&world, O);
    let input = sent["input"].as_array().unwrap();
    let thoughts = input.iter().find(|item| item["type"] == "reasoning").unwrap_or_else(|| panic!("{sent}"));
    assert!(thoughts["encrypted_content"].as_str().is_some_and(|s| !s.starts_with("pm1.")));
    assert_eq!(thoughts["summary"][0]["text"], "Let me look.");
    // A provider of the client's own dialect never sees them.
    body["model"] = json!("claude");
    assert_eq!(world.ask(&body).await.status, 200);
    assert!(!received(&world, A).1.to_string().contains("pm1."));
}

/// A custom tool of a Responses client at a provider without such tools.
#[tokio::test]
async fn a_custom_tool_is_called_with_its_text() {
    let world = world("").await;
    let patch = "*** Begin\n+ \"a\"";
    world.sim(C).set(Script::healthy().tool_call("apply_patch", json!({ "input": patch }).to_string()));
    for stream in [true, false] {
        let mut body = request("llama", stream);
        body["tools"] = json!([{ "type": "custom", "name": "apply_patch", "description": "Patches." }]);
        let answer = world.respond(&body).await;
        if stream {
            assert_eq!(answer.end_of_responses(), Ending::Complete);
        }
        let output = answer.response()["output"].as_array().cloned().unwrap();
        let call = output.iter().find(|item| item["type"] == "custom_tool_call").unwrap();
        assert_eq!((&call["name"], &call["input"]), (&json!("apply_patch"), &json!(patch)));
        let (_, sent) = received(&world, C);
        assert_eq!(sent["tools"][0]["function"]["parameters"]["required"], json!(["input"]));
    }
}

#[tokio::test]
async fn what_only_the_provider_keeps_is_refused_where_it_would_have_to_be_translated() {
    let world = world("").await;
    for (field, value) in [
        ("previous_response_id", json!("resp_1")),
        ("conversation", json!("conv_1")),
        ("background", json!(true)),
        ("tools", json!([{ "type": "web_search" }])),
    ] {
        let mut body = request("claude", false);
        body[field] = value;
        let answer = world.respond(&body).await;
        assert_eq!(answer.status, 400, "{field}: {}", answer.text());
        let param = answer.error()["param"].as_str().unwrap_or_default().to_owned();
        assert!(param.starts_with(field), "{param}");
        body["model"] = json!("gpt");
        assert_ne!(received_after(&world, &body).await, Value::Null, "{field} reaches its own dialect");
    }
    assert_eq!(world.sim(A).calls(), 0);
}

async fn received_after(world: &World, body: &Value) -> Value {
    world.respond(body).await;
    received(world, O).1
}

#[tokio::test]
async fn a_refusal_of_the_request_itself_is_heard() {
    let world = world("").await;
    let refusal = json!({ "error": { "message": "too odd", "type": "invalid_request_error", "param": "input", "code": "invalid_value" } });
    world.sim(O).set(Script::fixed(400, "application/json", refusal.to_string()));
    let answer = world.respond(&request("gpt", true)).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.error(), refusal["error"]);
    assert_eq!((world.sim(O).calls(), world.sim(P).calls()), (1, 0));
}

#[tokio::test]
async fn an_early_stream_says_who_answers() {
    let yaml = format!("server: {{ listen: 127.0.0.1:0, keepalive: 100ms }}\n{TARGETS}");
    let world = world_from(&["o", "p", "a", "c"], &yaml).await;
    for (sim, model, target) in [(O, "gpt", "o1"), (A, "claude", "only-a")] {
        world.sim(sim).set(Script::healthy().delay_first_token(std::time::Duration::from_millis(400)));
        let answer = world.respond(&request(model, true)).await;
        assert_eq!(answer.header("x-pointsman-early"), Some("true"));
        assert_eq!(answer.end_of_responses(), Ending::Complete);
        assert_eq!(answer.named_events()[0].data["pointsman"]["target"], target);
    }
}

/// C084: what a translated stream keeps of itself, since its last event repeats it, is memory like that of bodies: one
/// that finds none ends honestly, and nothing of it is put down to the provider.
#[tokio::test]
async fn a_translated_stream_that_finds_no_memory_breaks_off() {
    let world = world("server: { listen: 127.0.0.1:0, max_body: 64KiB, body_memory: 64KiB }\n").await;
    let mut long = Script::healthy();
    long.answer.text = Some("word ".repeat(30_000));
    world.sim(C).set(long);
    let answer = world.respond(&request("llama", true)).await;
    assert_eq!(answer.end_of_responses(), Ending::Error);
    let events = answer.named_events();
    let deltas = events.iter().filter(|event| event.name == "response.output_text.delta").count();
    assert!((100..30_000).contains(&deltas), "{deltas}");
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("response.failed"));
    let domains = world.gateway.app().with_fleet(|fleet| fleet.domains(world.clock.now()));
    assert!(domains.iter().all(|domain| domain.failures_in_a_row == 0), "{domains:?}");
    assert_eq!(world.gateway.app().admission.body_bytes(), 0);
}
