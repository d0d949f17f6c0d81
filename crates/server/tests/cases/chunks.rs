//! Chunks of Chat Completions as strict clients want them, whoever made them.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::{alone, world_from};
use crate::support::{Answer, World, chat};

/// A chunk of a server that names itself anew in each, with one choice.
fn chunk(number: u64, choice: &Value) -> Value {
    json!({"id": format!("c-{number}"), "object": "chat.completion.chunk", "created": 1_700_000_000 + number,
        "model": format!("m-{number}"), "choices": [choice]})
}

fn choice(index: u64, delta: &Value, finish: Option<&str>) -> Value {
    json!({"index": index, "delta": delta, "finish_reason": finish})
}

fn streamed(chunks: &[Value]) -> Script {
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    Script::fixed(200, "text/event-stream", events + "data: [DONE]\n\n")
}

/// C037: of several choices each opens with its role, and says it once.
#[tokio::test]
async fn every_choice_begins_with_its_role() {
    let world = alone("").await;
    let role = json!({"role": "assistant", "content": ""});
    let text = |words: &str| json!({"content": words});
    let chunks = [
        chunk(0, &choice(0, &role, None)),
        chunk(0, &choice(1, &role, None)),
        chunk(0, &choice(0, &text("a answers"), None)),
        chunk(0, &choice(1, &text("a says"), None)),
        chunk(0, &choice(1, &json!({}), Some("stop"))),
        chunk(0, &choice(0, &json!({}), Some("stop"))),
    ];
    world.sim(0).set(streamed(&chunks));
    let mut request = chat("gpt-4o", true);
    request["n"] = json!(2);
    let answer = world.post(&request).await;
    assert_eq!(answer.chunks(), chunks, "nothing is left out or changed");
    assert!(answer.is_done_once());
}

/// C037: the role that was held back until the first output is not lost, also where only tools are called.
#[tokio::test]
async fn a_role_that_was_held_back_comes_first() {
    let world = alone("").await;
    for script in [Script::healthy(), Script::healthy().tool_call("f", "{}").tool_call("g", "{}")] {
        world.sim(0).set(script);
        let chunks = world.post(&chat("gpt-4o", true)).await.chunks();
        let roles: Vec<&Value> = chunks.iter().map(|c| &c["choices"][0]["delta"]["role"]).collect();
        assert_eq!(roles[0], "assistant");
        assert!(roles[1..].iter().all(|role| role.is_null()), "{roles:?}");
    }
}

/// The different values of a field in the chunks of a stream.
fn values(answer: &Answer, field: &str) -> Vec<Value> {
    let mut values: Vec<Value> = answer.chunks().iter().map(|chunk| chunk[field].clone()).collect();
    values.dedup();
    values
}

/// C038: a server that names and dates each chunk anew is one voice to the client all the same, usage included.
#[tokio::test]
async fn the_name_of_a_stream_does_not_change_within_it() {
    let world = alone("").await;
    let call = json!({"tool_calls": [{"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let mut usage = chunk(5, &json!({}));
    usage["choices"] = json!([]);
    usage["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7});
    let chunks = [
        chunk(1, &choice(0, &json!({"role": "assistant"}), None)),
        chunk(2, &choice(0, &json!({"content": "a {\"id\":\"c-9\"}"}), None)),
        chunk(3, &choice(0, &call, None)),
        chunk(4, &choice(0, &json!({}), Some("tool_calls"))),
        usage,
    ];
    world.sim(0).set(streamed(&chunks));
    let mut request = chat("gpt-4o", true);
    request["stream_options"] = json!({ "include_usage": true });
    let answer = world.post(&request).await;
    let got = answer.chunks();
    assert_eq!(got.len(), 5, "{}", answer.text());
    for field in ["id", "created", "model"] {
        assert_eq!(values(&answer, field), [chunks[0][field].clone()], "{}", answer.text());
    }
    for (got, sent) in got.iter().zip(&chunks) {
        assert_eq!((&got["choices"], &got["usage"]), (&sent["choices"], &sent["usage"]), "the rest stays");
    }
}

/// C038: a server that begins without a name has the first one that it gives, and an empty one later changes nothing.
#[tokio::test]
async fn an_empty_name_is_none() {
    let world = alone("").await;
    let mut first = chunk(1, &json!({}));
    (first["id"], first["model"], first["choices"]) = (json!(""), json!(""), json!([]));
    let mut later = chunk(1, &choice(0, &json!({"content": " b"}), None));
    (later["id"], later["model"]) = (json!(""), json!(""));
    let named = chunk(1, &choice(0, &json!({"role": "assistant", "content": "a"}), None));
    let end = chunk(1, &choice(0, &json!({}), Some("stop")));
    world.sim(0).set(streamed(&[first, named.clone(), later, end]));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_eq!(values(&answer, "id"), ["", "c-1"], "{}", answer.text());
    assert_eq!(values(&answer, "model"), ["", "m-1"], "{}", answer.text());
    assert_eq!(answer.content(), "a b");
}

/// C038: nor does it when another target took over, or where the answer was held back as a whole.
#[tokio::test]
async fn one_name_after_a_failover_and_in_a_buffered_stream() {
    let yaml = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-a }
  b: { provider: openai, base_url: "<b>", model: gpt-4o, api_key: sk-b }
"#;
    for rest in ["", "defaults: { stream: { buffer: true } }\n"] {
        let world = world_from(&["a", "b"], &format!("{yaml}{rest}")).await;
        world.sim(0).set(streamed(&[chunk(90, &choice(0, &json!({"role": "assistant"}), None))]));
        let text = |number| chunk(number, &choice(0, &json!({"content": "b"}), None));
        world.sim(1).set(streamed(&[text(1), text(2), chunk(3, &choice(0, &json!({}), Some("stop")))]));
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_eq!(answer.header("x-pointsman-target"), Some("b"), "{}", answer.text());
        assert_eq!(values(&answer, "id"), ["c-1"], "{}", answer.text());
        assert_eq!(values(&answer, "created"), [1_700_000_001], "{}", answer.text());
    }
}

// The finish reason of tool calls

const TOOL: &str =
    r#"{"index": 0, "id": "t", "type": "function", "function": {"name": "w", "arguments": "{}"}}"#;

async fn compatible() -> World {
    let yaml =
        r#"targets: { a: { provider: openai-compatible, base_url: "<a>", model: gpt-4o, api_key: sk-a } }"#;
    world_from(&["a"], yaml).await
}

/// A stream that calls a tool (or says a word) and ends with this reason, in the same chunk or in one of its own.
fn ends_with(tool: bool, reason: &str, together: bool) -> Script {
    let call: Value = serde_json::from_str(TOOL).unwrap();
    let delta = if tool { json!({"tool_calls": [call]}) } else { json!({"content": "a"}) };
    let first = chunk(1, &choice(0, &delta, together.then_some(reason)));
    let last = chunk(1, &choice(0, &json!({"content": ""}), Some(reason)));
    let both = [first, last];
    streamed(if together { &both[..1] } else { &both })
}

/// C031: an agent goes on when tools were called, although the server says `stop`; no other reason is touched.
#[tokio::test]
async fn tools_that_were_called_are_the_reason_of_the_end() {
    let cases = [
        (true, "stop", "tool_calls"),
        (false, "stop", "stop"),
        (true, "length", "length"),
        (true, "content_filter", "content_filter"),
        (true, "tool_calls", "tool_calls"),
    ];
    let world = compatible().await;
    for (tool, reason, expected) in cases {
        for together in [true, false] {
            world.sim(0).set(ends_with(tool, reason, together));
            let answer = world.post(&chat("gpt-4o", true)).await;
            assert_eq!(answer.finish_reasons(), [expected], "{}", answer.text());
            assert_eq!(answer.text().matches("\"finish_reason\":null").count(), usize::from(!together));
        }
        let call: Value = serde_json::from_str(TOOL).unwrap();
        let message = if tool {
            json!({"role": "assistant", "content": "\"finish_reason\":\"stop\"", "tool_calls": [call]})
        } else {
            json!({"role": "assistant", "content": "a", "tool_calls": []})
        };
        let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}]});
        world.sim(0).set(Script::fixed(200, "application/json", body.to_string()));
        let answer = world.post(&chat("gpt-4o", false)).await.json();
        assert_eq!(answer["choices"][0]["finish_reason"], expected, "{answer}");
        assert_eq!(answer["choices"][0]["message"], message, "{answer}");
    }
}

/// C031: of several choices only that one ends so which called a tool.
#[tokio::test]
async fn each_choice_has_its_own_reason() {
    let world = compatible().await;
    let call: Value = serde_json::from_str(TOOL).unwrap();
    let chunks = [
        chunk(1, &choice(0, &json!({"content": "a"}), None)),
        chunk(1, &choice(1, &json!({"tool_calls": [call]}), None)),
        chunk(1, &choice(0, &json!({}), Some("stop"))),
        chunk(1, &choice(1, &json!({}), Some("stop"))),
    ];
    world.sim(0).set(streamed(&chunks));
    assert_eq!(world.post(&chat("gpt-4o", true)).await.finish_reasons(), ["stop", "tool_calls"]);
}

/// C031: a tool that the client itself chose is not news to it: `stop` is what OpenAI says then, and it stays.
#[tokio::test]
async fn a_tool_that_the_client_chose_ends_as_the_provider_says() {
    let world = compatible().await;
    let mut request = chat("gpt-4o", true);
    request["tool_choice"] = json!({"type": "function", "function": {"name": "w"}});
    world.sim(0).set(ends_with(true, "stop", false));
    assert_eq!(world.post(&request).await.finish_reasons(), ["stop"]);
    for choice in ["auto", "required"] {
        request["tool_choice"] = json!(choice);
        assert_eq!(world.post(&request).await.finish_reasons(), ["tool_calls"], "{choice}");
    }
}
