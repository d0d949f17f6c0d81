//! The fields of a Gemini request by their place (Gemini API v1beta, `GenerateContentRequest`).

use crate::fields::Kind::{Any, Bool, Deferred, List, Map, Message, Number, Struct, Text, Word};
use crate::fields::Shape;

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
    ("parameters", Deferred(schema)),
    ("parametersJsonSchema", Any),
    ("response", Deferred(schema)),
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
    ("items", Deferred(schema)),
    ("minItems", Number),
    ("maxItems", Number),
    ("properties", Map(&Deferred(schema))),
    ("propertyOrdering", List(&Text)),
    ("required", List(&Text)),
    ("minProperties", Number),
    ("maxProperties", Number),
    ("minimum", Number),
    ("maximum", Number),
    ("minLength", Number),
    ("maxLength", Number),
    ("pattern", Text),
    ("anyOf", List(&Deferred(schema))),
    ("default", Any),
    ("example", Any),
];

fn schema() -> Shape {
    SCHEMA
}

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
    ("responseSchema", Deferred(schema)),
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
