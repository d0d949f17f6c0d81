//! Messages of every shape: empty ones, hidden thinking, refusals, tools of the provider's own, words that nobody knows
//! yet; and streams as servers of one's own spell them.

use bytes::Bytes;
use pointsman_provider_sim::Script;
use pointsman_wire::grammar::Ending;
use serde_json::json;

use crate::checks::world_from;
use crate::line::{assert_ended_by_error, message, pair};
use crate::support::{Answer, World};

const START: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":1}}}

"#;
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn event(data: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(data).unwrap();
    format!("event: {}\ndata: {data}\n\n", value["type"].as_str().unwrap())
}

fn end(reason: &str) -> String {
    event(&format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":5}}}}"#
    ))
}

fn text(words: &str) -> String {
    [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        &format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{words}"}}}}"#
        ),
        r#"{"type":"content_block_stop","index":0}"#,
    ]
    .map(event)
    .concat()
}

fn streamed(body: impl Into<String>) -> Script {
    Script::fixed(200, "text/event-stream", body)
}

/// What the client gets when `a` sends this stream.
async fn through(script: Script) -> (World, Answer) {
    let world = pair("").await;
    world.sim(0).set(script);
    let answer = world.ask(&message(true)).await;
    (world, answer)
}

async fn unchanged(body: String) {
    let (world, answer) = through(streamed(body.clone())).await;
    assert_eq!(answer.text(), body);
    assert_eq!(answer.ending(), Ending::Complete);
    assert_eq!(answer.header("x-pointsman-target"), Some("a"));
    assert_eq!((world.sim(1).calls(), world.entry(&answer).terminal), (0, "success"));
}

/// `max_tokens: 0` fills a provider's cache and answers nothing: that is complete.
#[tokio::test]
async fn a_message_without_content() {
    unchanged(format!("{START}{}{STOP}", end("max_tokens"))).await;
    let body = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":0}}"#;
    let world = pair("").await;
    world.sim(0).set(Script::fixed(200, "application/json", body));
    let mut asked = message(false);
    asked["max_tokens"] = json!(0);
    let answer = world.ask(&asked).await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, body));
    assert_eq!(world.sim(1).calls(), 0);
}

/// A refusal is an answer, not an error: nobody else is asked.
#[tokio::test]
async fn a_refusal() {
    let refused = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"cyber","explanation":null}},"usage":{"output_tokens":5}}"#;
    unchanged(format!("{START}{}{STOP}", event(refused))).await;
    unchanged(format!("{START}{}{}{STOP}", text("I can"), event(refused))).await;
}

/// Hidden thinking comes whole in the start of its block; what a provider's own tools found comes so too.
#[tokio::test]
async fn blocks_that_come_whole_and_kinds_that_nobody_knows_yet() {
    let events = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"c2VjcmV0"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"not_known_yet","x":1}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"not_known_delta","y":[1e2]}}"#,
        r#"{"type":"not_known_event","z":null}"#,
        r#"{"type":"content_block_stop","index":3}"#,
    ];
    unchanged(format!("{START}{}{}{STOP}", events.map(event).concat(), end("end_turn"))).await;
}

/// What a provider's own tool has begun to do is not done again elsewhere.
#[tokio::test]
async fn a_break_after_the_providers_own_tool_was_called() {
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}"#;
    let (world, answer) = through(streamed(format!("{START}{}", event(call)))).await;
    assert_ended_by_error(&answer);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
}

/// SDKs skip events without a name, so each gets its own.
#[tokio::test]
async fn events_without_names_get_theirs() {
    let body = format!("{START}{}{}{STOP}", text("Hello"), end("end_turn"));
    let nameless: String =
        body.split_inclusive('\n').filter(|line| !line.starts_with("event: ")).collect::<Vec<_>>().concat();
    let (_world, answer) = through(streamed(nameless)).await;
    assert_eq!(answer.text(), body);
}

/// vLLM ends its Messages streams with `[DONE]`, which no client of Messages knows.
#[tokio::test]
async fn the_end_marker_of_another_dialect_stays_away() {
    let whole = format!("{START}{}{}{STOP}", text("Hello"), end("end_turn"));
    let without_stop = whole.strip_suffix(STOP).unwrap();
    for body in [format!("{whole}data: [DONE]\n\n"), format!("{without_stop}data: [DONE]\n\n")] {
        let (_world, answer) = through(streamed(body)).await;
        assert_eq!(answer.text(), whole);
    }
}

/// llama.cpp's error in a stream is bare, without the envelope: before output it is left unseen, after it told in
/// Anthropic's form.
#[tokio::test]
async fn a_bare_error_of_a_server_of_ones_own() {
    let yaml = r#"
targets:
  a: { provider: llama-cpp, base_url: "<a>", model: claude-opus-5-5, priority: 1 }
  b: { provider: anthropic, base_url: "<b>", model: claude-opus-5-5, api_key: sk-b, priority: 2 }
"#;
    let error = "event: error\ndata: {\"code\":500,\"message\":\"The model produced output that does not match the expected peg-native format\",\"type\":\"server_error\"}\n\n";
    let world = world_from(&["a", "b"], yaml).await;
    world.sim(0).set(streamed(format!("{START}{error}")));
    crate::line::assert_complete_from(&world.ask(&message(true)).await, "b");
    let world = world_from(&["a", "b"], yaml).await;
    world.sim(0).set(streamed(format!("{START}{}{error}", text("Hello"))));
    let answer = world.ask(&message(true)).await;
    let last = assert_ended_by_error(&answer);
    assert!(last["error"]["message"].as_str().unwrap().contains("peg-native"), "{last}");
    assert_eq!(world.sim(1).calls(), 0);
}

/// A client that leaves stops the provider, and nobody else is asked.
#[tokio::test]
async fn a_client_that_leaves_before_the_first_output() {
    let world = pair("").await;
    world.sim(1).set(Script::healthy());
    world.sim(0).set(Script::role_only_then_silence());
    let asking = world.send("POST", "/v1/messages", Bytes::from(message(true).to_string()), &[]);
    tokio::select! {
        answer = asking => panic!("an answer of a silent provider: {}", answer.text()),
        waited = world.sim(0).wait_until(|sim| sim.calls() == 1) => waited.unwrap(),
    }
    world.sim(0).wait_until(|sim| sim.active_requests() == 0).await.unwrap();
    assert_eq!(world.sim(1).calls(), 0);
}
