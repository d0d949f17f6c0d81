//! How what is lost is told, and what comes too late.

use super::*;

/// Found by fuzzing: a call that gets its name after the answer has ended.
#[test]
fn a_call_that_is_named_after_the_end_is_none() {
    let named = json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{}" } });
    let events = [
        delta(json!({ "content": "Hi." })),
        delta(json!({ "tool_calls": [{ "index": 0 }] })),
        finish("stop"),
        delta(json!({ "tool_calls": [named] })),
    ];
    for into in [MESSAGES, RESPONSES] {
        let told = streamed(&events, CHAT, into, Back::default());
        assert!(!told.iter().any(|event| event.to_string().contains("\"name\":\"f\"")), "{told:?}");
    }
}

#[test]
fn what_is_lost_is_named_where_the_client_wrote_it() {
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let mut in_chat = chat(vec![user("go")]);
    in_chat["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "r", "schema": schema } });
    let in_responses = json!({ "model": "m", "input": "go",
        "text": { "format": { "type": "json_schema", "name": "r", "schema": schema } } });
    for (body, from, place) in [
        (&in_chat, CHAT, "/response_format/json_schema/name"),
        (&in_responses, RESPONSES, "/text/format/name"),
    ] {
        for (into, model) in [(MESSAGES, "claude-opus-5-5"), (Dialect::Gemini, "gemini-3-pro")] {
            let (_, losses) = sent(body, from, into, model);
            assert!(losses.iter().any(|loss| loss == place), "{losses:?}");
        }
    }
}
