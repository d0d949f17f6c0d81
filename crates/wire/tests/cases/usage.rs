//! How many tokens it took is the same number in each dialect, and counted once.

use super::*;

const GEMINI: Dialect = Dialect::Gemini;

fn told(provider: &Value, from: Dialect, into: Dialect) -> Value {
    let back = Back { origin: "0451".into(), include_usage: true, ..Back::default() };
    let written = answer(provider.to_string().as_bytes(), from, into, &back).unwrap();
    serde_json::from_slice::<Value>(&written).unwrap()
}

fn completion() -> Value {
    json!({ "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "Rain." } }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 300, "total_tokens": 310,
            "prompt_tokens_details": { "cached_tokens": 4 }, "completion_tokens_details": { "reasoning_tokens": 256 } } })
}

/// C072: reasoning is part of the output of Chat Completions, Responses and Messages, and stands beside it in Gemini.
#[test]
fn c072_reasoning_is_counted_once_from_chat() {
    let responses = told(&completion(), CHAT, RESPONSES);
    assert_eq!(responses["usage"]["output_tokens"], 300);
    assert_eq!(responses["usage"]["output_tokens_details"]["reasoning_tokens"], 256);
    assert_eq!(responses["usage"]["total_tokens"], 310);
    assert_eq!(responses["usage"]["input_tokens_details"]["cached_tokens"], 4);

    let messages = told(&completion(), CHAT, MESSAGES);
    assert_eq!(messages["usage"]["output_tokens"], 300);
    assert_eq!(messages["usage"]["input_tokens"], 6, "cached ones stand apart");
    assert_eq!(messages["usage"]["cache_read_input_tokens"], 4);

    let gemini = told(&completion(), CHAT, GEMINI);
    assert_eq!(gemini["usageMetadata"]["thoughtsTokenCount"], 256);
    assert_eq!(gemini["usageMetadata"]["candidatesTokenCount"], 44);
    assert_eq!(gemini["usageMetadata"]["promptTokenCount"], 10);
    assert_eq!(gemini["usageMetadata"]["totalTokenCount"], 310);
}

/// C072: and back again.
#[test]
fn c072_reasoning_is_counted_once_from_gemini() {
    let provider = json!({ "responseId": "r1", "modelVersion": "gemini-3-pro",
        "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [{ "text": "Rain." }] } }],
        "usageMetadata": { "promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 44,
            "thoughtsTokenCount": 256, "totalTokenCount": 310 } });
    let chat = told(&provider, GEMINI, CHAT);
    assert_eq!(chat["usage"]["completion_tokens"], 300);
    assert_eq!(chat["usage"]["completion_tokens_details"]["reasoning_tokens"], 256);
    assert_eq!(chat["usage"]["total_tokens"], 310);
    let responses = told(&provider, GEMINI, RESPONSES);
    assert_eq!(responses["usage"]["output_tokens"], 300);
    assert_eq!(responses["usage"]["output_tokens_details"]["reasoning_tokens"], 256);
    assert_eq!(told(&provider, GEMINI, MESSAGES)["usage"]["output_tokens"], 300);
}
