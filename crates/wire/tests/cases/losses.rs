//! How what is lost is told.

use super::*;

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
