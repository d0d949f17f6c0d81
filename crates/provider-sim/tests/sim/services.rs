//! Answers that are no conversation: their shape, and that faults reach them too.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::raw::{End, events, exchange, request};
use crate::sim;

async fn asked(path: &str, body: &Value) -> Value {
    let sim = sim(Script::healthy()).await;
    let seen = exchange(sim.addr(), &request("POST", path, &body.to_string())).await;
    assert_eq!((seen.status, sim.calls()), (200, 1), "{}", seen.text());
    seen.json()
}

#[tokio::test]
async fn each_input_gets_a_vector_and_the_same_input_the_same() {
    let body = json!({ "model": "m", "input": ["one", "two", "one"], "dimensions": 3 });
    let answer = asked("/v1/embeddings", &body).await;
    let data = answer["data"].as_array().unwrap();
    assert_eq!((data.len(), data[1]["index"].as_u64()), (3, Some(1)));
    assert_eq!(data[0]["embedding"].as_array().unwrap().len(), 3);
    assert_eq!(data[0]["embedding"], data[2]["embedding"]);
    assert_ne!(data[0]["embedding"], data[1]["embedding"]);
    // Tokens are one text.
    let tokens = asked("/v1/embeddings", &json!({ "model": "m", "input": [1, 2, 3] })).await;
    assert_eq!(tokens["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_flagged_ranked_and_painted() {
    let flagged = asked("/v1/moderations", &json!({ "model": "m", "input": ["kill", "hug"] })).await;
    assert_eq!([&flagged["results"][0]["flagged"], &flagged["results"][1]["flagged"]], [true, false]);
    let ranked =
        asked("/v1/rerank", &json!({ "model": "m", "query": "q", "documents": ["a", "b", "c"], "top_n": 2 }))
            .await;
    let places: Vec<_> = ranked["results"].as_array().unwrap().iter().map(|r| r["index"].clone()).collect();
    assert_eq!(places, [2, 1]);
    let painted = asked("/v1/images/generations", &json!({ "model": "m", "prompt": "p", "n": 3 })).await;
    assert_eq!(painted["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn completions_are_streamed_as_texts() {
    let sim = sim(Script::answer("one two")).await;
    let body =
        json!({ "model": "m", "prompt": "p", "stream": true, "stream_options": { "include_usage": true } });
    let seen = exchange(sim.addr(), &request("POST", "/v1/completions", &body.to_string())).await;
    let events = events(&seen.body);
    assert_eq!(events.last().unwrap(), "[DONE]");
    let chunks: Vec<Value> =
        events.iter().filter(|e| *e != "[DONE]").map(|e| serde_json::from_str(e).unwrap()).collect();
    let text: String =
        chunks.iter().filter_map(|c| c["choices"][0]["text"].as_str().map(str::to_owned)).collect();
    assert_eq!(text, "one two");
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 2);
}

#[tokio::test]
async fn a_script_breaks_them_as_it_breaks_a_conversation() {
    let body = json!({ "model": "m", "input": "x" }).to_string();
    let embeddings = request("POST", "/v1/embeddings", &body);
    let overloaded = sim(Script::openai_overloaded()).await;
    assert_eq!(exchange(overloaded.addr(), &embeddings).await.status, 503);
    let cut = sim(Script::cut_after(0)).await;
    assert_eq!(exchange(cut.addr(), &embeddings).await.end, End::Closed);
    let empty = sim(Script::healthy().choices_empty()).await;
    assert_eq!(exchange(empty.addr(), &embeddings).await.json()["data"], json!([]));
}
