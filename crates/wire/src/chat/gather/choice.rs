//! One choice, put together from its deltas.

use serde_json::{Map, Value, json};

use super::size;

/// The parts of one choice so far.
#[derive(Debug, Default)]
pub(super) struct ChoiceParts {
    message: Map<String, Value>,
    calls: Vec<Call>,
    /// Members of the choice other than `delta` and `index`.
    rest: Map<String, Value>,
}

/// One tool call so far.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    kind: Option<String>,
    name: String,
    /// `arguments` of a function, `input` of a custom tool.
    input: String,
    /// Members that are unknown, Google's thought signatures among them.
    rest: Map<String, Value>,
}

/// Names under which text comes in pieces.
const TEXTS: &[&str] = &["content", "refusal", "reasoning", "reasoning_content", "thinking"];

fn is_there(message: &Map<String, Value>, key: &str) -> bool {
    message.get(key).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
}

impl ChoiceParts {
    /// Takes a chunk's choice in; gives the number of bytes that are kept of it.
    pub(super) fn add(&mut self, mut choice: Map<String, Value>) -> usize {
        choice.remove("index");
        let mut kept = 0;
        if let Some(Value::Object(delta)) = choice.remove("delta") {
            for (key, value) in delta {
                kept += self.add_delta(key, value);
            }
        }
        for (key, value) in choice {
            // Some servers send an empty reason with each chunk, also after the last one.
            if key == "finish_reason" && value.as_str() == Some("") {
                continue;
            }
            kept +=
                if key == "logprobs" { self.add_logprobs(value) } else { put(&mut self.rest, key, value) };
        }
        kept
    }

    /// The finished choice. `call_prefix` makes the ids unique that a provider left out.
    pub(super) fn into_json(mut self, index: u64, call_prefix: &str) -> Value {
        let mut message = self.message;
        message.entry("role").or_insert_with(|| json!("assistant"));
        // The first delta opens the text with an empty piece; where a call or a refusal came in its place there is none.
        let instead =
            !self.calls.is_empty() || ["function_call", "refusal"].iter().any(|k| is_there(&message, k));
        if instead && !is_there(&message, "content") {
            message.insert("content".to_owned(), Value::Null);
        }
        message.entry("content").or_insert(Value::Null);
        message.entry("refusal").or_insert(Value::Null);
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().enumerate();
            let calls = calls
                .map(|(at, call)| call.into_json(|| format!("call_{call_prefix}_{index}_{at}")))
                .collect();
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        self.rest.entry("logprobs").or_insert(Value::Null);
        self.rest.insert("index".to_owned(), json!(index));
        self.rest.insert("message".to_owned(), Value::Object(message));
        Value::Object(self.rest)
    }

    fn add_delta(&mut self, key: String, value: Value) -> usize {
        match (key.as_str(), value) {
            (_, Value::Null) => 0,
            ("tool_calls", Value::Array(calls)) => calls.into_iter().map(|call| self.add_call(call)).sum(),
            ("function_call" | "audio", Value::Object(part)) => merge_texts(&mut self.message, key, part),
            ("role", role) => {
                self.message.entry("role").or_insert(role);
                0
            }
            (name, Value::String(piece)) if TEXTS.contains(&name) => append(&mut self.message, key, &piece),
            (_, Value::Array(more)) => extend(&mut self.message, key, more),
            (_, value) => put(&mut self.message, key, value),
        }
    }

    /// Token probabilities come in lists, one piece per chunk.
    fn add_logprobs(&mut self, value: Value) -> usize {
        let Value::Object(parts) = value else { return 0 };
        let slot = self.rest.entry("logprobs").or_insert_with(|| json!({}));
        let Some(slot) = slot.as_object_mut() else { return 0 };
        parts
            .into_iter()
            .map(|(key, value)| match value {
                Value::Array(more) => extend(slot, key, more),
                other => put(slot, key, other),
            })
            .sum()
    }

    fn add_call(&mut self, call: Value) -> usize {
        let Value::Object(mut part) = call else { return 0 };
        let index = part.remove("index").and_then(|index| index.as_u64());
        let id = part.remove("id").and_then(text);
        let kind = part.remove("type").and_then(text);
        let body = part.remove("function").or_else(|| part.remove("custom"));
        let mut body = if let Some(Value::Object(body)) = body { body } else { Map::new() };
        let name = body.remove("name").and_then(text).unwrap_or_default();
        let input =
            body.remove("arguments").or_else(|| body.remove("input")).map(argument).unwrap_or_default();
        let mut kept = name.len() + input.len() + 64;
        let Some(call) = self.call_for(index, id.as_deref(), &name) else { return 0 };
        call.id = call.id.take().or(id);
        call.kind = call.kind.take().or(kind);
        // Some servers repeat the whole name with each piece, others send it in pieces.
        if call.name != name {
            call.name.push_str(&name);
        }
        call.input.push_str(&input);
        for (key, value) in part {
            kept += put(&mut call.rest, key, value);
        }
        kept
    }

    /// The call that a piece belongs to; a new one if it begins one.
    ///
    /// By the specification only the index says so. Where it is missing, a new id or a further name begins a
    /// call; and a piece with another id *and* a name begins one even at an index that is taken, since some
    /// servers give each of several whole calls the index 0.
    fn call_for(&mut self, index: Option<u64>, id: Option<&str>, name: &str) -> Option<&mut Call> {
        let known = match (index, id) {
            (Some(index), _) => self.calls.iter().rposition(|call| call.index == Some(index)),
            (None, Some(id)) => self.calls.iter().rposition(|call| call.id.as_deref() == Some(id)),
            (None, None) => self.calls.len().checked_sub(1).filter(|_| name.is_empty()),
        };
        let fresh = known.and_then(|at| self.calls.get(at)).is_none_or(|call| {
            let other_id = id.is_some_and(|id| call.id.as_deref().is_some_and(|own| own != id));
            other_id && !name.is_empty() && !call.name.is_empty()
        });
        if fresh {
            self.calls.push(Call { index, ..Call::default() });
            return self.calls.last_mut();
        }
        self.calls.get_mut(known?)
    }
}

impl Call {
    fn into_json(self, made_up: impl FnOnce() -> String) -> Value {
        let kind = self.kind.unwrap_or_else(|| "function".to_owned());
        let mut call = self.rest;
        let body = if kind == "custom" {
            json!({ "name": self.name, "input": self.input })
        } else {
            // No arguments are an empty object: an empty text is no JSON, and providers refuse it in a history.
            let arguments = if self.input.trim().is_empty() { "{}".to_owned() } else { self.input };
            json!({ "name": self.name, "arguments": arguments })
        };
        call.insert("id".to_owned(), json!(self.id.unwrap_or_else(made_up)));
        call.insert(if kind == "custom" { "custom" } else { "function" }.to_owned(), body);
        call.insert("type".to_owned(), json!(kind));
        Value::Object(call)
    }
}

fn text(value: Value) -> Option<String> {
    if let Value::String(text) = value { Some(text).filter(|text| !text.is_empty()) } else { None }
}

/// Arguments are JSON in a text; some servers send the JSON itself.
fn argument(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Joins the texts of an object that comes in pieces (`function_call.arguments`, `audio.data`).
fn merge_texts(into: &mut Map<String, Value>, key: String, part: Map<String, Value>) -> usize {
    let slot = into.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    let Some(slot) = slot.as_object_mut() else { return 0 };
    part.into_iter()
        .map(|(key, value)| match value {
            Value::String(piece) if key != "id" => append(slot, key, &piece),
            other => put(slot, key, other),
        })
        .sum()
}

fn append(into: &mut Map<String, Value>, key: String, piece: &str) -> usize {
    match into.get_mut(&key) {
        Some(Value::String(whole)) => whole.push_str(piece),
        _ => drop(into.insert(key, Value::from(piece))),
    }
    piece.len()
}

fn extend(into: &mut Map<String, Value>, key: String, more: Vec<Value>) -> usize {
    let kept = more.iter().map(size).sum();
    match into.get_mut(&key) {
        Some(Value::Array(list)) => list.extend(more),
        _ => drop(into.insert(key, Value::Array(more))),
    }
    kept
}

/// The last value stays, but nothing is undone by a null.
fn put(into: &mut Map<String, Value>, key: String, value: Value) -> usize {
    if value.is_null() {
        into.entry(key).or_insert(Value::Null);
        return 0;
    }
    let new = size(&value);
    let old = into.insert(key, value).map_or(0, |old| size(&old));
    new.saturating_sub(old)
}
