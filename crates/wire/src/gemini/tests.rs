//! Details of the dialect that the golden files do not show.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::check_generated;
use super::models::{Family, Thinking, family};
use super::schema::json_schema;
use crate::chat::BadCompletion;
use crate::grammar::GeminiGrammar;

fn check(body: &Value) -> Result<crate::chat::CompletionFacts, BadCompletion> {
    check_generated(body.to_string().as_bytes())
}

#[test]
fn a_plain_answer_tells_what_it_took_and_why_it_ended() {
    let facts = check(&json!({
        "candidates": [{"content": {"parts": [{"text": "Hi"}], "role": "model"}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 1, "thoughtsTokenCount": 3, "totalTokenCount": 9},
        "modelVersion": "gemini-3-pro",
    }))
    .unwrap();
    assert_eq!((facts.has_output, facts.finish_reasons), (true, vec!["STOP".to_owned()]));
    let usage = facts.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.reasoning_tokens), (5, 4, 3));
    assert_eq!(facts.model.as_deref(), Some("gemini-3-pro"));
}

#[test]
fn a_blocked_prompt_is_an_answer_and_a_broken_call_is_none() {
    let blocked = check(&json!({"promptFeedback": {"blockReason": "SAFETY"}})).unwrap();
    assert_eq!((blocked.has_output, blocked.finish_reasons), (false, vec!["SAFETY".to_owned()]));
    let broken = check(&json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}]}));
    assert!(
        matches!(broken, Err(BadCompletion::ErrorObject(error)) if error.kind.as_deref() == Some("MALFORMED_FUNCTION_CALL"))
    );
    assert!(matches!(check(&json!({"usageMetadata": {}})), Err(BadCompletion::NoChoices)));
    let error = check(&json!({"error": {"code": 500, "message": "x", "status": "INTERNAL"}}));
    assert!(matches!(error, Err(BadCompletion::ErrorObject(_))));
    assert!(matches!(
        check(&json!([{"error": {"code": 500, "message": "x"}}])),
        Err(BadCompletion::ErrorObject(_))
    ));
    assert!(matches!(check_generated(b"<html>"), Err(BadCompletion::Html)));
    assert!(matches!(check_generated(b""), Err(BadCompletion::Empty)));
    assert!(matches!(check_generated(b"{\"candidates\": ["), Err(BadCompletion::NotJson)));
}

#[test]
fn a_model_is_of_its_family_by_its_name() {
    let budget =
        |off| Family { thinking: Thinking::Budget { off }, seals_calls: false, tools_with_form: false };
    let older = Family { thinking: Thinking::None, seals_calls: false, tools_with_form: false };
    let newer = Family { thinking: Thinking::Level, seals_calls: true, tools_with_form: true };
    for (model, expected) in [
        ("gemini-3-pro-preview", newer),
        ("models/gemini-3.5-flash", newer),
        ("gemini-flash-latest", newer),
        ("gemini-2.5-pro", budget(false)),
        ("gemini-2.5-flash-lite", budget(true)),
        ("gemini-2.0-flash", older),
        ("gemini-1.5-pro", older),
        ("gemma-3-27b-it", older),
    ] {
        assert_eq!(family(model), expected, "{model}");
    }
}

#[test]
fn googles_schema_as_json_schema() {
    let own = r#"{"type":"OBJECT","property_ordering":["a"],"properties":{"type":{"type":"STRING","enum":["X"],"nullable":true},"max_items":{"anyOf":[{"type":"INTEGER","minimum":1.50},{"type":"TYPE_UNSPECIFIED"}]}},"additionalProperties":false,"maxProperties":"2"}"#;
    let raw: &RawValue = serde_json::from_str(own).unwrap();
    let expected = r#"{"type":"object","properties":{"type":{"type":["string","null"],"enum":["X"]},"max_items":{"anyOf":[{"type":"integer","minimum":1.50},{}]}},"additionalProperties":false,"maxProperties":2}"#;
    assert_eq!(json_schema(raw, "/x").unwrap().get(), expected);
}

#[test]
fn a_schema_without_end_is_refused() {
    let deep = format!("{}{{}}{}", "{\"items\":".repeat(100), "}".repeat(100));
    let raw: &RawValue = serde_json::from_str(&deep).unwrap();
    assert!(json_schema(raw, "/x").is_err());
}

#[test]
fn a_stream_keeps_to_its_grammar() {
    let chunk = |parts: Value, finish: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({"candidates": [candidate], "modelVersion": "m", "responseId": "r"})
    };
    let play = |chunks: &[Value]| {
        let mut grammar = GeminiGrammar::new();
        let each = chunks.iter().try_for_each(|chunk| grammar.event(None, chunk.to_string().as_bytes()));
        each.and_then(|()| grammar.end().map(drop))
    };
    let text = || chunk(json!([{"text": "a"}]), None);
    let end = || chunk(json!([{"text": ""}]), Some("STOP"));
    let error = || json!({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}});
    assert!(play(&[text(), end()]).is_ok());
    assert!(play(&[text(), error()]).is_ok());
    for broken in [
        vec![text()],
        vec![end(), text()],
        vec![error(), end()],
        vec![chunk(json!([]), Some("STOP"))],
        vec![chunk(json!([{"text": "a", "functionCall": {"name": "f", "args": {}}}]), Some("STOP"))],
        vec![chunk(json!([{"functionCall": {"name": "f", "args": "{}"}}]), Some("STOP"))],
        vec![json!({"candidates": [], "modelVersion": "m", "responseId": "r"})],
        vec![json!({"error": {"message": "x"}})],
    ] {
        assert!(play(&broken).is_err(), "{broken:?}");
    }
    let other = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}], "modelVersion": "n", "responseId": "r"});
    assert!(play(&[text(), other]).is_err(), "another name");
}
