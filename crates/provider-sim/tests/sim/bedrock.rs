//! Bedrock's Converse and ConverseStream: frames, errors and faults, by the same scripts.

use std::time::Duration;

use pointsman_provider_sim::{BrokenEvent, Fault, Script, Sim, SimConfig, UsageShape};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::raw::{End, Seen, assert_silent, exchange, exchange_until, request};
use crate::sim;

pub(crate) fn converse(model: &str, stream: bool, body: Value) -> Vec<u8> {
    let method = if stream { "converse-stream" } else { "converse" };
    request("POST", &format!("/model/{model}/{method}"), &body.to_string())
}

pub(crate) fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]})
}

async fn seen(script: Script, stream: bool) -> Seen {
    let sim = sim(script).await;
    exchange(sim.addr(), &converse("anthropic.claude-3-haiku-20240307-v1%3A0", stream, hi())).await
}

/// One message of an event stream: its headers by name, and its payload.
#[derive(Debug, PartialEq)]
struct Message {
    headers: Vec<(String, String)>,
    payload: Vec<u8>,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    fn name(&self) -> &str {
        let names = [":event-type", ":exception-type", ":error-code"].map(|name| self.header(name));
        names.into_iter().find(|name| !name.is_empty()).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.payload).unwrap()
    }
}

/// CRC-32, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number * 256 + usize::from(*byte))
}

/// The complete messages of a body, with their checksums checked.
fn messages(mut body: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while body.len() >= 12 && body.len() >= number(&body[..4]) {
        let (message, rest) = body.split_at(number(&body[..4]));
        let (content, sum) = message.split_at(message.len() - 4);
        assert_eq!(crc(&message[..8]), u32::from_be_bytes(message[8..12].try_into().unwrap()));
        assert_eq!(crc(content), u32::from_be_bytes(sum.try_into().unwrap()));
        let (mut block, payload) = content[12..].split_at(number(&message[4..8]));
        let mut headers = Vec::new();
        while !block.is_empty() {
            let (name, after) = block[1..].split_at(usize::from(block[0]));
            assert_eq!(after[0], 7, "a header is a text");
            let (value, left) = after[3..].split_at(number(&after[1..3]));
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            headers.push((text(name), text(value)));
            block = left;
        }
        messages.push(Message { headers, payload: payload.to_vec() });
        body = rest;
    }
    messages
}

fn names(messages: &[Message]) -> String {
    messages.iter().map(Message::name).collect::<Vec<_>>().join(" ")
}

fn rich() -> Script {
    Script::answer("Look:")
        .reasoning("Let me", "reasoning_content")
        .tool_call("weather", r#"{"a":1}"#)
        .tool_call("time", "")
}

#[tokio::test]
async fn a_text_has_no_start_and_its_usage_comes_after_the_stop_reason() {
    let seen = seen(Script::answer("Hello big world"), true).await;
    assert_eq!((seen.status, &seen.end), (200, &End::KeptAlive));
    assert_eq!(seen.header("content-type"), Some("application/vnd.amazon.eventstream"));
    assert_eq!(seen.header("x-amzn-requestid"), Some("req_sim_1"));
    let messages = messages(&seen.body);
    assert_eq!(
        names(&messages),
        "messageStart contentBlockDelta contentBlockDelta contentBlockDelta contentBlockStop messageStop metadata"
    );
    for message in &messages {
        assert_eq!(
            (message.header(":message-type"), message.header(":content-type")),
            ("event", "application/json")
        );
        assert!(message.json()["p"].is_string(), "events are padded");
    }
    let text: String =
        messages.iter().filter_map(|m| m.json()["delta"]["text"].as_str().map(str::to_owned)).collect();
    assert_eq!(text, "Hello big world");
    assert_eq!(
        (&messages[0].json()["role"], &messages[5].json()["stopReason"]),
        (&json!("assistant"), &json!("end_turn"))
    );
    let usage = messages[6].json()["usage"].clone();
    assert_eq!(
        (&usage["outputTokens"], usage["inputTokens"].as_u64().unwrap() + 3),
        (&json!(3), usage["totalTokens"].as_u64().unwrap())
    );
}

#[tokio::test]
async fn reasoning_is_signed_and_each_tool_call_is_a_block_of_its_own() {
    let messages = messages(&seen(rich(), true).await.body);
    assert_eq!(
        names(&messages),
        "messageStart contentBlockDelta contentBlockDelta contentBlockDelta contentBlockStop contentBlockDelta \
         contentBlockStop contentBlockStart contentBlockDelta contentBlockStop contentBlockStart contentBlockStop \
         messageStop metadata"
    );
    let indices: Vec<u64> = messages.iter().filter_map(|m| m.json()["contentBlockIndex"].as_u64()).collect();
    assert_eq!(indices, [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3]);
    assert!(messages[3].json()["delta"]["reasoningContent"]["signature"].is_string());
    assert_eq!(
        messages[7].json()["start"]["toolUse"],
        json!({"toolUseId": "tooluse_sim_1_0", "name": "weather"})
    );
    assert_eq!(messages[8].json()["delta"], json!({"toolUse": {"input": r#"{"a":1}"#}}));
    assert_eq!(messages[12].json()["stopReason"], "tool_use");
}

#[tokio::test]
async fn the_same_answer_without_a_stream_is_one_message() {
    let seen = seen(rich(), false).await;
    let body = seen.json();
    let content = body["output"]["message"]["content"].as_array().unwrap();
    assert_eq!(content[0]["reasoningContent"]["reasoningText"]["text"], "Let me");
    assert_eq!(content[1], json!({"text": "Look:"}));
    assert_eq!(
        content[2]["toolUse"],
        json!({"toolUseId": "tooluse_sim_1_0", "name": "weather", "input": {"a": 1}})
    );
    assert_eq!(content[3]["toolUse"]["input"], json!({}));
    assert_eq!(
        (&body["stopReason"], &body["output"]["message"]["role"]),
        (&json!("tool_use"), &json!("assistant"))
    );
    assert!(body["metrics"]["latencyMs"].is_number() && body["usage"]["totalTokens"].is_number());
}

#[tokio::test]
async fn stop_reasons_and_missing_usage_are_as_bedrock_tells_them() {
    for (script, reason) in [
        (Script::answer("a").finish("length"), "max_tokens"),
        (Script::answer("a").finish("content_filter"), "content_filtered"),
        (Script::answer("a").finish("guardrail_intervened"), "guardrail_intervened"),
        (Script::healthy().refusal("No."), "content_filtered"),
    ] {
        assert_eq!(seen(script, false).await.json()["stopReason"], reason);
    }
    let last =
        messages(&seen(Script::answer("a").usage(UsageShape::Missing), true).await.body).pop().unwrap();
    assert_eq!((last.name(), last.json().get("usage")), ("metadata", None));
    let empty = messages(&seen(Script::healthy().empty_content_finish(), true).await.body);
    assert_eq!(names(&empty), "messageStart messageStop metadata");
    assert_eq!(names(&messages(&seen(Script::healthy().choices_empty(), true).await.body)), "metadata");
}

#[tokio::test]
async fn split_bytes_carry_the_same_frames() {
    let whole = seen(rich(), true).await;
    let split = seen(rich().split_every_byte().bom(), true).await;
    assert_eq!(split.body, whole.body);
    assert!(split.chunks.iter().all(|size| *size == 1));
}

#[tokio::test]
async fn errors_name_their_kind_in_a_header() {
    for (script, status, kind) in [
        (Script::openai_rate_limit(2), 429, "ThrottlingException"),
        (Script::openai_quota(), 400, "ServiceQuotaExceededException"),
        (Script::openai_overloaded(), 503, "ServiceUnavailableException"),
        (Script::server_error(500), 500, "InternalServerException"),
        (Script::context_length_exceeded(), 400, "ValidationException"),
        (Script::model_not_found("m"), 400, "ValidationException"),
        (Script::invalid_api_key(), 403, "UnrecognizedClientException"),
        (Script::status(403), 403, "AccessDeniedException"),
        (Script::status(404), 404, "ResourceNotFoundException"),
        (Script::status(424), 424, "ModelErrorException"),
        (Script::invalid_request("top_p"), 400, "ValidationException"),
    ] {
        let seen = seen(script, true).await;
        let named = seen.header("x-amzn-errortype").unwrap();
        assert_eq!((seen.status, named.split_once(':').unwrap().0), (status, kind));
        assert!(seen.json()["message"].is_string());
        assert_eq!(seen.header("retry-after"), None, "Bedrock does not say when to come back");
    }
    let long = seen(Script::context_length_exceeded(), false).await.json();
    assert_eq!(long["message"], "Input is too long for requested model.");
}

#[tokio::test]
async fn a_failure_in_the_stream_is_an_exception_or_an_error_and_the_last_message() {
    let overloaded = || json!({"type": "overloaded_error", "message": "Overloaded"});
    let own = json!({"type": "modelStreamErrorException", "message": "boom", "originalStatusCode": 500, "originalMessage": "x"});
    let own = Fault::Error { after: 1, event: own, done: false, first: false };
    for (script, count, name) in [
        (Script::error_event_first(overloaded()), 1, "serviceUnavailableException"),
        (Script::error_event_after(2, overloaded()), 4, "serviceUnavailableException"),
        (Script::response_failed_after(0, "rate_limit_exceeded"), 2, "throttlingException"),
        (
            Script::error_then_done(0, json!({"message": "x", "type": "server_error"})),
            2,
            "internalServerException",
        ),
        (Script::answer("a b").fault(own), 3, "modelStreamErrorException"),
    ] {
        let messages = messages(&seen(script, true).await.body);
        let last = messages.last().unwrap();
        assert_eq!((messages.len(), last.name(), last.header(":message-type")), (count, name, "exception"));
        assert!(last.json()["message"].is_string() && last.json().get("type").is_none());
    }
    let flat = messages(&seen(Script::flat_error_after(0, "server_error"), true).await.body).pop().unwrap();
    assert_eq!(
        (flat.header(":message-type"), flat.name(), flat.payload.len()),
        ("error", "InternalFailure", 0)
    );
    assert!(!flat.header(":error-message").is_empty());
}

#[tokio::test]
async fn a_stream_breaks_where_the_script_says() {
    let deltas = |seen: &Seen| names(&messages(&seen.body)).matches("contentBlockDelta").count();
    for (script, end) in [(Script::cut_after(3), End::Closed), (Script::end_after(3), End::KeptAlive)] {
        let seen = seen(script.clone(), true).await;
        assert_eq!((deltas(&seen), &seen.end), (3, &end), "{script:?}");
        assert!(!names(&messages(&seen.body)).contains("messageStop"));
    }
    let open = seen(Script::healthy().tokens(3).no_done(), true).await;
    assert!(names(&messages(&open.body)).ends_with("contentBlockStop messageStop"));
    assert_eq!(seen(Script::reset_after(1), true).await.end, End::Reset);
    let cut = seen(Script::cut_after(1), false).await;
    assert!(cut.body.len() < cut.header("content-length").unwrap().parse().unwrap());
}

#[tokio::test]
async fn hanging_streams_stay_open_and_without_a_heartbeat_silent() {
    for (script, last) in [
        (Script::role_only_then_silence(), "messageStart"),
        (Script::stall_after(2).heartbeat(Duration::from_millis(1)), "contentBlockDelta contentBlockDelta"),
        (Script::unended(), "messageStop"),
    ] {
        let sim = sim(script).await;
        let mut client = TcpStream::connect(sim.addr()).await.unwrap();
        let ask = converse("m", true, hi());
        exchange_until(&mut client, &ask, |seen| names(&messages(&seen.body)).ends_with(last)).await;
        assert_silent(&mut client).await;
        drop(client);
        sim.wait_until(|sim| sim.aborted() == 1).await.unwrap();
    }
    let sim = sim(Script::heartbeats_only(Duration::from_millis(1))).await;
    let mut client = TcpStream::connect(sim.addr()).await.unwrap();
    let seen = exchange_until(&mut client, &converse("m", true, hi()), |seen| seen.status == 200).await;
    assert_eq!(seen.body.len(), 0);
    assert_silent(&mut client).await;
}

#[tokio::test]
async fn a_broken_message_stands_in_for_one_output() {
    let broken = |event| Script::answer("a b c d").fault(Fault::Malformed { after: 1, event });
    for event in [BrokenEvent::TruncatedJson, BrokenEvent::InvalidUtf8, BrokenEvent::Empty] {
        let messages = messages(&seen(broken(event), true).await.body);
        let bad: Vec<usize> = (0..messages.len())
            .filter(|at| serde_json::from_slice::<Value>(&messages[*at].payload).is_err())
            .collect();
        assert_eq!((messages.len(), bad), (1 + 4 + 3, vec![2]), "{event:?}");
    }
    let seen = seen(broken(BrokenEvent::Checksum), true).await;
    let body = &seen.body;
    let skip = |at: usize| at + number(&body[at..at + 4]);
    let (from, to) = (skip(skip(0)), skip(skip(skip(0))));
    let (content, sum) = body[from..to].split_at(to - from - 4);
    assert_eq!(crc(content) ^ u32::from_be_bytes(sum.try_into().unwrap()), 1, "the third message is damaged");
    assert!(messages(&body[to..]).last().unwrap().name() == "metadata", "the rest follows");
}

#[tokio::test]
async fn a_broken_checksum_is_broken_json_where_there_are_no_checksums() {
    let sim =
        sim(Script::answer("a b").fault(Fault::Malformed { after: 0, event: BrokenEvent::Checksum })).await;
    let ask = crate::raw::chat(json!({"model": "m", "stream": true}));
    let events = crate::raw::events(&exchange(sim.addr(), &ask).await.body);
    assert!(serde_json::from_str::<Value>(&events[1]).is_err());
}

#[tokio::test]
async fn a_key_is_a_bearer_token_or_whose_signature_it_is_and_the_model_is_in_the_path() {
    let arn = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.m-v1:0";
    let config =
        SimConfig { api_key: Some("AKID".into()), models: vec![arn.into()], ..SimConfig::named("a") };
    let sim = Sim::start(config).await.unwrap();
    let ask = |model: &str, authorization: &str| {
        let body = hi().to_string();
        let length = body.len();
        format!("POST /model/{model}/converse HTTP/1.1\r\nhost: sim\r\nauthorization: {authorization}\r\ncontent-length: {length}\r\n\r\n{body}")
            .into_bytes()
    };
    let escaped = arn.replace(':', "%3A").replace('/', "%2F");
    let signed = |key: &str| {
        format!(
            "AWS4-HMAC-SHA256 Credential={key}/20261130/eu-west-1/bedrock/aws4_request, SignedHeaders=host, Signature=00"
        )
    };
    for (model, authorization, status) in [
        (escaped.as_str(), "Bearer AKID".to_owned(), 200),
        (arn, signed("AKID"), 200),
        (arn, signed("OTHER"), 403),
        ("unknown", signed("AKID"), 400),
    ] {
        assert_eq!(
            exchange(sim.addr(), &ask(model, &authorization)).await.status,
            status,
            "{model} {authorization}"
        );
    }
    assert_eq!(sim.calls_for_model(arn), 2);
}
