//! The input: each item by its type, and which belong together.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    Fields, Wrong, below, bounded, given, is_own, known, list, one_of, optional_text, required_text,
    tool_name,
};

/// Items of tools that the model or OpenAI runs, and others of which nothing is checked here.
const UNCHECKED: &[&str] = &[
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];
const CHECKED: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "item_reference",
];
/// What a call may carry besides its own fields.
const CALL: &[&str] = &["id", "type", "call_id", "name", "namespace", "status", "async", "caller"];
/// The longest `call_id`, in characters.
const MAX_CALL_ID: usize = 64;

/// Checks the input of a request to the simulator of this name.
pub(super) fn check(fields: &Fields, name: &str) -> Result<(), Wrong> {
    let Some(input) = given(fields, "input") else {
        let message =
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.";
        return Err(Wrong::new(message.to_owned(), "input", Some("missing_required_parameter")));
    };
    if input.is_string() {
        return Ok(());
    }
    let Some(items) = input.as_array() else {
        return Err(Wrong::kind("input", "one of a string or array of input items", input));
    };
    if items.is_empty() {
        let message = "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array \
                       instead.";
        return Err(Wrong::new(message.to_owned(), "input", Some("empty_array")));
    }
    let mut ids = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("input[{index}]");
        let Some(item) = item.as_object() else { return Err(Wrong::kind(&at, "an object", item)) };
        one(item, &at, name)?;
        if let Some(id) = given(item, "id").and_then(Value::as_str)
            && !ids.insert(id)
        {
            let message = format!(
                "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            );
            return Err(Wrong::new(message, "input", None));
        }
    }
    followed(items)?;
    answered(items, ("function_call", "function_call_output"), "function call")?;
    answered(items, ("custom_tool_call", "custom_tool_call_output"), "custom tool call")
}

/// The type of an item; one with a role may leave it out.
fn kind(item: &Value) -> &str {
    let unnamed = if item.get("role").is_some() { "message" } else { "" };
    item.get("type").and_then(Value::as_str).unwrap_or(unnamed)
}

fn one(item: &Fields, at: &str, name: &str) -> Result<(), Wrong> {
    let kind = match (item.get("type"), item.contains_key("role")) {
        (None, true) => "message",
        _ => required_text(item, at, "type")?,
    };
    match kind {
        "message" => message(item, at),
        "function_call" => {
            known(item, at, &[CALL, &["arguments"]].concat())?;
            call(item, at, "fc", "arguments")
        }
        "custom_tool_call" => {
            known(item, at, &[CALL, &["input"]].concat())?;
            call(item, at, "ctc", "input")
        }
        "function_call_output" | "custom_tool_call_output" => {
            known(item, at, &[CALL, &["output"]].concat())?;
            bounded(item, at, "call_id", MAX_CALL_ID)?;
            content(item, at, "output", INPUT_PARTS)
        }
        "reasoning" => reasoning(item, at, name),
        // Nothing is kept, so nothing can be referred to.
        "item_reference" => Err(not_kept(required_text(item, at, "id")?)),
        unchecked if UNCHECKED.contains(&unchecked) => Ok(()),
        other => {
            let supported: Vec<&str> = CHECKED.iter().chain(UNCHECKED).copied().collect();
            Err(Wrong::value(&below(at, "type"), other, &supported))
        }
    }
}

/// An id of OpenAI tells by its beginning what it belongs to.
fn own_id(item: &Fields, at: &str, prefix: &str) -> Result<(), Wrong> {
    match optional_text(item, at, "id")? {
        Some(id) if !id.starts_with(prefix) => {
            let at = below(at, "id");
            let message = format!("Invalid '{at}': '{id}'. Expected an ID that begins with '{prefix}'.");
            Err(Wrong::new(message, &at, Some("invalid_value")))
        }
        _ => Ok(()),
    }
}

fn call(item: &Fields, at: &str, prefix: &str, text: &str) -> Result<(), Wrong> {
    own_id(item, at, prefix)?;
    bounded(item, at, "call_id", MAX_CALL_ID)?;
    tool_name(item, at)?;
    required_text(item, at, text)?;
    Ok(())
}

const INPUT_PARTS: &[&str] = &["input_text", "input_image", "input_file", "input_audio"];
const OUTPUT_PARTS: &[&str] = &["output_text", "refusal"];

fn message(item: &Fields, at: &str) -> Result<(), Wrong> {
    known(item, at, &["id", "type", "role", "content", "status", "phase"])?;
    let role = required_text(item, at, "role")?;
    one_of(&below(at, "role"), &Value::from(role), &["assistant", "system", "developer", "user"])?;
    own_id(item, at, "msg")?;
    content(item, at, "content", if role == "assistant" { OUTPUT_PARTS } else { INPUT_PARTS })
}

/// A text, or parts of these types.
fn content(item: &Fields, at: &str, key: &str, allowed: &[&str]) -> Result<(), Wrong> {
    let at = below(at, key);
    let content = item.get(key).ok_or_else(|| Wrong::missing(&at))?;
    if content.is_string() {
        return Ok(());
    }
    let Some(parts) = content.as_array() else {
        return Err(Wrong::kind(&at, "one of an array of objects or string", content));
    };
    for (index, value) in parts.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let Some(fields) = value.as_object() else { return Err(Wrong::kind(&at, "an object", value)) };
        let kind = required_text(fields, &at, "type")?;
        if !allowed.contains(&kind) {
            return Err(Wrong::value(&at, kind, allowed));
        }
        part(fields, &at, kind)?;
    }
    Ok(())
}

fn part(part: &Fields, at: &str, kind: &str) -> Result<(), Wrong> {
    const MARK: &str = "prompt_cache_breakpoint";
    match kind {
        "input_text" => {
            known(part, at, &["type", "text", MARK])?;
            required_text(part, at, "text")?;
        }
        "output_text" => {
            known(part, at, &["type", "text", "annotations", "logprobs", MARK])?;
            required_text(part, at, "text")?;
        }
        "refusal" => {
            known(part, at, &["type", "refusal"])?;
            required_text(part, at, "refusal")?;
        }
        "input_image" => {
            known(part, at, &["type", "image_url", "file_id", "detail", MARK])?;
            if let Some(url) = given(part, "image_url").filter(|url| !url.is_string()) {
                return Err(Wrong::kind(&below(at, "image_url"), "an image URL", url));
            }
            one_source(part, at, &["image_url", "file_id"])?;
        }
        "input_file" => {
            known(part, at, &["type", "file_data", "file_id", "file_url", "filename", "detail", MARK])?;
            one_source(part, at, &["file_data", "file_id", "file_url"])?;
        }
        _ => {}
    }
    Ok(())
}

fn one_source(part: &Fields, at: &str, sources: &[&str]) -> Result<(), Wrong> {
    match sources {
        [first, ..] if sources.iter().all(|key| given(part, key).is_none()) => {
            Err(Wrong::missing(&below(at, first)))
        }
        _ => Ok(()),
    }
}

fn reasoning(item: &Fields, at: &str, name: &str) -> Result<(), Wrong> {
    known(item, at, &["id", "type", "summary", "content", "encrypted_content", "status"])?;
    own_id(item, at, "rs")?;
    item.get("summary").ok_or_else(|| Wrong::missing(&below(at, "summary")))?;
    for (index, part) in list(item, at, "summary")?.iter().enumerate() {
        let at = format!("{}[{index}]", below(at, "summary"));
        let Some(part) = part.as_object() else { return Err(Wrong::kind(&at, "an object", part)) };
        one_of(&below(&at, "type"), part.get("type").unwrap_or(&Value::Null), &["summary_text"])?;
        required_text(part, &at, "text")?;
    }
    match optional_text(item, at, "encrypted_content")? {
        None => Err(not_kept(item.get("id").and_then(Value::as_str).unwrap_or_default())),
        Some(sealed) if is_own(sealed, name) => Ok(()),
        Some(sealed) => {
            let begin: String = sealed.chars().take(4).collect();
            let end: Vec<char> = sealed.chars().rev().take(4).collect();
            let end: String = end.into_iter().rev().collect();
            let message = format!(
                "The encrypted content {begin}...{end} could not be verified. Reason: Encrypted content could not be \
                 decrypted or parsed."
            );
            Err(Wrong { param: None, ..Wrong::new(message, "", Some("invalid_encrypted_content")) })
        }
    }
}

fn not_kept(id: &str) -> Wrong {
    let message = format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` \
         set to true, or remove this item from your input."
    );
    Wrong::not_found(message, "input")
}

/// Reasoning leads to something that the model did, in the same turn.
fn followed(items: &[Value]) -> Result<(), Wrong> {
    for (index, item) in items.iter().enumerate().filter(|(_, item)| kind(item) == "reasoning") {
        let next = items.get(index + 1);
        let by_user =
            |next: &Value| kind(next) == "message" && next.get("role") != Some(&Value::from("assistant"));
        if next.is_none_or(|next| by_user(next) || kind(next).ends_with("_output")) {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            let message =
                format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
            return Err(Wrong::new(message, "input", None));
        }
    }
    Ok(())
}

/// Each call has its output and each output its call, which goes before it.
fn answered(items: &[Value], (calls, outputs): (&str, &str), what: &str) -> Result<(), Wrong> {
    let id = |item: &Value| item.get("call_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut open: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for item in items {
        if kind(item) == calls {
            known.insert(id(item));
            open.push(id(item));
        } else if kind(item) == outputs {
            let id = id(item);
            if !known.contains(&id) {
                let message = format!("No tool call found for {what} output with call_id {id}.");
                return Err(Wrong::new(message, "input", None));
            }
            open.retain(|open| *open != id);
        }
    }
    match open.first() {
        Some(id) => Err(Wrong::new(format!("No tool output found for {what} {id}."), "input", None)),
        None => Ok(()),
    }
}
