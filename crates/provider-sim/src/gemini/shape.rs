//! The fields of a Gemini request by their place (Gemini API v1beta, `GenerateContentRequest`), as Google reads JSON:
//! each may be named in camel case or in snake case, and one that is not known is an error.

use serde_json::Value;

/// What a field holds.
pub(super) enum Kind {
    Text,
    Number,
    Bool,
    /// Any JSON.
    Any,
    /// A JSON object with any fields.
    Struct,
    /// One of these words.
    Word(&'static [&'static str]),
    Message(Shape),
    /// A `Schema`, which holds others.
    Schema,
    List(&'static Self),
    /// An object of values of one kind, with any keys.
    Map(&'static Self),
}

/// The fields of a message.
pub(super) type Shape = &'static [(&'static str, Kind)];

use Kind::{Any, Bool, List, Map, Message, Number, Schema, Struct, Text, Word};

pub(super) const REQUEST: Shape = &[
    ("model", Text),
    ("contents", List(&Message(CONTENT))),
    ("systemInstruction", Message(CONTENT)),
    ("tools", List(&Message(TOOL))),
    ("toolConfig", Message(TOOL_CONFIG)),
    ("safetySettings", List(&Message(&[("category", Text), ("threshold", Text), ("method", Text)]))),
    ("generationConfig", Message(GENERATION_CONFIG)),
    ("cachedContent", Text),
    ("labels", Map(&Text)),
    ("serviceTier", Text),
    ("store", Bool),
    ("continuationToken", Text),
];

const CONTENT: Shape = &[("role", Text), ("parts", List(&Message(PART)))];

const PART: Shape = &[
    ("text", Text),
    ("thought", Bool),
    ("thoughtSignature", Text),
    ("inlineData", Message(&[("mimeType", Text), ("data", Text), ("displayName", Text)])),
    ("fileData", Message(&[("mimeType", Text), ("fileUri", Text), ("displayName", Text)])),
    ("functionCall", Message(&[("id", Text), ("name", Text), ("args", Struct)])),
    ("functionResponse", Message(FUNCTION_RESPONSE)),
    ("executableCode", Message(&[("id", Text), ("language", Text), ("code", Text)])),
    ("codeExecutionResult", Message(&[("id", Text), ("outcome", Text), ("output", Text)])),
    ("toolCall", Any),
    ("toolResponse", Any),
    ("videoMetadata", Message(&[("startOffset", Text), ("endOffset", Text), ("fps", Number)])),
    ("mediaResolution", Any),
    ("partMetadata", Struct),
];

const FUNCTION_RESPONSE: Shape = &[
    ("id", Text),
    ("name", Text),
    ("response", Struct),
    ("parts", List(&Any)),
    ("willContinue", Bool),
    ("scheduling", Text),
];

const TOOL: Shape = &[
    ("functionDeclarations", List(&Message(DECLARATION))),
    ("googleSearch", Any),
    ("googleSearchRetrieval", Any),
    ("urlContext", Any),
    ("codeExecution", Any),
    ("fileSearch", Any),
    ("googleMaps", Any),
    ("computerUse", Any),
    ("mcpServers", Any),
];

const DECLARATION: Shape = &[
    ("name", Text),
    ("description", Text),
    ("behavior", Text),
    ("parameters", Schema),
    ("parametersJsonSchema", Any),
    ("response", Schema),
    ("responseJsonSchema", Any),
];

/// The subset of OpenAPI that Gemini calls `Schema`.
const SCHEMA: Shape = &[
    ("type", Text),
    ("format", Text),
    ("title", Text),
    ("description", Text),
    ("nullable", Bool),
    ("enum", List(&Text)),
    ("items", Schema),
    ("minItems", Number),
    ("maxItems", Number),
    ("properties", Map(&Schema)),
    ("propertyOrdering", List(&Text)),
    ("required", List(&Text)),
    ("minProperties", Number),
    ("maxProperties", Number),
    ("minimum", Number),
    ("maximum", Number),
    ("minLength", Number),
    ("maxLength", Number),
    ("pattern", Text),
    ("anyOf", List(&Schema)),
    ("default", Any),
    ("example", Any),
];

const TOOL_CONFIG: Shape = &[
    (
        "functionCallingConfig",
        Message(&[
            ("mode", Word(&["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"])),
            ("allowedFunctionNames", List(&Text)),
        ]),
    ),
    ("retrievalConfig", Any),
    ("includeServerSideToolInvocations", Bool),
];

const LEVELS: &[&str] = &["THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"];

const GENERATION_CONFIG: Shape = &[
    ("temperature", Number),
    ("topP", Number),
    ("topK", Number),
    ("candidateCount", Number),
    ("maxOutputTokens", Number),
    ("stopSequences", List(&Text)),
    ("seed", Number),
    ("presencePenalty", Number),
    ("frequencyPenalty", Number),
    ("responseMimeType", Text),
    ("responseSchema", Schema),
    ("responseJsonSchema", Any),
    ("responseModalities", List(&Text)),
    ("responseLogprobs", Bool),
    ("logprobs", Number),
    ("enableEnhancedCivicAnswers", Bool),
    (
        "thinkingConfig",
        Message(&[("includeThoughts", Bool), ("thinkingBudget", Number), ("thinkingLevel", Word(LEVELS))]),
    ),
    ("mediaResolution", Text),
    ("speechConfig", Any),
    ("imageConfig", Any),
];

/// A field that does not fit: where, and what Google says of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) at: String,
    pub(super) description: String,
}

/// Holds a message against its shape; the first field that does not fit is told.
pub(super) fn fits(message: &Value, shape: Shape, at: &str) -> Result<(), Misfit> {
    let Some(fields) = message.as_object() else { return Err(invalid(at, "message", message)) };
    for (key, value) in fields {
        let own = camel(key);
        let Some((name, kind)) = shape.iter().find(|(name, _)| *name == own) else {
            return Err(unknown(key, at, "Cannot find field."));
        };
        if value.is_null() {
            continue;
        }
        let below = if at.is_empty() { snake(name) } else { format!("{at}.{}", snake(name)) };
        match (kind, value) {
            (List(one), Value::Array(list)) => {
                for (index, value) in list.iter().enumerate() {
                    holds(value, one, &format!("{below}[{index}]"))?;
                }
            }
            // A single value stands for a list of one.
            (List(one), value) => holds(value, one, &format!("{below}[0]"))?,
            (Any, _) => {}
            (_, Value::Array(_)) => {
                return Err(unknown(key, at, "Proto field is not repeating, cannot start list."));
            }
            (kind, value) => holds(value, kind, &below)?,
        }
    }
    Ok(())
}

fn holds(value: &Value, kind: &Kind, at: &str) -> Result<(), Misfit> {
    match kind {
        Any | List(_) => Ok(()),
        Text if value.is_string() => Ok(()),
        Text => Err(invalid(at, "TYPE_STRING", value)),
        Bool if value.is_boolean() => Ok(()),
        Bool => Err(invalid(at, "TYPE_BOOL", value)),
        Number if value.is_number() => Ok(()),
        // A number may be written as a text.
        Number if value.as_str().is_some_and(|text| text.parse::<f64>().is_ok()) => Ok(()),
        Number => Err(invalid(at, "TYPE_INT32", value)),
        Struct if value.is_object() => Ok(()),
        Struct => Err(invalid(at, "type.googleapis.com/google.protobuf.Struct", value)),
        Word(words) if value.as_str().is_some_and(|word| words.contains(&word)) => Ok(()),
        Word(_) => Err(invalid(at, "TYPE_ENUM", value)),
        Message(shape) => fits(value, shape, at),
        Schema => fits(value, SCHEMA, at),
        Map(one) => {
            let Some(map) = value.as_object() else { return Err(invalid(at, "map", value)) };
            for (index, value) in map.values().enumerate() {
                holds(value, one, &format!("{at}[{index}].value"))?;
            }
            Ok(())
        }
    }
}

fn unknown(key: &str, at: &str, why: &str) -> Misfit {
    let place = if at.is_empty() { String::new() } else { format!(" at '{at}'") };
    let description = format!("Invalid JSON payload received. Unknown name \"{key}\"{place}: {why}");
    Misfit { at: at.to_owned(), description }
}

fn invalid(at: &str, expected: &str, value: &Value) -> Misfit {
    Misfit { at: at.to_owned(), description: format!("Invalid value at '{at}' ({expected}), {value}") }
}

/// A field of an object, in either spelling.
pub(super) fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| object.get(snake(name))).filter(|value| !value.is_null())
}

/// `functionCall` as `function_call`.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

/// `function_call` as `functionCall`.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut raise = false;
    for character in name.chars() {
        match (character, raise) {
            ('_', _) => raise = true,
            (character, true) => {
                out.push(character.to_ascii_uppercase());
                raise = false;
            }
            (character, false) => out.push(character),
        }
    }
    out
}
