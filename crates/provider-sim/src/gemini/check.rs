//! What Gemini refuses of a request, as far as it shows the mistakes of whoever wrote or translated it: fields that it
//! does not know, parts that are empty or double, calls without their responses, and thoughts that are not its own.

use serde_json::{Value, json};

use super::google;
use super::shape::REQUEST;
use crate::answer::Voice;
use crate::fields::{Misfit, Reading, Why, fits, snake};

/// Documented value that stands for a signature where there is none.
const SKIP: &str = "skip_thought_signature_validator";
const MAX_STOP_SEQUENCES: usize = 5;
/// The longest name of a function, in characters.
const MAX_NAME: usize = 128;
/// What a part holds: one of these.
const DATA: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

/// Whether a model signs its thoughts and wants its calls back with their signatures.
pub(super) fn signs(model: &str) -> bool {
    model.starts_with("gemini-3")
}

/// The signature of a call of this simulator; digits and letters in fours are Base64 too.
pub(super) fn signature(voice: &Voice) -> String {
    let mut text = format!("{}{}", sealed(&voice.name), hex(&voice.call.to_string()));
    while text.len() % 4 != 0 {
        text.push('0');
    }
    text
}

fn sealed(name: &str) -> String {
    hex(&format!("{name}/"))
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a request is refused: the status and the body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) status: u16,
    pub(crate) body: String,
}

fn wrong(message: &str) -> Wrong {
    Wrong { status: 400, body: google(400, message, Value::Null).to_string() }
}

impl From<Misfit> for Wrong {
    fn from(misfit: Misfit) -> Self {
        let at = snake(&misfit.at);
        let place = if at.is_empty() { String::new() } else { format!(" at '{at}'") };
        let unknown =
            |key, why| format!("Invalid JSON payload received. Unknown name \"{key}\"{place}: {why}");
        let description = match misfit.why {
            Why::Unknown(key) => unknown(key, "Cannot find field."),
            Why::NotAList(key) => unknown(key, "Proto field is not repeating, cannot start list."),
            Why::Kind(expected, value) => format!("Invalid value at '{at}' ({expected}), {value}"),
        };
        let mut violation = json!({ "description": description });
        if let (false, Some(violation)) = (at.is_empty(), violation.as_object_mut()) {
            violation.insert("field".to_owned(), json!(at));
        }
        let details =
            json!([{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]);
        Self { status: 400, body: google(400, &description, details).to_string() }
    }
}

/// Checks a request for this model to the simulator of this name.
pub(crate) fn check(request: &Value, model: &str, name: &str) -> Result<(), Wrong> {
    fits(request, REQUEST, Reading::Google)?;
    if field(request, "cachedContent").is_some() {
        let message = "CachedContent not found (or permission denied)";
        return Err(Wrong { status: 403, body: google(403, message, Value::Null).to_string() });
    }
    let contents = list(field(request, "contents"));
    if contents.is_empty() {
        return Err(wrong("* GenerateContentRequest.contents: contents is not specified\n"));
    }
    for (index, content) in contents.iter().enumerate() {
        let role = field(content, "role").and_then(Value::as_str).unwrap_or("user");
        if !["user", "model"].contains(&role) {
            return Err(wrong("Please use a valid role: user, model."));
        }
        parts(content, &format!("contents[{index}]"))?;
    }
    if let Some(system) = field(request, "systemInstruction") {
        parts(system, "system_instruction")?;
    }
    let declared = declarations(request)?;
    tool_config(request, &declared)?;
    generation(request)?;
    turns(&contents)?;
    signatures(&contents, model, name)
}

/// A field of an object, in either spelling.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| object.get(snake(name))).filter(|value| !value.is_null())
}

/// The elements of a list; a single value stands for a list of one.
fn list(value: Option<&Value>) -> Vec<&Value> {
    match value {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().collect(),
        Some(one) => vec![one],
    }
}

fn parts(content: &Value, at: &str) -> Result<(), Wrong> {
    let parts = list(field(content, "parts"));
    if parts.is_empty() {
        return Err(wrong(&format!(
            "* GenerateContentRequest.{at}.parts: contents.parts must not be empty.\n"
        )));
    }
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}.parts[{index}]");
        let mut data = DATA.iter().filter(|name| field(part, name).is_some());
        match (data.next(), data.next()) {
            (None, _) => {
                return Err(wrong(&format!(
                    "* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field\n"
                )));
            }
            (Some(_), Some(second)) => {
                return Err(wrong(&format!(
                    "Invalid value at '{at}' (oneof), oneof field 'data' is already set. Cannot set '{second}'"
                )));
            }
            (Some(_), None) => {}
        }
        for (key, own) in [("functionCall", "function_call"), ("functionResponse", "function_response")] {
            if let Some(data) = field(part, key)
                && name(data).is_empty()
            {
                return Err(wrong(&format!(
                    "* GenerateContentRequest.{at}.{own}.name: Name cannot be empty.\n"
                )));
            }
        }
    }
    Ok(())
}

fn name(data: &Value) -> &str {
    field(data, "name").and_then(Value::as_str).unwrap_or_default()
}

/// Checks the functions; gives back their names.
fn declarations(request: &Value) -> Result<Vec<&str>, Wrong> {
    let mut declared: Vec<&str> = Vec::new();
    for (index, tool) in list(field(request, "tools")).into_iter().enumerate() {
        for (at, declaration) in list(field(tool, "functionDeclarations")).into_iter().enumerate() {
            let name = name(declaration);
            let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
            if !begins || !name.bytes().all(allowed) || name.len() > MAX_NAME {
                return Err(wrong(&format!(
                    "* GenerateContentRequest.tools[{index}].function_declarations[{at}].name: Invalid function name. \
                     Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), \
                     dots (.), colons (:), or dashes (-), with a maximum length of {MAX_NAME}.\n"
                )));
            }
            if declared.contains(&name) {
                return Err(wrong(&format!("Duplicate function declaration found: {name}")));
            }
            if field(declaration, "parameters").is_some()
                && field(declaration, "parametersJsonSchema").is_some()
            {
                return Err(wrong(&format!(
                    "Function {name}: only one of parameters and parameters_json_schema may be set."
                )));
            }
            declared.push(name);
        }
    }
    Ok(declared)
}

fn tool_config(request: &Value, declared: &[&str]) -> Result<(), Wrong> {
    let config = field(request, "toolConfig").and_then(|config| field(config, "functionCallingConfig"));
    let Some(config) = config else { return Ok(()) };
    let mode = field(config, "mode").and_then(Value::as_str).unwrap_or("AUTO");
    let allowed = list(field(config, "allowedFunctionNames"));
    if declared.is_empty() && mode == "ANY" {
        return Err(wrong("Function calling config is set without function_declarations."));
    }
    if !allowed.is_empty() && !["ANY", "VALIDATED"].contains(&mode) {
        return Err(wrong("Allowed function names should only be set when function calling mode is ANY."));
    }
    match allowed.iter().filter_map(|name| name.as_str()).find(|name| !declared.contains(name)) {
        Some(name) => {
            Err(wrong(&format!("Allowed function name {name} is not in the function declarations.")))
        }
        None => Ok(()),
    }
}

fn generation(request: &Value) -> Result<(), Wrong> {
    let Some(config) = field(request, "generationConfig") else { return Ok(()) };
    let at = "* GenerateContentRequest.generation_config";
    let number = |name: &str| field(config, name).and_then(Value::as_f64);
    if number("temperature").is_some_and(|value| !(0.0..=2.0).contains(&value)) {
        return Err(wrong(&format!("{at}.temperature: temperature must be in the range [0.0, 2.0].\n")));
    }
    if number("topP").is_some_and(|value| !(0.0..=1.0).contains(&value)) {
        return Err(wrong(&format!("{at}.top_p: top_p must be in the range [0.0, 1.0].\n")));
    }
    if number("maxOutputTokens").is_some_and(|value| value < 1.0) {
        return Err(wrong(&format!("{at}.max_output_tokens: max_output_tokens must be positive.\n")));
    }
    if list(field(config, "stopSequences")).len() > MAX_STOP_SEQUENCES {
        return Err(wrong(&format!(
            "{at}.stop_sequences: must have at most {MAX_STOP_SEQUENCES} stop sequences.\n"
        )));
    }
    let thinking = |name: &str| field(config, "thinkingConfig").and_then(|thinking| field(thinking, name));
    if thinking("thinkingBudget").is_some() && thinking("thinkingLevel").is_some() {
        return Err(wrong("You can only set only one of thinking budget and thinking level."));
    }
    let schema = field(config, "responseSchema").or_else(|| field(config, "responseJsonSchema"));
    let json =
        field(config, "responseMimeType").and_then(Value::as_str).is_some_and(|kind| kind != "text/plain");
    if schema.is_some() && !json {
        return Err(wrong(
            "Response schema is only supported with a response mime type of application/json or text/x.enum.",
        ));
    }
    Ok(())
}

/// The parts of a turn: contents of the same role that follow each other are one.
struct Turn<'a> {
    model: bool,
    parts: Vec<&'a Value>,
}

/// Calls are answered in the turn that follows them, each by its name.
fn turns(contents: &[&Value]) -> Result<(), Wrong> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for content in contents {
        let model = field(content, "role").and_then(Value::as_str) == Some("model");
        let parts = list(field(content, "parts"));
        match turns.last_mut() {
            Some(turn) if turn.model == model => turn.parts.extend(parts),
            _ => turns.push(Turn { model, parts }),
        }
    }
    let names = |turn: Option<&Turn<'_>>, key: &str| -> Vec<String> {
        let data = turn.into_iter().flat_map(|turn| turn.parts.iter().filter_map(|part| field(part, key)));
        data.map(|data| name(data).to_owned()).collect()
    };
    for (index, turn) in turns.iter().enumerate() {
        let misplaced = if turn.model { "functionResponse" } else { "functionCall" };
        if !names(Some(turn), misplaced).is_empty() {
            return Err(wrong(
                "Please ensure that function call turn comes immediately after a user turn or after a function \
                 response turn.",
            ));
        }
        if turn.model {
            continue;
        }
        let before = index.checked_sub(1).and_then(|before| turns.get(before));
        let (mut calls, responses) = (names(before, "functionCall"), names(Some(turn), "functionResponse"));
        if calls.is_empty() && !responses.is_empty() {
            return Err(wrong(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
        if calls.len() != responses.len() {
            return Err(wrong(
                "Please ensure that the number of function response parts is equal to the number of function call \
                 parts of the function call turn.",
            ));
        }
        for response in responses {
            match calls.iter().position(|call| *call == response) {
                Some(at) => drop(calls.swap_remove(at)),
                None => {
                    return Err(wrong(&format!(
                        "Function response {response} does not match a function call of the function call turn."
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Signatures are this simulator's own, and where the model signs, the first call of each content has one.
fn signatures(contents: &[&Value], model: &str, name: &str) -> Result<(), Wrong> {
    let own = sealed(name);
    for (index, content) in contents.iter().enumerate() {
        let parts = list(field(content, "parts"));
        for part in &parts {
            let signature = field(part, "thoughtSignature").and_then(Value::as_str);
            if signature.is_some_and(|signature| signature != SKIP && !signature.starts_with(&own)) {
                return Err(wrong("Corrupted thought signature."));
            }
        }
        let first = parts.iter().find(|part| field(part, "functionCall").is_some());
        if let Some(part) = first
            && signs(model)
            && field(part, "thoughtSignature").is_none()
        {
            let called = field(part, "functionCall").map(self::name).unwrap_or_default();
            return Err(wrong(&format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                 correctly, and missing thought_signature may lead to degraded model performance. Additional data, \
                 function call `default_api:{called}`, position {}. Please refer to \
                 https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
                index + 1
            )));
        }
    }
    Ok(())
}
