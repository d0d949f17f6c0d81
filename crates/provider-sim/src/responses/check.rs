//! What OpenAI refuses of a Responses request, as far as it shows the mistakes of whoever wrote or translated it: names
//! and types of fields, what may stand where in the input, and that calls and their outputs belong together. The
//! sentences are OpenAI's own where they are known.

use serde_json::{Map, Value};

use crate::catalogue;

mod items;
mod tools;

/// What `encrypted_content` of this simulator begins with; the content of another cannot be read.
const SEALED: &str = "gAAAAA";

/// Encrypted content that this simulator knows as its own again.
pub(super) fn minted(name: &str, call: u64, item: usize) -> String {
    format!("{SEALED}.{name}.{call}.{item}==")
}

fn is_own(sealed: &str, name: &str) -> bool {
    sealed.strip_prefix(&format!("{SEALED}.{name}.")).is_some_and(|rest| rest.ends_with("=="))
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) status: u16,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Wrong {
    fn new(message: String, param: &str, code: Option<&'static str>) -> Self {
        Self { status: 400, message, param: Some(param.to_owned()), code }
    }

    fn not_found(message: String, param: &str) -> Self {
        Self { status: 404, ..Self::new(message, param, None) }
    }

    fn unknown(at: &str) -> Self {
        Self::new(format!("Unknown parameter: '{at}'."), at, Some("unknown_parameter"))
    }

    fn missing(at: &str) -> Self {
        let message = format!("Missing required parameter: '{at}'.");
        Self::new(message, at, Some("missing_required_parameter"))
    }

    fn kind(at: &str, expected: &str, got: &Value) -> Self {
        let got = match got {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(number) if number.is_f64() => "a decimal",
            Value::Number(_) => "an integer",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        let message = format!("Invalid type for '{at}': expected {expected}, but got {got} instead.");
        Self::new(message, at, Some("invalid_type"))
    }

    fn value(at: &str, got: &str, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|one| format!("'{one}'")).collect();
        let listed = match quoted.as_slice() {
            [one, other] => format!("{one} and {other}"),
            [first @ .., last] if !first.is_empty() => format!("{}, and {last}", first.join(", ")),
            all => all.join(", "),
        };
        let message = format!("Invalid value: '{got}'. Supported values are: {listed}.");
        Self::new(message, at, Some("invalid_value"))
    }

    /// The body that says it.
    pub(crate) fn body(&self) -> String {
        catalogue::error(&self.message, "invalid_request_error", self.param.as_deref(), self.code)
    }
}

type Fields = Map<String, Value>;

/// The fields of the request (OpenAI API, "Create a model response"), and `client_metadata`, which Codex sends.
const KNOWN: &[&str] = &[
    "access_programs",
    "background",
    "background_options",
    "client_metadata",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
/// Fields of Chat Completions that have another name here.
const MOVED: &[(&str, &str)] = &[
    ("max_completion_tokens", "max_output_tokens"),
    ("max_tokens", "max_output_tokens"),
    ("messages", "input"),
    ("reasoning_effort", "reasoning.effort"),
    ("response_format", "text.format"),
    ("verbosity", "text.verbosity"),
];
const INCLUDABLE: &[&str] = &[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Checks a request to the simulator of this name.
pub(crate) fn check(request: &Value, name: &str) -> Result<(), Wrong> {
    let Some(fields) = request.as_object() else { return Ok(()) };
    for key in fields.keys() {
        if let Some((_, now)) = MOVED.iter().find(|(before, _)| before == key) {
            let message = format!(
                "Unsupported parameter: '{key}'. In the Responses API, this parameter has moved to '{now}'. Try \
                 again with the new parameter."
            );
            return Err(Wrong::new(message, key, Some("unsupported_parameter")));
        }
    }
    known(fields, "", KNOWN)?;
    stored(fields)?;
    numbers(fields)?;
    optional_text(fields, "", "instructions")?;
    for key in ["stream", "store", "parallel_tool_calls", "background"] {
        if let Some(value) = given(fields, key).filter(|value| !value.is_boolean()) {
            return Err(Wrong::kind(key, "a boolean", value));
        }
    }
    stream_options(fields)?;
    include(fields)?;
    reasoning(fields)?;
    text(fields)?;
    let offered = tools::check(fields)?;
    tools::choice(fields, &offered)?;
    items::check(fields, name)
}

/// The simulator keeps nothing, so nothing kept can be found.
fn stored(fields: &Fields) -> Result<(), Wrong> {
    if let Some(id) = given(fields, "previous_response_id").and_then(Value::as_str) {
        let message = format!("Previous response with id '{id}' not found.");
        return Err(Wrong::new(message, "previous_response_id", Some("previous_response_not_found")));
    }
    for (key, what) in [("conversation", "Conversation"), ("prompt", "Prompt")] {
        let Some(value) = given(fields, key) else { continue };
        let id = value.as_str().or_else(|| value.get("id")?.as_str()).unwrap_or_default();
        return Err(Wrong::not_found(format!("{what} with id '{id}' not found."), key));
    }
    Ok(())
}

fn numbers(fields: &Fields) -> Result<(), Wrong> {
    if let Some(value) = given(fields, "max_output_tokens") {
        let Some(tokens) = value.as_u64() else {
            return Err(Wrong::kind("max_output_tokens", "an integer", value));
        };
        if tokens < 16 {
            let message = format!(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {tokens} \
                 instead."
            );
            return Err(Wrong::new(message, "max_output_tokens", Some("integer_below_min_value")));
        }
    }
    for (key, most) in [("temperature", 2.0), ("top_p", 1.0)] {
        let Some(value) = given(fields, key) else { continue };
        let Some(number) = value.as_f64() else { return Err(Wrong::kind(key, "a decimal", value)) };
        if number > most {
            let message = format!(
                "Invalid '{key}': decimal above maximum value. Expected a value <= {most}, but got {value} instead."
            );
            return Err(Wrong::new(message, key, Some("decimal_above_max_value")));
        }
    }
    Ok(())
}

fn stream_options(fields: &Fields) -> Result<(), Wrong> {
    let Some(options) = object(fields, "", "stream_options")? else { return Ok(()) };
    if fields.get("stream") != Some(&Value::Bool(true)) {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.".to_owned();
        return Err(Wrong::new(message, "stream_options", None));
    }
    known(options, "stream_options", &["include_obfuscation"])
}

fn include(fields: &Fields) -> Result<(), Wrong> {
    for (at, value) in list(fields, "", "include")?.iter().enumerate() {
        let at = format!("include[{at}]");
        one_of(&at, value, INCLUDABLE)?;
    }
    Ok(())
}

fn reasoning(fields: &Fields) -> Result<(), Wrong> {
    let Some(reasoning) = object(fields, "", "reasoning")? else { return Ok(()) };
    known(reasoning, "reasoning", &["effort", "summary", "generate_summary", "context", "mode"])?;
    if let Some(effort) = given(reasoning, "effort") {
        one_of("reasoning.effort", effort, EFFORTS)?;
    }
    if let Some(summary) = given(reasoning, "summary") {
        one_of("reasoning.summary", summary, &["auto", "concise", "detailed"])?;
    }
    Ok(())
}

fn text(fields: &Fields) -> Result<(), Wrong> {
    let Some(text) = object(fields, "", "text")? else { return Ok(()) };
    known(text, "text", &["format", "verbosity"])?;
    if let Some(verbosity) = given(text, "verbosity") {
        one_of("text.verbosity", verbosity, &["low", "medium", "high"])?;
    }
    let Some(format) = object(text, "text", "format")? else { return Ok(()) };
    match required_text(format, "text.format", "type")? {
        "text" | "json_object" => known(format, "text.format", &["type"]),
        "json_schema" => {
            known(format, "text.format", &["type", "name", "schema", "strict", "description"])?;
            required_text(format, "text.format", "name")?;
            object(format, "text.format", "schema")?.ok_or_else(|| Wrong::missing("text.format.schema"))?;
            Ok(())
        }
        other => Err(Wrong::value("text.format.type", other, &["json_object", "json_schema", "text"])),
    }
}

// What all parts of the check are made of

/// A field that is there and not `null`.
fn given<'a>(fields: &'a Fields, key: &str) -> Option<&'a Value> {
    fields.get(key).filter(|value| !value.is_null())
}

/// A place below another: `input[2]` and `role` are `input[2].role`.
fn below(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

fn known(fields: &Fields, at: &str, names: &[&str]) -> Result<(), Wrong> {
    match fields.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(Wrong::unknown(&below(at, key))),
        None => Ok(()),
    }
}

fn one_of(at: &str, value: &Value, supported: &[&str]) -> Result<(), Wrong> {
    match value.as_str() {
        Some(word) if supported.contains(&word) => Ok(()),
        Some(word) => Err(Wrong::value(at, word, supported)),
        None => Err(Wrong::kind(at, "a string", value)),
    }
}

fn required_text<'a>(fields: &'a Fields, at: &str, key: &str) -> Result<&'a str, Wrong> {
    let value = fields.get(key).ok_or_else(|| Wrong::missing(&below(at, key)))?;
    value.as_str().ok_or_else(|| Wrong::kind(&below(at, key), "a string", value))
}

fn optional_text<'a>(fields: &'a Fields, at: &str, key: &str) -> Result<Option<&'a str>, Wrong> {
    match given(fields, key) {
        None => Ok(None),
        Some(_) => required_text(fields, at, key).map(Some),
    }
}

fn object<'a>(fields: &'a Fields, at: &str, key: &str) -> Result<Option<&'a Fields>, Wrong> {
    let Some(value) = given(fields, key) else { return Ok(None) };
    value.as_object().map(Some).ok_or_else(|| Wrong::kind(&below(at, key), "an object", value))
}

fn list<'a>(fields: &'a Fields, at: &str, key: &str) -> Result<&'a [Value], Wrong> {
    let Some(value) = given(fields, key) else { return Ok(&[]) };
    match value.as_array() {
        Some(list) => Ok(list),
        None => Err(Wrong::kind(&below(at, key), "an array of objects", value)),
    }
}

/// A name or id of 1 to `most` characters.
fn bounded<'a>(fields: &'a Fields, at: &str, key: &str, most: usize) -> Result<&'a str, Wrong> {
    let text = required_text(fields, at, key)?;
    let at = below(at, key);
    match text.chars().count() {
        0 => {
            let message = format!(
                "Invalid '{at}': empty string. Expected a string with minimum length 1, but got an empty string \
                 instead."
            );
            Err(Wrong::new(message, &at, Some("empty_string")))
        }
        length if length > most => {
            let message = format!(
                "Invalid '{at}': string too long. Expected a string with maximum length {most}, but got a string with \
                 length {length} instead."
            );
            Err(Wrong::new(message, &at, Some("string_above_max_length")))
        }
        _ => Ok(text),
    }
}

/// The name of a tool: 1 to 64 letters, digits, `_` and `-`.
fn tool_name<'a>(fields: &'a Fields, at: &str) -> Result<&'a str, Wrong> {
    let name = bounded(fields, at, "name", 64)?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
        return Ok(name);
    }
    let at = below(at, "name");
    let message = format!(
        "Invalid '{at}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    );
    Err(Wrong::new(message, &at, Some("invalid_value")))
}
