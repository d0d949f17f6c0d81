//! What gets through: of the client to the provider, of the provider to the client, and of both into the record.

use bytes::Bytes;
use pointsman_provider_sim::Script;
use serde_json::json;

use crate::checks::world_from;
use crate::line::{VERSION, alone, assert_complete_from, hash, message};
use crate::support::World;

/// C101 (i), C102: fields that nobody knows yet, odd spacing, escapes and the order of keys reach the provider as sent.
#[tokio::test]
async fn every_byte_of_a_request_reaches_the_provider() {
    let body = r#"{ "max_tokens":1024,  "cache_control" : {"type":"ephemeral","scope":"global","ttl":"1h"},
 "system":[{"type":"text","text":"caf\u00e9 \/ ☕","cache_control":{"type":"ephemeral"}}],
 "context_management":{"edits":[{"type":"clear_thinking_20251015"}]}, "diagnostics":{"previous_message_id":null},
 "tools":[{"name":"z","input_schema":{"type":"object","b":1,"a":1.0},"input_examples":[{}],"defer_loading":true},{"name":"a","input_schema":{"type":"object"}}],
 "thinking":{"type":"adaptive"}, "output_config":{"effort":"xhigh"}, "speed":"fast", "not_known_yet":[1e2,-0],
 "model":"claude-opus-5-5","messages":[{"role":"user","content":"hi"},{"role":"system","content":"be brief"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"text","text":"ok"}]},{"role":"user","content":"go on"}],"stream":STREAM}"#;
    let world = alone("").await;
    for stream in ["true", "false"] {
        let sent = body.replace("STREAM", stream);
        let answer = world.send("POST", "/v1/messages", Bytes::from(sent.clone()), &[VERSION]).await;
        assert_complete_from(&answer, "a");
        assert_eq!(world.sim(0).received().last().unwrap().body, sent);
    }
}

/// C101 (i): the list of betas is open, and the client's own version decides what its words mean.
#[tokio::test]
async fn version_and_betas_are_the_clients() {
    let world = alone("").await;
    let betas = "claude-code-20250219,never-heard-of-2031-01-01";
    let headers = [
        ("anthropic-version", "2026-10-21"),
        ("anthropic-beta", betas),
        ("anthropic-beta", "effort-2025-11-24"),
        ("x-stainless-lang", "python"),
        ("cookie", "a=b"),
    ];
    let body = Bytes::from(message(true).to_string());
    let answer = world.send("POST", "/v1/messages?beta=true", body, &headers).await;
    assert_complete_from(&answer, "a");
    let received = &world.sim(0).received()[0];
    assert_eq!(received.header("anthropic-version"), Some("2026-10-21"));
    let seen: Vec<&str> =
        received.headers.iter().filter(|(n, _)| n == "anthropic-beta").map(|(_, v)| v.as_str()).collect();
    assert_eq!(seen, [betas, "effort-2025-11-24"]);
    for name in ["x-stainless-lang", "cookie"] {
        assert_eq!(received.header(name), None);
    }
}

/// The API refuses a call without a version; a client that sends none speaks the one that all had for years.
#[tokio::test]
async fn a_version_is_added_where_there_is_none() {
    let world = alone("").await;
    let answer = world.send("POST", "/v1/messages", Bytes::from(message(false).to_string()), &[]).await;
    assert_complete_from(&answer, "a");
    let received = &world.sim(0).received()[0];
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(received.header("anthropic-beta"), None);
}

const KEY: &str = "pk-gateway-key-Zz9";

async fn guarded() -> World {
    alone(&format!(
        "keys: {{ team: {{ hash: \"{}\" }} }}
",
        hash(KEY)
    ))
    .await
}

#[tokio::test]
async fn a_gateway_key_comes_either_way_and_is_never_passed_on() {
    let world = guarded().await;
    let bearer = format!("Bearer {KEY}");
    for header in [("x-api-key", KEY), ("authorization", bearer.as_str())] {
        assert_complete_from(&world.ask_with(&message(true), &[header]).await, "a");
    }
    for received in world.sim(0).received() {
        assert_eq!(received.header("x-api-key"), Some("sk-ant-upstream-a"));
        assert_eq!(received.header("authorization"), None);
        assert!(!format!("{:?}", received.headers).contains(KEY));
    }
    let answer = world.ask_with(&message(true), &[("x-api-key", "pk-wrong")]).await;
    assert_eq!(answer.status, 401);
    assert_eq!(world.sim(0).calls(), 2);
}

#[tokio::test]
async fn what_a_provider_says_of_its_limits_is_copied_and_nothing_else() {
    let world = alone("").await;
    let script = Script::healthy()
        .header("anthropic-ratelimit-input-tokens-remaining", "49000")
        .header("anthropic-ratelimit-requests-reset", "2026-11-30T12:00:00Z")
        .header("anthropic-organization-id", "org-secret")
        .header("request-id", "req_of_the_provider")
        .header("set-cookie", "a=b");
    world.sim(0).set(script);
    for stream in [true, false] {
        let answer = world.ask(&message(stream)).await;
        assert_eq!(answer.header("anthropic-ratelimit-input-tokens-remaining"), Some("49000"));
        assert_eq!(answer.header("anthropic-ratelimit-requests-reset"), Some("2026-11-30T12:00:00Z"));
        assert_eq!(answer.header("anthropic-organization-id"), None);
        assert_eq!(answer.header("set-cookie"), None);
        assert_eq!(answer.header("x-pointsman-upstream-request-id"), Some("req_of_the_provider"));
        assert_ne!(
            answer.header("request-id"),
            Some("req_of_the_provider"),
            "the request id is the gateway's"
        );
        assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
    }
}

/// Cumulative usage as Anthropic documents it: `message_delta` repeats the input side, which must not be counted twice.
const CACHED_STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a answers from its cache"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":12,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

"#;

const CACHED_MESSAGE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"a answers from its cache"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":7}}"#;

/// C068, C069: input is counted with its cached part, once, the same for a stream and a plain answer:
/// 12 + 100 + 2000 = 2112.
#[tokio::test]
async fn cached_tokens_are_counted_once() {
    let world = alone("").await;
    for (stream, kind, body) in
        [(true, "text/event-stream", CACHED_STREAM), (false, "application/json", CACHED_MESSAGE)]
    {
        world.sim(0).set(Script::fixed(200, kind, body));
        let answer = world.ask(&message(stream)).await;
        assert_complete_from(&answer, "a");
        assert_eq!(answer.text(), body, "the client reads the provider's own numbers");
        let usage = world.entry(&answer).usage.expect("usage is on the record");
        assert_eq!(usage.input_tokens, 2112);
        assert_eq!((usage.cached_tokens, usage.cache_write_tokens), (2000, 100));
        assert_eq!(usage.output_tokens, 7);
    }
}

/// C069: what a failed target counted is not added to what the answering one counted.
#[tokio::test]
async fn the_usage_of_a_failed_attempt_is_not_added() {
    let yaml = r#"
targets:
  a: { provider: anthropic, base_url: "<a>", model: claude-opus-5-5, api_key: sk-a }
  b: { provider: anthropic, base_url: "<b>", model: claude-opus-5-5, api_key: sk-b }
"#;
    let world = world_from(&["a", "b"], yaml).await;
    let started = CACHED_STREAM.split_inclusive("\n\n").next().unwrap();
    world.sim(0).set(Script::fixed(200, "text/event-stream", started));
    world.sim(1).set(Script::fixed(200, "text/event-stream", CACHED_STREAM));
    let answer = world.ask(&message(true)).await;
    assert_eq!(answer.header("x-pointsman-target"), Some("b"), "{}", answer.text());
    assert_eq!(world.entry(&answer).usage.unwrap().input_tokens, 2112);
}

/// Base URLs that people already use work.
#[tokio::test]
async fn the_endpoint_is_there_under_the_usual_bases() {
    let world = alone("").await;
    for path in ["/v1/messages", "/messages", "/anthropic/v1/messages"] {
        let body = Bytes::from(message(true).to_string());
        assert_complete_from(&world.send("POST", path, body, &[VERSION]).await, "a");
    }
    assert!(world.sim(0).received().iter().all(|r| r.path == "/v1/messages"));
    let mut body = message(false);
    body["metadata"] = json!({ "user_id": "somebody" });
    assert_complete_from(&world.ask(&body).await, "a");
}
