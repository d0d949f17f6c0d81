use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    BadCompletion, ChunkKind, Gather, GatherError, StreamDecoder, Usage, add_disclosure, check_completion,
    done_event, heartbeat,
};

fn delta(delta: Value) -> Vec<u8> {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string().into_bytes()
}

fn kind(data: &[u8]) -> ChunkKind {
    StreamDecoder::new().event(data).kind
}

mod the_tap {
    use super::*;

    #[test]
    fn commits_with_the_first_thing_that_a_reader_would_see() {
        for output in [
            json!({"content": "a"}),
            json!({"content": "\n"}),
            json!({"content": [{"type": "text", "text": "a"}]}),
            json!({"reasoning_content": "a"}),
            json!({"reasoning": "a"}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "AA"}]}),
            json!({"refusal": "no"}),
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}),
            json!({"function_call": {"name": "f"}}),
            json!({"audio": {"id": "a"}}),
        ] {
            assert_eq!(kind(&delta(output.clone())), ChunkKind::Output, "{output}");
        }
    }

    #[test]
    fn does_not_commit_with_roles_and_empty_deltas() {
        for nothing in [
            json!({}),
            json!(null),
            json!({"role": "assistant"}),
            json!({"role": "assistant", "content": "", "refusal": null}),
            json!({"role": "assistant", "content": null, "reasoning_content": ""}),
            json!({"content": "", "tool_calls": []}),
            json!({"tool_calls": null, "annotations": []}),
        ] {
            assert_eq!(kind(&delta(nothing.clone())), ChunkKind::Preamble, "{nothing}");
        }
        for event in
            [r#"{"choices":[]}"#, r#"{"choices":null}"#, r#"{"type":"ping"}"#, r#"{"choices":[{"index":0}]}"#]
        {
            assert_eq!(kind(event.as_bytes()), ChunkKind::Preamble, "{event}");
        }
    }

    #[test]
    fn knows_the_end_marker_with_spaces() {
        let mut tap = StreamDecoder::new();
        assert_eq!(tap.event(b" [DONE]  ").kind, ChunkKind::Done);
        assert!(tap.done() && !tap.finished());
    }

    #[test]
    fn says_output_and_finish_when_one_event_has_both() {
        let mut tap = StreamDecoder::new();
        let facts =
            tap.event(br#"{"choices":[{"index":0,"delta":{"content":"all"},"finish_reason":"stop"}]}"#);
        assert_eq!((facts.kind, facts.finish), (ChunkKind::Output, true));
        assert!(tap.finished());
    }

    #[test]
    fn counts_what_is_malformed_and_goes_on() {
        let mut tap = StreamDecoder::new();
        for event in
            ["", "{", "[]", "null", "\"x\"", "12", "{\"choices\":{}}", "{\"choices\":[1]}", "{} {}", "[[[["]
        {
            assert_eq!(tap.event(event.as_bytes()).kind, ChunkKind::Malformed, "{event}");
        }
        assert_eq!(tap.event(b"\xFF\xFE").kind, ChunkKind::Malformed);
        assert_eq!(tap.malformed(), 11);
        assert_eq!(tap.event(&delta(json!({"content": "a"}))).kind, ChunkKind::Output);
    }

    #[test]
    fn reads_keys_that_come_twice_as_sdks_do() {
        let twice = br#"{"choices":[],"choices":[{"index":0,"delta":{"content":"","content":"a"}}]}"#;
        assert_eq!(kind(twice), ChunkKind::Output);
        let plain = br#"{"choices":[{"message":{"content":"","content":"a"},"finish_reason":"stop"}]}"#;
        assert!(check_completion(plain).unwrap().has_output);
    }

    #[test]
    fn tells_the_model_once_and_passes_over_an_empty_one() {
        let mut tap = StreamDecoder::new();
        assert_eq!(tap.event(br#"{"model":"","choices":[]}"#).model, None);
        assert_eq!(tap.event(br#"{"model":"gpt-4o","choices":[]}"#).model.as_deref(), Some("gpt-4o"));
        assert_eq!(tap.event(br#"{"model":"gpt-4o","choices":[]}"#).model, None);
        assert_eq!(tap.model(), Some("gpt-4o"));
    }

    #[test]
    fn knows_whether_a_tool_call_is_open() {
        let mut tap = StreamDecoder::new();
        tap.event(&delta(json!({"content": "a"})));
        assert!(!tap.tool_call_open());
        tap.event(&delta(json!({"tool_calls": [{"index": 0, "function": {"name": "f"}}]})));
        assert!(tap.tool_call_open());
        tap.event(br#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#);
        assert!(!tap.tool_call_open() && tap.tool_calls_seen());
    }

    #[test]
    fn takes_a_quarter_of_the_bytes_for_the_tokens() {
        let mut tap = StreamDecoder::new();
        assert_eq!(tap.event(&delta(json!({"content": "12345678"}))).output_tokens_estimate, 2);
        assert_eq!(tap.event(&delta(json!({"content": "1"}))).output_tokens_estimate, 1);
        assert_eq!(tap.event(&delta(json!({"role": "assistant"}))).output_tokens_estimate, 0);
        assert_eq!(tap.output_chars(), 9);
    }

    #[test]
    fn reads_a_bare_error_object_and_one_inside_a_choice() {
        let bare = r#"{"object":"error","message":"boom","type":"InternalServerError","code":500}"#;
        let inside =
            r#"{"choices":[{"index":0,"error":{"code":502,"message":"boom"},"finish_reason":"error"}]}"#;
        for event in [bare, inside, r#"{"error":{"message":"boom"},"choices":[]}"#] {
            let ChunkKind::Error(error) = kind(event.as_bytes()) else { panic!("{event}") };
            assert_eq!(error.message, "boom");
        }
    }

    #[test]
    fn an_error_that_cannot_be_read_is_still_an_error() {
        for event in [r#"{"error":true}"#, r#"{"error":[1]}"#, r#"{"error":500}"#] {
            assert!(matches!(kind(event.as_bytes()), ChunkKind::Error(_)), "{event}");
        }
    }

    #[test]
    fn survives_any_number_of_choices() {
        let mut tap = StreamDecoder::new();
        for index in 0..2_000_u64 {
            tap.event(
                json!({"choices": [{"index": index, "delta": {"content": "x"}}]}).to_string().as_bytes(),
            );
        }
        assert!(!tap.finished());
    }
}

mod usage {
    use super::*;

    fn usage(json: Value) -> Option<Usage> {
        Usage::parse(&json.to_string())
    }

    #[test]
    fn a_missing_count_follows_from_the_other_two() {
        let full = Some(Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() });
        assert_eq!(usage(json!({"prompt_tokens": 10, "completion_tokens": 2})), full);
        assert_eq!(usage(json!({"prompt_tokens": 10, "total_tokens": 12})), full);
        assert_eq!(usage(json!({"completion_tokens": 2, "total_tokens": 12})), full);
        assert_eq!(usage(json!({"prompt_tokens": 10.0, "completion_tokens": 2.0})), full);
        assert_eq!(usage(json!({"input_tokens": 10, "output_tokens": 2})), full);
    }

    #[test]
    fn nothing_countable_is_no_usage() {
        for nothing in
            [json!({}), json!(null), json!("12"), json!({"total_tokens": null}), json!({"prompt_tokens": -1})]
        {
            assert_eq!(usage(nothing.clone()), None, "{nothing}");
        }
    }

    #[test]
    fn a_null_does_not_undo_what_was_seen() {
        let mut tap = StreamDecoder::new();
        tap.event(br#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#);
        assert_eq!(tap.event(br#"{"choices":[],"usage":null}"#).usage, None);
        assert_eq!(tap.usage().map(|usage| usage.output_tokens), Some(2));
    }
}

mod a_plain_answer {
    use super::*;

    #[test]
    fn tells_its_facts() {
        let body = json!({"id": "x", "object": "chat.completion", "model": "gpt-4o-2026-05-13",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}});
        let facts = check_completion(body.to_string().as_bytes()).unwrap();
        assert_eq!(facts.model.as_deref(), Some("gpt-4o-2026-05-13"));
        assert_eq!(facts.finish_reasons, ["stop"]);
        assert_eq!(facts.usage, Some(Usage { input_tokens: 5, output_tokens: 1, ..Usage::default() }));
        assert!(facts.has_output);
    }

    #[test]
    fn may_be_empty_if_it_finished() {
        let body =
            br#" {"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"length"}]} "#;
        let facts = check_completion(body).unwrap();
        assert!(!facts.has_output);
        assert_eq!(facts.finish_reasons, ["length"]);
    }

    #[test]
    fn may_be_tool_calls_without_text() {
        let body = br#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c"}]},"finish_reason":"tool_calls"}]}"#;
        assert!(check_completion(body).unwrap().has_output);
    }

    #[test]
    fn is_told_from_what_is_none() {
        for (body, bad) in [
            ("", BadCompletion::Empty),
            (" \r\n", BadCompletion::Empty),
            ("<!DOCTYPE html><html></html>", BadCompletion::Html),
            ("\u{FEFF}<html>", BadCompletion::Html),
            ("upstream connect error", BadCompletion::NotJson),
            ("{\"choices\":[{\"message\":{\"content\":\"cut o", BadCompletion::NotJson),
            ("[]", BadCompletion::NotJson),
            ("{}", BadCompletion::NoChoices),
            ("{\"choices\":[]}", BadCompletion::NoChoices),
            ("{\"choices\":null}", BadCompletion::NoChoices),
            ("{\"choices\":[{}]}", BadCompletion::NoChoices),
        ] {
            assert_eq!(check_completion(body.as_bytes()), Err(bad), "{body}");
        }
    }

    #[test]
    fn is_told_from_an_error_with_a_success_status() {
        for body in [
            r#"{"error":{"message":"boom","code":429}}"#,
            r#"{"error":{"message":"boom"},"choices":[]}"#,
            r#"{"object":"error","message":"boom"}"#,
            r#"[{"error":{"message":"boom"}}]"#,
            r#"{"choices":[{"message":{"content":""},"finish_reason":"error","error":{"message":"boom"}}]}"#,
        ] {
            let Err(BadCompletion::ErrorObject(error)) = check_completion(body.as_bytes()) else {
                panic!("{body}")
            };
            assert_eq!(error.message, "boom");
        }
        let broken_off =
            br#"{"choices":[{"message":{"content":"x"},"finish_reason":"insufficient_system_resource"}]}"#;
        assert!(matches!(check_completion(broken_off), Err(BadCompletion::ErrorObject(_))));
        assert!(
            check_completion(br#"{"error":null,"choices":[{"message":{},"finish_reason":"stop"}]}"#).is_ok()
        );
    }
}

mod gathering {
    use super::*;

    #[test]
    fn stops_at_its_limit() {
        let mut gather = Gather::new(1000);
        let event = delta(json!({"content": "x".repeat(100)}));
        let outcome = (0..20).try_for_each(|_| gather.event(&event));
        assert_eq!(outcome, Err(GatherError::TooLarge { limit: 1000 }));
    }

    #[test]
    fn does_not_count_what_it_does_not_keep() {
        let mut gather = Gather::new(1000);
        for _ in 0..1000 {
            let event = json!({"id": "chatcmpl-1", "obfuscation": "x".repeat(50), "usage": {"prompt_tokens": 1},
                "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            gather.event(event.to_string().as_bytes()).unwrap();
        }
        assert!(gather.finish().is_ok());
    }

    #[test]
    fn is_bounded_in_choices_and_calls_too() {
        let mut gather = Gather::new(100_000);
        let outcome = (0..10_000_u64).try_for_each(|index| {
            gather.event(json!({"choices": [{"index": index, "delta": {}}]}).to_string().as_bytes())
        });
        assert!(matches!(outcome, Err(GatherError::TooLarge { .. })));
        let mut gather = Gather::new(100_000);
        let outcome = (0..10_000_u64).try_for_each(|index| {
            gather.event(&delta(json!({"tool_calls": [{"index": index, "function": {}}]})))
        });
        assert!(matches!(outcome, Err(GatherError::TooLarge { .. })));
    }
}

mod disclosure {
    use super::*;

    #[test]
    fn stands_at_the_end_and_leaves_the_rest_as_it_was() {
        assert_eq!(
            add_disclosure(b"{\"a\": 1.0 }", "{\"x\":1}"),
            &b"{\"a\": 1.0 ,\"pointsman\":{\"x\":1}}"[..]
        );
        assert_eq!(add_disclosure(b" {} \n", "{}"), &b"{\"pointsman\":{}}"[..]);
        assert_eq!(add_disclosure(b"[DONE]", "{}"), &b"[DONE]"[..]);
    }

    #[test]
    fn the_fixed_events_are_what_sdks_take() {
        assert_eq!(heartbeat(), b": ping\n\n");
        assert_eq!(done_event(), b"data: [DONE]\n\n");
    }
}

/// A text, cut into pieces.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[a-z\"\\\\{}北👍 ]{0,6}", 1..6)
}

proptest! {
    #[test]
    fn an_answer_cut_into_deltas_is_gathered_whole(
        content in pieces(),
        calls in proptest::collection::vec(("[a-z]{1,8}", pieces()), 0..4),
        order in any::<u64>(),
    ) {
        let mut events: Vec<(usize, Value)> = Vec::new();
        for (at, piece) in content.iter().enumerate() {
            events.push((at, json!({"content": piece})));
        }
        for (index, (name, pieces)) in calls.iter().enumerate() {
            let head = json!({"index": index, "id": format!("c{index}"), "type": "function", "function": {"name": name, "arguments": ""}});
            events.push((0, json!({"tool_calls": [head]})));
            for (at, piece) in pieces.iter().enumerate() {
                // Pieces of several calls may interleave; each call's own stay in order.
                let place = at + 1 + (order as usize >> index) % 3;
                events.push((place, json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})));
            }
        }
        events.sort_by_key(|(place, _)| *place);
        let mut gather = Gather::new(1 << 20);
        for (_, event) in &events {
            gather.event(&delta(event.clone())).unwrap();
        }
        gather.event(br#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#).unwrap();
        let whole: Value = serde_json::from_slice(&gather.finish().unwrap()).unwrap();
        let message = &whole["choices"][0]["message"];
        let text = content.concat();
        let nothing_but_calls = text.is_empty() && !calls.is_empty();
        prop_assert_eq!(&message["content"], &if nothing_but_calls { Value::Null } else { json!(text) });
        let made = message.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len);
        prop_assert_eq!(made, calls.len());
        for (index, (name, pieces)) in calls.iter().enumerate() {
            let call = &message["tool_calls"][index];
            let arguments = pieces.concat();
            let expected = if arguments.trim().is_empty() { "{}" } else { &arguments };
            prop_assert_eq!(&call["function"], &json!({"name": name, "arguments": expected}));
            prop_assert_eq!(&call["id"], &json!(format!("c{index}")));
        }
    }

    #[test]
    fn what_is_no_json_object_is_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..64), json in r#"[\[\]{}:,"a-e0-9]{0,40}"#) {
        for data in [bytes.as_slice(), json.as_bytes()] {
            let object = serde_json::from_slice::<serde_json::Map<String, Value>>(data).is_ok();
            let kind = kind(data);
            prop_assert!(object || kind == ChunkKind::Malformed, "{:?} is {:?}", data, kind);
            prop_assert!(object || Gather::new(100).event(data) == Err(GatherError::Malformed));
            prop_assert!(object || check_completion(data).is_err());
        }
    }
}
