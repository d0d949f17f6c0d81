//! Healthy answers and their shapes, as a raw client reads them.

use crate::raw::{End, chat, events, exchange};
use pointsman_provider_sim::{Script, Sim, SimConfig};
use serde_json::{Value, json};

async fn sim(script: Script) -> Sim {
    Sim::start(SimConfig { default: script, ..SimConfig::named("sim-a") }).await.unwrap()
}

fn text_of(events: &[String]) -> String {
    let chunks = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
    chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_healthy_stream_has_role_words_finish_and_done_and_keeps_the_connection() {
    let sim = sim(Script::healthy().tokens(5)).await;
    let answer = exchange(sim.addr(), &chat(json!({"model": "m", "stream": true}))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.end, End::KeptAlive);
    let events = events(&answer.body);
    let first: Value = serde_json::from_str(&events[0]).unwrap();
    assert_eq!(first["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(first["id"], "chatcmpl-sim-1");
    assert_eq!(first["object"], "chat.completion.chunk");
    assert!(text_of(&events).starts_with("sim-a answers as m:"), "{}", text_of(&events));
    let finish: Value = serde_json::from_str(&events[6]).unwrap();
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!(finish["choices"][0]["delta"], json!({}));
    assert_eq!(&events[7..], ["[DONE]"]);
}
