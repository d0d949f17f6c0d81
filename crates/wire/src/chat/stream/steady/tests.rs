//! Chunks that need a word changed, and that nothing else of them is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chat::{StreamDecoder, check_completion};

/// What a client gets of a stream of this data, event by event.
fn through(tap: StreamDecoder, data: &[&str]) -> Vec<String> {
    let mut tap = tap;
    let passed = data.iter().map(|data| {
        let amended = tap.event(data.as_bytes()).amended;
        amended.map_or_else(|| (*data).to_owned(), |bytes| String::from_utf8(bytes.to_vec()).unwrap())
    });
    passed.collect()
}

fn unchanged(data: &[&str]) {
    assert_eq!(through(StreamDecoder::new(), data), data);
}

#[test]
fn a_steady_stream_is_passed_on_byte_for_byte() {
    unchanged(&[
        r#"{"choices":[],"created":0,"id":"","model":"","prompt_filter_results":[]}"#,
        r#"{ "id" : "c", "created":1,"model":"m","choices":[{"delta":{"role":"assistant"},"index":0}] }"#,
        r#"{"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"\u00e4 \"id\":\"d\""}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"no name at all"}}]}"#,
        r#"{"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]);
}

/// C038.
#[test]
fn only_the_name_that_changed_is_changed_back() {
    let sent = [
        r#"{"id":"c-1","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}"#,
        r#"{"x":{"id":"c-9"}, "created" : 2 ,"choices":[{"index":0,"delta":{"content":"id"},"id":"k"}],"id":"c-2","model":"m"}"#,
        r#"{"id":null,"created":1,"model":"n","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    ];
    let got = [
        sent[0],
        r#"{"x":{"id":"c-9"}, "created" : 1 ,"choices":[{"index":0,"delta":{"content":"id"},"id":"k"}],"id":"c-1","model":"m"}"#,
        r#"{"id":"c-1","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    ];
    assert_eq!(through(StreamDecoder::new(), &sent), got);
}

#[test]
fn a_name_of_any_length_is_not_kept() {
    let long = "x".repeat(10_000);
    let chunk = |id: &str| format!(r#"{{"id":"{id}","choices":[{{"index":0,"delta":{{"content":"a"}}}}]}}"#);
    unchanged(&[&chunk(&long), &chunk("c")]);
}

/// Found by fuzzing: a broken name would have broken the chunks after it as well.
#[test]
fn a_name_that_cannot_be_read_is_no_name() {
    for broken in [r#""gpt-4\ud800""#, r#"{"x":"\udead"}"#, "[1]", "true", "1e999"] {
        let chunk = |model: &str| format!(r#"{{"model":{model},"choices":[{{"index":0,"delta":{{}}}}]}}"#);
        unchanged(&[&chunk(broken), &chunk(r#""gpt-4o""#)]);
        let sent = [chunk(broken), chunk(r#""gpt-4o""#), chunk(broken)];
        let sent = [sent[0].as_str(), &sent[1], &sent[2]];
        assert_eq!(through(StreamDecoder::new(), &sent), [sent[0], sent[1], sent[1]]);
    }
}

const CALL: &str = r#"{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"t"}]}}]}"#;

/// C031: also where the index comes last, and other choices in the same chunk have ends of their own.
#[test]
fn the_choice_that_called_a_tool_ends_by_it() {
    let end = r#"{"choices":[{"finish_reason":"stop","delta":{},"index":0},{"finish_reason": "stop" ,"delta":{"content":"stop"},"index":1}]}"#;
    let amended = r#"{"choices":[{"finish_reason":"stop","delta":{},"index":0},{"finish_reason": "tool_calls" ,"delta":{"content":"stop"},"index":1}]}"#;
    assert_eq!(through(StreamDecoder::new(), &[CALL, end]), [CALL, amended]);
    let named = StreamDecoder::new().with_named_tool(true);
    assert_eq!(through(named, &[CALL, end]), [CALL, end], "the client knows");
}

#[test]
fn ends_for_other_reasons_stay() {
    for reason in ["length", "content_filter", "tool_calls", "function_call", "eos"] {
        let end = format!(r#"{{"choices":[{{"index":1,"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        unchanged(&[CALL, &end]);
    }
}

/// C031, in a plain answer.
#[test]
fn a_plain_answer_that_calls_tools_ends_by_them() {
    let answer = |second: Value, reason: &str| {
        json!({"id": "c", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "\"finish_reason\":\"stop\""}, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "tool_calls": second}, "finish_reason": reason},
        ]})
    };
    let amended = |value: &Value| {
        let amended = check_completion(value.to_string().as_bytes()).unwrap().amended;
        amended.map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    let calls = json!([{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    assert_eq!(amended(&answer(calls.clone(), "stop")), Some(answer(calls.clone(), "tool_calls")));
    assert_eq!(amended(&answer(calls, "length")), None);
    assert_eq!(amended(&answer(json!([]), "stop")), None);
    assert_eq!(amended(&answer(Value::Null, "stop")), None);
}

/// Members of a chunk that name it, some of them nothing, and some missing.
fn name() -> impl Strategy<Value = Value> {
    let word = |words: &'static [&'static str]| prop_oneof![2 => Just(Value::Null), 6 => prop::sample::select(words).prop_map(Value::from)];
    (word(&["c", "d", ""]), prop::sample::select(&[0, 1, 2][..]), word(&["m", ""]), 0..8_u8).prop_map(
        |(id, created, model, given)| {
            let mut object = json!({});
            for (bit, key, value) in [(1, "id", id), (2, "created", created.into()), (4, "model", model)] {
                if given & bit != 0 {
                    object[key] = value;
                }
            }
            object
        },
    )
}

/// Choices that may call a tool and may end, in any order.
fn choices() -> impl Strategy<Value = Value> {
    let reasons = [Value::Null, "stop".into(), "length".into(), "tool_calls".into()];
    let choice = (0..3_u64, any::<bool>(), prop::sample::select(reasons.to_vec()));
    let choice = choice.prop_map(|(index, calls, reason)| {
        let delta =
            if calls { json!({"tool_calls": [{"index": 0}]}) } else { json!({"content": "\"stop\""}) };
        json!({"delta": delta, "finish_reason": reason, "index": index})
    });
    prop::collection::vec(choice, 0..3).prop_map(Value::from)
}

/// The same said once more, on values: what came first that says something holds, and who called a tool ends by it.
fn put_right(chunks: &[Value]) -> Vec<Value> {
    let mut names = json!({});
    let mut called = Vec::new();
    let steady = |chunk: &Value| {
        let mut chunk = chunk.clone();
        for key in ["id", "created", "model"] {
            let Some(said) = chunk.get(key).cloned() else { continue };
            let says = said != Value::Null && said != json!("") && said != json!(0);
            if names[key].is_null() && says {
                names[key] = said;
            } else if !names[key].is_null() {
                chunk[key] = names[key].clone();
            }
        }
        for choice in chunk["choices"].as_array_mut().unwrap() {
            if choice["delta"]["tool_calls"].is_array() {
                called.push(choice["index"].clone());
            }
        }
        for choice in chunk["choices"].as_array_mut().unwrap() {
            if choice["finish_reason"] == "stop" && called.contains(&choice["index"]) {
                choice["finish_reason"] = json!("tool_calls");
            }
        }
        chunk
    };
    chunks.iter().map(steady).collect()
}

proptest! {
    #[test]
    fn any_stream_is_put_right_as_the_rule_says(parts in prop::collection::vec((name(), choices()), 1..8)) {
        let chunks: Vec<Value> = parts
            .into_iter()
            .map(|(mut chunk, choices)| {
                chunk["choices"] = choices;
                chunk
            })
            .collect();
        let data: Vec<String> = chunks.iter().map(Value::to_string).collect();
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        let got = through(StreamDecoder::new(), &data);
        let got: Vec<Value> = got.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
        prop_assert_eq!(got, put_right(&chunks));
    }
}
