//! Inputs of translation that broke other gateways, by their numbers in `tests/cases.toml`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "cases/gemini.rs"]
mod gemini;
#[path = "cases/losses.rs"]
mod losses;
#[path = "cases/usage.rs"]
mod usage;

use bytes::{Bytes, BytesMut};
use pointsman_wire::dialect::Dialect;
use pointsman_wire::grammar::{Ending, MessagesGrammar, ResponsesGrammar};
use pointsman_wire::sse::SseDecoder;
use pointsman_wire::translate::{Back, Destination, Refused, StreamTranslator, Written, answer, request};
use serde_json::{Value, json};

const CHAT: Dialect = Dialect::Chat;
const MESSAGES: Dialect = Dialect::Messages;
const RESPONSES: Dialect = Dialect::Responses;

fn to(model: &str) -> Destination<'_> {
    Destination {
        model,
        stream: true,
        include_usage: false,
        max_output: None,
        reasons: true,
        max_tokens_name: None,
        origin: "0451",
        custom_tools: false,
    }
}

fn written(body: &Value, from: Dialect, into: Dialect, model: &str) -> Result<Written, Refused> {
    request(body.to_string().as_bytes(), from, into, &to(model))
}

/// What is sent, and the places of what was lost.
fn sent(body: &Value, from: Dialect, into: Dialect, model: &str) -> (Value, Vec<String>) {
    let written = written(body, from, into, model).unwrap_or_else(|e| panic!("{e}: {body}"));
    let losses = written.losses.as_slice().iter().map(|loss| loss.pointer.clone()).collect();
    (serde_json::from_slice(&written.body).unwrap(), losses)
}

fn place_of(refused: Refused) -> String {
    match refused {
        Refused::Unreadable(at) => at.pointer,
        Refused::Untranslatable(at) => at.pointer,
    }
}

/// The events of a provider in the client's dialect.
fn streamed(events: &[Value], from: Dialect, into: Dialect, back: Back) -> Vec<Value> {
    let mut translator = StreamTranslator::new(from, into, back);
    let mut out = BytesMut::new();
    for event in events {
        translator.event(None, event.to_string().as_bytes(), &mut out).unwrap();
    }
    translator.end(&mut out);
    let mut decoder = SseDecoder::new(1 << 20);
    decoder.push(Bytes::from(out));
    let mut told = Vec::new();
    let (mut messages, mut responses) = (MessagesGrammar::new(), ResponsesGrammar::new());
    while let Some(event) = decoder.next_event().unwrap() {
        let name = event.event.as_deref();
        match into {
            MESSAGES => messages.event(name, &event.data).unwrap_or_else(|e| panic!("{e}: {told:?}")),
            RESPONSES => responses.event(name, &event.data).unwrap_or_else(|e| panic!("{e}: {told:?}")),
            _ => {}
        }
        if &event.data[..] != b"[DONE]" {
            told.push(serde_json::from_slice(&event.data).unwrap());
        }
    }
    match into {
        MESSAGES => assert_eq!(messages.end(), Ok(Ending::Complete)),
        RESPONSES => assert_eq!(responses.end(), Ok(Ending::Complete)),
        _ => {}
    }
    told
}

fn delta(delta: Value) -> Value {
    json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn calls(ids: &[&str]) -> Value {
    let call =
        |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": format!("of {id}")})
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}])
}

fn chat(messages: Vec<Value>) -> Value {
    json!({"model": "r", "messages": messages, "tools": tools(), "max_completion_tokens": 4096})
}

/// C039: a call without arguments has an empty object of them, on both ways.
#[test]
fn c039_no_arguments_are_an_empty_object() {
    let start = |input: Value| {
        vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "snooze", "input": input}}),
        ]
    };
    let end = vec![
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let empty = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}});
    for (events, expected) in [
        ([start(json!({})), end.clone()].concat(), json!({})),
        ([start(json!({})), vec![empty], end.clone()].concat(), json!({})),
        ([start(json!({"minutes": 5})), end].concat(), json!({"minutes": 5})),
    ] {
        let told = streamed(&events, MESSAGES, CHAT, Back::default());
        let fragments = told
            .iter()
            .filter_map(|c| c["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str());
        let arguments: String = fragments.collect();
        assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), expected);
        let told = streamed(&events, MESSAGES, RESPONSES, Back::default());
        let arguments = told.last().unwrap()["response"]["output"][0]["arguments"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), expected);
    }
    for arguments in [json!(""), json!("  \n"), Value::Null] {
        let mut turn = calls(&["a"]);
        turn["tool_calls"][0]["function"]["arguments"] = arguments;
        let body = chat(vec![user("x"), turn, result("a")]);
        assert_eq!(
            sent(&body, CHAT, MESSAGES, "claude-opus-5-5").0["messages"][1]["content"][0]["input"],
            json!({})
        );
        assert_eq!(sent(&body, CHAT, RESPONSES, "gpt-5.6").0["input"][1]["arguments"], "{}");
    }
}

/// C040: results stand right behind their calls, first in one message, in whatever order they came.
#[test]
fn c040_results_follow_their_calls_in_one_message() {
    let blocks = |sent: &Value, message: usize| -> Vec<String> {
        let content = sent["messages"][message]["content"].as_array().unwrap();
        let word = |block: &Value| {
            block["tool_use_id"].as_str().unwrap_or_else(|| block["type"].as_str().unwrap()).to_owned()
        };
        content.iter().map(word).collect()
    };
    let between = json!({"role": "system", "content": "Be quick."});
    let body = chat(vec![user("x"), calls(&["a", "b"]), result("b"), between, result("a"), user("go on")]);
    let (both, _) = sent(&body, CHAT, MESSAGES, "claude-opus-5-5");
    assert_eq!(blocks(&both, 2), ["b", "a", "text", "text"]);
    assert_eq!(both["messages"].as_array().unwrap().len(), 3);
    // Toward Responses too, where instructions stay between.
    let (items, _) = sent(&body, CHAT, RESPONSES, "gpt-5.6");
    let kinds: Vec<_> =
        items["input"].as_array().unwrap().iter().map(|i| i["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds[..5],
        ["message", "function_call", "function_call", "function_call_output", "function_call_output"]
    );
    // Interrupted: the call gets a result that says so.
    let body = chat(vec![user("x"), calls(&["a"]), user("stop")]);
    let (mended, losses) = sent(&body, CHAT, MESSAGES, "claude-opus-5-5");
    assert_eq!(blocks(&mended, 2), ["a", "text"]);
    assert_eq!(mended["messages"][2]["content"][0]["is_error"], true);
    assert_eq!(losses, ["/messages/1/tool_calls/0"]);
    // Rounds are told apart, though servers count their calls from 0 in each.
    let body = chat(vec![user("x"), calls(&["0"]), result("0"), calls(&["0"]), result("0")]);
    let (rounds, _) = sent(&body, CHAT, MESSAGES, "claude-opus-5-5");
    assert_eq!((blocks(&rounds, 2), blocks(&rounds, 4)), (vec!["0".to_owned()], vec!["0".to_owned()]));
    // What answers nothing is refused here.
    for orphan in [vec![user("x"), result("z")], vec![user("x"), calls(&["a"]), result("a"), result("a")]] {
        let place = orphan.len() - 1;
        let refused = written(&chat(orphan), CHAT, MESSAGES, "claude-opus-5-5").unwrap_err();
        assert_eq!(place_of(refused), format!("/messages/{place}"));
    }
}

/// C041: a result without an id is the client's fault, and says where.
#[test]
fn c041_a_result_without_its_call_is_refused_by_its_place() {
    let body = chat(vec![user("x"), calls(&["a"]), json!({"role": "tool", "content": "x"})]);
    let refused = written(&body, CHAT, MESSAGES, "claude-opus-5-5").unwrap_err();
    assert_eq!(place_of(refused), "/messages/2/tool_call_id");
    let body = json!({"model": "r", "input": [user("x"), {"type": "function_call_output", "output": "x"}]});
    for into in [CHAT, MESSAGES] {
        assert_eq!(place_of(written(&body, RESPONSES, into, "m").unwrap_err()), "/input/1/call_id");
    }
}

/// C042: an id that the provider does not take gets the same substitute in the call and in its result.
#[test]
fn c042_ids_are_replaced_alike_in_calls_and_results() {
    let ids = ["functions.get:0", &"x".repeat(86), &format!("{}y", "x".repeat(85))];
    let mut messages = vec![user("x"), calls(&ids)];
    messages.extend(ids.iter().map(|id| result(id)));
    let body = chat(messages);
    let (claude, _) = sent(&body, CHAT, MESSAGES, "claude-opus-5-5");
    let (gpt, _) = sent(&body, CHAT, RESPONSES, "gpt-5.6");
    let mut seen = std::collections::BTreeSet::new();
    for place in 0..3 {
        let called = claude["messages"][1]["content"][place]["id"].as_str().unwrap();
        assert_eq!(claude["messages"][2]["content"][place]["tool_use_id"], called);
        assert!(
            called.len() <= 64 && called.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        );
        assert_eq!(gpt["input"][1 + place]["call_id"], gpt["input"][4 + place]["call_id"]);
        seen.insert(called.to_owned());
    }
    assert_eq!(seen.len(), 3, "no two alike");
    assert_eq!(sent(&body, CHAT, MESSAGES, "claude-opus-5-5").0, claude, "the same each time");
}

/// C043, as far as Chat Completions goes: its clients cannot carry signed thoughts. A model that insists on them goes on
/// without thinking, one that does not thinks.
#[test]
fn c043_a_round_of_calls_goes_on_without_the_thoughts_that_got_lost() {
    let mut body = chat(vec![user("x"), calls(&["a"]), result("a")]);
    body["reasoning_effort"] = json!("high");
    let (older, losses) = sent(&body, CHAT, MESSAGES, "claude-sonnet-4-5");
    assert_eq!(
        (&older["thinking"], losses.as_slice()),
        (&Value::Null, &["/reasoning_effort".to_owned()][..])
    );
    let (newer, losses) = sent(&body, CHAT, MESSAGES, "claude-opus-5-5");
    assert_eq!((&newer["thinking"]["type"], losses.len()), (&json!("adaptive"), 0));
    // The next question is a round of its own.
    body["messages"]
        .as_array_mut()
        .unwrap()
        .extend([json!({"role": "assistant", "content": "y"}), user("z")]);
    assert_eq!(sent(&body, CHAT, MESSAGES, "claude-sonnet-4-5").0["thinking"]["type"], "enabled");
}

/// C046: what a tool shows reaches the model as a picture, in each pair of dialects.
#[test]
fn c046_pictures_in_results_reach_the_model() {
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0"});
    let content = json!([{"type": "text", "text": "a screen"}, {"type": "image", "source": source}]);
    let body = json!({"model": "r", "max_tokens": 9, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "messages": [
        user("x"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content}, {"type": "tool_result", "tool_use_id": "b", "content": "plain"}]},
    ]});
    let (openai, _) = sent(&body, MESSAGES, CHAT, "gpt-4o");
    let roles: Vec<_> =
        openai["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"], "behind all results");
    assert_eq!(openai["messages"][4]["content"][0]["image_url"]["url"], "data:image/png;base64,iVBORw0");
    let (items, _) = sent(&body, MESSAGES, RESPONSES, "gpt-5.6");
    assert_eq!(
        items["input"][3]["output"][1],
        json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0", "detail": "auto"})
    );
    let output = json!([{"type": "input_text", "text": "a screen"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0"}]);
    let body = json!({"model": "r", "input": [user("x"), {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "a", "output": output}]});
    let (claude, _) = sent(&body, RESPONSES, MESSAGES, "claude-opus-5-5");
    assert_eq!(claude["messages"][2]["content"][0]["content"][1]["source"], source);
    let (openai, _) = sent(&body, RESPONSES, CHAT, "gpt-4o");
    assert_eq!(openai["messages"][3]["content"][0]["image_url"]["url"], "data:image/png;base64,iVBORw0");
}

/// C047: blocks come one after the other, each of one kind, whatever the provider mixes.
#[test]
fn c047_blocks_are_never_mixed() {
    let call = |index: u64, id: Option<&str>, arguments: &str| json!({"tool_calls": [{"index": index, "id": id, "function": {"name": id.map(|_| "f"), "arguments": arguments}}]});
    let events = [
        delta(json!({"role": "assistant", "reasoning_content": "a"})),
        delta(json!({"content": "b", "reasoning_content": "a2"})),
        delta(json!({"reasoning_content": "c"})),
        delta(call(0, Some("x"), "{\"p\":")),
        delta(json!({"content": "d"})),
        delta(call(0, None, "1}")),
        delta(call(1, Some("y"), "{}")),
        finish("tool_calls"),
    ];
    let told = streamed(&events, CHAT, MESSAGES, Back::default());
    let counts = &told[0]["message"]["usage"];
    for name in ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"] {
        assert!(counts[name].is_u64(), "{name}");
    }
    let inputs: String = told.iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect();
    assert_eq!(inputs, "{\"p\":1}{}");
    streamed(&events, CHAT, RESPONSES, Back::default());
}

/// C048: texts of nothing are left out, and what the model shall go on from does not end in white space.
#[test]
fn c048_nothing_is_no_text() {
    let mut turn = calls(&["a"]);
    turn["content"] = json!("");
    let body = chat(vec![
        json!({"role": "system", "content": " "}),
        user("x"),
        turn,
        result("a"),
        json!({"role": "assistant", "content": null}),
        user(""),
        user("y"),
        json!({"role": "assistant", "content": "It is \n"}),
    ]);
    let (claude, _) = sent(&body, CHAT, MESSAGES, "claude-sonnet-4-5");
    assert_eq!(claude["system"], Value::Null);
    let messages = claude["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"].as_array().unwrap().len(), 1, "the call alone");
    assert!(!claude.to_string().contains("\"text\":\"\""));
    assert_eq!(messages.last().unwrap()["content"][0]["text"], "It is");
}

/// C049: a schema reaches its place in each dialect.
#[test]
fn c049_a_schema_is_never_lost() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let named = json!({"type": "json_schema", "name": "r", "strict": true, "schema": schema});
    let asked = [
        (
            CHAT,
            json!({"model": "r", "messages": [user("x")], "response_format": {"type": "json_schema", "json_schema": {"name": "r", "strict": true, "schema": schema}}}),
        ),
        (
            MESSAGES,
            json!({"model": "r", "max_tokens": 99, "messages": [user("x")], "output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        ),
        (RESPONSES, json!({"model": "r", "input": "x", "text": {"format": named}})),
    ];
    for (from, body) in asked {
        for (into, model, place) in [
            (CHAT, "gpt-4o", "/response_format/json_schema/schema"),
            (MESSAGES, "claude-opus-5-5", "/output_config/format/schema"),
            (RESPONSES, "gpt-5.6", "/text/format/schema"),
        ] {
            if from != into {
                assert_eq!(
                    sent(&body, from, into, model).0.pointer(place),
                    Some(&schema),
                    "{from:?} to {into:?}"
                );
            }
        }
        if from != MESSAGES {
            let refused = written(&body, from, MESSAGES, "claude-3-haiku").unwrap_err();
            assert!(place_of(refused).contains("format"), "a model without it is not asked");
        }
    }
}

/// C050: no tool is made up for the sake of a form: a call stays a call.
#[test]
fn c050_a_form_is_asked_for_as_a_form() {
    let mut body = chat(vec![user("x")]);
    body["tool_choice"] = json!("required");
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object", "properties": {}, "additionalProperties": false}}});
    let (claude, _) = sent(&body, CHAT, MESSAGES, "claude-sonnet-4-5");
    assert_eq!(
        (claude["tools"].as_array().unwrap().len(), &claude["tool_choice"]["type"]),
        (1, &json!("any"))
    );
    body["response_format"] = json!({"type": "json_object"});
    assert_eq!(
        place_of(written(&body, CHAT, MESSAGES, "claude-sonnet-4-5").unwrap_err()),
        "/response_format"
    );
}

/// C051, toward Messages: what it does not keep to is told in words, and what was optional stays so.
#[test]
fn c051_a_schema_is_narrowed_for_messages() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    let body = json!({"model": "r", "messages": [user("x")], "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": schema}}});
    let (claude, losses) = sent(&body, CHAT, MESSAGES, "claude-opus-5-5");
    let narrowed = &claude["output_config"]["format"]["schema"];
    assert_eq!(narrowed["properties"]["n"], json!({"type": "integer", "description": "(minimum: 1)"}));
    assert_eq!((&narrowed["additionalProperties"], &narrowed["required"]), (&json!(false), &Value::Null));
    assert!(losses.contains(&"/response_format".to_owned()), "{losses:?}");
    // Toward OpenAI it goes as it is.
    assert_eq!(sent(&body, CHAT, RESPONSES, "gpt-5.6").0["text"]["format"]["schema"], schema);
}

/// C054, C055 (the end without its marker): each event of a Responses stream has its place, and the last one is its end.
#[test]
fn c054_c055_a_responses_stream_is_whole() {
    let call = json!({"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let events = [
        delta(json!({"role": "assistant", "reasoning_content": "r"})),
        delta(json!({"content": "a", "reasoning_content": ""})),
        delta(json!({"content": "b", "reasoning_content": ""})),
        delta(call),
        finish("tool_calls"),
        json!({"id": "c1", "model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}),
    ];
    let told = streamed(&events, CHAT, RESPONSES, Back::default());
    let kinds: Vec<_> =
        told.iter().map(|e| e["type"].as_str().unwrap().trim_start_matches("response.")).collect();
    assert_eq!(
        kinds,
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    let response = &told.last().unwrap()["response"];
    assert_eq!(response["output"].as_array().unwrap().len(), 3);
    assert_eq!(response["output"][1]["content"][0]["text"], "ab");
    assert_eq!(response["usage"]["total_tokens"], 7);
}

/// C058: a custom tool is a function elsewhere, its calls are text again, and its history is kept.
#[test]
fn c058_custom_tools_work_everywhere() {
    let patch = "*** Begin Patch\n*** Update: \"a\\b\"\n";
    let body = json!({"model": "r", "input": [
        user("x"),
        {"type": "custom_tool_call", "call_id": "c0", "name": "apply_patch", "input": patch},
        {"type": "custom_tool_call_output", "call_id": "c0", "output": "Done"},
    ], "tools": [{"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}, {"type": "function", "name": "exec", "parameters": {"type": "object"}, "strict": false}]});
    let arguments = json!({ "input": patch }).to_string();
    let back = |into, model| Back {
        names: written(&body, RESPONSES, into, model).unwrap().names,
        ..Back::default()
    };
    let (openai, losses) = sent(&body, RESPONSES, CHAT, "llama");
    assert_eq!(openai["tools"][0]["function"]["parameters"]["required"], json!(["input"]));
    assert_eq!(openai["messages"][1]["tool_calls"][0]["function"]["arguments"], arguments);
    assert_eq!(losses, ["/tools/0/format"]);
    let mut events = vec![delta(
        json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "apply_patch", "arguments": ""}}]}),
    )];
    for piece in arguments.as_bytes().chunks(3) {
        let piece = String::from_utf8(piece.to_vec()).unwrap();
        events.push(delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})));
    }
    events.push(finish("tool_calls"));
    let told = streamed(&events, CHAT, RESPONSES, back(CHAT, "llama"));
    let deltas = told.iter().filter(|e| e["type"] == "response.custom_tool_call_input.delta");
    let input: String = deltas.filter_map(|e| e["delta"].as_str()).collect();
    assert_eq!(input, patch);
    let item = &told.last().unwrap()["response"]["output"][0];
    assert_eq!((&item["type"], &item["input"]), (&json!("custom_tool_call"), &json!(patch)));
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t", "name": "apply_patch", "input": {"input": patch}}]});
    let whole =
        answer(message.to_string().as_bytes(), MESSAGES, RESPONSES, &back(MESSAGES, "claude-opus-5-5"))
            .unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap()["output"][0]["input"], patch);
}

/// C059: nothing of a Responses request is lost on the way to Chat Completions.
#[test]
fn c059_a_responses_request_is_whole_in_chat() {
    let body = json!({"model": "r", "instructions": "First.", "input": [
        {"type": "message", "role": "developer", "content": "Second."}, {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "https://x.test/a.png"}]},
    ], "reasoning": {"effort": "high", "summary": "auto"}, "max_output_tokens": 77, "text": {"format": {"type": "json_object"}}});
    let (openai, losses) = sent(&body, RESPONSES, CHAT, "gpt-4o");
    let messages = openai["messages"].as_array().unwrap();
    assert_eq!((&messages[0]["content"], &messages[1]["content"]), (&json!("First."), &json!("Second.")));
    assert_eq!(messages[2]["content"][1]["image_url"]["url"], "https://x.test/a.png");
    assert_eq!(
        (&openai["reasoning_effort"], &openai["max_completion_tokens"], &openai["response_format"]["type"]),
        (&json!("high"), &json!(77), &json!("json_object"))
    );
    assert!(losses.is_empty(), "{losses:?}");
}

/// C100: without a limit a model may say all that it can, and it always has room beside its thoughts.
#[test]
fn c100_no_limit_is_the_models_own() {
    let body = json!({"model": "r", "messages": [user("x")], "reasoning_effort": "high"});
    let (claude, _) = sent(&body, CHAT, MESSAGES, "claude-sonnet-4-5");
    assert_eq!(claude["max_tokens"], 64_000);
    let mut body = body;
    body["max_tokens"] = json!(2_000);
    let (claude, _) = sent(&body, CHAT, MESSAGES, "claude-sonnet-4-5");
    assert!(claude["thinking"]["budget_tokens"].as_u64().unwrap() < 2_000);
    assert_eq!(sent(&body, CHAT, RESPONSES, "gpt-5.6").0["max_output_tokens"], 2_000);
}

/// C105: marks for the cache stand where they stood, and the same request is the same bytes.
#[test]
fn c105_cache_marks_keep_their_places() {
    let mark = json!({"mode": "explicit", "ttl": "30m"});
    let body = json!({"model": "r", "messages": [
        {"role": "system", "content": [{"type": "text", "text": "s", "prompt_cache_breakpoint": mark}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "prompt_cache_breakpoint": mark}]},
    ]});
    let (claude, _) = sent(&body, CHAT, MESSAGES, "claude-opus-5-5");
    assert_eq!(claude["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    let content = &claude["messages"][0]["content"];
    assert_eq!(
        (&content[0]["cache_control"], &content[1]["cache_control"]["type"]),
        (&Value::Null, &json!("ephemeral"))
    );
    let bytes = || written(&body, CHAT, MESSAGES, "claude-opus-5-5").unwrap().body;
    assert_eq!(bytes(), bytes());
}

/// A call that is broken off before its arguments came gets none made up: a tool must not run with what nobody said.
#[test]
fn a_call_that_was_cut_off_has_no_arguments_made_up() {
    let begun =
        json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "wipe", "arguments": ""}}]});
    for reason in ["length", "content_filter"] {
        let events = [delta(begun.clone()), finish(reason)];
        let told = streamed(&events, CHAT, RESPONSES, Back::default());
        let item = &told.last().unwrap()["response"]["output"][0];
        assert_eq!((&item["status"], &item["arguments"]), (&json!("incomplete"), &json!("")), "{reason}");
    }
    let cut = |reason: &str| {
        let events = [
            json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "wipe", "input": {}}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
        ];
        let told = streamed(&events, MESSAGES, CHAT, Back::default());
        let arguments = |chunk: &Value| {
            let call = &chunk["choices"][0]["delta"]["tool_calls"][0];
            call["function"]["arguments"].as_str().map(str::to_owned)
        };
        told.iter().filter_map(arguments).collect::<String>()
    };
    assert_eq!(
        (cut("max_tokens").as_str(), cut("refusal").as_str(), cut("tool_use").as_str()),
        ("", "", "{}")
    );
}

/// A plain tool, and one of a group that would have its name: each is called by its own.
#[test]
fn tools_that_would_be_called_alike_are_told_apart() {
    let function = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}, "strict": false});
    let group = json!({"type": "namespace", "name": "files", "description": "", "tools": [function("read")]});
    let body = json!({"model": "r", "input": "x", "tools": [group, function("files__read")]});
    let written = written(&body, RESPONSES, CHAT, "m").unwrap();
    let sent: Value = serde_json::from_slice(&written.body).unwrap();
    let name = |place: usize| sent["tools"][place]["function"]["name"].as_str().unwrap().to_owned();
    assert_eq!(name(1), "files__read");
    assert_ne!(name(0), name(1));
    let back = Back { names: written.names, ..Back::default() };
    for (called, original, namespace) in
        [(name(0), "read", json!("files")), (name(1), "files__read", Value::Null)]
    {
        let call = json!({"id": "c", "type": "function", "function": {"name": called, "arguments": "{}"}});
        let reply = json!({"id": "1", "model": "m", "choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        let told = answer(reply.to_string().as_bytes(), CHAT, RESPONSES, &back).unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!(
            (&told["output"][0]["name"], &told["output"][0]["namespace"]),
            (&json!(original), &namespace)
        );
    }
}
