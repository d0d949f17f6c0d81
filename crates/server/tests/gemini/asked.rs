//! What a test asks and how it reads what comes back.

use bytes::Bytes;
use pointsman_provider_sim::Received;
use pointsman_wire::grammar::{Ending, GeminiGrammar};
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::support::{Answer, World};

/// One model at a Gemini target `g`, an OpenAI target `o` and an Anthropic target `a`, in this order; and one more model of
/// each alone.
pub const TARGETS: &str = r#"
targets:
  g: { provider: gemini, base_url: "<g>", model: shared, upstream_model: gemini-3-pro, api_key: AIza-g }
  o: { provider: openai, base_url: "<o>", model: shared, upstream_model: gpt-4o, api_key: sk-o, priority: 2 }
  a: { provider: anthropic, base_url: "<a>", model: shared, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a, priority: 3 }
  only-g: { provider: gemini, base_url: "<g>", model: gemini, upstream_model: gemini-3-pro, api_key: AIza-g }
  only-o: { provider: openai, base_url: "<o>", model: gpt, upstream_model: gpt-4o, api_key: sk-o }
  only-a: { provider: anthropic, base_url: "<a>", model: claude, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a }
"#;

/// One try for each target.
pub const QUICK: &str =
    "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

pub const G: usize = 0;
pub const O: usize = 1;
pub const A: usize = 2;

pub async fn world(rest: &str) -> World {
    world_from(&["g", "o", "a"], &format!("{TARGETS}{rest}")).await
}

/// A Gemini request.
pub fn hello() -> Value {
    json!({ "contents": [{ "role": "user", "parts": [{ "text": "Say something." }] }] })
}

impl World {
    /// Asks a model in Gemini's dialect, with a stream as Google's SDKs ask for it.
    pub async fn generate(&self, model: &str, stream: bool, body: &Value) -> Answer {
        let way = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let path = format!("/v1beta/models/{model}:{way}");
        self.send("POST", &path, Bytes::from(body.to_string()), &[("x-goog-api-key", "any")]).await
    }
}

/// The last call of a simulated provider, and its body.
pub fn received(world: &World, sim: usize) -> (Received, Value) {
    let received = world.sim(sim).received().pop().expect("a call");
    let body = serde_json::from_slice(&received.body).unwrap();
    (received, body)
}

pub fn header<'a>(received: &'a Received, name: &str) -> Option<&'a str> {
    received.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The answer's chunks; a plain answer is one. A stream must keep its grammar.
pub fn generated(answer: &Answer) -> Vec<Value> {
    if !answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
        return vec![answer.json()];
    }
    for block in answer.text().split_terminator("\n\n").filter(|block| !block.is_empty()) {
        assert!(block.starts_with("data: {") && !block.contains('\n'), "{block:?} is no data line");
    }
    answer.chunks()
}

/// How a stream ended by the grammar of Gemini.
pub fn ending(answer: &Answer) -> Ending {
    let mut grammar = GeminiGrammar::new();
    for chunk in generated(answer) {
        grammar
            .event(None, chunk.to_string().as_bytes())
            .unwrap_or_else(|e| panic!("{e}: {}", answer.text()));
    }
    grammar.end().unwrap_or_else(|e| panic!("{e}: {}", answer.text()))
}

/// All parts of the answer.
pub fn parts(answer: &Answer) -> Vec<Value> {
    let chunks = generated(answer);
    let parts = chunks.iter().filter_map(|c| c["candidates"][0]["content"]["parts"].as_array());
    parts.flatten().cloned().collect()
}

/// The text that is no thought.
pub fn words(answer: &Answer) -> String {
    let parts = parts(answer);
    parts.iter().filter(|p| p["thought"] != true).filter_map(|p| p["text"].as_str()).collect()
}

pub fn finish(answer: &Answer) -> Vec<String> {
    let chunks = generated(answer);
    chunks.iter().filter_map(|c| c["candidates"][0]["finishReason"].as_str().map(str::to_owned)).collect()
}

/// Exactly one complete answer, all of it by this sim.
pub fn assert_generated_by(answer: &Answer, who: &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(words(answer).starts_with(&format!("{who} answers")), "{}", answer.text());
    assert_eq!(finish(answer), ["STOP"], "{}", answer.text());
    assert_eq!(ending(answer), Ending::Complete);
    let usage = generated(answer).pop().unwrap()["usageMetadata"].clone();
    assert!(usage["promptTokenCount"].as_u64() > Some(0), "{usage}");
    assert!(usage["candidatesTokenCount"].as_u64() > Some(0), "{usage}");
}

/// Google's error.
pub fn assert_status(answer: &Answer, code: u16, word: &str) -> Value {
    assert_eq!(answer.status, code, "{}", answer.text());
    let error = answer.error();
    assert_eq!((&error["code"], &error["status"]), (&json!(code), &json!(word)), "{error}");
    assert_eq!(error["details"][0]["request_id"], answer.header("x-request-id").unwrap(), "{error}");
    error
}
