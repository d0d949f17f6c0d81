//! Completions, OpenAI's older endpoint: a stream as in Chat Completions, with texts in place of deltas.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::pair;
use crate::support::{Answer, World};

const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

async fn ask(world: &World, more: Value) -> Answer {
    let mut body = json!({ "model": "gpt-4o", "prompt": "Once", "stream": true });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.ask("completions", &body).await
}

fn text(answer: &Answer) -> String {
    answer
        .chunks()
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["text"].as_str().map(str::to_owned))
        .collect()
}

fn assert_stream_from(answer: &Answer, who: &str) {
    let whole = answer.text();
    assert_eq!(answer.status, 200, "{whole}");
    assert!(answer.is_done_once() && whole.ends_with("data: [DONE]\n\n"), "{whole}");
    assert_eq!(answer.fingerprints(), [format!("fp_{who}")]);
    assert_eq!(answer.finish_reasons(), ["stop"], "{whole}");
    assert!(text(answer).starts_with(&format!("{who} answers")), "{whole}");
    assert!(answer.chunks().iter().all(|chunk| chunk["object"] == "text_completion"));
}

#[tokio::test]
async fn a_stream_goes_through_and_ends_once() {
    let world = pair("").await;
    let answer = ask(&world, json!({})).await;
    assert_stream_from(&answer, "a");
    assert!(answer.chunks().iter().all(|chunk| chunk.get("usage").is_none()), "nobody asked for usage");
    let entry = world.entry(&answer);
    assert_eq!((entry.endpoint, entry.stream), (Some("completions"), true));
    assert!(entry.usage.unwrap().output_tokens > 0, "the ledger knows it all the same");
    assert!(entry.first_token_ms.is_some());
}

#[tokio::test]
async fn who_asks_for_usage_gets_it() {
    let world = pair("").await;
    let answer = ask(&world, json!({ "stream_options": { "include_usage": true } })).await;
    assert_stream_from(&answer, "a");
    let chunks = answer.chunks();
    let usage = &chunks.last().unwrap()["usage"];
    assert!(usage["completion_tokens"].as_u64().unwrap() > 0, "{usage}");
}

#[tokio::test]
async fn before_the_first_text_every_failure_fails_over() {
    for script in [
        Script::openai_overloaded(),
        Script::reset_before_headers(),
        Script::role_only_then_silence(),
        Script::end_after(0),
        Script::cut_after(0),
        Script::healthy().html(),
        Script::healthy().choices_empty(),
    ] {
        let world = pair(QUICK).await;
        world.sim(0).set(script);
        let answer = ask(&world, json!({})).await;
        assert_stream_from(&answer, "b");
        assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
    }
}

#[tokio::test]
async fn after_the_first_text_a_break_is_one_error_and_the_end() {
    for script in [Script::cut_after(3), Script::end_after(3), Script::stall_after(3)] {
        let world = pair(QUICK).await;
        world.sim(0).set(script);
        let answer = ask(&world, json!({})).await;
        crate::checks::assert_broken_off(&answer);
        assert!(text(&answer).starts_with("a answers"));
        assert_eq!(world.sim(1).calls(), 0);
        assert_eq!(world.entry(&answer).terminal, "partial");
    }
}
