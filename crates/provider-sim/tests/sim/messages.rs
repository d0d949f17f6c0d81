//! The Messages endpoint: Anthropic's stream, errors and faults, by the same scripts.

use pointsman_provider_sim::{BrokenEvent, Fault, Script, Sim, SimConfig, UsageShape};
use serde_json::{Value, json};

use crate::named::{Event, datas, events, names};
use crate::raw::{End, Seen, exchange, request};
use crate::sim;

fn messages(body: Value) -> Vec<u8> {
    request("POST", "/v1/messages", &body.to_string())
}

fn asked(stream: bool) -> Vec<u8> {
    messages(json!({"model": "m", "max_tokens": 100, "stream": stream, "messages": []}))
}

async fn whole(script: Script) -> Seen {
    let sim = sim(script).await;
    exchange(sim.addr(), &asked(false)).await
}

async fn stream(script: Script) -> Seen {
    let sim = sim(script).await;
    exchange(sim.addr(), &asked(true)).await
}

/// Checks the order that Anthropic documents: `message_start`, blocks with indices from 0, each with a start, its
/// deltas and a stop, `message_delta`, `message_stop`. Says whether it is complete.
fn in_order(events: &[Event]) -> bool {
    let mut open: Option<u64> = None;
    let mut blocks = 0;
    for (at, (name, data)) in names(events).iter().zip(datas(events)).enumerate() {
        assert_eq!(data["type"], *name, "the name is the type");
        assert_eq!(at == 0, name == "message_start");
        let index = data["index"].as_u64();
        match name.as_str() {
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(blocks)));
                open = index;
                blocks += 1;
            }
            "content_block_delta" => assert_eq!((open, open.is_some()), (index, true)),
            "content_block_stop" => {
                assert_eq!((open, open.is_some()), (index, true));
                open = None;
            }
            "message_delta" | "message_stop" => assert_eq!(open, None),
            "message_start" | "ping" => {}
            other => panic!("{other} has no place in an answer"),
        }
    }
    names(events).ends_with(&["message_delta".to_owned(), "message_stop".to_owned()])
}

#[tokio::test]
async fn a_text_has_the_documented_events_each_with_its_name() {
    let seen = stream(Script::answer("Hello big world")).await;
    assert_eq!((seen.status, &seen.end), (200, &End::KeptAlive));
    assert_eq!(seen.header("request-id"), Some("req_sim_1"));
    let events = events(&seen);
    let expected = "message_start ping content_block_start content_block_delta content_block_delta \
                    content_block_delta content_block_stop message_delta message_stop";
    assert_eq!(names(&events).join(" "), expected);
    assert!(in_order(&events));
    let datas = datas(&events);
    assert_eq!((&datas[0]["message"]["model"], &datas[0]["message"]["content"]), (&json!("m"), &json!([])));
    let text: String = datas.iter().filter_map(|data| data["delta"]["text"].as_str()).collect();
    assert_eq!(text, "Hello big world");
    assert_eq!(datas[7]["delta"], json!({"stop_reason": "end_turn", "stop_sequence": null}));
    assert_eq!(datas[7]["usage"], json!({"output_tokens": 3}));
}

fn rich() -> Script {
    Script::answer("Look:")
        .reasoning("Let me think", "reasoning_content")
        .tool_call("weather", r#"{"city":"Zürich"}"#)
        .tool_call("time", "{}")
}

#[tokio::test]
async fn thinking_is_signed_and_each_tool_call_is_a_block_of_its_own() {
    let events = events(&stream(rich()).await);
    assert!(in_order(&events));
    let datas = datas(&events);
    let starts: Vec<&Value> = datas.iter().filter(|data| data["type"] == "content_block_start").collect();
    let kinds: Vec<&str> =
        starts.iter().map(|start| start["content_block"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(starts[2]["content_block"]["name"], "weather");
    let signed = datas.iter().filter(|data| data["delta"]["type"] == "signature_delta").count();
    assert_eq!(signed, 1);
    let input = |index: u64| -> String {
        let of_block = datas.iter().filter(|data| data["index"] == index);
        of_block.filter_map(|data| data["delta"]["partial_json"].as_str()).collect()
    };
    assert_eq!((input(2).as_str(), input(3).as_str()), (r#"{"city":"Zürich"}"#, "{}"));
    assert_eq!(datas[datas.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn the_same_answer_without_a_stream_is_one_message() {
    let seen = whole(rich()).await;
    let body = seen.json();
    assert_eq!(
        (&body["type"], &body["role"], &body["stop_reason"]),
        (&json!("message"), &json!("assistant"), &json!("tool_use"))
    );
    let content = body["content"].as_array().unwrap();
    assert_eq!(content[0]["thinking"], "Let me think");
    assert!(!content[0]["signature"].as_str().unwrap().is_empty());
    assert_eq!(content[1], json!({"type": "text", "text": "Look:"}));
    assert_eq!((&content[2]["input"], &content[3]["input"]), (&json!({"city": "Zürich"}), &json!({})));
    assert_eq!(body["usage"]["output_tokens"].as_u64(), Some(3 + 1 + (1 + 3) + (1 + 1)));
}

#[tokio::test]
async fn every_way_of_spelling_gives_the_same_events() {
    let plain = datas(&events(&stream(rich()).await));
    for script in [
        rich().crlf(),
        rich().cr(),
        rich().bom(),
        rich().split_every_byte(),
        rich().no_space_after_colon(),
        rich().multi_line_data(),
        rich().comments(),
    ] {
        assert_eq!(datas(&events(&stream(script.clone()).await)), plain, "{script:?}");
    }
}

#[tokio::test]
async fn finish_reasons_are_named_as_anthropic_names_them() {
    for (script, reason) in [
        (Script::answer("a"), "end_turn"),
        (Script::answer("a").finish("length"), "max_tokens"),
        (Script::answer("a").finish("content_filter"), "refusal"),
        (Script::healthy().refusal("I cannot"), "refusal"),
        (Script::answer("a").finish("pause_turn"), "pause_turn"),
    ] {
        assert_eq!(whole(script).await.json()["stop_reason"], reason);
    }
}

#[tokio::test]
async fn usage_is_cumulative_in_each_shape() {
    let script = || Script::answer("a b");
    let ends = |shape| async move {
        let datas = datas(&events(&stream(script().usage(shape)).await));
        let delta = datas.iter().find(|data| data["type"] == "message_delta").unwrap().clone();
        (datas[0]["message"]["usage"]["input_tokens"].clone(), delta.get("usage").cloned())
    };
    assert_eq!(ends(UsageShape::Standard).await, (json!(3), Some(json!({"output_tokens": 2}))));
    let (start, end) = ends(UsageShape::WithZeroes).await;
    assert_eq!((start, &end.unwrap()["input_tokens"]), (json!(0), &json!(3)));
    assert_eq!(ends(UsageShape::Null).await.1, Some(Value::Null));
    assert_eq!(ends(UsageShape::Missing).await.1, None);
}

async fn error_of(script: Script) -> (u16, Value) {
    let seen = whole(script.clone()).await;
    let streamed = stream(script).await;
    assert_eq!((seen.status, &seen.body), (streamed.status, &streamed.body));
    let body = seen.json();
    assert_eq!(body["type"], "error");
    assert!(body["request_id"].as_str().unwrap().starts_with("req_"));
    (seen.status, body["error"].clone())
}

#[tokio::test]
async fn the_same_words_give_errors_in_anthropics_envelope() {
    for (script, status, kind) in [
        (Script::openai_rate_limit(2), 429, "rate_limit_error"),
        (Script::openai_quota(), 400, "invalid_request_error"),
        (Script::openai_overloaded(), 529, "overloaded_error"),
        (Script::server_error(500), 500, "api_error"),
        (Script::status(504), 504, "timeout_error"),
        (Script::status(413), 413, "request_too_large"),
        (Script::context_length_exceeded(), 400, "invalid_request_error"),
        (Script::invalid_request("top_p"), 400, "invalid_request_error"),
        (Script::model_not_found("m"), 404, "not_found_error"),
        (Script::invalid_api_key(), 401, "authentication_error"),
        (Script::anthropic_overloaded(), 529, "overloaded_error"),
        (Script::anthropic_spend_limit(), 429, "rate_limit_error"),
        (Script::anthropic_api_error(), 500, "api_error"),
    ] {
        let (seen, error) = error_of(script).await;
        assert_eq!((seen, &error["type"]), (status, &json!(kind)));
        assert!(error.get("param").is_none() && error.get("code").is_none());
    }
}

#[tokio::test]
async fn spent_money_and_long_prompts_are_told_by_their_text() {
    let (status, error) = error_of(Script::anthropic_credit_balance()).await;
    assert_eq!(status, 400);
    assert!(error["message"].as_str().unwrap().starts_with("Your credit balance is too low"));
    let (status, error) = error_of(Script::anthropic_prompt_too_long()).await;
    assert_eq!(
        (status, &error["message"]),
        (400, &json!("prompt is too long: 209303 tokens > 200000 maximum"))
    );
    let (_, error) = error_of(Script::anthropic_spend_limit()).await;
    assert_eq!(error["details"]["error_code"], "enforced_spend_limit_reached");
}

#[tokio::test]
async fn a_rate_limit_has_anthropics_headers_with_the_reset_in_rfc_3339() {
    let seen = whole(Script::anthropic_rate_limit(60)).await;
    assert_eq!((seen.status, seen.header("retry-after")), (429, Some("60")));
    assert_eq!(seen.header("anthropic-ratelimit-input-tokens-remaining"), Some("0"));
    let reset = seen.header("anthropic-ratelimit-input-tokens-reset").unwrap();
    let shape: String = reset.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00Z", "{reset}");
}

#[tokio::test]
async fn another_servers_error_stays_as_it_is_written() {
    let body =
        r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":2048}}"#;
    let seen = whole(Script::fixed(400, "application/json", body)).await;
    assert_eq!((seen.status, seen.text().as_str()), (400, body));
}

#[tokio::test]
async fn an_error_event_has_its_name_and_is_the_last_one() {
    let overloaded = || json!({"type": "overloaded_error", "message": "Overloaded"});
    for (script, count) in [
        (Script::error_event_first(overloaded()), 1),
        (Script::error_event_after(2, overloaded()), 2 + 1 + 2 + 1),
    ] {
        let events = events(&stream(script).await);
        assert_eq!((events.len(), names(&events)[count - 1].as_str()), (count, "error"));
        assert_eq!(datas(&events)[count - 1], json!({"type": "error", "error": overloaded()}));
    }
    // llama.cpp sends the error object bare.
    let flat = json!({"code": 500, "message": "broken", "type": "server_error"});
    let fault = Fault::Error { after: 0, event: flat.clone(), done: false, first: false };
    let events = events(&stream(Script::healthy().fault(fault)).await);
    assert_eq!((names(&events).last().unwrap().as_str(), datas(&events).last().unwrap()), ("error", &flat));
}

#[tokio::test]
async fn a_stream_breaks_where_the_script_says() {
    let deltas =
        |events: &[Event]| names(events).iter().filter(|name| *name == "content_block_delta").count();
    for (script, end) in [
        (Script::cut_after(3), End::Closed),
        (Script::end_after(3), End::KeptAlive),
        (Script::healthy().tokens(3).no_done(), End::KeptAlive),
    ] {
        let seen = stream(script.clone()).await;
        assert_eq!(seen.end, end, "{script:?}");
        let events = events(&seen);
        assert_eq!(deltas(&events), 3, "{script:?}");
        assert!(!in_order(&events));
    }
}

#[tokio::test]
async fn a_broken_event_keeps_its_name_and_the_rest_follows() {
    for broken in [BrokenEvent::TruncatedJson, BrokenEvent::InvalidUtf8] {
        let fault = Fault::Malformed { after: 2, event: broken };
        let events = events(&stream(Script::answer("a b c d").fault(fault)).await);
        assert_eq!(events.len(), 9 + 1);
        let bad: Vec<usize> = (0..events.len())
            .filter(|at| {
                events[*at].data.contains('\u{fffd}')
                    || serde_json::from_str::<Value>(&events[*at].data).is_err()
            })
            .collect();
        assert_eq!((bad, names(&events)[5].as_str()), (vec![5], "content_block_delta"));
    }
}

#[tokio::test]
async fn a_key_and_a_model_are_checked_in_anthropics_words() {
    let config = SimConfig { api_key: Some("k".into()), models: vec!["m".into()], ..SimConfig::named("a") };
    let sim = Sim::start(config).await.unwrap();
    let refused = exchange(sim.addr(), &asked(false)).await;
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (401, &json!("authentication_error")));
    let with_key = |model: &str| {
        let body = json!({"model": model, "messages": []}).to_string();
        format!(
            "POST /v1/messages?beta=true HTTP/1.1\r\nhost: sim\r\nx-api-key: k\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let unknown = exchange(sim.addr(), &with_key("other")).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["type"]), (404, &json!("not_found_error")));
    assert_eq!(exchange(sim.addr(), &with_key("m")).await.status, 200);
}
