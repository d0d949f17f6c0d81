//! The request's own fault reaches the client in the provider's own words, after one call, and harms no target.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::pair;
use crate::support::{Answer, World, chat};

/// A provider's error: status, type, code, param and message.
struct Said(u16, &'static str, Value, Value, &'static str);

fn openai_error(status: u16, message: &str, kind: &str, code: Value, param: Value) -> Script {
    let body = json!({"error": {"message": message, "type": kind, "code": code, "param": param}});
    Script::fixed(status, "application/json", body.to_string())
}

async fn assert_passed_on(script: Script, said: &Said) -> Answer {
    let mut last = None;
    for stream in [true, false] {
        let world = pair("defaults: { budget: { max_same_target_attempts: 3 } }").await;
        world.sim(0).set(script.clone());
        let answer = world.post(&chat("gpt-4o", stream)).await;
        let Said(status, kind, code, param, message) = said;
        assert_eq!(answer.status, *status, "{}", answer.text());
        let error = answer.error();
        assert_eq!(error["type"], *kind, "{error}");
        assert_eq!(error["code"], *code, "{error}");
        assert_eq!(error["param"], *param, "{error}");
        assert_eq!(error["message"], *message);
        assert_one_call_and_no_blame(&world, &answer);
        last = Some(answer);
    }
    last.unwrap()
}

fn assert_one_call_and_no_blame(world: &World, answer: &Answer) {
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.header("x-pointsman-attempts"), Some("1"));
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
    world.assert_untouched("a");
    let body = answer.json();
    let entry = world.entry(answer);
    assert_eq!(body["pointsman"]["terminal"], entry.terminal);
    assert!(["rejected", "policy_stop"].contains(&entry.terminal), "{}", entry.terminal);
    assert_eq!(body["pointsman"]["request_id"], answer.header("x-request-id").unwrap());
    assert_eq!(entry.status, answer.status.as_u16());
}

/// C006, C036, C062: for a stream too, as the status and not as a stream that breaks.
#[tokio::test]
async fn an_invalid_value() {
    let said = Said(
        400,
        "invalid_request_error",
        json!("invalid_value"),
        json!("temperature"),
        "Invalid value for 'temperature'.",
    );
    let answer = assert_passed_on(Script::invalid_request("temperature"), &said).await;
    assert_eq!(answer.header("x-pointsman-upstream-request-id"), Some("req_sim_1"), "C062");
}

#[tokio::test]
async fn an_entity_that_cannot_be_processed() {
    let message = "Unprocessable entity: 'messages' must not be empty.";
    let said = Said(422, "invalid_request_error", Value::Null, Value::Null, message);
    assert_passed_on(Script::unprocessable(422), &said).await;
}

/// C062: 413 stays 413 where it is about bytes.
#[tokio::test]
async fn a_request_that_is_too_large_for_the_provider() {
    let message = "Request exceeds the maximum allowed number of bytes.";
    let said = Said(413, "request_too_large", Value::Null, Value::Null, message);
    let script = openai_error(413, message, "request_too_large", Value::Null, Value::Null);
    assert_passed_on(script, &said).await;
}

/// C014: however it is put, it is the same error, and no target of the same size is asked again.
#[tokio::test]
async fn a_prompt_that_is_too_long_in_every_wording() {
    let texts = [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "prompt is too long: 209303 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
        "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens",
        "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "the request exceeds the available context size, try increasing it",
    ];
    for text in texts {
        for (status, code) in [(400, Value::Null), (400, json!(400))] {
            let said =
                Said(400, "invalid_request_error", json!("context_length_exceeded"), Value::Null, text);
            let script = openai_error(status, text, "invalid_request_error", code, Value::Null);
            assert_passed_on(script, &said).await;
        }
    }
    let text = "prompt is too long: 209303 tokens > 200000 maximum";
    let said = Said(400, "invalid_request_error", json!("context_length_exceeded"), Value::Null, text);
    assert_passed_on(openai_error(413, text, "request_too_large", Value::Null, Value::Null), &said).await;
}

/// C014, with the code alone, and bodies as vLLM and SGLang send them.
#[tokio::test]
async fn a_prompt_that_is_too_long_in_every_envelope() {
    for script in
        [Script::context_length_exceeded(), Script::vllm_context_length(), Script::sglang_context_length()]
    {
        for stream in [true, false] {
            let world = pair("").await;
            world.sim(0).set(script.clone());
            let answer = world.post(&chat("gpt-4o", stream)).await;
            assert_eq!(answer.status, 400, "{}", answer.text());
            assert_eq!(answer.error()["code"], "context_length_exceeded");
            assert_eq!(answer.error()["type"], "invalid_request_error");
            assert_one_call_and_no_blame(&world, &answer);
        }
    }
}

/// C014, inside a 200.
#[tokio::test]
async fn a_prompt_that_is_too_long_told_inside_the_answer() {
    let message = "This model's maximum context length is 8192 tokens.";
    let error = json!({"message": message, "type": "BadRequestError", "param": null, "code": 400});
    let said = Said(400, "invalid_request_error", json!("context_length_exceeded"), Value::Null, message);
    assert_passed_on(Script::error_event_first(error), &said).await;
}

#[tokio::test]
async fn a_refusal_by_policy() {
    let message = "Your request was rejected as a result of our safety system.";
    let said = Said(400, "invalid_request_error", json!("content_policy_violation"), Value::Null, message);
    let answer = assert_passed_on(Script::content_policy(), &said).await;
    assert_eq!(answer.json()["pointsman"]["terminal"], "policy_stop");
}

/// C064: what the filter found stands beside the four fields.
#[tokio::test]
async fn azures_content_filter_with_what_it_found() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::azure_content_filter());
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 400);
        let error = answer.error();
        assert_eq!((&error["code"], &error["param"]), (&json!("content_filter"), &json!("prompt")));
        assert_eq!(error["innererror"]["code"], "ResponsibleAIPolicyViolation");
        assert_eq!(error["innererror"]["content_filter_result"]["violence"]["filtered"], true);
        assert_eq!(answer.json()["pointsman"]["terminal"], "policy_stop");
        assert_one_call_and_no_blame(&world, &answer);
    }
}

/// C064: only the text tells, with a straight or a curly apostrophe.
#[tokio::test]
async fn azures_content_filter_told_by_the_text_alone() {
    for apostrophe in ["'", "\u{2019}"] {
        let message = format!(
            "The response was filtered due to the prompt triggering Azure OpenAI{apostrophe}s content management policy."
        );
        let world = pair("").await;
        world.sim(0).set(openai_error(400, &message, "invalid_request_error", Value::Null, Value::Null));
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.json()["pointsman"]["terminal"], "policy_stop", "{}", answer.text());
        assert_one_call_and_no_blame(&world, &answer);
    }
}

/// C067: what looks like a credential is masked wherever the provider put it.
#[tokio::test]
async fn a_key_that_the_provider_echoes_is_masked() {
    let key = "sk-proj-Zx81Qw72Er63Ty54Ui45Op36As27Df18";
    let body = json!({"error": {
        "message": format!("Invalid header 'authorization: Bearer {key}'"), "type": "invalid_request_error",
        "param": format!("header {key}"), "code": "invalid_value", "details": {"seen": [key]},
    }});
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::fixed(400, "application/json", body.to_string()));
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 400);
        assert!(!answer.text().contains("Zx81Qw72"), "{}", answer.text());
        assert!(answer.error()["message"].as_str().unwrap().starts_with("Invalid header"), "the rest stays");
    }
}
