//! The Responses endpoint: OpenAI's events and response object, by the same scripts.

use std::collections::BTreeMap;

use pointsman_provider_sim::{Script, UsageShape};
use serde_json::{Value, json};

use crate::named::{Event, datas, events, names};
use crate::raw::{End, Seen, exchange, request};
use crate::sim;

pub(crate) fn responses(body: Value) -> Vec<u8> {
    request("POST", "/v1/responses", &body.to_string())
}

pub(crate) fn asked(stream: bool) -> Vec<u8> {
    responses(json!({"model": "m", "stream": stream, "input": "Hi"}))
}

pub(crate) async fn whole(script: Script) -> Seen {
    let sim = sim(script).await;
    exchange(sim.addr(), &asked(false)).await
}

pub(crate) async fn stream(script: Script) -> Seen {
    let sim = sim(script).await;
    exchange(sim.addr(), &asked(true)).await
}

/// What a client puts together from the deltas of one item.
#[derive(Default)]
struct Item {
    added: Value,
    done: Value,
    /// By the kind of event: the deltas so far, and the whole at the end.
    said: BTreeMap<String, (String, String)>,
    /// Of each content part or summary part, whether it has ended.
    parts: Vec<bool>,
}

/// Reads a stream by the rules of the official accumulators (wire facts, section 2.5), and gives back the last event.
pub(crate) fn in_order(events: &[Event]) -> Value {
    let datas = datas(events);
    let mut items: Vec<Item> = Vec::new();
    for (at, (name, data)) in names(events).iter().zip(&datas).enumerate() {
        assert_eq!(data["type"], *name, "the name is the type");
        assert_eq!(data["sequence_number"], at, "numbers count up from 0");
        match name.as_str() {
            "response.created" => assert_eq!((at, &data["response"]["output"]), (0, &json!([]))),
            "response.in_progress" => assert_eq!(at, 1),
            "response.output_item.added" => {
                assert_eq!(data["output_index"], items.len(), "items follow each other");
                assert!(items.last().is_none_or(|item| !item.done.is_null()), "one at a time");
                items.push(Item { added: data["item"].clone(), ..Item::default() });
            }
            "response.output_item.done" => {
                assert_eq!(data["output_index"], items.len() - 1);
                let item = items.last_mut().unwrap();
                let item_of = |key: &str| (item.added[key].clone(), data["item"][key].clone());
                for key in ["id", "type", "call_id", "name"] {
                    let (before, after) = item_of(key);
                    assert_eq!(before, after, "an item keeps its {key}");
                }
                assert!(item.parts.iter().all(|ended| *ended));
                item.done = data["item"].clone();
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                assert_eq!(at, datas.len() - 1, "nothing follows the end");
            }
            name => within(items.last_mut().unwrap(), name, data),
        }
        if let Some(id) = data["response"]["id"].as_str() {
            assert_eq!(id, datas[0]["response"]["id"], "the response keeps its id");
        }
    }
    let last = datas.last().unwrap();
    let done: Vec<Value> = items.iter().map(|item| item.done.clone()).collect();
    assert_eq!(last["response"]["output"], json!(done), "the end has every item");
    last.clone()
}

/// A content part, a summary part or a delta within the item that is open.
fn within(item: &mut Item, name: &str, data: &Value) {
    assert!(item.done.is_null());
    assert_eq!(data["item_id"], item.added["id"]);
    let index = data.get("content_index").or_else(|| data.get("summary_index")).and_then(Value::as_u64);
    let part = index.map(|index| usize::try_from(index).unwrap());
    if name.ends_with("part.added") {
        assert_eq!(part, Some(item.parts.len()), "parts are added in order");
        return item.parts.push(false);
    }
    if let Some(part) = part {
        assert!(!item.parts[part], "a part is open");
        item.parts[part] = name.ends_with("part.done");
    }
    if name.ends_with("part.done") {
        return;
    }
    let (kind, step) = name.rsplit_once('.').unwrap();
    let said = item.said.entry(kind.to_owned()).or_default();
    match step {
        "delta" => said.0.push_str(data["delta"].as_str().unwrap()),
        "done" => {
            let whole = ["text", "refusal", "arguments", "input"].iter().find_map(|key| data[key].as_str());
            said.1 = whole.unwrap().to_owned();
            assert_eq!(said.0, said.1, "the end repeats all deltas");
        }
        other => panic!("{other} has no place in an item"),
    }
}

#[tokio::test]
async fn a_text_has_the_documented_events_each_with_its_name_and_number() {
    let seen = stream(Script::answer("Hello big world")).await;
    assert_eq!((seen.status, &seen.end), (200, &End::KeptAlive));
    assert_eq!(seen.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(seen.header("x-request-id"), Some("req_sim_1"));
    let events = events(&seen);
    let expected = "response.created response.in_progress response.output_item.added response.content_part.added \
                    response.output_text.delta response.output_text.delta response.output_text.delta \
                    response.output_text.done response.content_part.done response.output_item.done \
                    response.completed";
    assert_eq!(names(&events).join(" "), expected);
    let end = in_order(&events);
    let response = &end["response"];
    assert_eq!((&response["status"], &response["model"]), (&json!("completed"), &json!("m")));
    let part = json!({"type": "output_text", "text": "Hello big world", "annotations": [], "logprobs": []});
    let item = json!({"id": "msg_sim_1_0", "type": "message", "status": "completed", "role": "assistant", "content": [part]});
    assert_eq!(response["output"], json!([item]));
    assert_eq!(
        (&response["usage"]["output_tokens"], &datas(&events)[0]["response"]["usage"]),
        (&json!(3), &Value::Null)
    );
    assert!(!seen.text().contains("[DONE]"));
}

#[tokio::test]
async fn the_same_answer_without_a_stream_is_the_object_at_the_end_of_the_stream() {
    for script in [rich(), Script::answer("Hi"), Script::answer("Hi").finish("length")] {
        let end = in_order(&events(&stream(script.clone()).await));
        let seen = whole(script).await;
        assert_eq!((seen.status, seen.header("content-type")), (200, Some("application/json")));
        assert_eq!(seen.json(), end["response"]);
    }
}

/// The keys that OpenAI's specification requires of a response object.
#[tokio::test]
async fn a_response_object_is_whole_from_its_first_event_on_and_repeats_the_request() {
    let sim = sim(Script::answer("Hi")).await;
    let tool = json!({"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}});
    let body = json!({
        "model": "m", "stream": true, "input": "Hi", "instructions": "Be brief.", "max_output_tokens": 16,
        "temperature": 0.5, "tools": [tool], "metadata": {"a": "b"}, "store": false,
    });
    let events = events(&exchange(sim.addr(), &responses(body)).await);
    in_order(&events);
    for data in datas(&events).iter().filter(|data| data.get("response").is_some()) {
        let response = &data["response"];
        for key in [
            "id",
            "object",
            "created_at",
            "model",
            "output",
            "error",
            "incomplete_details",
            "instructions",
            "metadata",
            "parallel_tool_calls",
            "temperature",
            "top_p",
            "tool_choice",
            "tools",
            "status",
            "usage",
            "store",
        ] {
            assert!(response.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(
            (&response["instructions"], &response["max_output_tokens"]),
            (&json!("Be brief."), &json!(16))
        );
        assert_eq!((&response["temperature"], &response["tools"]), (&json!(0.5), &json!([tool])));
        assert_eq!((&response["store"], &response["metadata"]), (&json!(false), &json!({"a": "b"})));
        assert_eq!((&response["top_p"], &response["tool_choice"]), (&json!(1.0), &json!("auto")));
    }
}

fn rich() -> Script {
    Script::answer("Look:")
        .reasoning("Let me think", "reasoning_content")
        .tool_call("weather", r#"{"city":"Zürich"}"#)
        .tool_call("time", "")
        .custom_tool_call("patch", "*** Begin \"Grüße\"")
}

#[tokio::test]
async fn reasoning_a_message_and_each_call_are_items_of_their_own() {
    let end = in_order(&events(&stream(rich()).await));
    let output = end["response"]["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call", "custom_tool_call"]);
    assert_eq!(output[0]["summary"], json!([{"type": "summary_text", "text": "Let me think"}]));
    let calls = [
        json!({"id": "fc_sim_1_2", "type": "function_call", "status": "completed", "call_id": "call_sim_1_0",
               "name": "weather", "arguments": r#"{"city":"Zürich"}"#}),
        json!({"id": "fc_sim_1_3", "type": "function_call", "status": "completed", "call_id": "call_sim_1_1",
               "name": "time", "arguments": ""}),
        json!({"id": "ctc_sim_1_4", "type": "custom_tool_call", "status": "completed", "call_id": "call_sim_1_2",
               "name": "patch", "input": "*** Begin \"Grüße\""}),
    ];
    assert_eq!(output[2..], calls);
    assert_eq!(end["response"]["status"], "completed");
}

#[tokio::test]
async fn a_call_with_empty_arguments_has_no_delta() {
    let events = events(&stream(Script::healthy().tool_call("time", "")).await);
    let expected = "response.created response.in_progress response.output_item.added \
                    response.function_call_arguments.done response.output_item.done response.completed";
    assert_eq!(names(&events).join(" "), expected);
    in_order(&events);
}

#[tokio::test]
async fn encrypted_content_is_complete_only_when_the_item_is_done() {
    let datas = datas(&events(&stream(rich()).await));
    let of = |kind: &str| {
        datas.iter().find(|data| data["type"] == kind).unwrap()["item"]["encrypted_content"].clone()
    };
    let (added, done) = (of("response.output_item.added"), of("response.output_item.done"));
    assert!(added.is_string() && done.is_string());
    assert_ne!(added, done);
}

#[tokio::test]
async fn a_call_of_a_tool_in_a_namespace_names_the_namespace() {
    let function = json!({"type": "function", "name": "weather", "parameters": null});
    let group = json!({"type": "namespace", "name": "mcp__city", "description": "City", "tools": [function]});
    let later = json!({"type": "additional_tools", "role": "developer", "tools": [group]});
    let user = json!({"role": "user", "content": "Hi"});
    for body in [
        json!({"model": "m", "stream": true, "input": "Hi", "tools": [group]}),
        json!({"model": "m", "stream": true, "input": [later, user]}),
    ] {
        let sim = sim(Script::healthy().tool_call("weather", "{}").tool_call("other", "{}")).await;
        let end = in_order(&events(&exchange(sim.addr(), &responses(body)).await));
        let output = &end["response"]["output"];
        assert_eq!((&output[0]["namespace"], output[1].get("namespace")), (&json!("mcp__city"), None));
    }
}

#[tokio::test]
async fn a_refusal_is_a_part_of_a_message_after_its_text() {
    let end = in_order(&events(&stream(Script::healthy().refusal("I will not.")).await));
    let refusal = json!({"type": "refusal", "refusal": "I will not."});
    assert_eq!(end["response"]["output"][0]["content"], json!([refusal]));
    assert_eq!(end["response"]["status"], "completed");
    let end = in_order(&events(&stream(Script::answer("Well,").refusal("no.")).await));
    let content = &end["response"]["output"][0]["content"];
    assert_eq!((&content[0]["text"], &content[1]["refusal"]), (&json!("Well,"), &json!("no.")));
}

#[tokio::test]
async fn an_answer_that_stops_early_is_incomplete_with_the_reason() {
    for (finish, reason) in [("length", "max_output_tokens"), ("content_filter", "content_filter")] {
        let events = events(&stream(Script::answer("a b").finish(finish)).await);
        assert_eq!(names(&events).last().unwrap(), "response.incomplete");
        let response = in_order(&events)["response"].clone();
        assert_eq!(
            (&response["status"], &response["incomplete_details"]),
            (&json!("incomplete"), &json!({ "reason": reason }))
        );
        assert_eq!(response["output"][0]["status"], "incomplete");
        assert_eq!(response["usage"]["output_tokens"], 2);
    }
}

#[tokio::test]
async fn an_answer_may_say_nothing_or_be_empty() {
    let blank = in_order(&events(&stream(Script::healthy().empty_content_finish()).await));
    assert_eq!(blank["response"]["output"][0]["content"][0]["text"], "");
    let empty = events(&stream(Script::healthy().choices_empty()).await);
    assert_eq!(names(&empty), ["response.created", "response.in_progress", "response.completed"]);
    assert_eq!(in_order(&empty)["response"]["output"], json!([]));
    assert_eq!(whole(Script::healthy().choices_empty()).await.json()["output"], json!([]));
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
async fn deltas_are_padded_unless_that_is_not_wanted() {
    let padded =
        |events: &[Event]| datas(events).iter().filter(|data| data.get("obfuscation").is_some()).count();
    assert_eq!(padded(&events(&stream(Script::answer("a b c")).await)), 3);
    let sim = sim(Script::answer("a b c")).await;
    let options = json!({"include_obfuscation": false});
    let body = json!({"model": "m", "stream": true, "input": "Hi", "stream_options": options});
    assert_eq!(padded(&events(&exchange(sim.addr(), &responses(body)).await)), 0);
}

#[tokio::test]
async fn usage_is_at_the_end_in_each_shape() {
    let seen = |shape: UsageShape| async move {
        let datas = datas(&events(&stream(Script::answer("a b").reasoning("Hm", "r").usage(shape)).await));
        let usage =
            |at: usize| datas[at]["response"].get("usage").cloned().unwrap_or_else(|| json!("absent"));
        (usage(0), usage(datas.len() - 1))
    };
    let (first, last) = seen(UsageShape::Standard).await;
    let input = last["input_tokens"].as_u64().unwrap();
    assert_eq!(first, Value::Null);
    assert_eq!((&last["output_tokens"], &last["total_tokens"]), (&json!(3), &json!(input + 3)));
    assert_eq!(
        (&last["output_tokens_details"]["reasoning_tokens"], &last["input_tokens_details"]["cached_tokens"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(seen(UsageShape::Null).await, (Value::Null, Value::Null));
    assert_eq!(seen(UsageShape::Missing).await, (json!("absent"), json!("absent")));
    let (first, last) = seen(UsageShape::WithZeroes).await;
    assert_eq!((&first["total_tokens"], &last["output_tokens"]), (&json!(0), &json!(3)));
    let (first, last) = seen(UsageShape::EveryChunk).await;
    assert_eq!((&first["output_tokens"], &last["output_tokens"]), (&json!(0), &json!(3)));
    let (_, last) = seen(UsageShape::OnFinishChunk).await;
    assert_eq!((&last["output_tokens"], last.get("output_tokens_details")), (&json!(3), None));
}
