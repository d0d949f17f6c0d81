//! Streams on their way to the client: cut anywhere, quiet for long, ended by the wrong word, left by their reader.

use std::time::Duration;

use pointsman_provider_sim::{Script, UsageShape};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::checks::world_from;
use crate::clients::{Held, Raw, eventually};
use crate::support::{Answer, World};
use crate::tongue::{BOTH, Tongue};

const TEXT: &str = "a answers: 北京👍, naïve façade — \"quoted\\path\"\n\nsecond\u{2028}line 𝔘𝔫𝔦";
const ARGUMENTS: &str = r#"{"city":"北京👍","note":"a \"b\" \\ c"}"#;

/// The data of each event, read as WHATWG HTML says: the data lines of an event are joined by line feeds.
fn data_of(answer: &Answer) -> Vec<String> {
    let text = answer.text();
    let blocks = text.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
    let joined = blocks.map(|block| {
        let data: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        data.join("\n")
    });
    joined.collect()
}

fn values_of(answer: &Answer) -> Vec<Value> {
    let data = data_of(answer).into_iter().filter(|data| data != "[DONE]");
    data.map(|data| serde_json::from_str(&data).unwrap_or_else(|e| panic!("{e}: {data}"))).collect()
}

/// The text and the tool arguments that a stream's deltas join to.
fn said(tongue: Tongue, answer: &Answer) -> (String, String) {
    let (mut text, mut arguments) = (String::new(), String::new());
    for event in values_of(answer) {
        let delta = if tongue == Tongue::Chat { &event["choices"][0]["delta"] } else { &event["delta"] };
        let part = if tongue == Tongue::Chat { &delta["content"] } else { &delta["text"] };
        text.push_str(part.as_str().unwrap_or_default());
        let part = match tongue {
            Tongue::Chat => &delta["tool_calls"][0]["function"]["arguments"],
            Tongue::Messages => &delta["partial_json"],
        };
        arguments.push_str(part.as_str().unwrap_or_default());
    }
    (text, arguments)
}

/// C026: one byte per write, in every spelling that an event stream may have: text and arguments come whole.
#[tokio::test]
async fn any_split_in_any_spelling_gives_the_same_answer() {
    let spelt = |script: &Script| {
        let all = [
            script.clone(),
            script.clone().crlf(),
            script.clone().cr().bom(),
            script.clone().no_space_after_colon(),
            script.clone().multi_line_data(),
            script.clone().comments().crlf(),
        ];
        all.map(Script::split_every_byte)
    };
    for tongue in BOTH {
        let world = tongue.alone("").await;
        let spoken = spelt(&Script::answer(TEXT).reasoning("南京 — ✓", "reasoning_content"));
        let called = spelt(&Script::answer("").tool_call("get_weather", ARGUMENTS));
        for (scripts, expected) in [(spoken, (TEXT, "")), (called, ("", ARGUMENTS))] {
            for script in scripts {
                world.sim(0).set(script.clone());
                let answer = tongue.ask(&world, true).await;
                let (text, arguments) = said(tongue, &answer);
                assert_eq!((text.as_str(), arguments.as_str()), expected, "{tongue:?} {script:?}");
                let entry = world.entry(&answer);
                assert_eq!((entry.terminal, entry.malformed_events), ("success", 0), "{script:?}");
            }
        }
    }
}

/// C027: the last events in many segments, the connection closed right behind them, and a large answer before.
#[tokio::test]
async fn the_last_events_count_although_the_connection_closes_behind_them() {
    for tongue in BOTH {
        let world = tongue.alone("").await;
        let long = format!("a answers {}", "x".repeat(40_000));
        let script = Script::answer(long.clone()).split_every_byte().close_afterwards();
        world.sim(0).set(script.usage(UsageShape::OnFinishChunk));
        let answer = tongue.ask(&world, true).await;
        assert_eq!(said(tongue, &answer).0, long);
        let entry = world.entry(&answer);
        let usage = entry.usage.unwrap_or_else(|| panic!("{tongue:?}: no usage"));
        // The simulator counts words.
        assert_eq!((entry.terminal, usage.output_tokens), ("success", 3));
        assert!(usage.input_tokens > 0);
    }
}

/// C028: of a provider's `id:`, `retry:`, empty events and comments a client's parser never learns.
#[tokio::test]
async fn what_trips_parsers_is_not_passed_on() {
    for tongue in BOTH {
        let world = tongue.alone("").await;
        let plain = tongue.ask(&world, true).await;
        world.sim(0).reset_counters();
        let plain = plain.text();
        let tripping: String = plain
            .split_inclusive("\n\n")
            .map(|event| {
                format!("id: 7\nretry: 10\n{event}data:\n\ndata: \n\nid: 8\n\n: meta {{\"x\":1}}\n\n")
            })
            .collect();
        world.sim(0).set(Script::fixed(200, "text/event-stream", tripping));
        let answer = tongue.ask(&world, true).await;
        assert_eq!(answer.text(), plain, "{tongue:?}");
    }
}

/// C029: a long thought of the provider's is bridged by signs of life, commits nobody, and then is the answer.
#[tokio::test]
async fn a_late_first_output_is_waited_for_under_heartbeats() {
    for tongue in BOTH {
        let target = tongue.target("a", "");
        let yaml = format!("server: {{ listen: 127.0.0.1:0, keepalive: 100ms }}\ntargets:\n{target}");
        let world = world_from(&["a"], &yaml).await;
        let late = Script::healthy().delay_first_token(Duration::from_millis(600));
        world.sim(0).set(late.heartbeat(Duration::from_millis(40)));
        let answer = tongue.ask(&world, true).await;
        assert_eq!(answer.header("x-pointsman-early"), Some("true"));
        tongue.assert_whole(&answer, "a");
        let beats = answer.text().lines().filter(|line| line.starts_with(':')).count();
        // One every 100 ms, however often the provider gives its own.
        assert!((1..=7).contains(&beats), "{beats}: {}", answer.text());
    }
}

/// C030: what was used before the error inside the stream stays on the record, which is no success.
#[tokio::test]
async fn what_was_used_before_an_error_in_the_stream_is_kept() {
    for tongue in BOTH {
        let world = tongue.pair("").await;
        let error = json!({"type": "overloaded_error", "message": "Overloaded"});
        world.sim(0).set(Script::error_event_after(3, error).usage(UsageShape::EveryChunk));
        let answer = tongue.ask(&world, true).await;
        let last = tongue.assert_broken(&answer);
        assert!(last["error"]["message"].as_str().unwrap().contains("Overloaded"), "{last}");
        let entry = world.entry(&answer);
        assert_eq!(entry.terminal, "partial");
        assert!(entry.usage.is_some_and(|usage| usage.input_tokens > 0), "{:?}", entry.usage);
    }
}

// A client that leaves

/// A request in either dialect as HTTP/1.1 text.
fn http1(tongue: Tongue, world: &World, stream: bool, headers: &str) -> String {
    let body = tongue.request(stream).to_string();
    let (path, host, length) = (tongue.path(), world.host(), body.len());
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

/// C032: whatever the provider is doing when the client leaves: it is let go, nobody else is asked and nobody blamed.
#[tokio::test]
async fn a_client_that_leaves_takes_its_call_with_it() {
    let talking = Script::healthy().tokens(1_000).between_tokens(Duration::from_millis(50));
    let moments = [
        (Script::silence(), true, ""),
        (Script::role_only_then_silence(), true, ""),
        (Script::heartbeats_only(Duration::from_millis(20)), true, ""),
        (talking, true, "data: "),
        (Script::silence(), false, ""),
    ];
    for tongue in BOTH {
        for (script, stream, until) in moments.clone() {
            for reset in [true, false] {
                let world = tongue.world(&[("a", ""), ("b", "")], "").await;
                world.sim(0).set(script.clone());
                let mut client = world.connect().await;
                client.send(&http1(tongue, &world, stream, "")).await;
                world.sim(0).wait_until(|sim| sim.active_requests() == 1).await.unwrap();
                client.until(until).await;
                if reset {
                    client.reset()
                } else {
                    drop(client)
                }
                world.sim(0).wait_until(|sim| sim.active_requests() == 0).await.unwrap();
                eventually("held by the gateway", Held::default(), || world.held()).await;
                let record = world.record().await;
                assert_eq!((record.terminal, record.status), ("cancelled", 499), "{record:?}");
                assert_eq!((world.sim(0).aborted(), world.sim(1).calls()), (1, 0), "{tongue:?} {script:?}");
                world.nobody_is_blamed();
            }
        }
    }
}

/// C032: nothing is sent any more for a client that left while its next try was waited for.
#[tokio::test]
async fn no_try_is_made_for_a_client_that_left_during_a_wait() {
    for tongue in BOTH {
        let world = tongue.alone("defaults: { retry: { max: 60s } }\nqueue: { max_wait: 60s }\n").await;
        world.sim(0).set(tongue.rate_limit(2));
        let mut client = world.connect().await;
        client.send(&http1(tongue, &world, true, "")).await;
        world.sim(0).wait_until(|sim| sim.calls() == 1 && sim.active_requests() == 0).await.unwrap();
        eventually("in the hands of a target", 0, || world.held().target_in_flight).await;
        drop(client);
        world.everything_is_back().await;
        assert_eq!(world.record().await.terminal, "cancelled");
        assert_eq!(world.sim(0).calls(), 1, "{tongue:?}");
    }
}

/// C033: what the provider had reported until its reader left is kept; Messages reports its input at once.
#[tokio::test]
async fn what_was_used_until_the_client_left_is_kept() {
    let tongue = Tongue::Messages;
    let world = tongue.alone("").await;
    world.sim(0).set(Script::healthy().tokens(1_000).between_tokens(Duration::from_millis(50)));
    let mut client = world.connect().await;
    client.send(&http1(tongue, &world, true, "")).await;
    client.until("content_block_delta").await;
    drop(client);
    world.everything_is_back().await;
    let record = world.record().await;
    assert_eq!(record.terminal, "cancelled");
    assert!(record.usage.is_some_and(|usage| usage.input_tokens > 0), "{record:?}");
}

// One event at a time

/// A provider that sends a piece whenever it is told one.
async fn told() -> (String, mpsc::Sender<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, mut pieces) = mpsc::channel::<String>(1);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        while let Some(piece) = pieces.recv().await {
            stream.write_all(piece.as_bytes()).await.unwrap();
        }
    });
    (format!("http://{address}/v1"), tell)
}

async fn read_request(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    // The body is JSON of one line, and so ends with the brace that closes its first one.
    while !seen.ends_with(b"}") {
        assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
    }
}

/// C034: each event reaches the client before the provider sends its next, whatever the client would unpack.
#[tokio::test]
async fn every_event_is_passed_on_by_itself() {
    for tongue in BOTH {
        let (url, tell) = told().await;
        let target = tongue.target("a", "").replace("<a>", &url);
        let world = world_from(&[], &format!("targets:\n{target}")).await;
        let mut client: Raw = world.connect().await;
        client.send(&http1(tongue, &world, true, "accept-encoding: gzip, br\r\n")).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        tell.send(head.to_owned() + &opening(tongue)).await.unwrap();
        for number in 0..40 {
            let word = format!("word-{number}-");
            tell.send(event_with(tongue, &word)).await.unwrap();
            let seen = client.until(&word).await;
            let head = seen.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
            assert!(head.contains("x-accel-buffering: no") && !head.contains("content-encoding"), "{head}");
            assert!(!head.contains("content-length"), "{head}");
        }
        drop(client);
        world.everything_is_back().await;
    }
}

fn opening(tongue: Tongue) -> String {
    match tongue {
        Tongue::Chat => String::new(),
        Tongue::Messages => "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-opus-5-5\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n\
             event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n".to_owned(),
    }
}

fn event_with(tongue: Tongue, word: &str) -> String {
    match tongue {
        Tongue::Chat => format!(
            "data: {}\n\n",
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o",
                "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": null}]})
        ),
        Tongue::Messages => format!(
            "event: content_block_delta\ndata: {}\n\n",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}})
        ),
    }
}

/// C035: what lies between must neither buffer, nor cache, nor change a stream of either dialect.
#[tokio::test]
async fn a_stream_carries_the_headers_against_buffering() {
    for tongue in BOTH {
        let world = tongue.alone("").await;
        let answer = tongue.ask(&world, true).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
        assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        assert_eq!((answer.header("content-length"), answer.header("content-encoding")), (None, None));
    }
}
