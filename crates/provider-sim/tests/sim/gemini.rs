//! Gemini's endpoints: whole answers, event streams and arrays, by the same scripts.

use pointsman_provider_sim::{Script, UsageShape};
use serde_json::{Value, json};

use crate::raw::{End, Seen, events, exchange, request};
use crate::sim;

/// How an answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Whole,
    Events,
    Array,
}

/// A request of this model.
pub(crate) fn generate(model: &str, way: Way, body: Value) -> Vec<u8> {
    let method = match way {
        Way::Whole => "generateContent",
        Way::Events => "streamGenerateContent?alt=sse",
        Way::Array => "streamGenerateContent",
    };
    request("POST", &format!("/v1beta/models/{model}:{method}"), &body.to_string())
}

pub(crate) fn hi() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
}

pub(crate) async fn seen(script: Script, way: Way) -> Seen {
    let sim = sim(script).await;
    exchange(sim.addr(), &generate("gemini-2.5-flash", way, hi())).await
}

/// The chunks of a stream.
pub(crate) fn chunks(seen: &Seen, way: Way) -> Vec<Value> {
    match way {
        Way::Events => events(&seen.body).iter().map(|data| serde_json::from_str(data).unwrap()).collect(),
        Way::Array => seen.json().as_array().unwrap().clone(),
        Way::Whole => vec![seen.json()],
    }
}

fn parts(chunks: &[Value]) -> Vec<Value> {
    let parts = chunks.iter().filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array());
    parts.flatten().cloned().collect()
}

fn text(chunks: &[Value]) -> String {
    let spoken = parts(chunks).into_iter().filter(|part| part.get("thought").is_none());
    spoken.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
}

fn finish(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().filter_map(|chunk| chunk["candidates"][0]["finishReason"].as_str()).collect()
}

#[tokio::test]
async fn an_event_stream_has_increments_and_the_finish_reason_on_its_last_chunk() {
    let seen = seen(Script::answer("Hello big world"), Way::Events).await;
    assert_eq!((seen.status, &seen.end), (200, &End::KeptAlive));
    assert_eq!(seen.header("content-type"), Some("text/event-stream"));
    assert!(
        seen.text().ends_with("\r\n\r\n")
            && !seen.text().contains("[DONE]")
            && !seen.text().contains("event:")
    );
    let chunks = chunks(&seen, Way::Events);
    assert_eq!(chunks.len(), 3 + 1);
    assert_eq!((text(&chunks).as_str(), finish(&chunks)), ("Hello big world", vec!["STOP"]));
    assert_eq!(chunks[3]["candidates"][0]["finishReason"], "STOP");
    for chunk in &chunks {
        assert_eq!(
            (&chunk["modelVersion"], &chunk["responseId"]),
            (&json!("gemini-2.5-flash"), &json!("sim-1"))
        );
        assert_eq!(chunk["candidates"][0]["content"]["role"], "model");
    }
}

#[tokio::test]
async fn without_alt_sse_a_stream_is_an_array_of_the_same_chunks() {
    for script in [rich(), Script::healthy().empty_content_finish(), Script::answer("a b").split_every_byte()]
    {
        let array = seen(script.clone(), Way::Array).await;
        assert_eq!(array.header("content-type"), Some("application/json; charset=UTF-8"));
        let events = chunks(&seen(script, Way::Events).await, Way::Events);
        assert_eq!(chunks(&array, Way::Array), events);
        assert!(array.chunks.len() >= events.len(), "each chunk goes out when it is made");
    }
}

#[tokio::test]
async fn a_whole_answer_has_each_text_in_one_part() {
    let body = seen(rich(), Way::Whole).await.json();
    let expected = json!([
        {"text": "Let me think", "thought": true},
        {"text": "Look: there"},
        {"functionCall": {"name": "weather", "args": {"city": "Zürich"}}},
        {"functionCall": {"name": "time", "args": {}}},
    ]);
    assert_eq!(body["candidates"][0]["content"], json!({"parts": expected, "role": "model"}));
    assert_eq!(body["candidates"][0]["finishReason"], "STOP", "calls finish with STOP");
}

fn rich() -> Script {
    Script::answer("Look: there")
        .reasoning("Let me think", "reasoning_content")
        .tool_call("weather", r#"{"city":"Zürich"}"#)
        .tool_call("time", "")
}

#[tokio::test]
async fn a_call_comes_whole_in_one_chunk() {
    let chunks = chunks(&seen(rich(), Way::Events).await, Way::Events);
    let calls: Vec<Value> =
        parts(&chunks).into_iter().filter(|part| part.get("functionCall").is_some()).collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0]["functionCall"], json!({"name": "weather", "args": {"city": "Zürich"}}));
    assert!(calls.iter().all(|call| call.get("thoughtSignature").is_none()));
    // Three thoughts, two words, two calls, and the end.
    assert_eq!(chunks.len(), 3 + 2 + 2 + 1);
}

#[tokio::test]
async fn gemini_3_signs_the_first_of_its_calls_or_the_end_of_its_text() {
    let sim = sim(rich()).await;
    let ask = |way| generate("gemini-3-pro", way, hi());
    for way in [Way::Whole, Way::Events] {
        let parts = parts(&chunks(&exchange(sim.addr(), &ask(way)).await, way));
        let signed: Vec<&Value> =
            parts.iter().filter(|part| part.get("thoughtSignature").is_some()).collect();
        assert_eq!((signed.len(), &signed[0]["functionCall"]["name"]), (1, &json!("weather")), "{way:?}");
    }
    sim.set(Script::answer("a b"));
    for way in [Way::Whole, Way::Events] {
        let parts = parts(&chunks(&exchange(sim.addr(), &ask(way)).await, way));
        let (last, before) = parts.split_last().unwrap();
        assert_eq!((&last["text"], last["thoughtSignature"].is_string()), (&json!(""), true), "{way:?}");
        assert!(before.iter().all(|part| part.get("thoughtSignature").is_none()));
    }
}

#[tokio::test]
async fn usage_is_cumulative_and_tells_thoughts_apart() {
    let script = Script::answer("a b").reasoning("Hm so", "r");
    let chunks = chunks(&seen(script.clone(), Way::Events).await, Way::Events);
    let count = |chunk: &Value, key: &str| chunk["usageMetadata"][key].as_u64().unwrap_or(0);
    let counts = |key: &str| chunks.iter().map(|chunk| count(chunk, key)).collect::<Vec<_>>();
    assert_eq!(counts("thoughtsTokenCount"), [1, 2, 2, 2, 2]);
    assert_eq!(counts("candidatesTokenCount"), [0, 0, 1, 2, 2]);
    let prompt = count(&chunks[0], "promptTokenCount");
    assert_eq!(counts("totalTokenCount"), [1, 2, 3, 4, 4].map(|output| prompt + output));
    let shaped = |shape| {
        let script = script.clone().usage(shape);
        async move { self::chunks(&seen(script, Way::Events).await, Way::Events) }
    };
    assert!(shaped(UsageShape::Missing).await.iter().all(|chunk| chunk.get("usageMetadata").is_none()));
    let last = shaped(UsageShape::OnFinishChunk).await;
    assert!(last[..4].iter().all(|chunk| chunk.get("usageMetadata").is_none()));
    assert_eq!(count(&last[4], "candidatesTokenCount"), 2);
    let zeroes = shaped(UsageShape::WithZeroes).await;
    assert_eq!((count(&zeroes[3], "totalTokenCount"), count(&zeroes[4], "totalTokenCount")), (0, prompt + 4));
}

#[tokio::test]
async fn finish_reasons_are_named_as_gemini_names_them() {
    for (script, reason) in [
        (Script::answer("a").finish("length"), "MAX_TOKENS"),
        (Script::answer("a").finish("content_filter"), "SAFETY"),
        (Script::healthy().refusal("No."), "SAFETY"),
        (Script::answer("a").finish("RECITATION"), "RECITATION"),
        (Script::healthy().tool_call("f", "{"), "MALFORMED_FUNCTION_CALL"),
        (Script::healthy().tool_call("f", "[1]"), "MALFORMED_FUNCTION_CALL"),
    ] {
        let whole = seen(script.clone(), Way::Whole).await.json();
        assert_eq!(whole["candidates"][0]["finishReason"], reason);
        let streamed = chunks(&seen(script, Way::Events).await, Way::Events);
        assert_eq!(finish(&streamed), [reason]);
    }
}

#[tokio::test]
async fn a_blocked_prompt_has_a_reason_and_no_candidate() {
    for way in [Way::Whole, Way::Events, Way::Array] {
        let seen = seen(Script::content_policy(), way).await;
        let chunks = chunks(&seen, way);
        assert_eq!((seen.status, chunks.len()), (200, 1), "{way:?}");
        assert_eq!(chunks[0]["promptFeedback"]["blockReason"], "PROHIBITED_CONTENT");
        assert_eq!(chunks[0].get("candidates"), None);
    }
}

#[tokio::test]
async fn an_answer_may_have_no_candidates_or_an_empty_text() {
    let none = chunks(&seen(Script::healthy().choices_empty(), Way::Events).await, Way::Events);
    assert_eq!((none.len(), none[0].get("candidates")), (1, None));
    let blank = chunks(&seen(Script::healthy().empty_content_finish(), Way::Events).await, Way::Events);
    assert_eq!((blank.len(), text(&blank).as_str(), finish(&blank)), (1, "", vec!["STOP"]));
}

#[tokio::test]
async fn free_text_for_a_custom_tool_is_an_argument() {
    let script = Script::healthy().custom_tool_call("patch", "+ \"a\"");
    let body = seen(script, Way::Whole).await.json();
    let call = &body["candidates"][0]["content"]["parts"][0]["functionCall"];
    assert_eq!(call, &json!({"name": "patch", "args": {"input": "+ \"a\""}}));
}

#[tokio::test]
async fn spellings_of_an_event_stream_carry_the_same_chunks() {
    let plain = chunks(&seen(rich(), Way::Events).await, Way::Events);
    for script in [
        rich().cr(),
        rich().bom(),
        rich().split_every_byte(),
        rich().no_space_after_colon(),
        rich().multi_line_data(),
    ] {
        assert_eq!(chunks(&seen(script.clone(), Way::Events).await, Way::Events), plain, "{script:?}");
    }
}

#[tokio::test]
async fn models_are_listed_as_gemini_lists_them() {
    let sim = sim(Script::healthy()).await;
    let listed = exchange(sim.addr(), &request("GET", "/v1beta/models?pageSize=5", "")).await.json();
    assert_eq!(listed["models"][0]["name"], "models/sim-model");
    assert_eq!(listed["models"][0]["supportedGenerationMethods"][0], "generateContent");
    let by_key = b"GET /v1/models HTTP/1.1\r\nhost: sim\r\nx-goog-api-key: k\r\n\r\n";
    assert_eq!(exchange(sim.addr(), by_key).await.json(), listed);
    let openai = exchange(sim.addr(), &request("GET", "/v1beta/openai/models", "")).await.json();
    assert_eq!(openai["data"][0]["id"], "sim-model");
}

#[tokio::test]
async fn what_was_received_names_the_model_of_the_path() {
    let sim = sim(Script::healthy()).await;
    exchange(sim.addr(), &generate("gemini-2.5%2Dpro", Way::Events, hi())).await;
    let received = sim.received();
    assert_eq!((received[0].model.as_deref(), received[0].stream), (Some("gemini-2.5-pro"), true));
    assert_eq!(sim.calls_for_model("gemini-2.5-pro"), 1);
}
