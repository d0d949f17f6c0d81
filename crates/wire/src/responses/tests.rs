use bytes::Bytes;
use serde_json::{Value, json};

use super::{StreamDecoder, check_response, failed, without_foreign};
use crate::chat::{BadCompletion, GatherError};
use crate::dialect::{ChunkKind, StreamFrame};
use crate::error::ErrorView;

fn told(tap: &mut StreamDecoder, event: Value) -> ChunkKind {
    tap.event(event["type"].as_str().map(str::as_bytes), event.to_string().as_bytes()).kind
}

fn response(status: &str) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 7, "status": status, "model": "gpt-5.6", "output": []})
}

#[test]
fn nothing_commits_before_a_reader_would_see_something() {
    let mut tap = StreamDecoder::new();
    for preamble in [
        json!({"type": "response.created", "sequence_number": 0, "response": response("in_progress")}),
        json!({"type": "response.in_progress", "sequence_number": 1, "response": response("in_progress")}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "msg_1", "content": []}}),
        json!({"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": {"type": "output_text", "text": ""}}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": ""}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "id": "fc_1", "arguments": ""}}),
    ] {
        assert_eq!(told(&mut tap, preamble.clone()), ChunkKind::Preamble, "{preamble}");
    }
    assert_eq!(tap.model(), Some("gpt-5.6"));
    let text =
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "x"});
    assert_eq!(told(&mut tap, text), ChunkKind::Output);
}

#[test]
fn what_the_provider_does_by_itself_commits_since_it_must_not_be_done_again() {
    for event in [
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "web_search_call", "id": "ws_1"}}),
        json!({"type": "response.web_search_call.in_progress", "output_index": 0, "item_id": "ws_1"}),
        json!({"type": "response.mcp_call.in_progress", "output_index": 0, "item_id": "mcp_1"}),
        json!({"type": "response.image_generation_call.partial_image", "output_index": 0, "item_id": "ig_1"}),
    ] {
        assert_eq!(told(&mut StreamDecoder::new(), event.clone()), ChunkKind::Output, "{event}");
    }
}

#[test]
fn the_last_event_finishes_and_brings_the_counts() {
    for (kind, status) in [("response.completed", "completed"), ("response.incomplete", "incomplete")] {
        let mut tap = StreamDecoder::new();
        let mut whole = response(status);
        whole["usage"] = json!({"input_tokens": 20, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 29});
        assert_eq!(told(&mut tap, json!({"type": kind, "response": whole})), ChunkKind::Finish);
        assert!(tap.finished() && tap.done());
        let usage = tap.usage().unwrap();
        assert_eq!(
            (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens),
            (20, 5, 9, 4)
        );
    }
}

#[test]
fn a_failure_is_told_in_each_form_that_servers_have() {
    let mut failed = response("failed");
    failed["error"] = json!({"code": "server_is_overloaded", "message": "busy"});
    for event in [
        json!({"type": "response.failed", "sequence_number": 3, "response": failed}),
        json!({"type": "error", "code": "server_is_overloaded", "message": "busy", "param": null, "sequence_number": 3}),
        json!({"type": "error", "error": {"type": "service_unavailable_error", "code": "server_is_overloaded", "message": "busy"}}),
        json!({"error": {"code": "server_is_overloaded", "message": "busy"}}),
    ] {
        let ChunkKind::Error(error) = told(&mut StreamDecoder::new(), event.clone()) else {
            panic!("{event}")
        };
        assert_eq!((error.message.as_str(), error.code.as_deref()), ("busy", Some("server_is_overloaded")));
        assert_ne!(error.kind.as_deref(), Some("error"), "{event}");
    }
    let silent = json!({"type": "response.failed", "response": {"status": "failed", "error": null}});
    assert!(matches!(told(&mut StreamDecoder::new(), silent), ChunkKind::Error(_)));
}

/// As with its siblings, the last of two members of a name holds.
#[test]
fn a_member_that_comes_twice_is_no_reason_to_break_off() {
    let data = br#"{"type":"response.output_text.delta","delta":"x","delta":"y"}"#;
    assert_eq!(StreamDecoder::new().event(None, data).kind, ChunkKind::Output);
    assert!(check_response(br#"{"output":[],"output":[{"type":"message"}]}"#).unwrap().has_output);
}

#[test]
fn only_a_delta_of_plain_text_may_be_lost() {
    let mut tap = StreamDecoder::new();
    let lost = tap.event(Some(b"response.output_text.delta"), b"{\"type\":");
    assert!(lost.kind == ChunkKind::Malformed && lost.expendable);
    for name in ["response.function_call_arguments.delta", "response.completed", "response.output_item.added"]
    {
        let lost = tap.event(Some(name.as_bytes()), b"{\"type\":");
        assert!(lost.kind == ChunkKind::Malformed && !lost.expendable, "{name}");
    }
    let call = json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_1"}});
    told(&mut tap, call);
    assert!(tap.tool_call_open());
    assert!(!tap.event(Some(b"response.output_text.delta"), b"{").expendable);
}

#[test]
fn a_stream_without_a_terminal_event_is_no_answer() {
    let mut gather = super::Gather::new(1 << 10);
    assert_eq!(super::Gather::new(9).finish(), Err(GatherError::NoMessage));
    let event = json!({"type": "response.output_text.delta", "delta": "x"}).to_string();
    gather.event(None, event.as_bytes()).unwrap();
    assert_eq!(gather.finish(), Err(GatherError::Unfinished));
    let large =
        json!({"type": "response.completed", "response": {"output": ["x".repeat(2_000)]}}).to_string();
    let mut gather = super::Gather::new(1 << 10);
    assert_eq!(gather.event(None, large.as_bytes()), Err(GatherError::TooLarge { limit: 1 << 10 }));
}

#[test]
fn a_plain_answer_is_told_from_what_is_none() {
    let mut whole = response("completed");
    whole["output"] = json!([{"type": "message"}]);
    let facts = check_response(whole.to_string().as_bytes()).unwrap();
    assert!(facts.has_output && facts.finish_reasons == ["completed"]);
    // In the background it is only begun.
    assert!(check_response(response("queued").to_string().as_bytes()).is_ok());
    let mut bad = response("failed");
    bad["error"] = json!({"code": "server_error", "message": "m"});
    assert!(
        matches!(check_response(bad.to_string().as_bytes()), Err(BadCompletion::ErrorObject(e)) if e.code.as_deref() == Some("server_error"))
    );
    assert_eq!(check_response(b""), Err(BadCompletion::Empty));
    assert_eq!(check_response(b"<html>"), Err(BadCompletion::Html));
    assert_eq!(check_response(b"{\"id\":"), Err(BadCompletion::NotJson));
    assert_eq!(check_response(b"{}"), Err(BadCompletion::NoContent));
    assert!(matches!(check_response(b"{\"error\":{\"message\":\"m\"}}"), Err(BadCompletion::ErrorObject(_))));
}

#[test]
fn an_error_ends_a_stream_as_a_failed_response_that_goes_on_from_where_it_was() {
    let view = ErrorView {
        status: 503,
        message: "gone",
        kind: Some("t"),
        param: None,
        code: Some("upstream_failed"),
        extra: None,
    };
    let frame = StreamFrame {
        id: "resp_1".to_owned(),
        model: "m".to_owned(),
        created_s: 7,
        sequence: 5,
        output: serde_json::from_str("[{\"id\":\"msg_1\"}]").ok(),
    };
    let pointsman = json!({"terminal": "partial_stream"});
    let event = failed(&view, Some(&pointsman), Some(&frame), Some("req_1"));
    let data = event.strip_prefix(b"event: response.failed\ndata: ").unwrap().strip_suffix(b"\n\n").unwrap();
    let data: Value = serde_json::from_slice(data).unwrap();
    assert_eq!(data["sequence_number"], 5);
    assert_eq!(data["pointsman"], pointsman);
    let response = &data["response"];
    assert_eq!(response["error"], json!({"code": "upstream_failed", "message": "gone"}));
    assert_eq!((&response["id"], &response["status"]), (&json!("resp_1"), &json!("failed")));
    assert_eq!(response["output"], json!([{"id": "msg_1"}]));
    // A client that was told of no response yet is told of one first: SDKs take no other first event.
    let event = failed(&view, None, None, Some("req_1"));
    let text = String::from_utf8(event.to_vec()).unwrap();
    assert!(text.starts_with("event: response.created\n") && text.contains("\n\nevent: response.failed\n"));
    assert_eq!(text.matches("\"sequence_number\":").count(), 2);
}

#[test]
fn foreign_thoughts_are_left_out_of_the_input() {
    let body = r#"{"model":"m","input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"pm1.messages.00.Eq"}, {"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAA"},{"role":"user","content":"x"}],"store":false}"#;
    let expected = r#"{"model":"m","input":[{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAA"},{"role":"user","content":"x"}],"store":false}"#;
    assert_eq!(without_foreign(Bytes::from(body)), expected);
    assert_eq!(without_foreign(Bytes::from(expected)), expected);
}

/// C056: an id that no provider gave goes with the thoughts that it stood behind.
#[test]
fn c056_the_ids_of_translated_items_go_with_their_thoughts() {
    let body = r#"{"input":[{"type":"reasoning","id":"rs_pm1_1_0","summary":[],"encrypted_content":"pm1.messages.00.Eq"},{"type":"message", "id":"msg_pm1_1_1","role":"assistant","content":[]},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAA"},{"id":"msg_2","type":"message","role":"assistant","content":[ ]}],"model":"m"}"#;
    let expected = r#"{"input":[{"type":"message","role":"assistant","content":[]},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAA"},{"id":"msg_2","type":"message","role":"assistant","content":[ ]}],"model":"m"}"#;
    assert_eq!(without_foreign(Bytes::from(body)), expected);
}
