//! Streams as providers send them (`tests/golden/chat/*.sse`), and what they are (`*.json` beside them).
//!
//! Each stream is decoded whole, byte by byte, with other line ends and without its last blank line; the
//! outcome must always be the one that is written down.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use pointsman_wire::chat::{ChunkKind, Gather, GatherError, StreamDecoder};
use pointsman_wire::sse::{SseDecoder, write_event};
use serde_json::{Value, json};

fn events(stream: &[u8], piece: usize) -> (Vec<Bytes>, u64) {
    let mut decoder = SseDecoder::new(1 << 20);
    let mut events = Vec::new();
    for chunk in stream.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next_event().unwrap() {
            events.push(event.data);
        }
    }
    while let Some(event) = decoder.finish().unwrap() {
        events.push(event.data);
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
fn tapped(events: &[Bytes], comments: u64) -> Value {
    let mut tap = StreamDecoder::new();
    let mut told = json!({"kinds": [], "comments": comments});
    let mut usage_only = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let facts = tap.event(event);
        told["kinds"].as_array_mut().unwrap().push(json!(word(&facts.kind)));
        if facts.usage_only {
            usage_only.push(at);
        }
        if let ChunkKind::Error(error) = &facts.kind {
            told["error"] = json!({"message": error.message, "type": error.kind, "code": error.code});
        }
    }
    told["usage_only"] = json!(usage_only);
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
    told["gathered"] = gathered(events);
    told
}

fn gathered(events: &[Bytes]) -> Value {
    let mut gather = Gather::new(1 << 20);
    let outcome = events.iter().try_for_each(|event| gather.event(event)).and_then(|()| gather.finish());
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
        ("malformed", json!(0)),
        ("tool_call_open", json!(false)),
    ] {
        expected.as_object_mut().unwrap().entry(key).or_insert(usual);
    }
    expected
}

#[test]
fn each_stream_is_understood_however_it_arrives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/chat");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "sse") {
            continue;
        }
        count += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let stream = fs::read_to_string(&path).unwrap();
        let expected = expectation(&fs::read_to_string(path.with_extension("json")).unwrap());
        let dresses = [
            ("as it is", stream.clone()),
            ("with CRLF", stream.replace('\n', "\r\n")),
            ("with CR", stream.replace('\n', "\r")),
            ("without space", stream.replace("data: ", "data:")),
            ("without its last line ends", stream.trim_end_matches('\n').to_owned()),
            ("with a byte order mark", format!("\u{FEFF}{stream}")),
        ];
        for (dress, text) in dresses {
            for piece in [1, 7, 4096] {
                let (events, comments) = events(text.as_bytes(), piece);
                assert_eq!(tapped(&events, comments), expected, "{name} {dress}, in pieces of {piece}");
            }
        }
    }
    assert!(count >= 30, "only {count} streams found");
}

#[test]
fn framing_each_event_anew_changes_nothing_in_its_data() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/chat");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "sse") {
            continue;
        }
        let (before, _) = events(&fs::read(&path).unwrap(), 4096);
        let mut out = BytesMut::new();
        for event in &before {
            write_event(&mut out, None, event);
        }
        assert_eq!(events(&out, 3).0, before, "{}", path.display());
    }
}
