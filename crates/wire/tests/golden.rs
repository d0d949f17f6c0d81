//! Streams as providers send them (`tests/golden/{chat,messages,responses,gemini}/*.sse`), and what they are (`*.json` beside them).
//!
//! Each stream is decoded whole, byte by byte, with other line ends and without its last blank line; the
//! outcome must always be the one that is written down.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use pointsman_wire::chat::GatherError;
use pointsman_wire::dialect::{ChunkKind, Dialect, Gather, StreamTap};
use pointsman_wire::grammar::{Ending, MessagesGrammar};
use pointsman_wire::sse::{SseDecoder, SseEvent};
use serde_json::{Value, json};

fn events(stream: &[u8], piece: usize) -> (Vec<SseEvent>, u64) {
    let mut decoder = SseDecoder::new(1 << 20);
    let mut events = Vec::new();
    for chunk in stream.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next_event().unwrap() {
            events.push(event);
        }
    }
    while let Some(event) = decoder.finish().unwrap() {
        events.push(event);
    }
    (events, decoder.comments())
}

fn word(kind: &ChunkKind) -> &'static str {
    match kind {
        ChunkKind::Preamble => "preamble",
        ChunkKind::Output => "output",
        ChunkKind::Finish => "finish",
        ChunkKind::Done => "done",
        ChunkKind::Error(_) => "error",
        ChunkKind::Malformed => "malformed",
    }
}

/// What the tap makes of the events, in the words of the expectation files.
fn tapped(dialect: Dialect, events: &[SseEvent], comments: u64) -> Value {
    let mut tap = StreamTap::new(dialect);
    let mut told = json!({"kinds": [], "comments": comments});
    let mut usage_only = Vec::new();
    let mut expendable = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let facts = tap.event(event.event.as_deref(), &event.data);
        told["kinds"].as_array_mut().unwrap().push(json!(word(&facts.kind)));
        if facts.usage_only {
            usage_only.push(at);
        }
        if facts.expendable {
            expendable.push(at);
        }
        if let ChunkKind::Error(error) = &facts.kind {
            told["error"] = json!({"message": error.message, "type": error.kind, "code": error.code});
        }
    }
    told["usage_only"] = json!(usage_only);
    told["expendable"] = json!(expendable);
    told["finished"] = json!(tap.finished());
    told["done"] = json!(tap.done());
    told["tool_calls"] = json!(tap.tool_calls_seen());
    told["tool_call_open"] = json!(tap.tool_call_open());
    told["malformed"] = json!(tap.malformed());
    told["model"] = json!(tap.model());
    told["usage"] = tap.usage().map_or(Value::Null, |usage| {
        json!({"input": usage.input_tokens, "cached": usage.cached_tokens, "cache_write": usage.cache_write_tokens,
            "output": usage.output_tokens, "reasoning": usage.reasoning_tokens})
    });
    told["gathered"] = gathered(dialect, events);
    told
}

fn gathered(dialect: Dialect, events: &[SseEvent]) -> Value {
    let mut gather = Gather::new(dialect, 1 << 20);
    let mut all = events.iter();
    let outcome = all.try_for_each(|event| gather.event(event.event.as_deref(), &event.data));
    let outcome = outcome.and_then(|()| gather.finish());
    match outcome {
        Ok(body) => serde_json::from_slice(&body).unwrap(),
        Err(GatherError::Upstream(_)) => json!("upstream"),
        Err(GatherError::Malformed) => json!("malformed"),
        Err(GatherError::Unfinished) => json!("unfinished"),
        Err(GatherError::NoChoices | GatherError::NoMessage) => json!("no_choices"),
        Err(GatherError::TooLarge { .. }) => json!("too_large"),
    }
}

/// The expectation with what it leaves out because it is usual.
fn expectation(text: &str) -> Value {
    let mut expected: Value = serde_json::from_str(text).unwrap();
    for (key, usual) in [
        ("comments", json!(0)),
        ("usage_only", json!([])),
        ("expendable", json!([])),
        ("malformed", json!(0)),
        ("tool_call_open", json!(false)),
    ] {
        expected.as_object_mut().unwrap().entry(key).or_insert(usual);
    }
    expected
}

/// All streams of a dialect.
fn streams(dialect: Dialect) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(dialect.name());
    let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let streams: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "sse")).collect();
    assert!(streams.len() >= 13, "only {} streams found", streams.len());
    streams
}

fn expected_of(path: &Path) -> Value {
    expectation(&fs::read_to_string(path.with_extension("json")).unwrap())
}

#[test]
fn each_stream_is_understood_however_it_arrives() {
    for dialect in Dialect::CLIENTS {
        for path in streams(dialect) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let stream = fs::read_to_string(&path).unwrap();
            let expected = expected_of(&path);
            let dresses = [
                ("as it is", stream.clone()),
                ("with CRLF", stream.replace('\n', "\r\n")),
                ("with CR", stream.replace('\n', "\r")),
                ("without space", stream.replace("data: ", "data:").replace("event: ", "event:")),
                ("without its last line ends", stream.trim_end_matches('\n').to_owned()),
                ("with a byte order mark", format!("\u{FEFF}{stream}")),
            ];
            for (dress, text) in dresses {
                for piece in [1, 7, 4096] {
                    let (events, comments) = events(text.as_bytes(), piece);
                    let told = tapped(dialect, &events, comments);
                    assert_eq!(told, expected, "{name} {dress}, in pieces of {piece}");
                }
            }
        }
    }
}

#[test]
fn framing_each_event_anew_changes_nothing_in_its_data() {
    for dialect in Dialect::CLIENTS {
        for path in streams(dialect) {
            let (before, _) = events(&fs::read(&path).unwrap(), 4096);
            let mut out = BytesMut::new();
            for event in &before {
                dialect.write_event(&mut out, event.event.as_deref(), &event.data);
            }
            let data =
                |events: &[SseEvent]| events.iter().map(|event| event.data.clone()).collect::<Vec<_>>();
            assert_eq!(data(&events(&out, 3).0), data(&before), "{}", path.display());
        }
    }
}

#[test]
fn what_the_messages_tap_calls_complete_is_complete_by_the_grammar_when_framed_anew() {
    let mut checked = 0;
    for path in streams(Dialect::Messages) {
        let expected = expected_of(&path);
        if expected["done"] != true || expected["malformed"] != 0 {
            continue;
        }
        let mut out = BytesMut::new();
        for event in events(&fs::read(&path).unwrap(), 4096).0.iter().filter(|event| event.data != "[DONE]") {
            Dialect::Messages.write_event(&mut out, event.event.as_deref(), &event.data);
        }
        let mut grammar = MessagesGrammar::new();
        for event in events(&out, 4096).0 {
            let checked = grammar.event(event.event.as_deref(), &event.data);
            checked.unwrap_or_else(|broken| panic!("{}: {broken}", path.display()));
        }
        assert_eq!(grammar.end(), Ok(Ending::Complete), "{}", path.display());
        checked += 1;
    }
    assert!(checked >= 15, "only {checked} streams were complete");
}
