//! What a test asks in each dialect and how it reads what comes back.

use bytes::Bytes;
use pointsman_provider_sim::Received;
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::support::{Answer, World};

/// One model at a Bedrock target `b`, an OpenAI target `o` and an Anthropic target `a`, in this order; and one more model of
/// the first and the last alone.
pub const TARGETS: &str = r#"
targets:
  b: { provider: bedrock, base_url: "<b>", region: us-east-1, model: shared, upstream_model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", aws_access_key_id: AKIDEXAMPLE, aws_secret_access_key: wJalrXUtnFEMI, aws_session_token: TOKEN }
  o: { provider: openai, base_url: "<o>", model: shared, upstream_model: gpt-4o, api_key: sk-o, priority: 2 }
  a: { provider: anthropic, base_url: "<a>", model: shared, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a, priority: 3 }
  only-b: { provider: bedrock, base_url: "<b>", region: us-east-1, model: bedrock, upstream_model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", api_key: bedrock-key-b }
  first-a: { provider: anthropic, base_url: "<a>", model: other, upstream_model: claude-sonnet-4-5, api_key: sk-ant-a }
  first-o: { provider: openai, base_url: "<o>", model: another, upstream_model: gpt-4o, api_key: sk-o }
  then-b: { provider: bedrock, base_url: "<b>", region: us-east-1, model: other, upstream_model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", api_key: bedrock-key-b, priority: 2 }
  last-b: { provider: bedrock, base_url: "<b>", region: us-east-1, model: another, upstream_model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", api_key: bedrock-key-b, priority: 2 }
"#;

/// One try for each target.
pub const QUICK: &str =
    "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

pub const B: usize = 0;
pub const O: usize = 1;
pub const A: usize = 2;

pub async fn world(rest: &str) -> World {
    world_from(&["b", "o", "a"], &format!("{TARGETS}{rest}")).await
}

/// The dialects that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Chat,
    Responses,
    Messages,
    Gemini,
}

pub const CLIENTS: [Client; 4] = [Client::Chat, Client::Responses, Client::Messages, Client::Gemini];

impl Client {
    pub fn hello(self) -> Value {
        let text = "Say something.";
        match self {
            Self::Chat => json!({ "messages": [{ "role": "user", "content": text }] }),
            Self::Responses => json!({ "input": [{ "role": "user", "content": text }] }),
            Self::Messages => {
                json!({ "max_tokens": 4_000, "messages": [{ "role": "user", "content": text }] })
            }
            Self::Gemini => json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }] }),
        }
    }

    /// Asks a model for a plain answer or a stream.
    pub async fn ask(self, world: &World, model: &str, stream: bool, body: &Value) -> Answer {
        let mut body = body.clone();
        let path = match self {
            Self::Chat => "/v1/chat/completions".to_owned(),
            Self::Responses => "/v1/responses".to_owned(),
            Self::Messages => "/v1/messages".to_owned(),
            Self::Gemini if stream => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            Self::Gemini => format!("/v1beta/models/{model}:generateContent"),
        };
        if self != Self::Gemini {
            body["model"] = json!(model);
            body["stream"] = json!(stream);
        }
        world.send("POST", &path, Bytes::from(body.to_string()), &[]).await
    }

    /// The data of each event, or the plain answer.
    pub fn told(self, answer: &Answer) -> Vec<Value> {
        if !answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
            return vec![answer.json()];
        }
        let text = answer.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The whole answer as one value in this dialect, gathered from a stream where it is one.
    pub fn whole(self, answer: &Answer) -> Value {
        use pointsman_wire::dialect::{Dialect, Gather};
        assert_eq!(answer.status, 200, "{self:?}: {}", answer.text());
        let mut told = self.told(answer);
        if !answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
            return told.remove(0);
        }
        let dialect = match self {
            Self::Chat => Dialect::Chat,
            Self::Responses => Dialect::Responses,
            Self::Messages => Dialect::Messages,
            Self::Gemini => Dialect::Gemini,
        };
        let mut gather = Gather::new(dialect, 1 << 20);
        for data in told {
            gather.event(None, data.to_string().as_bytes()).unwrap();
        }
        serde_json::from_slice(&gather.finish().unwrap_or_else(|e| panic!("{self:?} {e}: {}", answer.text())))
            .unwrap()
    }

    /// Text and thoughts of an answer, and why it ended.
    pub fn said(self, answer: &Answer) -> (String, String, Value) {
        let whole = self.whole(answer);
        let (mut text, mut thoughts) = (String::new(), String::new());
        let reason = match self {
            Self::Chat => {
                let choice = &whole["choices"][0];
                text.push_str(choice["message"]["content"].as_str().unwrap_or_default());
                thoughts.push_str(choice["message"]["reasoning_content"].as_str().unwrap_or_default());
                choice["finish_reason"].clone()
            }
            Self::Responses => {
                for item in whole["output"].as_array().unwrap() {
                    for part in item["content"].as_array().into_iter().flatten() {
                        text.push_str(part["text"].as_str().unwrap_or_default());
                    }
                    for part in item["summary"].as_array().into_iter().flatten() {
                        thoughts.push_str(part["text"].as_str().unwrap_or_default());
                    }
                }
                whole["status"].clone()
            }
            Self::Messages => {
                for block in whole["content"].as_array().unwrap() {
                    text.push_str(block["text"].as_str().unwrap_or_default());
                    thoughts.push_str(block["thinking"].as_str().unwrap_or_default());
                }
                whole["stop_reason"].clone()
            }
            Self::Gemini => {
                let candidate = &whole["candidates"][0];
                for part in candidate["content"]["parts"].as_array().unwrap() {
                    let into = if part["thought"] == true { &mut thoughts } else { &mut text };
                    into.push_str(part["text"].as_str().unwrap_or_default());
                }
                candidate["finishReason"].clone()
            }
        };
        (text, thoughts, reason)
    }

    /// Exactly one complete answer, all of it by this sim.
    pub fn assert_answered_by(self, answer: &Answer, who: &str) {
        let (text, _, reason) = self.said(answer);
        assert!(text.starts_with(&format!("{who} answers")), "{self:?}: {}", answer.text());
        let end = match self {
            Self::Chat => "stop",
            Self::Responses => "completed",
            Self::Messages => "end_turn",
            Self::Gemini => "STOP",
        };
        assert_eq!(reason, end, "{self:?}: {}", answer.text());
    }
}

/// The last call of a simulated provider, and its body.
pub fn received(world: &World, sim: usize) -> (Received, Value) {
    let received = world.sim(sim).received().pop().expect("a call");
    let body = serde_json::from_slice(&received.body).unwrap();
    (received, body)
}
