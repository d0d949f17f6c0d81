//! Requests: the envelope, and the body for an attempt.

use bytes::Bytes;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::{Envelope, EnvelopeError, Limits};
use pointsman_wire::passthrough::{Edits, MaxTokensName, ProviderField, render};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The name and the object that edits put in: both need escapes.
const MODEL: &str = "up\"stream\n\u{e9}";
const PROVIDER: &str = r#"{"only":["a\u0062"]}"#;
/// The model that a Gemini call has in its path.
const NAMED: &str = "gemini-3-pro";

/// The first two bytes choose dialect and edits; the rest is the body.
///
/// # Panics
/// If the envelope takes what is no JSON or refuses what is, reads another model or stream flag than `serde_json`,
/// or if an edited body is anything but the body with these edits.
pub fn check(input: &[u8]) {
    let Some((choice, body)) = input.split_first_chunk::<2>() else { return };
    if body.starts_with(b"--") {
        return check_form(body);
    }
    // The highest bit of the second byte is no edit.
    let dialect = match (choice[1] >> 7, choice[0] & 1) {
        (1, _) => Dialect::Gemini,
        (_, 0) => Dialect::Chat,
        _ => Dialect::Messages,
    };
    let limits = Limits { max_bytes: 1 << 20, max_depth: 100 };
    let json = serde_json::from_slice::<&RawValue>(body).is_ok();
    let read = match dialect {
        Dialect::Gemini => Envelope::read_gemini(body, NAMED, true, &limits),
        _ => Envelope::read_as(dialect, body, &limits),
    };
    let envelope = match read {
        Ok(envelope) => envelope,
        Err(error) => return refusal_holds(&error, body, json),
    };
    assert!(json, "what is accepted is JSON");
    assert!(!envelope.model().is_empty());
    // A number beyond any range or a lone surrogate: grammatical, but no value. Left to the provider.
    let Ok(Value::Object(request)) = serde_json::from_slice(body) else { return };
    if dialect == Dialect::Gemini {
        assert_eq!((envelope.model(), envelope.stream()), (NAMED, true), "the path says it");
        assert!(request.get("contents").is_some_and(|contents| contents.is_array() || contents.is_object()));
    } else {
        assert_eq!(request.get("model").and_then(Value::as_str), Some(envelope.model()));
        assert_eq!(request.get("stream").and_then(Value::as_bool).unwrap_or(false), envelope.stream());
        assert!(request.get("messages").is_some_and(Value::is_array));
    }
    check_edits(dialect, &edits(*choice), request, &envelope, body);
}

/// A form, which no JSON begins like: what is sent is read as what came, but for the model.
fn check_form(body: &[u8]) {
    let limits = Limits { max_bytes: 1 << 20, max_depth: 100 };
    let read = |body: &[u8]| {
        Envelope::read_form(Endpoint::Transcriptions, "multipart/form-data; boundary=b", body, &limits)
    };
    let envelope = match read(body) {
        Ok(envelope) => envelope,
        Err(error) => return refusal_holds(&error, body, false),
    };
    assert!(!envelope.model().is_empty());
    let body = Bytes::copy_from_slice(body);
    assert_eq!(render(&body, &envelope, &Edits::model(envelope.model())), body);
    let sent = render(&body, &envelope, &Edits::model("other"));
    assert_eq!(sent.len() + envelope.model().len(), body.len() + "other".len());
    let again = read(&sent).expect("a form stays one");
    assert_eq!((again.model(), again.stream()), ("other", envelope.stream()));
}

fn refusal_holds(error: &EnvelopeError, body: &[u8], json: bool) {
    let sentence = error.message();
    assert!(sentence.ends_with('.') && sentence.len() < 400, "one sentence: {sentence}");
    assert!(matches!(error.status(), 400 | 413));
    let escape = body.windows(2).any(|pair| pair == b"\\u");
    if let EnvelopeError::NotJson { offset } = error {
        assert!(*offset <= body.len());
        assert!(!json || escape, "what is refused as no JSON is none");
    }
    if let EnvelopeError::InvalidUtf8 { offset } = error {
        assert!(*offset < body.len());
    }
}

fn edits(choice: [u8; 2]) -> Edits<'static> {
    let three = |bits: u8| match bits & 3 {
        0 => None,
        1 => Some(false),
        _ => Some(true),
    };
    Edits {
        model: MODEL,
        stream: three(choice[0] >> 1),
        include_usage: three(choice[0] >> 3),
        strip_models: choice[1] & 1 == 1,
        provider: match (choice[1] >> 1) & 3 {
            0 => ProviderField::Keep,
            1 => ProviderField::Strip,
            _ => ProviderField::Replace(PROVIDER),
        },
        max_tokens_name: match (choice[1] >> 3) & 3 {
            0 => None,
            1 => Some(MaxTokensName::MaxTokens),
            _ => Some(MaxTokensName::MaxCompletionTokens),
        },
    }
}

fn check_edits(
    dialect: Dialect,
    edits: &Edits<'_>,
    request: Map<String, Value>,
    envelope: &Envelope,
    body: &[u8],
) {
    let body = Bytes::copy_from_slice(body);
    let same = Edits::model(envelope.model());
    // What another provider sealed is left out of them, and so is a model that stands in the path.
    let sealed =
        dialect != Dialect::Chat && body.windows(5).any(|bytes| bytes == b"\"pm1." || bytes == b"cG0xL");
    if sealed {
        return;
    }
    if dialect != Dialect::Gemini || !request.contains_key("model") {
        assert_eq!(render(&body, envelope, &same), body, "without edits the bytes stay");
    }
    let rendered = render(&body, envelope, edits);
    let rendered: Value = serde_json::from_slice(&rendered).expect("an edited body is JSON");
    assert_eq!(rendered, edited(dialect, edits, request), "an edited body is the body with these edits");
}

/// The edits as their documentation says, on a tree of values.
fn edited(dialect: Dialect, edits: &Edits<'_>, mut request: Map<String, Value>) -> Value {
    let streams = request.get("stream") == Some(&json!(true));
    if dialect == Dialect::Gemini {
        request.remove("model");
    } else {
        request.insert("model".to_owned(), json!(edits.model));
        if let Some(stream) = edits.stream.filter(|stream| *stream != streams) {
            request.insert("stream".to_owned(), json!(stream));
        }
    }
    if edits.strip_models {
        request.remove("models");
    }
    match edits.provider {
        ProviderField::Keep => {}
        ProviderField::Strip => drop(request.remove("provider")),
        ProviderField::Replace(text) => {
            request.insert("provider".to_owned(), serde_json::from_str(text).expect("the edit is JSON"));
        }
    }
    if dialect == Dialect::Chat {
        edit_usage(edits, edits.stream.unwrap_or(streams), &mut request);
        rename_limit(edits, &mut request);
    }
    Value::Object(request)
}

fn edit_usage(edits: &Edits<'_>, streams: bool, request: &mut Map<String, Value>) {
    if edits.stream == Some(false) {
        request.remove("stream_options");
        return;
    }
    let asked =
        request.get("stream_options").and_then(|options| options.get("include_usage")) == Some(&json!(true));
    let Some(wanted) = edits.include_usage.filter(|wanted| *wanted != asked && (streams || !wanted)) else {
        return;
    };
    let options = request.entry("stream_options").or_insert(Value::Null);
    if options.is_null() {
        *options = json!({});
    }
    options["include_usage"] = json!(wanted);
}

fn rename_limit(edits: &Edits<'_>, request: &mut Map<String, Value>) {
    let (from, to) = match edits.max_tokens_name {
        None => return,
        Some(MaxTokensName::MaxTokens) => ("max_completion_tokens", "max_tokens"),
        Some(MaxTokensName::MaxCompletionTokens) => ("max_tokens", "max_completion_tokens"),
    };
    if request.contains_key(to) {
        return;
    }
    if let Some(limit) = request.remove(from) {
        request.insert(to.to_owned(), limit);
    }
}
