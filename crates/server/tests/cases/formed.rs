//! Structured output is checked before it is released, where the route asks for whole and valid answers.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::support::{Answer, World};

/// One model at providers of three dialects, and one that never gets a second chance.
const TARGETS: &str = r#"
targets:
  o: { provider: openai, base_url: "<o>", model: m, upstream_model: gpt-4o, api_key: sk-o }
  a: { provider: anthropic, base_url: "<a>", model: m, upstream_model: claude-sonnet-4-5, api_key: sk-a, priority: 2 }
  g: { provider: gemini, base_url: "<g>", model: m, upstream_model: gemini-3-pro, api_key: sk-g, priority: 3 }
  lone: { provider: gemini, base_url: "<g>", model: lone, upstream_model: gemini-3-pro, api_key: sk-g }
"#;
const CHECKED: &str = "defaults: { stream: { buffer: true } }\n";
const GOOD: &str = r#"{"city":"Paris","people":2100000}"#;
const BAD: &str = r#"{"city":"Paris","people":"many"}"#;

async fn world(rest: &str) -> World {
    world_from(&["o", "a", "g"], &format!("{TARGETS}{rest}")).await
}

fn schema() -> Value {
    json!({
        "type": "object", "required": ["city", "people"], "additionalProperties": false,
        "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    })
}

fn asked(model: &str, stream: bool, schema: &Value) -> Value {
    json!({
        "model": model, "stream": stream, "messages": [{"role": "user", "content": "How many live in Paris?"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": schema}},
    })
}

fn said(answer: &Answer, stream: bool) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    if stream {
        return answer.content();
    }
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_that_does_not_fit_its_schema_is_never_seen_and_another_provider_asked() {
    for stream in [false, true] {
        for wrong in [BAD, "Paris has many.", "```json\n{}\n```", ""] {
            let world = world(CHECKED).await;
            world.sim(0).set(Script::answer(wrong));
            world.sim(1).set(Script::answer(GOOD));
            let answer = world.post(&asked("m", stream, &schema())).await;
            assert_eq!(said(&answer, stream), GOOD, "{wrong}");
            assert_eq!(answer.header("x-pointsman-reason"), Some("o:schema_invalid>a"));
            let entry = world.entry(&answer);
            assert_eq!(entry.attempts[0].failure, Some("schema_invalid"));
            let detail = entry.attempts[0].detail.clone().unwrap();
            assert!(!detail.contains("Paris") && !detail.contains("city"), "{detail}");
            world.sim(0).set(Script::answer(GOOD));
            let answer = world.post(&asked("m", stream, &schema())).await;
            assert_eq!(
                (said(&answer, stream).as_str(), answer.header("x-pointsman-target")),
                (GOOD, Some("o"))
            );
        }
    }
}

/// C053: some servers take no notice of the field with the schema and answer 200.
#[tokio::test]
async fn c053_a_provider_that_ignores_the_schema_is_found_out_before_release() {
    for stream in [false, true] {
        let world = world(CHECKED).await;
        world.sim(2).set(Script::answer("Two million and some."));
        let answer = world.post(&asked("lone", stream, &schema())).await;
        let error = if stream { answer.text() } else { answer.json().to_string() };
        assert_eq!(answer.status, 503, "{error}");
        assert!(error.contains("schema_invalid") && !error.contains("million"), "{error}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(world.sim(2).calls(), 1, "what does not fit is not asked for again");
    }
}

#[tokio::test]
async fn without_the_wish_an_answer_is_the_providers_own_affair() {
    for stream in [false, true] {
        let world = world("").await;
        world.sim(0).set(Script::answer(BAD));
        assert_eq!(said(&world.post(&asked("m", stream, &schema())).await, stream), BAD);
    }
}

/// An answer that calls a tool, or that the limit on output broke off, has no text that could fit.
#[tokio::test]
async fn what_is_no_final_text_is_not_checked() {
    for script in [Script::healthy().tool_call("look_up", "{}"), Script::answer("{\"ci").finish("length")] {
        for stream in [false, true] {
            let world = world(CHECKED).await;
            world.sim(0).set(script.clone());
            let mut request = asked("m", stream, &schema());
            request["tools"] =
                json!([{"type": "function", "function": {"name": "look_up", "parameters": {}}}]);
            let answer = world.post(&request).await;
            assert_eq!(answer.header("x-pointsman-target"), Some("o"), "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn any_json_is_enough_where_any_is_asked_for() {
    let world = world(CHECKED).await;
    let mut request = asked("m", false, &json!({}));
    request["response_format"] = json!({"type": "json_object"});
    world.sim(0).set(Script::answer(BAD));
    assert_eq!(said(&world.post(&request).await, false), BAD);
    world.sim(0).set(Script::answer("Sure!"));
    let answer = world.post(&request).await;
    assert_eq!(world.entry(&answer).attempts[0].failure, Some("schema_invalid"));
}

/// Nobody pays for an answer that then cannot be checked.
#[tokio::test]
async fn a_schema_that_cannot_be_checked_is_refused_before_anything_is_sent() {
    let world = world(CHECKED).await;
    let far = json!({"type": "object", "properties": {"x": {"$ref": "https://example.com/x.json"}}});
    let around = json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "^(?!a)"}}});
    for schema in [far, around, json!({"type": 7})] {
        let answer = world.post(&asked("m", false, &schema)).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("cannot be checked"), "{}", answer.text());
    }
    assert_eq!([0, 1, 2].map(|sim| world.sim(sim).calls()), [0, 0, 0]);
}

/// Where no target has structured output nothing is made up for it: the request is refused, by whatever dialect it would go.
#[tokio::test]
async fn a_schema_that_no_target_keeps_to_is_refused_before_anything_is_sent() {
    for has in ["none", "json_object"] {
        let world = world(&format!("models: {{ lone: {{ structured_output: {has} }} }}\n")).await;
        for stream in [false, true] {
            let answer = world.post(&asked("lone", stream, &schema())).await;
            assert_eq!(answer.status, 400, "{}", answer.text());
            assert!(answer.text().contains("structured output"), "{}", answer.text());
        }
        assert_eq!(world.sim(2).calls(), 0);
    }
}
