//! The fields of a Converse request by their place (Amazon Bedrock API, `Converse`).

use crate::fields::Kind::{Any, Bool, List, Map, Message, Number, Struct, Text, Word};
use crate::fields::Shape;

pub(super) const REQUEST: Shape = &[
    ("messages", List(&Message(MESSAGE))),
    ("system", List(&Message(SYSTEM))),
    ("inferenceConfig", Message(INFERENCE)),
    ("toolConfig", Message(TOOL_CONFIG)),
    ("additionalModelRequestFields", Struct),
    ("additionalModelResponseFieldPaths", List(&Text)),
    ("guardrailConfig", Any),
    ("outputConfig", Message(OUTPUT_CONFIG)),
    ("performanceConfig", Message(&[("latency", Text)])),
    ("promptVariables", Any),
    ("requestMetadata", Map(&Text)),
    ("serviceTier", Message(&[("type", Word(&["priority", "default", "flex", "reserved"]))])),
];

const MESSAGE: Shape = &[("role", Text), ("content", List(&Message(BLOCK)))];

/// A content block: exactly one of these.
pub(super) const BLOCK: Shape = &[
    ("text", Text),
    ("image", Message(IMAGE)),
    ("document", Message(DOCUMENT)),
    ("video", Any),
    ("audio", Any),
    ("toolUse", Message(&[("toolUseId", Text), ("name", Text), ("input", Any), ("type", Text)])),
    ("toolResult", Message(TOOL_RESULT)),
    ("guardContent", Any),
    ("cachePoint", Message(CACHE_POINT)),
    ("reasoningContent", Message(REASONING)),
    ("citationsContent", Any),
    ("searchResult", Any),
];

const IMAGE: Shape = &[
    ("format", Word(&["png", "jpeg", "gif", "webp"])),
    ("source", Message(&[("bytes", Text), ("s3Location", Any)])),
];

const DOCUMENT: Shape = &[
    ("format", Text),
    ("name", Text),
    ("source", Message(&[("bytes", Text), ("s3Location", Any), ("text", Text), ("content", Any)])),
    ("context", Text),
    ("citations", Any),
];

const TOOL_RESULT: Shape = &[
    ("toolUseId", Text),
    (
        "content",
        List(&Message(&[
            ("json", Struct),
            ("text", Text),
            ("image", Message(IMAGE)),
            ("document", Message(DOCUMENT)),
            ("video", Any),
            ("searchResult", Any),
        ])),
    ),
    ("status", Word(&["success", "error"])),
    ("type", Text),
];

const REASONING: Shape =
    &[("reasoningText", Message(&[("text", Text), ("signature", Text)])), ("redactedContent", Text)];

const CACHE_POINT: Shape = &[("type", Word(&["default"])), ("ttl", Word(&["5m", "1h"]))];

const SYSTEM: Shape = &[("text", Text), ("guardContent", Any), ("cachePoint", Message(CACHE_POINT))];

const INFERENCE: Shape =
    &[("maxTokens", Number), ("temperature", Number), ("topP", Number), ("stopSequences", List(&Text))];

const TOOL_CONFIG: Shape = &[
    ("tools", List(&Message(TOOL))),
    (
        "toolChoice",
        Message(&[("auto", Message(&[])), ("any", Message(&[])), ("tool", Message(&[("name", Text)]))]),
    ),
];

const TOOL: Shape = &[
    (
        "toolSpec",
        Message(&[
            ("name", Text),
            ("description", Text),
            ("inputSchema", Message(&[("json", Struct)])),
            ("strict", Bool),
        ]),
    ),
    ("systemTool", Message(&[("name", Text)])),
    ("cachePoint", Message(CACHE_POINT)),
];

const OUTPUT_CONFIG: Shape = &[
    (
        "textFormat",
        Message(&[
            ("type", Word(&["json_schema"])),
            (
                "structure",
                Message(&[(
                    "jsonSchema",
                    Message(&[("schema", Text), ("name", Text), ("description", Text)]),
                )]),
            ),
        ]),
    ),
    ("effort", Text),
];
