//! What Gemini's endpoints refuse of a request, and what they take.

use pointsman_provider_sim::{Script, Sim, SimConfig};
use serde_json::{Value, json};

use crate::gemini::{Way, generate, hi};
use crate::raw::exchange;
use crate::sim;

/// The status and the error that a request to this model gets.
async fn sent(model: &str, body: Value) -> (u16, Value) {
    let sim = sim(Script::healthy()).await;
    let seen = exchange(sim.addr(), &generate(model, Way::Whole, body)).await;
    (seen.status, seen.json()["error"].clone())
}

/// The sentence that a request with these fields is refused with.
async fn refused(fields: Value) -> String {
    let mut body = hi();
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    let (status, error) = sent("gemini-2.5-flash", body).await;
    assert_eq!(
        (status, &error["code"], &error["status"]),
        (400, &json!(400), &json!("INVALID_ARGUMENT")),
        "{fields}"
    );
    error["message"].as_str().unwrap().to_owned()
}

fn user(part: Value) -> Value {
    json!({"role": "user", "parts": [part]})
}

fn model(part: Value) -> Value {
    json!({"role": "model", "parts": [part]})
}

fn called(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {}}})
}

fn answered(name: &str) -> Value {
    json!({"functionResponse": {"name": name, "response": {"output": "1"}}})
}

#[tokio::test]
async fn a_conversation_of_all_that_a_translator_writes_is_taken() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}, "required": ["a"]});
    let body = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            user(json!({"text": "What is this?"})),
            user(json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}})),
            model(json!({"text": "Hm", "thought": true})),
            model(called("f")),
            model(called("g")),
            {"role": "user", "parts": [answered("g"), answered("f"), {"text": "Go on."}]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "f", "description": "F", "parameters": schema},
            {"name": "g", "parametersJsonSchema": {"type": "object", "additionalProperties": false}},
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {
            "temperature": 1, "topP": 0.9, "topK": 40, "maxOutputTokens": 10, "stopSequences": ["a"],
            "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": -1},
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
    });
    assert_eq!(sent("gemini-2.5-flash", body).await, (200, Value::Null));
    let snake = json!({
        "system_instruction": {"parts": {"text": "Be brief."}}, "contents": {"parts": {"text": "Hi"}},
        "generation_config": {"max_output_tokens": "10"},
    });
    assert_eq!(sent("gemini-2.5-flash", snake).await, (200, Value::Null));
}

#[tokio::test]
async fn unknown_names_are_refused_with_their_place() {
    for (fields, name, at) in [
        (json!({"messages": []}), "messages", ""),
        (json!({"max_tokens": 5}), "max_tokens", ""),
        (json!({"generationConfig": {"max_tokens": 5}}), "max_tokens", "generation_config"),
        (
            json!({"contents": [{"role": "user", "parts": [{"text": "a", "cache_control": {}}]}]}),
            "cache_control",
            "contents[0].parts[0]",
        ),
        (
            json!({"contents": [user(json!({"functionResponse": {"name": "f", "response": {}, "tool_use_id": "1"}}))]}),
            "tool_use_id",
            "contents[0].parts[0].function_response",
        ),
        (
            json!({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "object", "additionalProperties": false}}]}]}),
            "additionalProperties",
            "tools[0].function_declarations[0].parameters",
        ),
        (
            json!({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"properties": {"a": {"const": 1}}}}]}]}),
            "const",
            "tools[0].function_declarations[0].parameters.properties[0].value",
        ),
        (json!({"tools": [{"name": "f"}]}), "name", "tools[0]"),
    ] {
        let mut body = hi();
        for (key, value) in fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        let (status, error) = sent("m", body).await;
        let place = if at.is_empty() { String::new() } else { format!(" at '{at}'") };
        let message =
            format!("Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field.");
        assert_eq!((status, &error["message"]), (400, &json!(message)));
        let violation = &error["details"][0]["fieldViolations"][0];
        assert_eq!(error["details"][0]["@type"], "type.googleapis.com/google.rpc.BadRequest");
        assert_eq!(violation["description"], message);
        assert_eq!(violation.get("field").and_then(Value::as_str).unwrap_or_default(), at);
    }
}

#[tokio::test]
async fn values_of_the_wrong_kind_are_refused() {
    let list_type = json!({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": ["string", "null"]}}]}]});
    assert_eq!(
        refused(list_type).await,
        "Invalid JSON payload received. Unknown name \"type\" at 'tools[0].function_declarations[0].parameters': Proto \
         field is not repeating, cannot start list."
    );
    let text = json!({"contents": [user(json!({"functionResponse": {"name": "f", "response": "1"}}))]});
    assert_eq!(
        refused(text).await,
        "Invalid value at 'contents[0].parts[0].function_response.response' \
         (type.googleapis.com/google.protobuf.Struct), \"1\""
    );
    let mode = refused(json!({"toolConfig": {"functionCallingConfig": {"mode": "auto"}}})).await;
    assert!(mode.starts_with("Invalid value at 'tool_config.function_calling_config.mode'"), "{mode}");
    let arguments = json!({"contents": [model(json!({"functionCall": {"name": "f", "args": "{}"}}))]});
    assert!(
        refused(arguments).await.starts_with("Invalid value at 'contents[0].parts[0].function_call.args'")
    );
    assert!(
        refused(json!({"generationConfig": {"temperature": "warm"}})).await.starts_with("Invalid value at")
    );
    assert!(refused(json!({"generationConfig": {"temperature": 3}})).await.contains("[0.0, 2.0]"));
}

#[tokio::test]
async fn contents_have_a_valid_role_and_parts_with_one_datum_each() {
    for (contents, message) in [
        (json!([]), "contents is not specified"),
        (json!([{"role": "assistant", "parts": [{"text": "a"}]}]), "Please use a valid role: user, model."),
        (json!([{"role": "user", "parts": []}]), "contents[0].parts: contents.parts must not be empty."),
        (json!([user(json!({"thought": true}))]), "contents[0].parts[0].data: required oneof field 'data'"),
        (
            json!([user(json!({"text": "a", "functionCall": {"name": "f"}}))]),
            "oneof field 'data' is already set",
        ),
        (json!([model(json!({"functionCall": {"args": {}}}))]), "function_call.name: Name cannot be empty."),
    ] {
        let said = refused(json!({ "contents": contents })).await;
        assert!(said.contains(message), "{said}");
    }
}

#[tokio::test]
async fn calls_are_answered_by_name_in_the_turn_that_follows() {
    for (contents, message) in [
        (json!([user(answered("f"))]), "function response turn comes immediately after a function call turn"),
        (
            json!([model(called("f")), user(json!({"text": "a"}))]),
            "the number of function response parts is equal",
        ),
        (
            json!([{"role": "model", "parts": [called("f"), called("g")]}, user(answered("f"))]),
            "the number of function response parts is equal",
        ),
        (json!([model(called("f")), user(answered("call_1"))]), "call_1 does not match a function call"),
        (json!([user(called("f"))]), "function call turn comes immediately after a user turn"),
    ] {
        let said = refused(json!({ "contents": contents })).await;
        assert!(said.contains(message), "{said}");
    }
}

#[tokio::test]
async fn functions_have_valid_names_once_and_a_choice_among_them() {
    let declared = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"functionDeclarations": [{ "name": name }]})).collect()
    };
    let with =
        |config: Value| json!({"tools": declared(&["f"]), "toolConfig": {"functionCallingConfig": config}});
    for (fields, message) in [
        (json!({"tools": declared(&["1f"])}), "Invalid function name."),
        (json!({"tools": declared(&["a b"])}), "Invalid function name."),
        (json!({"tools": declared(&["f", "f"])}), "Duplicate function declaration found: f"),
        (
            json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
            "is set without function_declarations",
        ),
        (
            with(json!({"mode": "AUTO", "allowedFunctionNames": ["f"]})),
            "only be set when function calling mode is ANY",
        ),
        (
            with(json!({"mode": "ANY", "allowedFunctionNames": ["g"]})),
            "g is not in the function declarations",
        ),
        (
            json!({"generationConfig": {"stopSequences": ["a", "b", "c", "d", "e", "f"]}}),
            "at most 5 stop sequences",
        ),
        (json!({"generationConfig": {"responseSchema": {"type": "OBJECT"}}}), "response mime type"),
        (
            json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}}),
            "only one of thinking budget and thinking level",
        ),
    ] {
        let said = refused(fields).await;
        assert!(said.contains(message), "{said}");
    }
}

#[tokio::test]
async fn gemini_3_takes_its_calls_back_only_with_its_own_signature_or_the_documented_escape() {
    let sim = sim(Script::healthy().tool_call("f", "{}").tool_call("g", "{}")).await;
    let ask = |contents: Value| generate("gemini-3-pro", Way::Whole, json!({ "contents": contents }));
    let made = exchange(sim.addr(), &ask(hi()["contents"].clone())).await.json();
    let said = made["candidates"][0]["content"].clone();
    let answers = json!({"role": "user", "parts": [answered("f"), answered("g")]});
    let replay = |said: &Value| ask(json!([user(json!({"text": "Hi"})), said, answers]));
    assert_eq!(exchange(sim.addr(), &replay(&said)).await.status, 200);

    let mut unsigned = said.clone();
    unsigned["parts"][0].as_object_mut().unwrap().remove("thoughtSignature");
    let refused = exchange(sim.addr(), &replay(&unsigned)).await;
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(refused.status, 400);
    assert!(
        message.contains("missing a thought_signature") && message.contains("`default_api:f`, position 2"),
        "{message}"
    );
    let old = generate(
        "gemini-2.5-pro",
        Way::Whole,
        json!({"contents": [user(json!({"text": "Hi"})), unsigned, answers]}),
    );
    assert_eq!(exchange(sim.addr(), &old).await.status, 200);

    unsigned["parts"][0]["thoughtSignature"] = json!("skip_thought_signature_validator");
    assert_eq!(exchange(sim.addr(), &replay(&unsigned)).await.status, 200);
    let elsewhere = Sim::start(SimConfig::named("other")).await.unwrap();
    let foreign = exchange(elsewhere.addr(), &replay(&said)).await;
    assert_eq!(
        (foreign.status, &foreign.json()["error"]["message"]),
        (400, &json!("Corrupted thought signature."))
    );
}

#[tokio::test]
async fn nothing_is_kept_and_a_body_that_is_no_json_is_refused() {
    let mut cached = hi();
    cached["cachedContent"] = json!("cachedContents/1");
    let (status, error) = sent("m", cached).await;
    assert_eq!((status, &error["status"]), (403, &json!("PERMISSION_DENIED")));
    let sim = sim(Script::healthy()).await;
    let broken = crate::raw::request("POST", "/v1beta/models/m:streamGenerateContent", "{");
    let seen = exchange(sim.addr(), &broken).await;
    assert_eq!((seen.status, &seen.json()[0]["error"]["status"]), (400, &json!("INVALID_ARGUMENT")));
}
