//! Streams and plain answers in another dialect (`tests/golden/translate/streams/*.in.sse` and what becomes of them).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use pointsman_wire::dialect::{Dialect, Gather, StreamTap, check_answer};
use pointsman_wire::grammar::{Ending, GeminiGrammar, MessagesGrammar, ResponsesGrammar, Violation};
use pointsman_wire::sse::{SseDecoder, SseEvent};
use pointsman_wire::translate::{Back, Destination, StreamTranslator, answer, request};
use serde_json::{Value, json};

fn back() -> Back {
    Back {
        created_s: 1_700_000_000,
        include_usage: true,
        origin: "0451".to_owned(),
        // Told only where the provider says neither.
        id: "req_1".to_owned(),
        model: "anthropic.claude".to_owned(),
        ..Back::default()
    }
}

const FOLDERS: [(&str, Dialect); 5] = [
    ("chat", Dialect::Chat),
    ("messages", Dialect::Messages),
    ("responses", Dialect::Responses),
    ("gemini", Dialect::Gemini),
    // Its frames are written down as events with names, which is what becomes of them.
    ("bedrock", Dialect::Bedrock),
];

/// Each dialect of a client but this one.
fn others(dialect: Dialect) -> impl Iterator<Item = Dialect> {
    Dialect::CLIENTS.into_iter().filter(move |other| *other != dialect)
}

fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(end))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn events(stream: &[u8]) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new(1 << 20);
    decoder.push(Bytes::copy_from_slice(stream));
    let mut events = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        events.push(event);
    }
    events.extend(decoder.finish().unwrap());
    events
}

/// The name and the meaning of each event: the order of members is the writer's.
fn meaning(stream: &[u8]) -> Vec<(Option<String>, Value)> {
    let name = |event: &SseEvent| event.event.as_deref().map(|n| String::from_utf8(n.to_vec()).unwrap());
    let data = |event: &SseEvent| {
        serde_json::from_slice(&event.data).unwrap_or_else(|_| json!(String::from_utf8_lossy(&event.data)))
    };
    events(stream).iter().map(|event| (name(event), data(event))).collect()
}

fn translated(from: Dialect, to: Dialect, stream: &[u8]) -> Vec<u8> {
    let mut translator = StreamTranslator::new(from, to, back());
    let mut out = BytesMut::new();
    for event in events(stream) {
        translator.event(event.event.as_deref(), &event.data, &mut out).unwrap();
    }
    translator.end(&mut out);
    out.to_vec()
}

/// `NAME.in.sse` in the dialect that its name begins with; `NAME.DIALECT.sse` is what becomes of it there, and `NAME.out.sse`
/// what becomes of it in the other one of Chat Completions and Messages.
#[test]
fn a_stream_in_another_dialect_says_the_same() {
    let mut seen = 0;
    for path in files("translate/streams", ".in.sse") {
        let begins = |(folder, _): &(&str, Dialect)| name(&path).starts_with(folder);
        let (_, from) = FOLDERS.into_iter().find(begins).unwrap();
        for to in others(from) {
            let named = path.to_str().unwrap().replace(".in.sse", &format!(".{}.sse", to.name()));
            let first = path.to_str().unwrap().replace(".in.sse", ".out.sse");
            let pair =
                matches!((from, to), (Dialect::Chat, Dialect::Messages) | (Dialect::Messages, Dialect::Chat));
            let Ok(expected) = fs::read(if pair { first } else { named }) else { continue };
            let got = translated(from, to, &fs::read(&path).unwrap());
            assert_eq!(meaning(&got), meaning(&expected), "{} as {}", name(&path), to.name());
            seen += 1;
        }
    }
    assert_eq!(seen, 33);
}

/// A stream's grammar, where its dialect has one.
enum Grammar {
    None,
    Gemini(GeminiGrammar),
    Messages(MessagesGrammar),
    Responses(ResponsesGrammar),
}

impl Grammar {
    fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Gemini => Self::Gemini(GeminiGrammar::new()),
            Dialect::Messages => Self::Messages(MessagesGrammar::new()),
            Dialect::Responses => Self::Responses(ResponsesGrammar::new()),
            _ => Self::None,
        }
    }

    fn holds(mut self, stream: &[u8]) -> Result<(), Violation> {
        for event in events(stream) {
            let name = event.event.as_deref();
            match &mut self {
                Self::None => {}
                Self::Gemini(grammar) => grammar.event(name, &event.data)?,
                Self::Messages(grammar) => grammar.event(name, &event.data)?,
                Self::Responses(grammar) => grammar.event(name, &event.data)?,
            }
        }
        match self {
            Self::None => {}
            Self::Gemini(grammar) => assert_eq!(grammar.end()?, Ending::Complete),
            Self::Messages(grammar) => assert_eq!(grammar.end()?, Ending::Complete),
            Self::Responses(grammar) => assert_eq!(grammar.end()?, Ending::Complete),
        }
        Ok(())
    }
}

/// What a whole answer says, in words that are of no dialect.
fn said(dialect: Dialect, answer: &Value) -> Value {
    let mut calls = Vec::new();
    let mut text = String::new();
    match dialect {
        Dialect::Chat => {
            let message = &answer["choices"][0]["message"];
            text.push_str(message["content"].as_str().unwrap_or_default());
            text.push_str(message["refusal"].as_str().unwrap_or_default());
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                let arguments = if arguments.is_empty() { "{}" } else { arguments };
                // One that the limit on tokens cut off is no call.
                if let Ok(arguments) = serde_json::from_str::<Value>(arguments) {
                    calls.push(json!([call["function"]["name"], arguments]));
                }
            }
        }
        Dialect::Responses => {
            for item in answer["output"].as_array().into_iter().flatten() {
                for part in item["content"].as_array().into_iter().flatten() {
                    text.push_str(
                        part["text"].as_str().or_else(|| part["refusal"].as_str()).unwrap_or_default(),
                    );
                }
                let complete = item["status"] != "incomplete";
                if item["type"] == "function_call" && complete {
                    let arguments: Value =
                        serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap_or_default();
                    calls.push(json!([item["name"], arguments]));
                }
            }
        }
        Dialect::Messages => {
            for block in answer["content"].as_array().into_iter().flatten() {
                text.push_str(block["text"].as_str().unwrap_or_default());
                if block["type"] == "tool_use" {
                    calls.push(json!([block["name"], block["input"]]));
                }
            }
        }
        Dialect::Bedrock => {
            for block in answer["output"]["message"]["content"].as_array().into_iter().flatten() {
                text.push_str(block["text"].as_str().unwrap_or_default());
                if let Some(call) = block.get("toolUse") {
                    calls.push(json!([call["name"], call["input"]]));
                }
            }
        }
        Dialect::Gemini => {
            for part in answer["candidates"][0]["content"]["parts"].as_array().into_iter().flatten() {
                if part["thought"] != true {
                    text.push_str(part["text"].as_str().unwrap_or_default());
                }
                if let Some(call) = part.get("functionCall") {
                    calls.push(json!([call["name"], call.get("args").cloned().unwrap_or_else(|| json!({}))]));
                }
            }
        }
    }
    json!({ "text": text, "calls": calls })
}

fn gathered(dialect: Dialect, stream: &[u8]) -> Option<Value> {
    let mut gather = Gather::new(dialect, 1 << 20);
    for event in events(stream) {
        gather.event(event.event.as_deref(), &event.data).ok()?;
    }
    Some(serde_json::from_slice(&gather.finish().ok()?).unwrap())
}

/// Answers to what is refused before it is translated: custom tools, functions of the older kind, sound.
const NEVER_ASKED_FOR: [&str; 3] = ["audio_output.sse", "custom_tool.sse", "deprecated_function_call.sse"];

/// Each complete stream that providers are known to send, in each other dialect: complete, well-formed, and the same answer.
#[test]
fn every_complete_stream_of_a_provider_is_complete_and_the_same_in_each_other_dialect() {
    let mut seen = 0;
    for (folder, dialect) in FOLDERS {
        for path in files(folder, ".sse") {
            if NEVER_ASKED_FOR.contains(&name(&path)) {
                continue;
            }
            let stream = fs::read(&path).unwrap();
            let Some(before) = gathered(dialect, &stream) else { continue };
            for to in others(dialect) {
                let place = format!("{} as {}", path.display(), to.name());
                let out = translated(dialect, to, &stream);
                Grammar::of(to).holds(&out).unwrap_or_else(|e| panic!("{place}: {e}"));
                let mut tap = StreamTap::new(to);
                for event in events(&out) {
                    tap.event(event.event.as_deref(), &event.data);
                }
                // Gemini has no end marker.
                assert!(tap.done() || to == Dialect::Gemini, "{place}");
                assert!(tap.finished() && tap.malformed() == 0, "{place}");
                let after = gathered(to, &out).unwrap_or_else(|| panic!("{place}"));
                assert_eq!(said(to, &after), said(dialect, &before), "{place}");
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}

/// A plain answer and the stream of the same answer say the same in each other dialect.
#[test]
fn a_plain_answer_says_the_same_in_each_other_dialect() {
    let mut seen = 0;
    for (folder, dialect) in FOLDERS {
        for path in files(folder, ".sse") {
            if NEVER_ASKED_FOR.contains(&name(&path)) {
                continue;
            }
            let Some(before) = gathered(dialect, &fs::read(&path).unwrap()) else { continue };
            let body = before.to_string();
            for to in others(dialect) {
                let after = answer(body.as_bytes(), dialect, to, &back()).unwrap();
                let after: Value = serde_json::from_slice(&after).unwrap();
                assert!(check_answer(to, after.to_string().as_bytes()).is_ok());
                assert_eq!(said(to, &after), said(dialect, &before), "{} as {}", path.display(), to.name());
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}

#[test]
fn a_plain_answer_of_chat_as_a_message() {
    let body = json!({
        "id": "chatcmpl-9", "object": "chat.completion", "created": 1, "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Let me see.", "reasoning_content": "Hm.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.0}"}}],
        }}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27, "prompt_tokens_details": {"cached_tokens": 5}},
    });
    let message = answer(body.to_string().as_bytes(), Dialect::Chat, Dialect::Messages, &back()).unwrap();
    let message: Value = serde_json::from_slice(&message).unwrap();
    assert_eq!(
        message,
        json!({
            "id": "msg_chatcmpl-9", "type": "message", "role": "assistant", "model": "gpt-4o",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "pm1.chat.0451."},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "call_1", "name": "f", "input": {"x": 1.0}},
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 15, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 5, "output_tokens": 7},
        })
    );
}

#[test]
fn a_plain_message_as_an_answer_of_chat() {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "text", "text": "Two "}, {"type": "text", "text": "texts."},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        ],
        "stop_reason": "max_tokens", "stop_sequence": null,
        "usage": {"input_tokens": 12, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 7},
    });
    let chat = answer(body.to_string().as_bytes(), Dialect::Messages, Dialect::Chat, &back()).unwrap();
    let chat: Value = serde_json::from_slice(&chat).unwrap();
    let call = json!({"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    assert_eq!(
        chat,
        json!({
            "id": "msg_1", "object": "chat.completion", "created": 1_700_000_000, "model": "claude",
            "choices": [{"index": 0, "logprobs": null, "finish_reason": "length", "message": {
                "role": "assistant", "content": "Two texts.", "refusal": null, "reasoning_content": "Hm.", "tool_calls": [call],
            }}],
            "usage": {
                "prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27,
                "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        })
    );
}

/// One call that never ends while another goes on: what waits for its turn is bounded.
#[test]
fn calls_that_are_mixed_without_end_are_given_up() {
    let fragment = |index: usize, id: Option<&str>, text: &str| {
        let call =
            json!({"index": index, "id": id, "function": {"name": id.map(|_| "f"), "arguments": text}});
        json!({"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
            .to_string()
    };
    let mut translator = StreamTranslator::new(Dialect::Chat, Dialect::Messages, back());
    let mut out = BytesMut::new();
    translator.event(None, fragment(0, Some("a"), "{\"x\": \"").as_bytes(), &mut out).unwrap();
    translator.event(None, fragment(1, Some("b"), "{\"y\": \"").as_bytes(), &mut out).unwrap();
    let more = fragment(1, None, &"z".repeat(1 << 20));
    let given_up = (0..9).find(|_| translator.event(None, more.as_bytes(), &mut out).is_err());
    assert!(given_up.is_some_and(|after| after >= 7), "eight MiB are kept: {given_up:?}");
}

/// A tool whose name the provider does not take is called by its own name in the answer.
#[test]
fn a_renamed_tool_is_called_by_its_own_name() {
    let long = "look_up_".repeat(12);
    let body = json!({
        "model": "r", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
        "tools": [{"name": long, "input_schema": {"type": "object"}}],
    });
    let to = Destination {
        model: "gpt-4o",
        stream: false,
        include_usage: false,
        max_output: None,
        reasons: false,
        max_tokens_name: None,
        origin: "0451",
        custom_tools: false,
    };
    let written = request(body.to_string().as_bytes(), Dialect::Messages, Dialect::Chat, &to).unwrap();
    let sent: Value = serde_json::from_slice(&written.body).unwrap();
    let short = sent["tools"][0]["function"]["name"].as_str().unwrap();
    assert!(short.len() <= 64 && short != long);
    let call = json!({"id": "c", "type": "function", "function": {"name": short, "arguments": "{}"}});
    let reply = json!({"id": "1", "model": "m", "choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let names = Back { names: written.names, ..back() };
    let told = answer(reply.to_string().as_bytes(), Dialect::Chat, Dialect::Messages, &names).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["content"][0]["name"], long);
    let chunk = json!({"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": short, "arguments": "{}"}}]}}]});
    let mut translator = StreamTranslator::new(Dialect::Chat, Dialect::Messages, names);
    let mut out = BytesMut::new();
    translator.event(None, chunk.to_string().as_bytes(), &mut out).unwrap();
    let told = meaning(&out);
    assert_eq!(told[1].1["content_block"]["name"], long);
}

/// A custom tool goes to a dialect without such as a function, and its call comes back as the text that the client's tool
/// takes, piece by piece.
#[test]
fn a_call_of_a_custom_tool_comes_back_as_its_text() {
    let tool = json!({"type": "custom", "custom": {"name": "apply_patch", "description": "d"}});
    let body = json!({"model": "r", "messages": [{"role": "user", "content": "x"}], "tools": [tool]});
    let to = Destination {
        model: "claude-sonnet-4-5",
        stream: true,
        include_usage: false,
        max_output: None,
        reasons: false,
        max_tokens_name: None,
        origin: "0451",
        custom_tools: false,
    };
    let written = request(body.to_string().as_bytes(), Dialect::Chat, Dialect::Messages, &to).unwrap();
    let back = Back { names: written.names, ..back() };
    let patch = "+ \"a\"\n\u{1F600}";
    let arguments = json!({ "input": patch }).to_string();

    let block =
        json!({"type": "tool_use", "id": "toolu_1", "name": "apply_patch", "input": {"input": patch}});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block], "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}});
    let whole = answer(message.to_string().as_bytes(), Dialect::Messages, Dialect::Chat, &back).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    let call = json!({"id": "toolu_1", "type": "custom", "custom": {"name": "apply_patch", "input": patch}});
    assert_eq!(whole["choices"][0]["message"]["tool_calls"], json!([call]));

    let mut translator = StreamTranslator::new(Dialect::Messages, Dialect::Chat, back);
    let mut out = BytesMut::new();
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "apply_patch", "input": {}}}),
    ];
    for piece in arguments.chars().collect::<Vec<_>>().chunks(5) {
        let piece: String = piece.iter().collect();
        events.push(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}));
    }
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    for event in events {
        translator.event(None, event.to_string().as_bytes(), &mut out).unwrap();
    }
    translator.end(&mut out);
    let mut input = String::new();
    for (_, chunk) in meaning(&out) {
        let call = &chunk["choices"][0]["delta"]["tool_calls"][0];
        assert_eq!(call["function"], Value::Null, "it is no function to the client");
        input.push_str(call["custom"]["input"].as_str().unwrap_or_default());
    }
    assert_eq!(input, patch);
}
