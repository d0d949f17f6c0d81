use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ChunkKind, Dialect, Fault, Said, StreamTap, check_answer};
use crate::chat::BadCompletion;
use crate::error::{ErrorView, UpstreamError};

fn view<'a>(kind: Option<&'a str>, message: &'a str) -> ErrorView<'a> {
    ErrorView { status: 500, message, kind, param: None, code: None, extra: None }
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn c028_a_heartbeat_is_a_comment_until_a_messages_stream_has_started_and_then_a_ping() {
    for (dialect, started) in [(Dialect::Chat, false), (Dialect::Chat, true), (Dialect::Messages, false)] {
        assert_eq!(dialect.heartbeat(started), b": ping\n\n");
    }
    assert_eq!(Dialect::Messages.heartbeat(true), b"event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

#[test]
fn each_dialect_ends_its_own_way() {
    assert_eq!(Dialect::Chat.end_event(), b"data: [DONE]\n\n");
    assert_eq!(Dialect::Messages.end_event(), b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    for dialect in Dialect::ALL {
        assert_ne!(dialect.name(), "");
    }
}

#[test]
fn messages_events_are_named_by_their_type_whatever_name_they_had() {
    let framed = |dialect: Dialect, name: Option<&[u8]>, data: &str| {
        let mut out = BytesMut::new();
        dialect.write_event(&mut out, name, data.as_bytes());
        String::from_utf8(out.to_vec()).unwrap()
    };
    let ping = r#"{"x":{"type":"no"},"type":"ping"}"#;
    for name in [None, Some(&b"ping"[..]), Some(&b"other"[..])] {
        assert_eq!(framed(Dialect::Messages, name, ping), format!("event: ping\ndata: {ping}\n\n"));
        assert_eq!(framed(Dialect::Chat, name, ping), format!("data: {ping}\n\n"));
    }
    assert_eq!(framed(Dialect::Messages, Some(b"error"), "{}"), "event: error\ndata: {}\n\n");
}

#[test]
fn the_disclosure_of_messages_stands_in_the_message_and_nowhere_else() {
    let start = r#"{"type":"message_start","message":{"id":"msg_1", "usage":{"input_tokens":1.0}} }"#;
    let told = Dialect::Messages.disclosed(start.as_bytes(), r#"{"action":"failover"}"#).unwrap();
    let expected = r#"{"type":"message_start","message":{"pointsman":{"action":"failover"},"id":"msg_1", "usage":{"input_tokens":1.0}} }"#;
    assert_eq!(told, expected);
    let empty = Dialect::Messages.disclosed(br#"{"message":{ },"type":"message_start"}"#, "{}").unwrap();
    assert_eq!(json_of(&empty), json!({"message": {"pointsman": {}}, "type": "message_start"}));
    for other in [
        r#"{"type":"ping"}"#,
        r#"{"type":"message_start"}"#,
        "[]",
        "",
        r#"{"type":"message_start","message":[]}"#,
    ] {
        assert_eq!(Dialect::Messages.disclosed(other.as_bytes(), "{}"), None, "{other}");
    }
    assert_eq!(Dialect::Chat.disclosed(b"[DONE]", "{}"), None);
    assert_eq!(Dialect::Chat.disclosed(b"{}", "{}").unwrap(), r#"{"pointsman":{}}"#);
}

#[test]
fn c061_an_error_has_the_envelope_of_its_dialect_and_null_for_what_is_absent() {
    let pointsman = json!({"terminal": "exhausted"});
    let chat = Dialect::Chat.error_body(&view(Some("t"), "m"), Some("req_1"), Some(&pointsman));
    let error = json!({"message": "m", "type": "t", "param": null, "code": null});
    assert_eq!(json_of(&chat), json!({"error": error, "pointsman": pointsman}));
    let messages =
        Dialect::Messages.error_body(&view(Some("overloaded_error"), "m"), Some("req_1"), Some(&pointsman));
    let error = json!({"type": "overloaded_error", "message": "m"});
    let expected = json!({"type": "error", "error": error, "request_id": "req_1", "pointsman": pointsman});
    assert_eq!(json_of(&messages), expected);
    let bare = json_of(&Dialect::Messages.error_body(&view(None, "m"), None, None));
    let error = json!({"type": "api_error", "message": "m"});
    assert_eq!(bare, json!({"type": "error", "error": error, "request_id": null}));
}

#[test]
fn c062_a_providers_own_words_and_details_come_through() {
    let body = br#"{"type":"error","error":{"type":"invalid_request_error","message":"temperature is deprecated for this model","details":{"error_code":"x"}},"request_id":"req_theirs"}"#;
    let error = UpstreamError::parse(body).unwrap();
    let sent = json_of(&Dialect::Messages.error_body(&ErrorView::from(&error), Some("req_ours"), None));
    assert_eq!(sent["error"]["message"], "temperature is deprecated for this model");
    assert_eq!(sent["error"]["details"], json!({"error_code": "x"}));
    assert_eq!(sent["request_id"], "req_ours");
}

#[test]
fn an_error_ends_a_stream_as_one_event_of_the_dialect() {
    let chat = Dialect::Chat.error_event(&view(Some("t"), "a\nb"), Some("r"), None, None);
    assert!(chat.starts_with(b"data: {\"error\":") && chat.ends_with(b"}\n\n"));
    let messages = Dialect::Messages.error_event(&view(Some("api_error"), "a\nb"), Some("r"), None, None);
    let data = messages.strip_prefix(b"event: error\ndata: ").unwrap().strip_suffix(b"\n\n").unwrap();
    assert_eq!(json_of(data)["error"], json!({"type": "api_error", "message": "a\nb"}));
}

#[test]
fn c065_types_from_outside_of_anthropics_set_become_the_one_for_the_status() {
    for (provider, status, expected) in [
        (Some("overloaded_error"), 529, "overloaded_error"),
        (Some("exceed_context_size_error"), 400, "invalid_request_error"),
        (Some("BadRequestError"), 422, "invalid_request_error"),
        (Some("server_error"), 500, "api_error"),
        (Some("rate_limit_error"), 429, "rate_limit_error"),
        (None, 401, "authentication_error"),
        (None, 402, "billing_error"),
        (None, 403, "permission_error"),
        (None, 404, "not_found_error"),
        (None, 409, "conflict_error"),
        (None, 413, "request_too_large"),
        (None, 429, "rate_limit_error"),
        (None, 503, "api_error"),
        (None, 504, "timeout_error"),
        (None, 529, "overloaded_error"),
    ] {
        assert_eq!(
            Dialect::Messages.error_kind(provider, status).unwrap(),
            expected,
            "{provider:?} {status}"
        );
    }
    assert_eq!(Dialect::Chat.error_kind(Some("BadRequestError"), 422).unwrap(), "BadRequestError");
    assert_eq!(Dialect::Chat.error_kind(None, 422), None);
}

#[test]
fn faults_have_googles_words_in_gemini() {
    for (fault, word) in [
        (Fault::Invalid, "INVALID_ARGUMENT"),
        (Fault::TooLarge, "INVALID_ARGUMENT"),
        (Fault::WrongKey, "UNAUTHENTICATED"),
        (Fault::NotAllowed, "PERMISSION_DENIED"),
        (Fault::UnknownModel, "NOT_FOUND"),
        (Fault::Limited, "RESOURCE_EXHAUSTED"),
        (Fault::QuotaExhausted, "RESOURCE_EXHAUSTED"),
        (Fault::Unavailable, "UNAVAILABLE"),
        (Fault::UpstreamFailed, "UNAVAILABLE"),
        (Fault::Timeout, "DEADLINE_EXCEEDED"),
        (Fault::InProgress, "ABORTED"),
    ] {
        assert_eq!(Dialect::Gemini.says(fault).kind, word, "{fault:?}");
    }
    assert_eq!(Dialect::Gemini.error_kind(Some("overloaded_error"), 503).unwrap(), "UNAVAILABLE");
    assert_eq!(Dialect::Gemini.error_kind(Some("OUT_OF_RANGE"), 400).unwrap(), "OUT_OF_RANGE");
}

#[test]
fn each_fault_has_the_status_and_words_of_the_table_of_errors() {
    let (invalid, load) = ("invalid_request_error", "service_unavailable_error");
    for (fault, chat, messages) in [
        (Fault::Invalid, (400, invalid, None), (400, invalid)),
        (Fault::TooLarge, (413, invalid, Some("request_too_large")), (413, "request_too_large")),
        (Fault::WrongKey, (401, invalid, Some("invalid_api_key")), (401, "authentication_error")),
        (Fault::NotAllowed, (403, invalid, Some("model_not_allowed")), (403, "permission_error")),
        (Fault::NoCompliantTarget, (403, invalid, Some("no_compliant_target")), (403, "permission_error")),
        (Fault::UnknownModel, (404, invalid, Some("model_not_found")), (404, "not_found_error")),
        (Fault::Limited, (429, "rate_limit_error", Some("rate_limit_exceeded")), (429, "rate_limit_error")),
        (Fault::BudgetSpent, (429, "insufficient_quota", Some("budget_exceeded")), (402, "billing_error")),
        (
            Fault::QuotaExhausted,
            (429, "insufficient_quota", Some("insufficient_quota")),
            (402, "billing_error"),
        ),
        (Fault::Unavailable, (503, load, Some("server_is_overloaded")), (529, "overloaded_error")),
        (Fault::Timeout, (504, "timeout", Some("timeout")), (504, "timeout_error")),
        (Fault::ReconciliationRequired, (409, invalid, Some("reconciliation_required")), (409, invalid)),
        (Fault::InProgress, (409, invalid, Some("request_in_progress")), (409, invalid)),
    ] {
        let (status, kind, code) = chat;
        assert_eq!(Dialect::Chat.says(fault), Said { status, kind, code }, "{fault:?}");
        let (status, kind) = messages;
        assert_eq!(Dialect::Messages.says(fault), Said { status, kind, code: None }, "{fault:?}");
        // Gemini has the statuses of Chat, in Google's words.
        assert_eq!(Dialect::Gemini.says(fault).status, chat.0, "{fault:?}");
    }
    // It must not be taken for load, in either dialect.
    assert_eq!(Dialect::Chat.says(Fault::UpstreamFailed).code, Some("upstream_failed"));
    assert_eq!(Dialect::Messages.says(Fault::UpstreamFailed).kind, "api_error");
}

#[test]
fn headers_go_the_way_that_the_dialect_needs() {
    assert_eq!(Dialect::Messages.forwarded_headers(), ["anthropic-version", "anthropic-beta"]);
    assert_eq!(Dialect::Chat.forwarded_headers(), ["openai-beta"]);
    for dialect in Dialect::ALL {
        assert!(dialect.copies_header("anthropic-ratelimit-tokens-reset"));
        assert!(dialect.copies_header("x-ratelimit-remaining-requests"));
        assert!(!dialect.copies_header("anthropic-organization-id") && !dialect.copies_header("set-cookie"));
        assert!(dialect.client_request_ids().contains(&"x-request-id"));
    }
    assert!(Dialect::Messages.client_request_ids().contains(&"request-id"));
    assert_eq!(Dialect::Messages.upstream_request_ids()[0], "request-id");
}

#[test]
fn a_plain_answer_is_read_in_its_own_dialect_alone() {
    let chat = br#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    let message = br#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}"#;
    assert!(check_answer(Dialect::Chat, chat).unwrap().has_output);
    assert!(check_answer(Dialect::Messages, message).unwrap().has_output);
    assert_eq!(check_answer(Dialect::Messages, chat), Err(BadCompletion::NoContent));
    assert_eq!(check_answer(Dialect::Chat, message), Err(BadCompletion::NoChoices));
}

proptest! {
    #[test]
    fn no_bytes_upset_a_tap(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        json in r#"[\[\]{}:,"a-e0-9]{0,40}"#,
        name in proptest::option::of("[a-z_]{0,20}"),
    ) {
        for dialect in Dialect::ALL {
            let mut tap = StreamTap::new(dialect);
            for data in [bytes.as_slice(), json.as_bytes()] {
                let facts = tap.event(name.as_deref().map(str::as_bytes), data);
                let object = serde_json::from_slice::<serde_json::Map<String, Value>>(data).is_ok();
                let bad = matches!(facts.kind, ChunkKind::Malformed | ChunkKind::Error(_));
                prop_assert!(object || bad, "{:?} is {:?}", data, facts.kind);
                prop_assert!(!tap.finished() && !tap.done());
            }
        }
    }
}
