//! Faults on the Responses endpoint: errors in OpenAI's words, and streams that break.

use std::time::Duration;

use pointsman_provider_sim::{BrokenEvent, Fault, ResponsesShape, Script, Sim, SimConfig};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::named::{Event, datas, events, names};
use crate::raw::{End, assert_silent, exchange, exchange_until, request};
use crate::responses::{asked, in_order, stream, whole};
use crate::sim;

fn deltas(events: &[Event]) -> usize {
    names(events).iter().filter(|name| *name == "response.output_text.delta").count()
}

#[tokio::test]
async fn errors_have_openais_envelope() {
    for (script, status, code) in [
        (Script::openai_rate_limit(2), 429, json!("rate_limit_exceeded")),
        (Script::openai_quota(), 429, json!("insufficient_quota")),
        (Script::openai_overloaded(), 503, json!("server_is_overloaded")),
        (Script::server_error(500), 500, Value::Null),
        (Script::context_length_exceeded(), 400, json!("context_length_exceeded")),
        (Script::model_not_found("m"), 404, json!("model_not_found")),
        (Script::invalid_api_key(), 401, json!("invalid_api_key")),
    ] {
        let seen = whole(script).await;
        let error = seen.json()["error"].clone();
        assert_eq!((seen.status, &error["code"]), (status, &code));
        let mut keys: Vec<&String> = error.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, ["code", "message", "param", "type"]);
    }
    let error = whole(Script::context_length_exceeded()).await.json()["error"].clone();
    assert_eq!(
        (&error["param"], error["message"].as_str().unwrap().starts_with("Your input exceeds")),
        (&json!("input"), true)
    );
    assert_eq!(whole(Script::openai_rate_limit(2)).await.header("retry-after"), Some("2"));
}

#[tokio::test]
async fn a_failure_in_the_stream_is_a_response_that_failed_and_the_last_event() {
    for code in ["rate_limit_exceeded", "server_error", "context_length_exceeded"] {
        for after in [0, 2] {
            let seen = stream(Script::response_failed_after(after, code)).await;
            assert_eq!((seen.status, &seen.end), (200, &End::KeptAlive));
            let events = events(&seen);
            assert_eq!(
                (deltas(&events), names(&events).last().unwrap().as_str()),
                (after, "response.failed")
            );
            let datas = datas(&events);
            let (last, response) = (datas.len() - 1, &datas[datas.len() - 1]["response"]);
            assert_eq!(datas[last]["sequence_number"], last);
            assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!(code)));
            assert_eq!(response["id"], datas[0]["response"]["id"]);
        }
    }
}

#[tokio::test]
async fn error_events_are_flat_or_nested() {
    let flat = datas(&events(&stream(Script::flat_error_after(1, "server_error")).await)).pop().unwrap();
    assert_eq!(
        (&flat["type"], &flat["code"], flat.get("error")),
        (&json!("error"), &json!("server_error"), None)
    );
    assert_eq!((flat["message"].is_string(), &flat["param"]), (true, &Value::Null));
    let events = events(&stream(Script::nested_error_after(0, "insufficient_quota")).await);
    assert_eq!(names(&events), ["response.created", "response.in_progress", "error"]);
    let nested = datas(&events).pop().unwrap();
    assert_eq!(
        (&nested["error"]["code"], &nested["sequence_number"]),
        (&json!("insufficient_quota"), &json!(2))
    );
}

#[tokio::test]
async fn an_error_of_any_dialect_is_told_as_openai_tells_it() {
    let overloaded = || json!({"type": "overloaded_error", "message": "Overloaded"});
    let later = events(&stream(Script::error_event_after(2, overloaded())).await);
    let failed = datas(&later).pop().unwrap();
    assert_eq!(failed["response"]["error"], json!({"code": "server_is_overloaded", "message": "Overloaded"}));
    let first = events(&stream(Script::error_event_first(overloaded())).await);
    assert_eq!((names(&first), &datas(&first)[0]["error"]), (vec!["error".to_owned()], &overloaded()));
    let both = events(&stream(Script::error_then_done(0, overloaded())).await);
    assert_eq!(names(&both), ["response.created", "response.in_progress", "error", "response.failed"]);
    assert_eq!(datas(&both)[3]["sequence_number"], 3);
    let body = whole(Script::error_event_after(0, overloaded())).await;
    assert_eq!((body.status, &body.json()["status"]), (200, &json!("failed")));
}

#[tokio::test]
async fn failures_of_responses_are_error_events_in_the_other_dialects() {
    for script in [
        Script::response_failed_after(0, "rate_limit_exceeded"),
        Script::flat_error_after(0, "rate_limit_exceeded"),
        Script::nested_error_after(0, "rate_limit_exceeded"),
    ] {
        let sim = sim(script).await;
        let body = json!({"model": "m", "max_tokens": 9, "stream": true, "messages": []}).to_string();
        let chat = exchange(sim.addr(), &request("POST", "/v1/chat/completions", &body)).await;
        let chat = crate::raw::events(&chat.body).pop().unwrap();
        let error = serde_json::from_str::<Value>(&chat).unwrap()["error"].clone();
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("rate_limit_error"), &json!("rate_limit_exceeded"))
        );
        let messages = events(&exchange(sim.addr(), &request("POST", "/v1/messages", &body)).await);
        let last = datas(&messages).pop().unwrap();
        assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("rate_limit_error")));
    }
}

#[tokio::test]
async fn a_stream_breaks_where_the_script_says() {
    for (script, end) in [
        (Script::cut_after(3), End::Closed),
        (Script::end_after(3), End::KeptAlive),
        (Script::healthy().tokens(3).no_done(), End::KeptAlive),
    ] {
        let seen = stream(script.clone()).await;
        assert_eq!(seen.end, end, "{script:?}");
        let events = events(&seen);
        assert_eq!(deltas(&events), 3, "{script:?}");
        assert!(!seen.text().contains("response.completed"));
    }
    assert_eq!(stream(Script::reset_after(1)).await.end, End::Reset);
    let nothing = events(&stream(Script::end_after(0)).await);
    assert_eq!(names(&nothing), ["response.created", "response.in_progress"]);
}

#[tokio::test]
async fn without_its_terminal_event_a_stream_still_has_all_items_done() {
    let events = events(&stream(Script::answer("a b").no_done()).await);
    assert_eq!(names(&events).last().unwrap(), "response.output_item.done");
}

#[tokio::test]
async fn hanging_streams_stay_open_and_silent() {
    for (script, last) in [
        (Script::role_only_then_silence(), "response.in_progress"),
        (Script::stall_after(2), "response.output_text.delta"),
        (Script::unended(), "response.output_item.done"),
    ] {
        let sim = sim(script).await;
        let mut client = TcpStream::connect(sim.addr()).await.unwrap();
        let reached = |events: &[Event]| match last {
            "response.output_text.delta" => deltas(events) == 2,
            last => names(events).last().is_some_and(|name| name == last),
        };
        exchange_until(&mut client, &asked(true), |seen| reached(&events(seen))).await;
        assert_silent(&mut client).await;
        drop(client);
        sim.wait_until(|sim| sim.aborted() == 1).await.unwrap();
    }
}

#[tokio::test]
async fn a_waiting_stream_sends_keepalives_with_a_number() {
    let script = Script::answer("late")
        .delay_first_token(Duration::from_millis(80))
        .heartbeat(Duration::from_millis(10));
    let events = events(&stream(script).await);
    let beats = datas(&events).into_iter().filter(|data| data["type"] == "keepalive");
    let beats: Vec<Value> = beats.collect();
    assert!((1..=8).contains(&beats.len()));
    assert!(beats.iter().all(|beat| beat["sequence_number"] == 2));
}

#[tokio::test]
async fn a_broken_event_keeps_its_name_and_the_rest_follows() {
    for broken in [BrokenEvent::TruncatedJson, BrokenEvent::InvalidUtf8] {
        let fault = Fault::Malformed { after: 2, event: broken };
        let events = events(&stream(Script::answer("a b c d").fault(fault)).await);
        // created, in_progress, item, part, four deltas, three ends, completed
        assert_eq!(events.len(), 2 + 2 + 4 + 3 + 1);
        let broken = |event: &Event| {
            event.data.contains('\u{fffd}') || serde_json::from_str::<Value>(&event.data).is_err()
        };
        let bad: Vec<usize> = (0..events.len()).filter(|at| broken(&events[*at])).collect();
        assert_eq!((bad, names(&events)[6].as_str()), (vec![6], "response.output_text.delta"));
    }
}

#[tokio::test]
async fn llama_cpp_leaves_out_numbers_indices_and_the_end_of_arguments() {
    let script = Script::answer("a b").reasoning("Hm", "r").tool_call("f", "{}").finish("length");
    let seen = stream(script.responses(ResponsesShape::LlamaCpp)).await;
    let events = events(&seen);
    let expected = "response.created response.in_progress response.output_item.added response.reasoning_text.delta \
                    response.output_item.done response.output_item.added response.content_part.added \
                    response.output_text.delta response.output_text.delta response.output_text.done \
                    response.content_part.done response.output_item.done response.output_item.added \
                    response.function_call_arguments.delta response.output_item.done response.completed";
    assert_eq!(names(&events).join(" "), expected);
    let datas = datas(&events);
    assert_eq!(
        datas[0]["response"],
        json!({"id": "resp_sim_1", "object": "response", "status": "in_progress"})
    );
    for key in ["sequence_number", "output_index", "content_index"] {
        assert!(datas.iter().all(|data| data.get(key).is_none()), "{key}");
    }
    assert_eq!(
        datas[7],
        json!({"type": "response.output_text.delta", "item_id": "msg_sim_1_1", "delta": "a"})
    );
    let reasoning = &datas[4]["item"];
    assert_eq!((&reasoning["summary"], &reasoning["content"][0]["text"]), (&json!([]), &json!("Hm")));
    let last = &datas[15]["response"];
    assert_eq!((&last["status"], last["output"].as_array().unwrap().len()), (&json!("completed"), 3));
    let error = stream(
        Script::error_event_after(0, json!({"message": "broken", "type": "server_error"}))
            .responses(ResponsesShape::LlamaCpp),
    )
    .await;
    assert!(error.text().ends_with(
        "\n\ndata: {\"error\":{\"code\":500,\"message\":\"broken\",\"type\":\"server_error\"}}\n\n"
    ));
}

#[tokio::test]
async fn whole_items_come_without_anything_within_and_still_in_order() {
    let script = Script::answer("a b").reasoning("Hm", "r").tool_call("f", "{}");
    let events = events(&stream(script.responses(ResponsesShape::WholeItems)).await);
    let item = "response.output_item.added response.output_item.done";
    let expected = format!("response.created response.in_progress {item} {item} {item} response.completed");
    assert_eq!(names(&events).join(" "), expected);
    let output = in_order(&events)["response"]["output"].clone();
    assert_eq!((&output[1]["content"][0]["text"], &output[2]["arguments"]), (&json!("a b"), &json!("{}")));
}

#[tokio::test]
async fn a_pause_ends_and_the_answer_goes_on_in_order() {
    let events = events(&stream(Script::pause_after(2, Duration::from_millis(20)).tokens(5)).await);
    assert_eq!((deltas(&events), &in_order(&events)["response"]["status"]), (5, &json!("completed")));
}

#[tokio::test]
async fn html_and_empty_bodies_and_resets_come_as_on_any_endpoint() {
    assert!(stream(Script::healthy().html()).await.text().starts_with("<!DOCTYPE html>"));
    assert_eq!(stream(Script::healthy().empty_body()).await.body.len(), 0);
    assert_eq!(stream(Script::reset_before_headers()).await.end, End::Reset);
    let cut = whole(Script::cut_after(1)).await;
    assert!(cut.body.len() < cut.header("content-length").unwrap().parse().unwrap());
}

#[tokio::test]
async fn a_key_and_a_model_are_checked_before_any_script() {
    let config = SimConfig { api_key: Some("k".into()), models: vec!["m".into()], ..SimConfig::named("a") };
    let sim = Sim::start(config).await.unwrap();
    let refused = exchange(sim.addr(), &asked(false)).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    let with_key = |model: &str| {
        let body = json!({"model": model, "input": "Hi"}).to_string();
        let length = body.len();
        format!("POST /v1/responses HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer k\r\ncontent-length: {length}\r\n\r\n{body}")
            .into_bytes()
    };
    let unknown = exchange(sim.addr(), &with_key("other")).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!("model_not_found")));
    assert_eq!(exchange(sim.addr(), &with_key("m")).await.status, 200);
}
