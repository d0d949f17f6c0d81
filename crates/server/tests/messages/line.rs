//! A gateway in front of two Anthropic targets of one model, and what is checked of a Messages answer again and again.

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pointsman_provider_sim::Sim;
use pointsman_wire::grammar::{Ending, MessagesGrammar};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::checks::world_from;
use crate::support::{Answer, World};

pub const MODEL: &str = "claude-opus-5-5";
pub const VERSION: (&str, &str) = ("anthropic-version", "2026-10-21");

/// Quick to give up: one attempt per target.
pub const QUICK: &str =
    "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

/// Targets `a` and `b`. `a` is given little time, `b` as much as it needs on a busy machine.
pub async fn pair(rest: &str) -> World {
    let targets = r#"
targets:
  a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: sk-ant-upstream-a, budget: { first_token: 400ms, response: 400ms, idle: 600ms } }
  b: { provider: anthropic, base_url: "<b>", model: claude-opus-5-5, api_key: sk-ant-upstream-b }
"#;
    world_from(&["a", "b"], &format!("{targets}{rest}")).await
}

/// One target `a`.
pub async fn alone(rest: &str) -> World {
    let targets = r#"
targets:
  a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: sk-ant-upstream-a }
"#;
    world_from(&["a"], &format!("{targets}{rest}")).await
}

/// A Messages request.
pub fn message(stream: bool) -> Value {
    json!({
        "model": MODEL, "max_tokens": 1024, "stream": stream,
        "messages": [{ "role": "user", "content": "Say something." }],
    })
}

/// What a configuration holds of a gateway key.
pub fn hash(key: &str) -> String {
    let bytes = digest(&SHA256, key.as_bytes());
    let hex: String = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl World {
    pub async fn ask(&self, body: &Value) -> Answer {
        self.ask_with(body, &[]).await
    }

    pub async fn ask_with(&self, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let mut all = vec![VERSION];
        all.extend_from_slice(headers);
        self.send("POST", "/v1/messages", Bytes::from(body.to_string()), &all).await
    }
}

/// The bytes of the answer that a provider itself gives to this request.
pub async fn asked_directly(sim: &Sim, body: &Value) -> Bytes {
    let stream = TcpStream::connect(sim.addr()).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driving = tokio::spawn(connection);
    let request =
        Request::post("/v1/messages").header("host", "sim").header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    driving.abort();
    bytes
}

/// One event of a stream.
#[derive(Debug)]
pub struct Event {
    pub name: String,
    pub data: Value,
}

impl Answer {
    /// The events of a Messages stream, each of which must be `event:`, `data:`, a blank line; comments aside.
    pub fn named_events(&self) -> Vec<Event> {
        let text = self.text();
        assert!(text.ends_with("\n\n"), "the last event is not ended: {text}");
        let blocks = text.split_terminator("\n\n").filter(|block| !block.starts_with(':'));
        blocks
            .map(|block| {
                let lines: Vec<&str> = block.split('\n').collect();
                let [name, data] = lines[..] else { panic!("not two lines: {block:?}") };
                let name = name.strip_prefix("event: ").unwrap_or_else(|| panic!("no name: {block:?}"));
                let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {block:?}"));
                Event { name: name.to_owned(), data: serde_json::from_str(data).unwrap() }
            })
            .collect()
    }

    /// How the stream ended; it must be one that the grammar of Messages allows.
    pub fn ending(&self) -> Ending {
        let mut grammar = MessagesGrammar::new();
        for event in self.named_events() {
            let data = event.data.to_string();
            let checked = grammar.event(Some(event.name.as_bytes()), data.as_bytes());
            checked.unwrap_or_else(|e| panic!("{e}: {}", self.text()));
        }
        grammar.end().unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The text that a message's blocks, or a stream's deltas, join to.
    pub fn words(&self) -> String {
        if self.is_stream() {
            let events = self.named_events();
            return events.iter().filter_map(|e| e.data["delta"]["text"].as_str()).collect();
        }
        let content = self.json()["content"].as_array().cloned().unwrap_or_default();
        content.iter().filter_map(|block| block["text"].as_str()).collect()
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"))
    }
}

/// Exactly one complete answer, all of it by this sim.
pub fn assert_complete_from(answer: &Answer, who: &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.words().starts_with(&format!("{who} answers")), "{}", answer.text());
    assert_eq!(answer.header("request-id"), answer.header("x-request-id"), "both names, one id");
    if answer.is_stream() {
        assert_eq!(answer.ending(), Ending::Complete);
        let reasons: Vec<Value> =
            answer.named_events().iter().map(|e| e.data["delta"]["stop_reason"].clone()).collect();
        assert_eq!(reasons.iter().filter(|r| *r == "end_turn").count(), 1, "{}", answer.text());
        return;
    }
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!((&body["type"], &body["role"]), (&json!("message"), &json!("assistant")), "{body}");
    assert_eq!(body["stop_reason"], "end_turn", "{body}");
}

/// A stream that broke after it was opened: one `event: error`, its last word, in Anthropic's form.
pub fn assert_ended_by_error(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.ending(), Ending::Error);
    let last = answer.named_events().pop().unwrap().data;
    assert_eq!(last["type"], "error", "{last}");
    assert!(last["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{last}");
    let id = answer.header("request-id").unwrap();
    assert_eq!((&last["request_id"], &last["pointsman"]["request_id"]), (&json!(id), &json!(id)), "{last}");
    last
}
