//! Frames and the tap: what the translations do not show.

use bytes::Bytes;
use serde_json::{Value, json};

use super::frames::{FrameDecoder, FrameError};
use super::{Gather, StreamDecoder, check_converse};
use crate::chat::{BadCompletion, GatherError};
use crate::dialect::{ChunkKind, Dialect};
use crate::sse::SseEvent;
use crate::translate::{Destination, request};

/// A frame that AWS's own SDK for Python reads: `messageStart`.
const START: &str = "00000081000000526cc176930b3a6576656e742d7479706507000c6d65737361676553746172740d3a636f6e74656e74\
2d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22\
726f6c65223a22617373697374616e74222c2270223a2261626364227d9170592b";
/// And one: a failure that the API does not describe.
const FAILURE: &str = "000000570000004707a918810d3a6d6573736167652d747970650700056572726f720b3a6572726f722d636f64650700\
0f496e7465726e616c4661696c7572650e3a6572726f722d6d6573736167650700017 8c19aae2a";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A frame with these headers, each of the type of a text.
pub(super) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(name.len() as u8);
        block.extend_from_slice(name.as_bytes());
        block.push(7);
        block.extend_from_slice(&(value.len() as u16).to_be_bytes());
        block.extend_from_slice(value.as_bytes());
    }
    sealed(&block, payload)
}

fn sealed(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = 16 + headers.len() + payload.len();
    let mut out = Vec::new();
    out.extend_from_slice(&(total as u32).to_be_bytes());
    out.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

fn event(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.to_string().as_bytes())
}

fn decoded(stream: &[u8], piece: usize) -> Result<Vec<SseEvent>, FrameError> {
    let mut decoder = FrameDecoder::new(1 << 16);
    let mut events = Vec::new();
    for chunk in stream.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next_event()? {
            events.push(event);
        }
    }
    Ok(events)
}

fn named(name: &'static str, data: &'static str) -> SseEvent {
    SseEvent { event: Some(Bytes::from(name)), data: Bytes::from(data) }
}

fn rich() -> Vec<u8> {
    let mut stream = bytes(START);
    stream.extend(event(
        "contentBlockDelta",
        &json!({"contentBlockIndex": 0, "delta": {"text": "é\u{1F600}"}, "p": "ab"}),
    ));
    stream.extend(frame(
        &[(":message-type", "exception"), (":exception-type", "throttlingException")],
        b"{\"message\":\"x\"}",
    ));
    stream.extend(bytes(FAILURE));
    stream.extend(frame(&[(":message-type", "event"), (":event-type", "metadata")], b""));
    stream
}

#[test]
fn frames_become_events_with_the_name_of_what_they_are() {
    let events = decoded(&rich(), usize::MAX).unwrap();
    assert_eq!(events.len(), 5);
    assert_eq!(events[0], named("messageStart", r#"{"role":"assistant","p":"abcd"}"#));
    assert_eq!(events[2], named("exception:throttlingException", r#"{"message":"x"}"#));
    assert_eq!(events[3], named("error:InternalFailure", r#"{"message":"x"}"#));
    assert_eq!(events[4], named("metadata", "{}"));
}

#[test]
fn frames_are_the_same_however_they_are_cut() {
    let stream = rich();
    let whole = decoded(&stream, usize::MAX).unwrap();
    for piece in 1..stream.len() {
        assert_eq!(decoded(&stream, piece).unwrap(), whole, "in pieces of {piece}");
    }
}

#[test]
fn half_a_frame_is_no_event_and_is_known_to_be_there() {
    let mut decoder = FrameDecoder::new(1 << 16);
    let stream = bytes(START);
    assert!(!decoder.saw_bytes() && !decoder.in_event());
    decoder.push(Bytes::copy_from_slice(&stream[..stream.len() - 1]));
    assert_eq!(decoder.next_event(), Ok(None));
    assert!(decoder.saw_bytes() && decoder.in_event());
    decoder.push(Bytes::copy_from_slice(&stream[stream.len() - 1..]));
    assert!(decoder.next_event().unwrap().is_some());
    assert!(!decoder.in_event());
}

#[test]
fn a_frame_with_one_wrong_bit_ends_the_stream() {
    let good = bytes(START);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let mut decoder = FrameDecoder::new(1 << 16);
        decoder.push(Bytes::from(bad));
        assert_eq!(decoder.next_event(), Err(FrameError::Checksum), "byte {at}");
        decoder.push(Bytes::from(good.clone()));
        assert_eq!(decoder.next_event(), Err(FrameError::Checksum), "it stays so");
    }
}

#[test]
fn a_frame_that_is_too_large_is_refused_by_its_first_bytes() {
    let large = event("contentBlockDelta", &json!({"delta": {"text": "x".repeat(200)}}));
    let mut decoder = FrameDecoder::new(large.len());
    decoder.push(Bytes::from(large.clone()));
    assert!(decoder.next_event().unwrap().is_some());
    let limit = large.len() - 1;
    let mut decoder = FrameDecoder::new(limit);
    decoder.push(Bytes::copy_from_slice(&large[..11]));
    assert_eq!(decoder.next_event(), Ok(None));
    decoder.push(Bytes::copy_from_slice(&large[11..12]));
    assert_eq!(decoder.next_event(), Err(FrameError::TooLarge { limit }));
}

#[test]
fn headers_of_every_type_are_passed_over_and_broken_ones_are_refused() {
    let name = b"\x01x";
    let values: [&[u8]; 10] = [
        &[0],
        &[1],
        &[2, 9],
        &[3, 0, 9],
        &[4, 0, 0, 0, 9],
        &[5, 0, 0, 0, 0, 0, 0, 0, 9],
        &[6, 0, 2, 9, 9],
        &[7, 0, 1, b'y'],
        &[8, 0, 0, 0, 0, 0, 0, 0, 9],
        &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
    ];
    let kind = b"\x0d:message-type\x07\x00\x05event\x0b:event-type\x07\x00\x04ping";
    for value in values {
        let headers = [&name[..], value, &kind[..]].concat();
        assert_eq!(decoded(&sealed(&headers, b"{}"), 7).unwrap(), [named("ping", "{}")], "{value:?}");
    }
    for headers in [&b"\x01x\x0a"[..], b"\x05x", b"\x01x", b"\x01x\x07\x00\x05abcd", b"\x01x\x07\x00"] {
        assert_eq!(decoded(&sealed(headers, b"{}"), 7), Err(FrameError::Malformed), "{headers:?}");
    }
    // Headers that reach into the checksum.
    let mut lies = sealed(b"", b"");
    lies[7] = 4;
    let sum = crc32fast::hash(&lies[..8]).to_be_bytes();
    lies[8..12].copy_from_slice(&sum);
    assert_eq!(decoded(&lies, 7), Err(FrameError::Malformed));
}

#[test]
fn a_message_of_a_kind_that_is_not_known_says_nothing() {
    let mut stream = frame(&[(":message-type", "whatever")], b"{}");
    stream.extend(bytes(START));
    assert_eq!(decoded(&stream, 5).unwrap().len(), 1);
}

fn kinds(events: &[(&str, Value)]) -> (Vec<ChunkKind>, StreamDecoder) {
    let mut tap = StreamDecoder::new();
    let kind =
        |(name, data): &(&str, Value)| tap.event(Some(name.as_bytes()), data.to_string().as_bytes()).kind;
    (events.iter().map(kind).collect(), tap)
}

#[test]
fn what_a_reader_sees_commits_and_usage_comes_after_the_end() {
    let block = |index: u64, delta: Value| json!({"contentBlockIndex": index, "delta": delta});
    let (kinds, tap) = kinds(&[
        ("messageStart", json!({"role": "assistant"})),
        ("contentBlockDelta", block(0, json!({"reasoningContent": {"signature": "c2ln"}}))),
        ("contentBlockDelta", block(0, json!({"text": ""}))),
        (
            "contentBlockStart",
            json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}}),
        ),
        ("contentBlockDelta", block(1, json!({"toolUse": {"input": "{\"a\""}}))),
        ("contentBlockDelta", block(2, json!({"reasoningContent": {"redactedContent": "eA=="}}))),
        ("contentBlockDelta", block(2, json!({"reasoningContent": {"text": "Hm"}}))),
        ("contentBlockStop", json!({"contentBlockIndex": 1})),
        ("messageStop", json!({"stopReason": "tool_use"})),
        (
            "metadata",
            json!({"usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 20, "cacheReadInputTokens": 10, "cacheWriteInputTokens": 3}}),
        ),
    ]);
    use ChunkKind::{Finish, Output, Preamble};
    assert_eq!(
        kinds,
        [Preamble, Preamble, Preamble, Preamble, Output, Output, Output, Preamble, Finish, Preamble]
    );
    assert!(tap.finished() && tap.done() && tap.tool_calls_seen() && !tap.tool_call_open());
    let usage = tap.usage().unwrap();
    let counts = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens);
    assert_eq!(counts, (18, 10, 3, 2));
}

#[test]
fn an_exception_and_a_model_that_broke_off_are_errors() {
    let start = ("messageStart", json!({"role": "assistant"}));
    for (name, data, kind) in [
        (
            "exception:modelStreamErrorException",
            json!({"message": "boom", "originalStatusCode": 500}),
            "modelStreamErrorException",
        ),
        ("exception:throttlingException", json!({}), "throttlingException"),
        ("error:InternalFailure", json!({"message": "x"}), "InternalFailure"),
        ("messageStop", json!({"stopReason": "malformed_tool_use"}), "malformed_tool_use"),
        ("messageStart", json!({"role": "assistant"}), "internalServerException"),
    ] {
        let (kinds, tap) = kinds(&[start.clone(), (name, data)]);
        assert!(
            matches!(&kinds[1], ChunkKind::Error(error) if error.kind.as_deref() == Some(kind)),
            "{name}"
        );
        assert!(!tap.finished());
    }
    let (kinds, tap) =
        kinds(&[("contentBlockDelta", json!({"delta": {"text": "x"}})), ("messageStart", json!([]))]);
    assert_eq!(kinds, [ChunkKind::Malformed, ChunkKind::Malformed]);
    assert_eq!(tap.malformed(), 2);
}

#[test]
fn a_plain_answer_tells_what_it_took_and_why_it_ended() {
    let check = |body: Value| check_converse(body.to_string().as_bytes());
    let message = |content: Value| json!({"message": {"role": "assistant", "content": content}});
    let facts = check(json!({"output": message(json!([{"text": "Hi"}])), "stopReason": "end_turn",
        "usage": {"inputTokens": 5, "outputTokens": 1, "totalTokens": 6}}))
    .unwrap();
    assert!(facts.has_output && facts.model.is_none());
    assert_eq!(facts.finish_reasons, ["end_turn"]);
    assert_eq!(facts.usage.unwrap().input_tokens, 5);
    assert!(
        !check(json!({"output": message(json!([])), "stopReason": "guardrail_intervened"}))
            .unwrap()
            .has_output
    );
    let broken = check(json!({"output": message(json!([])), "stopReason": "malformed_model_output"}));
    assert!(matches!(broken, Err(BadCompletion::ErrorObject(_))));
    let error = check(json!({"message": "The system encountered an unexpected error."}));
    assert!(matches!(error, Err(BadCompletion::ErrorObject(_))));
    assert!(matches!(check(json!({"output": {}})), Err(BadCompletion::NoContent)));
    assert!(matches!(check_converse(b"<html>"), Err(BadCompletion::Html)));
}

fn gathered(events: &[(&str, Value)], limit: usize) -> Result<Value, GatherError> {
    let mut gather = Gather::new(limit);
    for (name, data) in events {
        gather.event(Some(name.as_bytes()), data.to_string().as_bytes())?;
    }
    Ok(serde_json::from_slice(&gather.finish()?).unwrap())
}

#[test]
fn a_stream_is_gathered_into_the_answer_that_it_would_have_been() {
    let delta =
        |index: u64, delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
    let call = |index: u64| {
        (
            "contentBlockStart",
            json!({"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": "t1", "name": "f"}}}),
        )
    };
    let begun = vec![
        ("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "Let "}})),
        delta(0, json!({"reasoningContent": {"text": "me"}})),
        delta(0, json!({"reasoningContent": {"signature": "c2ln"}})),
        delta(1, json!({"text": "Hel"})),
        delta(1, json!({"text": "lo"})),
        delta(2, json!({"reasoningContent": {"redactedContent": "eA=="}})),
        call(3),
        delta(3, json!({"toolUse": {"input": "{\"a\":"}})),
    ];
    let usage = json!({"inputTokens": 5, "outputTokens": 7, "totalTokens": 12});
    let mut whole = begun.clone();
    whole.extend([
        delta(3, json!({"toolUse": {"input": "1.0}"}})),
        ("messageStop", json!({"stopReason": "tool_use"})),
        ("metadata", json!({"usage": usage, "metrics": {"latencyMs": 9}, "p": "abc"})),
    ]);
    let expected = json!({
        "output": {"message": {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Let me", "signature": "c2ln"}}},
            {"text": "Hello"},
            {"reasoningContent": {"redactedContent": "eA=="}},
            {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1.0}}},
        ]}},
        "stopReason": "tool_use", "usage": usage, "metrics": {"latencyMs": 9},
    });
    assert_eq!(gathered(&whole, 1 << 16).unwrap(), expected);
    assert!(matches!(gathered(&whole, 20), Err(GatherError::TooLarge { limit: 20 })));
    assert!(matches!(gathered(&begun, 1 << 16), Err(GatherError::Unfinished)));
    // A call that was cut off is left out where the end says so, and an error where the model was done with it.
    let ended = |reason: &str| [begun.clone(), vec![("messageStop", json!({"stopReason": reason}))]].concat();
    let cut = gathered(&ended("max_tokens"), 1 << 16).unwrap();
    assert_eq!(cut["output"]["message"]["content"].as_array().unwrap().len(), 3);
    assert!(matches!(gathered(&ended("tool_use"), 1 << 16), Err(GatherError::Malformed)));
}

/// C042, C043, C101 and C105 toward Bedrock, which refuses every field that it does not know, foreign thoughts, and ids with
/// other signs than its own.
#[test]
fn c101_a_request_of_claude_code_reaches_bedrock_with_what_bedrock_knows() {
    let mark = json!({"type": "ephemeral"});
    let long = format!("functions.get:0|{}", "x".repeat(80));
    let body = json!({"model": "r", "max_tokens": 9_000, "x_new": {}, "diagnostics": {"a": 1}, "cache_control": mark,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "scope": "global"}}],
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "input_examples": [{}], "cache_control": mark}],
    "messages": [
        json!({"role": "user", "content": "x"}),
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "", "signature": "EqQB"},
            {"type": "redacted_thinking", "data": "eHl6"},
            {"type": "tool_use", "id": long, "name": "f", "input": {}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": long, "content": "y", "cache_control": mark}]},
    ]});
    let write = || {
        let destination = Destination {
            model: "eu.anthropic.claude-opus-4-6-v1:0",
            stream: true,
            include_usage: false,
            max_output: None,
            reasons: true,
            max_tokens_name: None,
            origin: "0451",
            custom_tools: false,
        };
        request(body.to_string().as_bytes(), Dialect::Messages, Dialect::Bedrock, &destination).unwrap()
    };
    let written = write();
    let sent: Value = serde_json::from_slice(&written.body).unwrap();
    let losses: Vec<&str> = written.losses.as_slice().iter().map(|loss| loss.pointer.as_str()).collect();
    let fields: Vec<&String> = sent.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        ["additionalModelRequestFields", "inferenceConfig", "messages", "system", "toolConfig"]
    );
    assert_eq!(sent["additionalModelRequestFields"]["thinking"], json!({"type": "adaptive"}));
    assert!(losses.contains(&"/x_new"), "{losses:?}");
    let point = json!({"cachePoint": {"type": "default"}});
    assert_eq!((&sent["system"][1], &sent["toolConfig"]["tools"][1]), (&point, &point));
    assert_eq!(sent["messages"][2]["content"][1], point);
    // Thoughts of another provider are none here, and call and result have one id that fits.
    let said = sent["messages"][1]["content"].as_array().unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    let id = said[0]["toolUse"]["toolUseId"].as_str().unwrap();
    assert!(id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b)), "{id}");
    assert_eq!(sent["messages"][2]["content"][0]["toolResult"]["toolUseId"], id);
    assert_eq!(write().body, written.body, "a cache sees the same bytes");
}
