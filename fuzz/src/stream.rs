//! A provider's stream, and its plain answer, in any dialect.

use bytes::{Bytes, BytesMut};
use pointsman_wire::classify::classify_error;
use pointsman_wire::dialect::{ChunkFacts, ChunkKind, Dialect, Gather, StreamTap, check_answer};
use pointsman_wire::error::UpstreamError;
use pointsman_wire::grammar::{Ending, GeminiGrammar, MessagesGrammar};
use pointsman_wire::provider::providers;
use pointsman_wire::sse::{SseDecoder, SseEvent};
use serde_json::Value;

use crate::failure::wait_is_bounded;

/// How much of an answer is gathered, in bytes.
const ANSWER: usize = 4096;

/// The input is a stream, and an answer too.
///
/// # Panics
/// If what a tap says contradicts itself, the grammar or what can be gathered, or if an event that is passed on
/// is not read back.
pub fn check(dialect: Dialect, input: &[u8]) {
    match check_answer(dialect, input) {
        Err(bad) => assert!(!bad.to_string().is_empty()),
        Ok(facts) => {
            let input = input.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(input);
            facts.amended.iter().for_each(|amended| same_but_for_its_words(dialect, input, amended));
        }
    }
    let events = events(input);
    let mut tap = StreamTap::new(dialect);
    let mut facts = Vec::new();
    for event in &events {
        let before = (tap.output_chars(), tap.malformed(), tap.done(), tap.tool_calls_seen());
        let fact = tap.event(event.event.as_deref(), &event.data);
        agrees(dialect, &tap, &fact, before);
        if let Some(amended) = &fact.amended {
            same_but_for_its_words(dialect, &event.data, amended);
        }
        facts.push(fact);
        passed_on(dialect, event);
    }
    assert!(!tap.tool_call_open() || tap.tool_calls_seen());
    gathered(dialect, &tap, &events, &facts);
    match dialect {
        Dialect::Messages => in_order(&tap, &events, &facts),
        Dialect::Gemini => in_order_of_gemini(&tap, &events, &facts),
        _ => {}
    }
}

fn events(stream: &[u8]) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new(1 << 16);
    decoder.push(Bytes::copy_from_slice(stream));
    let mut events = Vec::new();
    while let Ok(Some(event)) = decoder.finish() {
        events.push(event);
    }
    events
}

/// What one event told, beside the state after it.
fn agrees(dialect: Dialect, tap: &StreamTap, fact: &ChunkFacts, before: (u64, u64, bool, bool)) {
    let (output, malformed, done, called) = before;
    let is_output = matches!(fact.kind, ChunkKind::Output);
    assert_eq!(tap.output_chars() > output, is_output, "output is counted where there is some");
    assert_eq!(fact.output_tokens_estimate > 0, is_output);
    assert_eq!(tap.malformed() > malformed, matches!(fact.kind, ChunkKind::Malformed));
    assert!(!fact.expendable || matches!(fact.kind, ChunkKind::Malformed));
    // In Responses the event that finishes is the last one.
    let last = matches!(fact.kind, ChunkKind::Finish) && dialect == Dialect::Responses;
    // In Bedrock what the answer took comes after its end, and is the last one.
    let last = last || (dialect == Dialect::Bedrock && tap.finished() && tap.done());
    assert_eq!(tap.done(), done || last || matches!(fact.kind, ChunkKind::Done), "an end is an end");
    assert!(tap.tool_calls_seen() || !called);
    assert!(!matches!(fact.kind, ChunkKind::Finish) || fact.finish);
    assert!(fact.usage.is_none() || fact.usage.as_ref() == tap.usage(), "the last usage holds");
    assert!(fact.model.is_none() || fact.model.as_deref() == tap.model());
    if let ChunkKind::Error(error) = &fact.kind {
        classified(error);
    }
}

/// What was put right is the same JSON but for the name of the stream and the reasons of its ends, and something of these
/// is another.
fn same_but_for_its_words(dialect: Dialect, sent: &[u8], amended: &[u8]) {
    assert!(dialect == Dialect::Chat, "the others need nothing put right");
    // A tap does not look at what it has no use for: there may be bytes in it that are no text.
    let Ok(mut sent) = serde_json::from_slice::<Value>(sent) else { return };
    let mut amended: Value = serde_json::from_slice(amended).expect("what was put right is JSON");
    assert_ne!(sent, amended);
    for value in [&mut sent, &mut amended] {
        let object = value.as_object_mut().expect("an object");
        object.retain(|key, _| !["id", "created", "model"].contains(&key.as_str()));
        for choice in object.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
            choice.as_object_mut().and_then(|choice| choice.remove("finish_reason"));
        }
    }
    assert_eq!(sent, amended);
}

fn classified(error: &UpstreamError) {
    for provider in providers() {
        let classified = classify_error(provider, error, 1_790_000_000_000);
        assert!(!classified.rule.is_empty());
        wait_is_bounded(classified.retry_after);
    }
}

/// An event for the client is one event, and disclosure adds to it without breaking it.
fn passed_on(dialect: Dialect, event: &SseEvent) {
    let mut out = BytesMut::new();
    dialect.write_event(&mut out, event.event.as_deref(), &event.data);
    let read: Vec<Bytes> = events(&out).into_iter().map(|event| event.data).collect();
    assert_eq!(read, std::slice::from_ref(&event.data));
    let Some(disclosed) = dialect.disclosed(&event.data, r#"{"target":"x"}"#) else { return };
    if let Ok(Value::Object(_)) = serde_json::from_slice(&event.data) {
        let value: Value = serde_json::from_slice(&disclosed).expect("an event with disclosure is JSON");
        let holder = if dialect == Dialect::Messages { value.get("message") } else { Some(&value) };
        assert!(holder.is_some_and(|holder| holder.get("pointsman").is_some()));
    }
}

fn gathered(dialect: Dialect, tap: &StreamTap, events: &[SseEvent], facts: &[ChunkFacts]) {
    let mut gather = Gather::new(dialect, ANSWER);
    let taken = events.iter().try_for_each(|event| gather.event(event.event.as_deref(), &event.data));
    let answer = taken.and_then(|()| gather.finish());
    let Ok(answer) = answer else { return };
    let broken = |fact: &ChunkFacts| matches!(fact.kind, ChunkKind::Error(_) | ChunkKind::Malformed);
    assert!(tap.finished(), "only a finished answer is gathered");
    assert!(!facts.iter().any(broken), "a broken stream is no answer");
    // A control character of one byte takes six in JSON; a number takes more digits than it is counted for.
    assert!(answer.len() <= 8 * ANSWER + (1 << 16), "a gathered answer is bounded");
    let checked = check_answer(dialect, &answer);
    assert!(checked.is_ok(), "a gathered answer is a good one: {checked:?}");
}

/// A stream as the grammar wants it holds nothing that a tap stumbles over.
fn in_order(tap: &StreamTap, events: &[SseEvent], facts: &[ChunkFacts]) {
    let mut grammar = MessagesGrammar::new();
    let kept = events.iter().try_for_each(|event| grammar.event(event.event.as_deref(), &event.data));
    if kept.is_err() || facts.iter().any(|fact| matches!(fact.kind, ChunkKind::Error(_))) {
        return;
    }
    if grammar.end() == Ok(Ending::Complete) {
        assert!(tap.done() && tap.finished() && !tap.tool_call_open());
        assert_eq!(tap.malformed(), 0);
    }
}

/// The same for a stream of generateContent, which has no end marker.
fn in_order_of_gemini(tap: &StreamTap, events: &[SseEvent], facts: &[ChunkFacts]) {
    let mut grammar = GeminiGrammar::new();
    let kept = events.iter().try_for_each(|event| grammar.event(event.event.as_deref(), &event.data));
    if kept.is_err() || facts.iter().any(|fact| matches!(fact.kind, ChunkKind::Error(_))) {
        return;
    }
    if grammar.end() == Ok(Ending::Complete) {
        assert_eq!(tap.malformed(), 0);
    }
}
