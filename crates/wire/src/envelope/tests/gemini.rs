//! The envelope of a Gemini request, and the body for an attempt.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{Envelope, EnvelopeError, Limits, Needs, Structured};
use crate::dialect::Dialect;
use crate::passthrough::{Edits, ProviderField, render};

fn read(body: &str) -> Result<Envelope, EnvelopeError> {
    Envelope::read_gemini(body.as_bytes(), "gemini-3-pro", true, &Limits::default())
}

fn needs(members: Value) -> Needs {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    read(&body.to_string()).unwrap().needs()
}

/// What a part of the last content needs.
fn part(part: Value) -> Needs {
    needs(json!({"contents": [{"parts": [part]}]}))
}

#[test]
fn model_and_stream_are_those_of_the_path() {
    let envelope = read(r#"{"contents":[],"model":"models/other"}"#).unwrap();
    assert_eq!((envelope.dialect(), envelope.model()), (Dialect::Gemini, "gemini-3-pro"));
    assert!(envelope.stream());
    assert_eq!(envelope.needs(), Needs::default());
    let none = Envelope::read_gemini(b"{\"contents\":[]}", "", false, &Limits::default());
    assert_eq!(none.unwrap_err(), EnvelopeError::Missing { field: "model" });
    assert_eq!(read("{}").unwrap_err(), EnvelopeError::Missing { field: "contents" });
}

#[test]
fn a_single_content_is_a_list_of_one() {
    let envelope = read(r#"{"contents":{"parts":{"text":"hi"}}}"#).unwrap();
    assert!(envelope.needs().has_messages && !envelope.needs().prefill);
    assert!(matches!(read(r#"{"contents":"hi"}"#), Err(EnvelopeError::WrongType { field: "contents", .. })));
}

#[test]
fn both_spellings_of_a_field_are_the_same_field() {
    let twice = read(r#"{"contents":[],"generation_config":{},"generationConfig":{}}"#);
    assert!(matches!(twice, Err(EnvelopeError::DuplicateKey { .. })));
    for (count, tokens) in [("maxOutputTokens", 7), ("max_output_tokens", 8)] {
        let body = json!({"contents": [], "generation_config": {count: tokens}}).to_string();
        assert_eq!(read(&body).unwrap().max_output_tokens(), Some(tokens));
    }
    assert!(matches!(read(r#"{"Contents":[]}"#), Err(EnvelopeError::Misspelt { key: "contents" })));
    assert!(!needs(json!({"safetySettings": [], "cached_content": "x"})).unknown_fields);
    assert!(needs(json!({"newest": 1})).unknown_fields);
}

#[test]
fn media_by_their_types_also_those_in_results() {
    let data = |kind: &str| json!({"inlineData": {"mimeType": kind, "data": "AAAA"}});
    assert!(part(data("image/png")).images);
    assert!(part(data("audio/wav")).audio);
    assert!(part(data("video/mp4")).video);
    assert!(part(data("application/pdf")).files);
    assert!(part(json!({"file_data": {"mime_type": "image/png", "file_uri": "x"}})).images);
    let result = json!({"functionResponse": {"name": "f", "response": {}, "parts": [data("image/png")]}});
    assert!(part(result).images);
    assert!(!part(json!({"text": "inlineData"})).images);
}

#[test]
fn a_mediums_bytes_are_no_tokens() {
    let large = "A".repeat(100_000);
    let body = json!({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": large}}]}]});
    let tokens = read(&body.to_string()).unwrap().estimated_prompt_tokens();
    assert!((800..900).contains(&tokens), "{tokens}");
}

#[test]
fn what_the_generation_is_told() {
    let config = |config: Value| needs(json!({ "generationConfig": config }));
    assert_eq!(
        config(json!({"responseMimeType": "application/json"})).structured,
        Some(Structured::JsonObject)
    );
    let schema = json!({"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}});
    assert_eq!(config(schema).structured, Some(Structured::JsonSchema));
    assert_eq!(config(json!({"responseMimeType": "text/plain"})).structured, None);
    assert!(config(json!({"thinkingConfig": {"thinkingLevel": "LOW"}})).reasoning);
    assert!(!config(json!({"thinkingConfig": {"thinkingBudget": 0}})).reasoning);
    assert!(config(json!({"responseModalities": ["AUDIO"]})).audio_out);
    assert!(config(json!({"responseLogprobs": true})).logprobs);
    assert_eq!(config(json!({"candidateCount": 3})).n, 3);
    assert!(needs(json!({"tools": [{"functionDeclarations": [{"name": "f"}]}]})).tools);
    assert!(needs(json!({"contents": [{"role": "model", "parts": [{"text": "x"}]}]})).prefill);
}

#[test]
fn a_body_for_google_is_the_clients_but_for_what_was_meant_for_the_gateway() {
    let body = Bytes::from_static(
        br#"{"model":"models/x", "contents": [ {"parts":[{"text":"a"}]} ], "x": 1.0, "provider":{"sort":"price"},"models":["m"]}"#,
    );
    let envelope = Envelope::read_gemini(&body, "r", true, &Limits::default()).unwrap();
    let edits = Edits {
        stream: Some(true),
        include_usage: Some(true),
        strip_models: true,
        provider: ProviderField::Strip,
        ..Edits::model("gemini-3-pro")
    };
    let expected: &[u8] = br#"{ "contents": [ {"parts":[{"text":"a"}]} ], "x": 1.0}"#;
    assert_eq!(render(&body, &envelope, &edits), expected);
    let plain = Bytes::from_static(b"{\"contents\":[]}");
    let envelope = Envelope::read_gemini(&plain, "r", false, &Limits::default()).unwrap();
    assert_eq!(render(&plain, &envelope, &edits), plain);
}
