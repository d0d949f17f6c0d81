//! What the Responses endpoint refuses of a request, and what it takes.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::raw::exchange;
use crate::responses::responses;
use crate::sim;

/// The status and the error that a request with these fields gets.
async fn asked(fields: Value) -> (u16, Value) {
    let sim = sim(Script::healthy()).await;
    let mut body = json!({"model": "m", "input": "Hi"});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    let seen = exchange(sim.addr(), &responses(body)).await;
    let error = serde_json::from_slice::<Value>(&seen.body).map_or(Value::Null, |body| body["error"].clone());
    (seen.status, error)
}

/// Each of these is refused with this parameter and this code.
async fn refused(cases: Vec<(Value, &str, Value)>) {
    for (fields, param, code) in cases {
        let (status, error) = asked(fields.clone()).await;
        assert_eq!(
            (status, &error["param"], &error["code"]),
            (400, &json!(param), &code),
            "{fields}: {error}"
        );
        assert_eq!(error["type"], "invalid_request_error");
    }
}

fn user() -> Value {
    json!({"role": "user", "content": "Hi"})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "1"})
}

fn tool() -> Value {
    json!({"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}})
}

#[tokio::test]
async fn a_conversation_of_all_that_a_translator_writes_is_taken() {
    let input = json!([
        {"role": "system", "content": "Be brief."},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Use tools."}]},
        {"role": "user", "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
        ]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        call("call_1"),
        {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "+ a"},
        output("call_1"),
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "ok"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "user", "content": "Go on."},
    ]);
    let (status, error) = asked(json!({
        "input": input, "instructions": "Be kind.", "stream": true, "store": false,
        "stream_options": {"include_obfuscation": false}, "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 16, "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}, "verbosity": "low"},
        "tools": [tool(), {"type": "custom", "name": "patch"}, {"type": "web_search"}],
        "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
        "client_metadata": {"a": "b"},
    }))
    .await;
    assert_eq!((status, error), (200, Value::Null));
}

#[tokio::test]
async fn fields_of_chat_completions_are_told_where_they_have_gone() {
    for (key, now) in [
        ("messages", "input"),
        ("max_tokens", "max_output_tokens"),
        ("max_completion_tokens", "max_output_tokens"),
        ("response_format", "text.format"),
        ("reasoning_effort", "reasoning.effort"),
    ] {
        let (status, error) = asked(json!({ key: "any" })).await;
        let message = error["message"].as_str().unwrap();
        assert_eq!(
            (status, &error["code"], &error["param"]),
            (400, &json!("unsupported_parameter"), &json!(key))
        );
        assert!(message.contains(&format!("has moved to '{now}'")), "{message}");
    }
    refused(vec![
        (json!({"stop": ["a"]}), "stop", json!("unknown_parameter")),
        (json!({"n": 1}), "n", json!("unknown_parameter")),
        (
            json!({"stream": true, "stream_options": {"include_usage": true}}),
            "stream_options.include_usage",
            json!("unknown_parameter"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn values_of_the_wrong_kind_or_out_of_range_are_refused() {
    let schema = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {}}});
    refused(vec![
        (json!({"max_output_tokens": 15}), "max_output_tokens", json!("integer_below_min_value")),
        (json!({"temperature": 2.5}), "temperature", json!("decimal_above_max_value")),
        (json!({"temperature": "1"}), "temperature", json!("invalid_type")),
        (json!({"stream": "yes"}), "stream", json!("invalid_type")),
        (json!({"stream_options": {}}), "stream_options", Value::Null),
        (json!({"include": ["usage"]}), "include[0]", json!("invalid_value")),
        (json!({"reasoning": {"effort": "huge"}}), "reasoning.effort", json!("invalid_value")),
        (json!({"text": {"format": schema}}), "text.format.json_schema", json!("unknown_parameter")),
        (
            json!({"text": {"format": {"type": "json_schema", "schema": {}}}}),
            "text.format.name",
            json!("missing_required_parameter"),
        ),
        (json!({"input": null}), "input", json!("missing_required_parameter")),
        (json!({"input": []}), "input", json!("empty_array")),
        (json!({"input": {"role": "user"}}), "input", json!("invalid_type")),
        (
            json!({"previous_response_id": "resp_1"}),
            "previous_response_id",
            json!("previous_response_not_found"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn tools_are_flat_and_a_choice_names_one_of_them() {
    let nested = json!({"type": "function", "function": {"name": "f"}});
    let strict = |parameters: Value| json!([{"type": "function", "name": "f", "strict": true, "parameters": parameters}]);
    let open = json!({"type": "object", "properties": {}});
    let optional = json!({
        "type": "object", "properties": {"a": {"type": "string"}}, "required": [], "additionalProperties": false,
    });
    refused(vec![
        (json!({"tools": [nested]}), "tools[0].name", json!("missing_required_parameter")),
        (
            json!({"tools": [{"type": "function", "name": "f", "input_schema": {}}]}),
            "tools[0].input_schema",
            json!("unknown_parameter"),
        ),
        (json!({"tools": [{"type": "function", "name": "a b"}]}), "tools[0].name", json!("invalid_value")),
        (
            json!({"tools": [{"type": "function", "name": "f".repeat(65)}]}),
            "tools[0].name",
            json!("string_above_max_length"),
        ),
        (
            json!({"tools": [{"name": "f", "input_schema": {}}]}),
            "tools[0].type",
            json!("missing_required_parameter"),
        ),
        (json!({"tools": [{"type": "tool"}]}), "tools[0].type", json!("invalid_value")),
        (json!({"tools": strict(open)}), "tools[0].parameters", json!("invalid_function_parameters")),
        (json!({"tools": strict(optional)}), "tools[0].parameters", json!("invalid_function_parameters")),
        (
            json!({"tools": [tool()], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
            "tool_choice.name",
            json!("missing_required_parameter"),
        ),
        (
            json!({"tools": [tool()], "tool_choice": {"type": "function", "name": "g"}}),
            "tool_choice",
            json!("invalid_value"),
        ),
        (json!({"tools": [tool()], "tool_choice": "any"}), "tool_choice", json!("invalid_value")),
        (json!({"tool_choice": "required"}), "tool_choice", json!("invalid_value")),
    ])
    .await;
}

#[tokio::test]
async fn content_parts_go_with_their_role() {
    let said = |role: &str, part: Value| json!({"input": [{"role": role, "content": [part]}]});
    let (_, error) = asked(said("assistant", json!({"type": "input_text", "text": "a"}))).await;
    assert_eq!(
        (&error["message"], &error["param"]),
        (
            &json!("Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."),
            &json!("input[0].content[0]")
        )
    );
    let image = json!({"type": "input_image", "image_url": {"url": "data:"}});
    let (_, error) = asked(said("user", image)).await;
    assert_eq!(
        error["message"],
        "Invalid type for 'input[0].content[0].image_url': expected an image URL, but got an object instead."
    );
    refused(vec![
        (said("user", json!({"type": "text", "text": "a"})), "input[0].content[0]", json!("invalid_value")),
        (
            said("user", json!({"type": "output_text", "text": "a"})),
            "input[0].content[0]",
            json!("invalid_value"),
        ),
        (
            said("user", json!({"type": "input_text", "text": "a", "cache_control": {}})),
            "input[0].content[0].cache_control",
            json!("unknown_parameter"),
        ),
        (
            said("user", json!({"type": "input_text"})),
            "input[0].content[0].text",
            json!("missing_required_parameter"),
        ),
        (
            said("user", json!({"type": "input_image"})),
            "input[0].content[0].image_url",
            json!("missing_required_parameter"),
        ),
        (said("tool", json!({"type": "input_text", "text": "a"})), "input[0].role", json!("invalid_value")),
        (json!({"input": [{"role": "user", "content": null}]}), "input[0].content", json!("invalid_type")),
        (
            json!({"input": [{"role": "assistant", "content": "", "tool_calls": []}]}),
            "input[0].tool_calls",
            json!("unknown_parameter"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn calls_and_their_outputs_belong_together() {
    let (_, error) = asked(json!({"input": [user(), call("call_1")]})).await;
    assert_eq!(error["message"], "No tool output found for function call call_1.");
    let (_, error) = asked(json!({"input": [output("call_9"), user()]})).await;
    assert_eq!(error["message"], "No tool call found for function call output with call_id call_9.");
    let custom = json!({"type": "custom_tool_call_output", "call_id": "call_1", "output": ""});
    let (_, error) = asked(json!({"input": [call("call_1"), custom]})).await;
    assert_eq!(error["message"], "No tool output found for function call call_1.");
    let long = "c".repeat(65);
    let (_, error) = asked(json!({"input": [call(&long), output(&long)]})).await;
    assert_eq!(
        (&error["message"], &error["param"], &error["code"]),
        (
            &json!(
                "Invalid 'input[0].call_id': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."
            ),
            &json!("input[0].call_id"),
            &json!("string_above_max_length")
        )
    );
    let longest = "c".repeat(64);
    assert_eq!(asked(json!({"input": [call(&longest), output(&longest)]})).await.0, 200);
}

#[tokio::test]
async fn items_have_their_own_fields_types_and_ids() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut own = call("call_1");
        change(&mut own);
        json!({"input": [own, output("call_1")]})
    };
    refused(vec![
        (with(&|own| own["arguments"] = json!({})), "input[0].arguments", json!("invalid_type")),
        (with(&|own| own["id"] = json!("toolu_1")), "input[0].id", json!("invalid_value")),
        (with(&|own| own["call_id"] = json!("")), "input[0].call_id", json!("empty_string")),
        (with(&|own| own["name"] = json!("a.b")), "input[0].name", json!("invalid_value")),
        (with(&|own| own["function"] = json!({})), "input[0].function", json!("unknown_parameter")),
        (json!({"input": [{"type": "tool_result"}]}), "input[0].type", json!("invalid_value")),
        (json!({"input": [{"content": "Hi"}]}), "input[0].type", json!("missing_required_parameter")),
        (json!({"input": ["Hi"]}), "input[0]", json!("invalid_type")),
    ])
    .await;
    let twice = json!({"id": "msg_1", "role": "assistant", "content": "a"});
    let (_, error) = asked(json!({"input": [twice, twice]})).await;
    assert!(error["message"].as_str().unwrap().starts_with("Duplicate item found with id msg_1."));
}

#[tokio::test]
async fn reasoning_is_taken_back_only_where_it_was_made_and_with_what_follows_it() {
    let sim = sim(Script::answer("Yes.").reasoning("Hm", "reasoning_content")).await;
    let made = exchange(sim.addr(), &responses(json!({"model": "m", "input": "Hi"}))).await.json();
    let (thought, said) = (made["output"][0].clone(), made["output"][1].clone());
    let replay = |items: Vec<Value>| responses(json!({"model": "m", "input": items}));
    let seen = exchange(sim.addr(), &replay(vec![user(), thought.clone(), said.clone(), user()])).await;
    assert_eq!(seen.status, 200);
    let alone = exchange(sim.addr(), &replay(vec![user(), thought.clone(), user()])).await.json();
    assert_eq!(
        alone["error"]["message"],
        "Item 'rs_sim_1_0' of type 'reasoning' was provided without its required following item."
    );
    let elsewhere =
        pointsman_provider_sim::Sim::start(pointsman_provider_sim::SimConfig::named("other")).await.unwrap();
    let foreign = exchange(elsewhere.addr(), &replay(vec![thought.clone(), said.clone()])).await;
    assert_eq!(
        (foreign.status, &foreign.json()["error"]["code"]),
        (400, &json!("invalid_encrypted_content"))
    );
    let mut unsealed = thought;
    unsealed.as_object_mut().unwrap().remove("encrypted_content");
    let forgotten = exchange(sim.addr(), &replay(vec![unsealed, said])).await;
    assert_eq!(forgotten.status, 404);
    let message = forgotten.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("Item with id 'rs_sim_1_0' not found."), "{message}");
}

#[tokio::test]
async fn a_refused_request_uses_up_no_script() {
    let sim = sim(Script::healthy()).await;
    sim.enqueue([Script::status(503)]);
    let wrong = exchange(sim.addr(), &responses(json!({"model": "m", "messages": []}))).await;
    let right = exchange(sim.addr(), &responses(json!({"model": "m", "input": "Hi"}))).await;
    assert_eq!((wrong.status, right.status, sim.calls()), (400, 503, 2));
}
