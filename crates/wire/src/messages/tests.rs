use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Gather, StreamDecoder, check_message, provider_tool};
use crate::chat::{BadCompletion, GatherError, Usage};
use crate::dialect::{ChunkFacts, ChunkKind};

/// A tap that has seen `message_start`.
fn started() -> StreamDecoder {
    let mut tap = StreamDecoder::new();
    assert_eq!(see(&mut tap, &start()).kind, ChunkKind::Preamble);
    tap
}

fn start() -> Value {
    let usage = json!({"input_tokens": 3, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
    json!({"type": "message_start", "message": message})
}

/// Shows an event, under the name that its type gives it.
fn see(tap: &mut StreamDecoder, event: &Value) -> ChunkFacts {
    let name = event["type"].as_str().map(str::as_bytes);
    tap.event(name, event.to_string().as_bytes())
}

fn block(block: Value) -> Value {
    json!({"type": "content_block_start", "index": 0, "content_block": block})
}

fn delta(delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": 0, "delta": delta})
}

fn kind_of(event: &Value) -> ChunkKind {
    see(&mut started(), event).kind
}

mod the_tap {
    use super::*;

    #[test]
    fn commits_with_the_first_thing_that_a_reader_would_see() {
        for output in [
            delta(json!({"type": "text_delta", "text": "a"})),
            delta(json!({"type": "text_delta", "text": "\n"})),
            delta(json!({"type": "thinking_delta", "thinking": "a"})),
            delta(json!({"type": "input_json_delta", "partial_json": "{"})),
            delta(json!({"type": "citations_delta", "citation": {}})),
            block(json!({"type": "text", "text": "a"})),
            block(json!({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}})),
            block(json!({"type": "redacted_thinking", "data": "AA"})),
        ] {
            assert_eq!(kind_of(&output), ChunkKind::Output, "{output}");
        }
    }

    #[test]
    fn c004_holds_back_what_says_nothing_yet() {
        for nothing in [
            json!({"type": "ping"}),
            block(json!({"type": "text", "text": ""})),
            block(json!({"type": "thinking", "thinking": "", "signature": ""})),
            block(json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
            block(json!({"type": "tool_use", "id": "t", "name": "f"})),
            delta(json!({"type": "text_delta", "text": ""})),
            delta(json!({"type": "input_json_delta", "partial_json": ""})),
            delta(json!({"type": "signature_delta", "signature": "EqQB"})),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": {"output_tokens": 1}}),
            json!({"type": "an_event_of_tomorrow"}),
        ] {
            assert_eq!(kind_of(&nothing), ChunkKind::Preamble, "{nothing}");
        }
    }

    #[test]
    fn commits_when_the_provider_begins_to_execute_a_tool_itself() {
        for kind in ["server_tool_use", "mcp_tool_use"] {
            let begun = block(json!({"type": kind, "id": "s", "name": "f", "input": {}}));
            assert_eq!(kind_of(&begun), ChunkKind::Output, "{kind}");
        }
    }

    #[test]
    fn knows_when_a_tool_call_is_open() {
        let mut tap = started();
        see(&mut tap, &block(json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})));
        assert!(tap.tool_call_open());
        see(&mut tap, &json!({"type": "content_block_stop", "index": 0}));
        assert!(!tap.tool_call_open() && tap.tool_calls_seen());
    }

    #[test]
    fn finishes_with_a_stop_reason_and_is_done_with_message_stop() {
        for reason in [
            "end_turn",
            "max_tokens",
            "stop_sequence",
            "tool_use",
            "pause_turn",
            "refusal",
            "model_context_window_exceeded",
        ] {
            let mut tap = started();
            let facts = see(&mut tap, &json!({"type": "message_delta", "delta": {"stop_reason": reason}}));
            assert_eq!(
                (facts.kind, facts.finish, tap.finished(), tap.done()),
                (ChunkKind::Finish, true, true, false)
            );
            assert_eq!(see(&mut tap, &json!({"type": "message_stop"})).kind, ChunkKind::Done);
            assert!(tap.done());
        }
    }

    #[test]
    fn names_the_model_once_and_never_calls_an_event_usage_only() {
        let mut tap = StreamDecoder::new();
        let facts = see(&mut tap, &start());
        assert_eq!((facts.model.as_deref(), facts.usage_only), (Some("m"), false));
        let facts =
            see(&mut tap, &json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}}));
        assert_eq!((facts.model, facts.usage_only, tap.model()), (None, false, Some("m")));
    }

    #[test]
    fn does_not_commit_to_a_message_that_never_started() {
        for event in [
            block(json!({"type": "text", "text": "a"})),
            delta(json!({"type": "text_delta", "text": "a"})),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ] {
            let mut tap = StreamDecoder::new();
            let facts = see(&mut tap, &event);
            assert_eq!((facts.kind, facts.expendable), (ChunkKind::Malformed, false), "{event}");
            assert!(!tap.finished() && !tap.done());
        }
    }

    #[test]
    fn estimates_a_token_as_four_bytes_of_output() {
        let facts = see(&mut started(), &delta(json!({"type": "text_delta", "text": "12345"})));
        assert_eq!(facts.output_tokens_estimate, 2);
    }

    #[test]
    fn takes_an_error_in_each_form_whatever_the_event_is_called() {
        for (name, data, message) in [
            (
                Some("error"),
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "Overloaded",
            ),
            (
                None,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "Overloaded",
            ),
            (Some("error"), r#"{"code":500,"message":"flat","type":"server_error"}"#, "flat"),
            (None, r#"{"code":500,"message":"flat","type":"server_error"}"#, "flat"),
            (None, r#"{"object":"error","message":"bare","type":"BadRequestError","code":400}"#, "bare"),
            (Some("message_delta"), r#"{"error":{"message":"wrapped"}}"#, "wrapped"),
        ] {
            let kind = started().event(name.map(str::as_bytes), data.as_bytes()).kind;
            let ChunkKind::Error(error) = kind else { panic!("{data} is {kind:?}") };
            assert_eq!(error.message, message);
        }
    }

    #[test]
    fn gives_up_only_a_delta_of_plain_text() {
        let broken =
            |tap: &mut StreamDecoder, name: Option<&[u8]>| tap.event(name, b"{\"type\":\"conte").expendable;
        let delta_name = Some(&b"content_block_delta"[..]);
        let mut text = started();
        assert!(!broken(&mut text, delta_name), "no block is open");
        see(&mut text, &block(json!({"type": "text", "text": ""})));
        assert!(broken(&mut text, delta_name));
        assert!(broken(&mut text, Some(b"ping")));
        assert!(!broken(&mut text, Some(b"content_block_stop")) && !broken(&mut text, None));
        for other in ["thinking", "tool_use", "server_tool_use", "new_block"] {
            let mut tap = started();
            see(&mut tap, &block(json!({ "type": other })));
            assert!(!broken(&mut tap, delta_name), "{other}");
        }
    }
}

mod a_plain_answer {
    use super::*;

    fn good(body: &Value) -> crate::chat::CompletionFacts {
        check_message(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn tells_usage_model_and_stop_reason() {
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 2455, "cache_creation_input_tokens": 0, "output_tokens": 23});
        let facts =
            good(&json!({"type": "message", "model": "m", "content": [{"type": "text", "text": "a"}],
            "stop_reason": "end_turn", "usage": usage}));
        let expected =
            Usage { input_tokens: 2465, cached_tokens: 2455, output_tokens: 23, ..Usage::default() };
        assert_eq!(facts.usage, Some(expected), "C068: input includes what was cached");
        assert_eq!(
            (facts.model.as_deref(), facts.finish_reasons.as_slice()),
            (Some("m"), &["end_turn".to_owned()][..])
        );
        assert!(facts.has_output);
    }

    #[test]
    fn may_be_empty_or_a_refusal() {
        assert!(!good(&json!({"content": [], "stop_reason": "end_turn"})).has_output);
        let refusal = good(&json!({"content": [{"type": "text", "text": "I"}], "stop_reason": "refusal"}));
        assert_eq!(refusal.finish_reasons, ["refusal"]);
    }

    #[test]
    fn is_none_if_it_is_an_error_or_something_else() {
        let bad = |body: &str| check_message(body.as_bytes()).unwrap_err();
        assert_eq!(bad(""), BadCompletion::Empty);
        assert_eq!(bad("<html>"), BadCompletion::Html);
        assert_eq!(bad("{\"content\":["), BadCompletion::NotJson);
        assert_eq!(bad("{}"), BadCompletion::NoContent);
        assert_eq!(bad(r#"{"content":null}"#), BadCompletion::NoContent);
        for error in [
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            r#"{"error":{"code":500,"message":"m","type":"server_error"}}"#,
            r#"{"object":"error","message":"m","type":"x","code":400}"#,
        ] {
            let BadCompletion::ErrorObject(found) = bad(error) else { panic!("{error}") };
            assert_eq!(found.message, "m");
        }
    }
}

mod gathering {
    use super::*;

    fn gather(events: &[Value], limit: usize) -> Result<Value, GatherError> {
        let mut gather = Gather::new(limit);
        for event in events {
            gather.event(event["type"].as_str().map(str::as_bytes), event.to_string().as_bytes())?;
        }
        gather.finish().map(|body| serde_json::from_slice(&body).unwrap())
    }

    fn end() -> [Value; 2] {
        [
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ]
    }

    #[test]
    fn an_answer_that_is_too_large_is_given_up_at_once() {
        let text = delta(json!({"type": "text_delta", "text": "x".repeat(2000)}));
        let events = [start(), block(json!({"type": "text", "text": ""})), text];
        assert_eq!(gather(&events, 1000), Err(GatherError::TooLarge { limit: 1000 }));
    }

    #[test]
    fn a_delta_without_its_block_and_a_block_at_a_taken_place_are_no_answer() {
        let text = || block(json!({"type": "text", "text": ""}));
        let lonely = [start(), delta(json!({"type": "text_delta", "text": "a"}))];
        assert_eq!(gather(&lonely, 1000), Err(GatherError::Malformed));
        assert_eq!(gather(&[start(), text(), text()], 1000), Err(GatherError::Malformed));
    }

    #[test]
    fn the_input_of_a_tool_call_is_kept_as_the_model_wrote_it() {
        let input = r#"{"id": 123456789012345678901234567890, "b":1.0,"a":2}"#;
        let mut gather = Gather::new(1 << 20);
        let call = block(json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}));
        let json = delta(json!({"type": "input_json_delta", "partial_json": input}));
        for event in [start(), call, json].into_iter().chain(end()) {
            gather.event(None, event.to_string().as_bytes()).unwrap();
        }
        let body = String::from_utf8(gather.finish().unwrap().to_vec()).unwrap();
        assert!(body.contains(&format!("\"input\":{input}")), "{body}");
    }

    fn pieces() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[a-z\"\\\\{}北👍 ]{0,6}", 1..6)
    }

    proptest! {
        #[test]
        fn an_answer_cut_into_deltas_is_gathered_whole(
            blocks in proptest::collection::vec((0..3_u8, pieces()), 0..5),
        ) {
            let mut events = vec![start()];
            let mut expected = Vec::new();
            for (index, (kind, pieces)) in blocks.iter().enumerate() {
                let whole = pieces.concat();
                let input = json!({ "a": whole });
                let (begin, end, pieces) = match kind {
                    0 => (json!({"type": "text", "text": ""}), json!({"type": "text", "text": whole}),
                        pieces.iter().map(|piece| json!({"type": "text_delta", "text": piece})).collect::<Vec<_>>()),
                    1 => (json!({"type": "thinking", "thinking": "", "signature": ""}), json!({"type": "thinking", "thinking": whole, "signature": "S"}),
                        pieces.iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                            .chain([json!({"type": "signature_delta", "signature": "S"})]).collect()),
                    _ => (json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}), json!({"type": "tool_use", "id": "t", "name": "f", "input": input}),
                        input.to_string().chars().collect::<Vec<_>>().chunks(3)
                            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece.iter().collect::<String>()})).collect()),
                };
                events.push(json!({"type": "content_block_start", "index": index, "content_block": begin}));
                events.extend(pieces.iter().map(|piece| json!({"type": "content_block_delta", "index": index, "delta": piece})));
                events.push(json!({"type": "content_block_stop", "index": index}));
                expected.push(end);
            }
            events.extend(end());
            let whole = gather(&events, 1 << 20).unwrap();
            prop_assert_eq!(&whole["content"], &json!(expected));
            prop_assert_eq!(&whole["usage"], &json!({"input_tokens": 3, "output_tokens": 2}));
            prop_assert_eq!(&whole["stop_reason"], &json!("end_turn"));
            let facts = check_message(whole.to_string().as_bytes()).unwrap();
            prop_assert_eq!(facts.has_output, !blocks.is_empty());
        }
    }
}

#[test]
fn tools_that_the_provider_executes_are_told_from_those_of_the_client() {
    assert!(provider_tool("code_execution_20250825").unwrap().writes);
    assert!(provider_tool("mcp_toolset").unwrap().writes);
    assert!(!provider_tool("web_search_20250305").unwrap().writes);
    for clients in ["bash_20250124", "text_editor_20250728", "memory_20250818", "custom"] {
        assert_eq!(provider_tool(clients), None);
    }
}
