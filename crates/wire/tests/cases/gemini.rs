//! What Gemini alone asks for, and what its clients alone write.

use super::*;

const GEMINI: Dialect = Dialect::Gemini;

/// The value that Google documents for a call whose seal is not there (Gemini API documentation, "Thought signatures").
const UNSEALED: &str = "skip_thought_signature_validator";

fn parts_of(body: &Value, role: &str) -> Vec<Value> {
    let contents = body["contents"].as_array().unwrap();
    let of_role = contents.iter().filter(|content| content["role"] == role);
    of_role.flat_map(|content| content["parts"].as_array().unwrap().clone()).collect()
}

/// C044: a conversation that lost the seals of its calls goes on in Google's documented way: the value stands on the first
/// call of a step, where Gemini's own seal would be.
#[test]
fn c044_calls_without_their_seals_are_taken_back() {
    let body = chat(vec![user("weather?"), calls(&["a", "b"]), result("a"), result("b")]);
    let (body, _) = sent(&body, CHAT, GEMINI, "gemini-3-pro");
    let called = parts_of(&body, "model");
    assert_eq!(called.len(), 2);
    assert_eq!(called[0]["thoughtSignature"], UNSEALED);
    assert!(called.iter().all(|part| part.get("functionCall").is_some()));
    let answered = parts_of(&body, "user");
    assert_eq!(answered.iter().filter(|part| part.get("functionResponse").is_some()).count(), 2);
}

/// C044: the seal of a call is handed to a client of another dialect beside that call, and comes back on no other.
#[test]
fn c044_a_seal_stays_with_its_call() {
    let provider = json!({ "responseId": "r1", "modelVersion": "gemini-3-pro", "candidates": [{
        "index": 0, "finishReason": "STOP",
        "content": { "role": "model", "parts": [
            { "functionCall": { "id": "a", "name": "get_weather", "args": { "city": "Oslo" } }, "thoughtSignature": "U0VBTA==" },
            { "functionCall": { "id": "b", "name": "get_weather", "args": { "city": "Bergen" } } },
        ] },
    }], "usageMetadata": { "promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7 } });
    let back = Back { origin: "0451".into(), ..Back::default() };
    let told = answer(provider.to_string().as_bytes(), GEMINI, MESSAGES, &back).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    let kinds: Vec<_> =
        told["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "tool_use", "tool_use"]);

    let results: Vec<_> = told["content"].as_array().unwrap()[1..]
        .iter()
        .map(|call| json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "rain" }))
        .collect();
    let next = json!({ "model": "m", "max_tokens": 100, "messages": [
        { "role": "user", "content": "weather?" },
        { "role": "assistant", "content": told["content"] },
        { "role": "user", "content": results },
    ] });
    let (body, _) = sent(&next, MESSAGES, GEMINI, "gemini-3-pro");
    let called = parts_of(&body, "model");
    let city = |part: &Value| part["functionCall"]["args"]["city"].as_str().map(str::to_owned);
    assert_eq!(called.iter().filter_map(city).collect::<Vec<_>>(), ["Oslo", "Bergen"]);
    assert_eq!(called[0]["thoughtSignature"], "U0VBTA==");
    assert_eq!(called[1].get("thoughtSignature"), None);
}

/// C045: a schema of any keywords reaches Gemini in the field that takes JSON Schema, with each property's name, also
/// one that is called like a keyword, and so the same every time.
#[test]
fn c045_schemas_of_tools_are_json_schema_to_gemini() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "additionalProperties": false, "required": ["const", "missing"], "$defs": { "n": { "type": "integer" } },
        "properties": {
            "const": { "const": "x" }, "default": { "type": ["string", "null"], "default": "d" },
            "format": { "type": "string", "format": "uri" }, "propertyNames": { "type": "array" },
            "$ref": { "$ref": "#/$defs/n" }, "steps": { "type": "integer", "multipleOf": 5, "enum": [5, 10] },
            "any": { "allOf": [{ "type": "object" }], "patternProperties": { "^x": {} }, "uniqueItems": true },
        },
    });
    let mut body = chat(vec![user("go")]);
    body["tools"] = json!([{ "type": "function", "function": { "name": "f", "parameters": schema } }]);
    let (once, losses) = sent(&body, CHAT, GEMINI, "gemini-2.5-pro");
    let declared = &once["tools"][0]["functionDeclarations"][0];
    assert_eq!(declared["parametersJsonSchema"], schema);
    assert_eq!(declared.get("parameters"), None);
    assert!(losses.is_empty(), "{losses:?}");
    assert_eq!(sent(&body, CHAT, GEMINI, "gemini-2.5-pro").0, once);
}

/// C045: what a tool answered is its own text, whatever it looks like.
#[test]
fn c045_a_result_that_looks_like_a_schema_is_a_result() {
    let mut answered = result("a");
    answered["content"] = json!("{\"$ref\": \"#/definitions/x\", \"const\": 1}");
    let body = chat(vec![user("weather?"), calls(&["a"]), answered]);
    let (body, _) = sent(&body, CHAT, GEMINI, "gemini-3-pro");
    let answered =
        parts_of(&body, "user").into_iter().find(|part| part.get("functionResponse").is_some()).unwrap();
    assert!(answered.to_string().contains("#/definitions/x"), "{answered}");
}

/// C052: a form of the answer beside tools is refused by its place for the models that refuse it, before they are asked.
#[test]
fn c052_a_form_beside_tools_is_refused_for_older_models() {
    let mut body = chat(vec![user("weather?")]);
    body["tools"] = tools();
    body["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "r", "schema": { "type": "object" } } });
    let refused = written(&body, CHAT, GEMINI, "gemini-2.5-pro").unwrap_err();
    assert!(place_of(refused).starts_with("/response_format"));
    let (body, _) = sent(&body, CHAT, GEMINI, "gemini-3-pro");
    assert_eq!(body["generationConfig"]["responseJsonSchema"], json!({ "type": "object" }));
    assert!(body["tools"][0]["functionDeclarations"][0]["name"].is_string());
}

/// Google's SDKs write bytes in the alphabet for addresses; the other dialects take the standard one alone (RFC 4648).
#[test]
fn bytes_of_googles_sdks_are_read_by_everyone() {
    let body = json!({ "contents": [{ "role": "user", "parts": [
        { "text": "What is this?" }, { "inlineData": { "mime_type": "image/png", "data": "-_-_AA" } },
    ] }] });
    let (chat, _) = sent(&body, GEMINI, CHAT, "gpt-4o");
    assert_eq!(chat["messages"][0]["content"][1]["image_url"]["url"], "data:image/png;base64,+/+/AA==");
    let (messages, _) = sent(&body, GEMINI, MESSAGES, "claude-opus-5-5");
    assert_eq!(messages["messages"][0]["content"][1]["source"]["data"], "+/+/AA==");
}
