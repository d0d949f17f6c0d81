//! Whatever way a provider cuts, frames and spells its stream, the client gets the same answer.

use std::collections::BTreeMap;

use pointsman_provider_sim::{Script, UsageShape};
use serde_json::{Value, json};

use crate::checks::{alone, assert_whole_from};
use crate::support::{Answer, chat};

const TEXT: &str = "a answers: 北京👍, naïve façade — \"quoted\\path\"\n\nsecond\u{2028}line 𝔘𝔫𝔦";

/// The chunks of a stream, read as WHATWG HTML says: the data lines of an event are joined by line feeds.
fn read(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    let events = text.split("\n\n").filter(|block| !block.is_empty());
    let joined = events.map(|block| {
        let lines = block.lines().map(|line| line.strip_prefix("data: ").expect("only data lines"));
        lines.collect::<Vec<_>>().join("\n")
    });
    let data: Vec<String> = joined.collect();
    assert_eq!(data.last().map(String::as_str), Some("[DONE]"), "{text}");
    data[..data.len() - 1].iter().map(|d| serde_json::from_str(d).unwrap()).collect()
}

fn texts(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect()
}

/// Each spelling by itself, and one byte at a time.
fn spellings(script: &Script) -> Vec<(&'static str, Script)> {
    let all = [
        ("as OpenAI", script.clone()),
        ("CRLF", script.clone().crlf()),
        ("CR", script.clone().cr()),
        ("BOM", script.clone().bom()),
        ("no space", script.clone().no_space_after_colon()),
        ("several data lines", script.clone().multi_line_data()),
        ("several data lines, CRLF", script.clone().multi_line_data().crlf()),
        ("comments", script.clone().comments()),
        ("comments, CR, BOM", script.clone().comments().cr().bom()),
        ("no content type", script.clone().content_type("")),
        ("a wrong content type", script.clone().content_type("application/json")),
    ];
    all.into_iter()
        .flat_map(|(name, script)| [(name, script.clone()), (name, script.split_every_byte())])
        .collect()
}

/// C026: any split and any spelling gives the same answer as the plain one.
#[tokio::test]
async fn text_comes_through_byte_by_byte_in_every_spelling() {
    let world = alone("").await;
    for (name, script) in spellings(&Script::answer(TEXT)) {
        world.sim(0).set(script);
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let chunks = read(&answer);
        assert_eq!(texts(&chunks), TEXT, "{name}");
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant", "{name}");
        assert_eq!(answer.text().matches("[DONE]").count(), 1, "{name}");
        let entry = world.entry(&answer);
        assert_eq!((entry.terminal, entry.malformed_events), ("success", 0), "{name}");
        assert!(entry.usage.is_some(), "{name}: C027, the last event counts too");
    }
}

/// C026 for the arguments of tools.
#[tokio::test]
async fn tool_arguments_come_through_byte_by_byte_in_every_spelling() {
    let arguments = r#"{"city":"北京👍","note":"a \"b\" \\ c"}"#;
    let world = alone("").await;
    for (name, script) in spellings(&Script::healthy().tool_call("get_weather", arguments)) {
        world.sim(0).set(script);
        let answer = world.post(&chat("gpt-4o", true)).await;
        let chunks = read(&answer);
        let calls = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"][0].as_object());
        let (mut names, mut got) = (Vec::new(), String::new());
        for call in calls {
            names.extend(call["function"]["name"].as_str().map(str::to_owned));
            got.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        }
        assert_eq!((names, got.as_str()), (vec!["get_weather".to_owned()], arguments), "{name}");
        assert!(answer.text().contains("tool_calls"), "{name}");
    }
}

/// Passthrough: the data of each event is the provider's own, byte for byte, and its order is kept; C064: also of a first
/// one that has no choices but what a filter found.
#[tokio::test]
async fn the_data_of_events_is_the_providers_own() {
    let world = alone("").await;
    world.sim(0).set(Script::answer(TEXT).azure_preamble().usage(UsageShape::Missing));
    let through = world.post(&chat("gpt-4o", true)).await;
    let direct = direct(&world, &chat("gpt-4o", true)).await;
    // The second call of the sim counts one on in its id and time: everything else is the same.
    let neutral = |text: &str, call: u32| {
        text.replace(&format!("chatcmpl-sim-{call}\""), "ID\"").replace(&format!("170000000{call}"), "TIME")
    };
    assert_eq!(neutral(&through.text(), 1), neutral(&direct, 2));
}

/// The sim's answer without a gateway between.
async fn direct(world: &crate::support::World, body: &Value) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(world.sim(0).addr()).await.unwrap();
    let body = body.to_string();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (_, chunked) = text.split_once("\r\n\r\n").unwrap();
    dechunked(chunked)
}

fn dechunked(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    out
}

/// C027: the last events in many segments and the connection closed right after them.
#[tokio::test]
async fn usage_is_not_lost_when_the_connection_closes_at_once() {
    let world = alone("").await;
    let long = format!("a answers {}", "x".repeat(8_000));
    world.sim(0).set(Script::answer(long.clone()).split_every_byte().close_afterwards());
    let mut request = chat("gpt-4o", true);
    request["stream_options"] = json!({ "include_usage": true });
    let answer = world.post(&request).await;
    assert_eq!(answer.content(), long);
    let chunks = answer.chunks();
    let usage = &chunks.last().unwrap()["usage"];
    let kept = world.entry(&answer).usage.expect("usage is in the ledger");
    assert_eq!(usage["prompt_tokens"], kept.input_tokens);
    assert_eq!(usage["completion_tokens"], kept.output_tokens);
}

/// Usage is always asked for and always recorded, and passed on only to a client that asked.
#[tokio::test]
async fn usage_of_every_shape_is_recorded_and_given_only_where_asked() {
    let shapes = [
        UsageShape::Standard,
        UsageShape::OnFinishChunk,
        UsageShape::Groq,
        UsageShape::EveryChunk,
        UsageShape::DeepSeek,
        UsageShape::WithZeroes,
    ];
    let world = alone("").await;
    for shape in shapes {
        for asked in [false, true] {
            world.sim(0).set(Script::healthy().tokens(12).usage(shape));
            let mut request = chat("gpt-4o", true);
            if asked {
                request["stream_options"] = json!({ "include_usage": true });
            }
            let answer = world.post(&request).await;
            assert_whole_from(&answer, "a");
            let usage = world.entry(&answer).usage.unwrap_or_else(|| panic!("{shape:?} is not read"));
            assert_eq!(usage.output_tokens, 12, "{shape:?}");
            assert!(usage.input_tokens > 0, "{shape:?}");
            let bare = answer.chunks().iter().filter(|c| c["choices"].as_array().unwrap().is_empty()).count();
            assert!(bare <= usize::from(asked), "{shape:?}: a chunk without choices that nobody asked for");
        }
    }
}

#[tokio::test]
async fn a_stream_without_usage_is_complete() {
    for shape in [UsageShape::Null, UsageShape::Missing] {
        let world = alone("").await;
        world.sim(0).set(Script::healthy().usage(shape));
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_whole_from(&answer, "a");
        let usage = world.entry(&answer).usage.unwrap();
        assert!(usage.estimated && usage.input_tokens > 0, "unknown is not zero: {usage:?}");
        assert_eq!(usage.output_tokens, answer.content().len().div_ceil(4) as u64);
    }
}

/// Whoever tells what it took is believed; of a whole answer the tokens are counted else.
#[tokio::test]
async fn an_answer_without_usage_is_counted_and_the_record_says_so() {
    let request = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "What is the capital of France?"}]});
    for rest in ["", "defaults: { stream: { gather: on } }"] {
        for shape in [UsageShape::Null, UsageShape::Missing] {
            let world = alone(rest).await;
            world.sim(0).set(Script::answer("The capital of France is Paris.").usage(shape));
            let answer = world.post(&request).await;
            let usage = world.entry(&answer).usage.unwrap();
            // Seven tokens a text, one of the role, and three each around the message and before the answer.
            assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (14, 7, true), "{rest}");
        }
        let world = alone(rest).await;
        let answer = world.post(&request).await;
        assert!(!world.entry(&answer).usage.unwrap().estimated);
    }
}

/// A client that leaves is charged for what it had got.
#[tokio::test]
async fn a_stream_that_breaks_without_usage_is_estimated_by_what_was_sent() {
    let world = alone("").await;
    world.sim(0).set(Script::cut_after(40).tokens(60));
    let answer = world.post(&chat("gpt-4o", true)).await;
    let entry = world.entry(&answer);
    let usage = entry.usage.unwrap();
    assert_eq!((entry.terminal, usage.estimated), ("partial", true));
    assert_eq!(usage.output_tokens, answer.content().len().div_ceil(4) as u64);
}

/// The client's other stream options stay as they are.
#[tokio::test]
async fn the_wish_for_usage_is_merged_into_the_clients_options() {
    let world = alone("").await;
    let cases = [
        (Value::Null, json!({ "include_usage": true })),
        (json!({ "include_usage": false }), json!({ "include_usage": true })),
        (
            json!({ "include_obfuscation": false }),
            json!({ "include_obfuscation": false, "include_usage": true }),
        ),
        (json!({}), json!({ "include_usage": true })),
    ];
    for (options, expected) in cases {
        let mut request = chat("gpt-4o", true);
        if !options.is_null() {
            request["stream_options"] = options.clone();
        }
        let answer = world.post(&request).await;
        assert_whole_from(&answer, "a");
        let sent: Value = serde_json::from_slice(&world.sim(0).received().last().unwrap().body).unwrap();
        assert_eq!(sent["stream_options"], expected, "for {options}");
        assert!(answer.chunks().iter().all(|c| c["usage"].is_null()), "{}", answer.text());
    }
}

/// C035: what lies between must neither buffer nor cache it.
#[tokio::test]
async fn a_stream_carries_the_headers_against_buffering() {
    let world = alone("").await;
    let answer = world.post(&chat("gpt-4o", true)).await;
    let expected = BTreeMap::from([
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    ]);
    for (name, value) in expected {
        assert_eq!(answer.header(name), Some(value));
    }
    assert_eq!(answer.header("content-length"), None);
    assert_eq!(answer.header("content-encoding"), None);
}

/// C037: an answer of nothing but tool calls begins with the role as well.
#[tokio::test]
async fn a_stream_of_tool_calls_begins_with_the_role() {
    let world = alone("").await;
    world.sim(0).set(Script::healthy().tool_call("f", "{}").tool_call("g", r#"{"x":1}"#));
    let answer = world.post(&chat("gpt-4o", true)).await;
    let chunks = answer.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let again = chunks[1..].iter().filter(|c| !c["choices"][0]["delta"]["role"].is_null()).count();
    assert_eq!(again, 0);
    assert_eq!(answer.finish_reasons(), ["tool_calls"]);
}
