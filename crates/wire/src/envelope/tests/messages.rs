//! The envelope of a Messages request.

use serde_json::{Value, json};

use super::super::{Envelope, EnvelopeError, Limits, Needs, Structured};
use crate::dialect::Dialect;

fn read(body: &str) -> Result<Envelope, EnvelopeError> {
    Envelope::read_as(Dialect::Messages, body.as_bytes(), &Limits::default())
}

/// Reads a request that has, besides a model and one message, these members.
fn with(members: Value) -> Envelope {
    let mut body = json!({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    read(&body.to_string()).unwrap()
}

fn needs(members: Value) -> Needs {
    with(members).needs()
}

/// What a content block in the last message needs.
fn block(block: Value) -> Needs {
    needs(json!({"messages": [{"role": "user", "content": [block]}]}))
}

#[test]
fn the_smallest_request() {
    let envelope = read(r#"{"model":"claude-opus-5-5","max_tokens":1024,"messages":[]}"#).unwrap();
    assert_eq!((envelope.dialect(), envelope.model()), (Dialect::Messages, "claude-opus-5-5"));
    assert_eq!((envelope.stream(), envelope.max_output_tokens()), (false, Some(1024)));
    assert_eq!((envelope.needs(), envelope.affinity()), (Needs::default(), None));
}

#[test]
fn a_cache_prewarm_asks_for_no_output() {
    assert_eq!(with(json!({"max_tokens": 0})).max_output_tokens(), Some(0));
}

#[test]
fn tools_and_whether_they_may_come_together() {
    assert!(needs(json!({"tools": [{"name": "f", "input_schema": {"type": "object"}}]})).tools);
    assert!(!needs(json!({"tools": []})).tools);
    let choice = |choice: Value| needs(json!({ "tool_choice": choice })).parallel_tools;
    assert_eq!(choice(json!({"type": "auto", "disable_parallel_tool_use": true})), Some(false));
    assert_eq!(choice(json!({"type": "auto", "disable_parallel_tool_use": false})), None);
    assert_eq!(choice(json!({"type": "none"})), None);
}

#[test]
fn images_and_documents_also_those_in_tool_results() {
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}});
    let document = json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}});
    let result = |content: Value| json!({"type": "tool_result", "tool_use_id": "t", "content": content});
    assert!(block(image.clone()).images);
    assert!(block(document.clone()).files);
    assert!(block(result(json!([{"type": "text", "text": "a"}, image]))).images);
    assert!(block(result(json!([document]))).files);
    let plain = block(result(json!("an image")));
    assert!(!plain.images && !plain.files);
}

#[test]
fn structured_output_by_its_name_and_its_older_one() {
    let schema = json!({"type": "json_schema", "schema": {"type": "object"}});
    let structured = Some(Structured::JsonSchema);
    assert_eq!(needs(json!({"output_config": {"effort": "high", "format": schema}})).structured, structured);
    assert_eq!(needs(json!({ "output_format": schema })).structured, structured);
    assert_eq!(needs(json!({"output_config": {"effort": "high"}})).structured, None);
    assert_eq!(needs(json!({ "response_format": schema })).structured, None, "that is Chat's name");
}

#[test]
fn reasoning_is_any_thinking_but_disabled() {
    for kind in ["adaptive", "enabled", "between_tools"] {
        assert!(needs(json!({"thinking": {"type": kind}})).reasoning, "{kind}");
    }
    assert!(!needs(json!({"thinking": {"type": "disabled"}})).reasoning);
    assert!(!needs(json!({"reasoning_effort": "high"})).reasoning, "that is Chat's name");
}

#[test]
fn prefill_is_an_assistants_message_at_the_end() {
    let last = |role: &str| {
        let messages = json!([{"role": "user", "content": "a"}, {"role": role, "content": "b"}]);
        needs(json!({ "messages": messages })).prefill
    };
    assert!(last("assistant"));
    assert!(!last("user") && !last("system"));
}

#[test]
fn documented_fields_and_those_of_betas_are_known_and_others_are_noticed() {
    let known = json!({
        "stop_sequences": ["x"], "temperature": 1.0, "top_p": 0.5, "top_k": 5, "cache_control": {"type": "ephemeral"},
        "service_tier": "auto", "speed": "fast", "inference_geo": "us", "container": null, "diagnostics": {},
        "mcp_servers": [], "context_management": {}, "metadata": {}, "tool_choice": {"type": "auto"}, "system": "s",
    });
    assert!(!needs(known).unknown_fields);
    assert!(needs(json!({"x_new": {}})).unknown_fields);
    assert!(needs(json!({"n": 1})).unknown_fields, "a field of Chat is none of Messages");
}

#[test]
fn the_users_id_keeps_a_conversation_together() {
    let session = r#"{"device_id":"d","session_id":"s"}"#;
    assert_eq!(with(json!({"metadata": {"user_id": session}})).affinity(), Some(session));
    assert_eq!(with(json!({"metadata": {"user_id": ""}})).affinity(), None);
    assert_eq!(with(json!({"metadata": {}})).affinity(), None);
    assert_eq!(with(json!({"user": "u"})).affinity(), None, "that is Chat's name");
}

#[test]
fn the_estimate_counts_system_messages_and_tools_and_each_picture_once() {
    let tokens = |members: Value| with(members).estimated_prompt_tokens();
    let plain = tokens(json!({}));
    // 400 bytes and two quotes are 101 tokens of four bytes, rounded up.
    assert_eq!(tokens(json!({"system": "s".repeat(400)})) - plain, 101);
    let picture = |bytes: usize| {
        let source = json!({"type": "base64", "media_type": "image/png", "data": "A".repeat(bytes)});
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": source}]});
        tokens(json!({"messages": [{"role": "user", "content": [result]}]}))
    };
    assert_eq!(picture(10), picture(100_000));
    assert!((800..900).contains(&picture(10)), "{}", picture(10));
}

#[test]
fn our_own_preferences_are_read_as_in_chat() {
    let envelope = with(json!({"models": ["b"], "provider": {"only": ["anthropic"], "zdr": true}}));
    assert_eq!(envelope.preferences().models, ["b"]);
    assert_eq!(
        (envelope.preferences().only.as_slice(), envelope.preferences().zdr),
        (&["anthropic".to_owned()][..], Some(true))
    );
}

#[test]
fn a_routed_key_that_comes_twice_is_refused_and_others_are_the_providers_business() {
    for key in
        ["model", "messages", "stream", "max_tokens", "tools", "system", "thinking", "metadata", "provider"]
    {
        let value = match key {
            "model" | "system" => "\"a\"",
            "messages" | "tools" => "[]",
            "stream" => "false",
            "max_tokens" => "1",
            _ => "{}",
        };
        let rest: String = [("model", "\"m\""), ("messages", "[]")]
            .iter()
            .filter(|(name, _)| *name != key)
            .map(|(name, value)| format!(",\"{name}\":{value}"))
            .collect();
        let twice = format!("{{\"{key}\":{value},\"{key}\":{value}{rest}}}");
        assert_eq!(read(&twice).unwrap_err(), EnvelopeError::DuplicateKey { key }, "{twice}");
        let shouted = format!("{{\"{}\":{value}{rest}}}", key.to_uppercase());
        assert_eq!(read(&shouted).unwrap_err(), EnvelopeError::Misspelt { key }, "{shouted}");
    }
    assert!(read(r#"{"model":"m","messages":[],"user":"a","user":"b","Top_K":1}"#).is_ok());
}

#[test]
fn what_has_another_type_than_documented_is_named() {
    for (members, field) in [
        (r#""model":"","messages":[]"#, "model"),
        (r#""model":"m","messages":{}"#, "messages"),
        (r#""model":"m","messages":[],"stream":"yes""#, "stream"),
        (r#""model":"m","messages":[],"max_tokens":"5""#, "max_tokens"),
        (r#""model":"m","messages":[],"tools":{}"#, "tools"),
        (r#""model":"m","messages":[],"system":5"#, "system"),
        (r#""messages":[]"#, "model"),
        (r#""model":"m""#, "messages"),
    ] {
        let error = read(&format!("{{{members}}}")).unwrap_err();
        assert_eq!((error.param(), error.status()), (Some(field), 400), "{members}");
    }
}
