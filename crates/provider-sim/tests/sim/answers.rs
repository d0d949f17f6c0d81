//! Complete answers and the ways in which they are spelled.

use pointsman_provider_sim::{Script, UsageShape};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::raw::{End, Seen, chat, events, exchange, exchange_on};
use crate::sim;

fn streaming() -> Vec<u8> {
    chat(json!({"model": "m", "stream": true}))
}

fn whole() -> Vec<u8> {
    chat(json!({"model": "m"}))
}

async fn stream_of(script: Script) -> Seen {
    let sim = sim(script).await;
    let seen = exchange(sim.addr(), &streaming()).await;
    assert_eq!((seen.status, &seen.end), (200, &End::KeptAlive));
    seen
}

fn json_events(seen: &Seen) -> Vec<Value> {
    events(&seen.body)
        .iter()
        .filter(|event| *event != "[DONE]")
        .map(|e| serde_json::from_str(e).unwrap())
        .collect()
}

fn content(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

#[tokio::test]
async fn a_healthy_stream_has_role_words_finish_and_done_and_keeps_the_connection() {
    let seen = stream_of(Script::healthy().tokens(5)).await;
    assert_eq!(seen.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(seen.header("x-sim-name"), Some("sim-a"));
    let chunks = json_events(&seen);
    assert_eq!(chunks.len(), 1 + 5 + 1);
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(content(&chunks).starts_with("sim-a answers as m: "));
    assert_eq!(chunks[6]["choices"][0]["delta"], json!({}));
    assert_eq!(chunks[6]["choices"][0]["finish_reason"], "stop");
    for chunk in &chunks {
        assert_eq!((&chunk["id"], &chunk["model"]), (&json!("chatcmpl-sim-1"), &json!("m")));
        assert_eq!(
            (&chunk["object"], &chunk["system_fingerprint"]),
            (&json!("chat.completion.chunk"), &json!("fp_sim-a"))
        );
        assert_eq!(chunk["created"], chunks[0]["created"]);
    }
    assert!(seen.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn the_same_answer_without_a_stream_is_one_body() {
    let sim = sim(Script::answer("Grüße, 北京 👍")).await;
    let seen = exchange(sim.addr(), &whole()).await;
    assert_eq!((seen.status, seen.header("content-type")), (200, Some("application/json")));
    let body = seen.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["choices"][0]["message"]["content"], "Grüße, 北京 👍");
    assert_eq!(body["choices"][0]["message"]["role"], "assistant");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn streamed_text_put_together_is_the_text_also_across_multi_byte_characters() {
    let text = "  Grüße\n\nan 北京👍, naïve  café ";
    for script in [Script::answer(text), Script::answer(text).split_every_byte()] {
        assert_eq!(content(&json_events(&stream_of(script).await)), text);
    }
}

#[tokio::test]
async fn ids_count_up_and_texts_repeat_with_the_same_seed() {
    let sim = sim(Script::healthy()).await;
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    let first = exchange_on(&mut stream, &whole()).await.json();
    let second = exchange_on(&mut stream, &whole()).await.json();
    assert_eq!((&first["id"], &second["id"]), (&json!("chatcmpl-sim-1"), &json!("chatcmpl-sim-2")));
    assert_eq!(first["choices"], second["choices"]);
    assert_eq!(sim.accepted_connections(), 1);
}

#[tokio::test]
async fn a_tool_call_opens_with_id_and_name_and_its_fragments_make_the_arguments() {
    let arguments = r#"{"city":"Zürich","days":3}"#;
    let chunks = json_events(&stream_of(Script::healthy().tool_call("weather", arguments)).await);
    let calls: Vec<&Value> =
        chunks.iter().map(|c| &c["choices"][0]["delta"]["tool_calls"][0]).filter(|c| !c.is_null()).collect();
    let open = json!({"index": 0, "id": "call_sim_1_0", "type": "function", "function": {"name": "weather", "arguments": ""}});
    assert_eq!(calls[0], &open);
    assert!(calls.len() > 3, "arguments come in several fragments");
    let joined: String = calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
    assert_eq!(joined, arguments);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(content(&chunks), "", "no text besides the call");

    let sim = sim(Script::healthy().tool_call("weather", arguments)).await;
    let message = exchange(sim.addr(), &whole()).await.json()["choices"][0]["message"].clone();
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["tool_calls"][0]["function"], json!({"name": "weather", "arguments": arguments}));
}

#[tokio::test]
async fn reasoning_goes_before_the_text_in_the_field_of_the_vendor() {
    let script = Script::answer("yes").reasoning("Is it so?", "reasoning_content");
    let chunks = json_events(&stream_of(script).await);
    let deltas: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    assert_eq!(deltas[1], &json!({"reasoning_content": "Is"}));
    assert_eq!(deltas[3], &json!({"reasoning_content": " so?"}));
    assert_eq!(deltas[4], &json!({"content": "yes"}));
}

#[tokio::test]
async fn refusal_finish_and_model_are_as_scripted() {
    let script = Script::healthy().refusal("I will not.").finish("content_filter").model("other-model");
    let chunks = json_events(&stream_of(script.clone()).await);
    let refusal: String =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["refusal"].as_str()).collect();
    assert_eq!(refusal, "I will not.");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(chunks[0]["model"], "other-model");
    let sim = sim(script).await;
    let body = exchange(sim.addr(), &whole()).await.json();
    assert_eq!(body["choices"][0]["message"]["refusal"], "I will not.");
    assert_eq!(body["choices"][0]["message"]["content"], Value::Null);
}

#[tokio::test]
async fn spellings_of_the_event_stream_carry_the_same_events() {
    let plain = events(&stream_of(Script::answer("a b c")).await.body);
    assert_eq!(plain.len(), 6);
    let spelled = |script: Script| async move { stream_of(script).await };
    let crlf = spelled(Script::answer("a b c").crlf()).await;
    assert!(crlf.text().contains("\r\n\r\n") && !crlf.text().replace("\r\n", "").contains('\n'));
    let cr = spelled(Script::answer("a b c").cr()).await;
    assert!(!cr.text().contains('\n') && cr.text().contains("\r\r"));
    let bom = spelled(Script::answer("a b c").bom()).await;
    assert!(bom.body.starts_with(b"\xef\xbb\xbfdata: "));
    let tight = spelled(Script::answer("a b c").no_space_after_colon()).await;
    assert!(tight.text().starts_with("data:{"));
    let comments = spelled(Script::answer("a b c").comments()).await;
    assert_eq!(comments.text().matches(": OPENROUTER PROCESSING\n\n").count(), 6);
    for seen in [&crlf, &cr, &bom, &tight, &comments] {
        assert_eq!(events(&seen.body), plain);
    }
    let lines = spelled(Script::answer("a b c").multi_line_data()).await;
    let parsed: Vec<Value> = plain.iter().take(5).map(|e| serde_json::from_str(e).unwrap()).collect();
    assert_eq!(json_events(&lines), parsed);
    assert!(lines.text().matches("\ndata:").count() > 20);
}

#[tokio::test]
async fn split_every_byte_makes_http_chunks_of_one_byte() {
    let seen = stream_of(Script::answer("a b").split_every_byte()).await;
    assert!(seen.chunks.iter().all(|size| *size == 1));
    assert_eq!(seen.chunks.len(), seen.body.len());
    assert!(seen.text().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn azure_opens_with_an_empty_chunk_that_has_the_filter_results() {
    let chunks = json_events(&stream_of(Script::answer("a").azure_preamble()).await);
    assert_eq!(
        (&chunks[0]["choices"], &chunks[0]["id"], &chunks[0]["model"]),
        (&json!([]), &json!(""), &json!(""))
    );
    assert_eq!(chunks[0]["prompt_filter_results"][0]["prompt_index"], 0);
    assert_eq!(chunks[1]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[2]["choices"][0]["content_filter_results"]["hate"]["severity"], "safe");
}

#[tokio::test]
async fn answers_without_substance_are_complete_http_answers() {
    let empty = stream_of(Script::healthy().empty_body()).await;
    assert_eq!((empty.body.len(), empty.header("content-length")), (0, Some("0")));
    let html = stream_of(Script::healthy().html()).await;
    assert_eq!(html.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(html.text().starts_with("<!DOCTYPE html>"));
    let none = json_events(&stream_of(Script::healthy().choices_empty()).await);
    assert!(none.iter().all(|chunk| chunk["choices"] == json!([])));
    let blank = json_events(&stream_of(Script::healthy().empty_content_finish()).await);
    assert_eq!((blank.len(), content(&blank)), (2, String::new()));
    let plain = stream_of(Script::healthy().content_type("text/plain")).await;
    assert_eq!(plain.header("content-type"), Some("text/plain"));
    let untyped = stream_of(Script::healthy().content_type("")).await;
    assert_eq!(untyped.header("content-type"), None);
    let open = stream_of(Script::healthy().no_done()).await;
    assert!(open.text().contains(r#""finish_reason":"stop""#) && !open.text().contains("[DONE]"));
    let sim = sim(Script::healthy().choices_empty()).await;
    assert_eq!(exchange(sim.addr(), &whole()).await.json()["choices"], json!([]));
}

/// Where usage appears: on which of role, three outputs, finish, and a last chunk without choices.
async fn usage_seen(shape: UsageShape, asked: bool) -> Vec<(bool, Value)> {
    let sim = sim(Script::answer("a b c").usage(shape)).await;
    let body = json!({"model": "m", "stream": true, "stream_options": {"include_usage": asked}});
    let seen = exchange(sim.addr(), &chat(body)).await;
    let usage = |chunk: Value| {
        (chunk["choices"] == json!([]), chunk.get("usage").cloned().unwrap_or_else(|| json!("absent")))
    };
    json_events(&seen).into_iter().map(usage).collect()
}

#[tokio::test]
async fn standard_usage_comes_on_a_last_chunk_without_choices_and_only_when_asked() {
    let asked = usage_seen(UsageShape::Standard, true).await;
    assert_eq!(asked.len(), 6);
    assert!(asked[..5].iter().all(|seen| *seen == (false, Value::Null)));
    assert_eq!((asked[5].0, &asked[5].1["completion_tokens"]), (true, &json!(3)));
    let total = asked[5].1["prompt_tokens"].as_u64().unwrap() + 3;
    assert_eq!(asked[5].1["total_tokens"], total);
    let unasked = usage_seen(UsageShape::Standard, false).await;
    assert!(unasked.iter().all(|seen| *seen == (false, json!("absent"))));
    assert_eq!(unasked.len(), 5);
}

#[tokio::test]
async fn every_other_usage_shape_is_where_its_providers_put_it() {
    let finish = usage_seen(UsageShape::OnFinishChunk, false).await;
    assert_eq!(
        (finish.len(), &finish[3].1, &finish[4].1["completion_tokens"]),
        (5, &json!("absent"), &json!(3))
    );
    let every = usage_seen(UsageShape::EveryChunk, false).await;
    let counts: Vec<_> =
        every.iter().map(|(_, usage)| usage["completion_tokens"].as_u64().unwrap()).collect();
    assert_eq!(counts, [0, 1, 2, 3, 3, 3]);
    assert!(every[5].0);
    let deepseek = usage_seen(UsageShape::DeepSeek, false).await;
    assert_eq!(deepseek[4].1["prompt_cache_hit_tokens"], 0);
    assert_eq!(deepseek[4].1["prompt_cache_miss_tokens"], deepseek[4].1["prompt_tokens"]);
    let null = usage_seen(UsageShape::Null, true).await;
    assert!(null.len() == 5 && null.iter().all(|(_, usage)| usage.is_null()));
    let missing = usage_seen(UsageShape::Missing, true).await;
    assert!(missing.len() == 5 && missing.iter().all(|(_, usage)| usage == "absent"));
    let zeroes = usage_seen(UsageShape::WithZeroes, false).await;
    assert_eq!((&zeroes[4].1["total_tokens"], &zeroes[5].1["completion_tokens"]), (&json!(0), &json!(3)));
}

#[tokio::test]
async fn groq_puts_usage_under_x_groq_on_the_finish_chunk() {
    let chunks = json_events(&stream_of(Script::answer("a b").usage(UsageShape::Groq)).await);
    assert_eq!(chunks[3]["x_groq"]["usage"]["completion_tokens"], 2);
    assert!(chunks[0]["x_groq"]["id"].is_string() && chunks[0]["x_groq"].get("usage").is_none());
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
}
