//! The shapes that error bodies come in.

use serde_json::{Map, Value};

use super::{MAX_ERROR_BODY, UpstreamError};

pub(super) fn parse(body: &[u8]) -> Option<UpstreamError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
    if body.len() > MAX_ERROR_BODY || !matches!(body.first(), Some(b'{' | b'[')) {
        return None;
    }
    match serde_json::from_slice(body).ok()? {
        Value::Object(object) => from_body(object),
        // Google's OpenAI-compatible endpoint wraps the error in a list.
        Value::Array(list) => match list.into_iter().next()? {
            Value::Object(object) => from_body(object),
            _ => None,
        },
        _ => None,
    }
}

fn from_body(mut body: Map<String, Value>) -> Option<UpstreamError> {
    match body.remove("error") {
        Some(Value::Object(error)) if !error.is_empty() => return Some(from_object(error)),
        Some(Value::String(text)) if !text.is_empty() => {
            // What stands beside the text: xAI's `code`, TGI's `error_type`.
            if !body.get("message").is_some_and(Value::is_string) {
                body.insert("message".to_owned(), Value::String(text));
            }
            return Some(from_object(body));
        }
        _ => {}
    }
    // Services of AWS spell it either way, and say in `__type` what it is (`com.amazon.coral.service#ThrottlingException`).
    if let Some(message) = body.remove("Message").filter(Value::is_string) {
        body.entry("message").or_insert(message);
    }
    if let Some(Value::String(kind)) = body.remove("__type") {
        let word = kind.rsplit('#').next().unwrap_or_default().to_owned();
        body.entry("type").or_insert(Value::String(word));
        body.entry("message").or_insert_with(|| Value::String(String::new()));
    }
    if body.get("message").is_some_and(Value::is_string)
        || body.get("object").is_some_and(|kind| kind == "error")
    {
        body.remove("object");
        return Some(from_object(body));
    }
    body.remove("detail").and_then(from_detail)
}

fn from_object(mut error: Map<String, Value>) -> UpstreamError {
    let detail = match error.remove("message") {
        Some(Value::String(message)) => UpstreamError { message, ..UpstreamError::default() },
        // Mistral's validation errors: a list of details under `message`.
        Some(Value::Object(mut nested)) => nested.remove("detail").and_then(from_detail).unwrap_or_default(),
        _ => error.remove("detail").and_then(from_detail).unwrap_or_default(),
    };
    UpstreamError {
        message: detail.message,
        kind: word(error.remove("type")).or(detail.kind),
        param: word(error.remove("param")).or(detail.param),
        code: word(error.remove("code")).or(detail.code),
        extra: error,
    }
}

/// FastAPI: a text, or a list of `{loc, msg, type}`.
fn from_detail(detail: Value) -> Option<UpstreamError> {
    match detail {
        Value::String(message) => Some(UpstreamError { message, ..UpstreamError::default() }),
        Value::Object(object) => Some(from_object(object)),
        Value::Array(list) => {
            let sentences: Vec<String> = list.iter().take(8).filter_map(sentence).collect();
            let first = list.first()?;
            Some(UpstreamError {
                message: sentences.join("; "),
                kind: first.get("type").and_then(Value::as_str).map(str::to_owned),
                param: first.get("loc").map(path),
                ..UpstreamError::default()
            })
        }
        _ => None,
    }
}

fn sentence(item: &Value) -> Option<String> {
    let text = item.get("msg")?.as_str()?;
    Some(match item.get("loc").map(path) {
        Some(place) if !place.is_empty() => format!("{place}: {text}"),
        _ => text.to_owned(),
    })
}

/// `["body", "messages", 0]` as `messages.0`.
fn path(loc: &Value) -> String {
    let steps = loc.as_array().map(Vec::as_slice).unwrap_or_default();
    let words: Vec<String> = steps.iter().filter_map(|step| word(Some(step.clone()))).collect();
    let words = words.strip_prefix(&["body".to_owned()]).unwrap_or(&words);
    words.join(".")
}

/// A string, or a number as one.
fn word(value: Option<Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
