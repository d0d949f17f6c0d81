//! What a cache had of a prompt: each dialect adds it up in its own way.

use pointsman_provider_sim::{Script, UsageShape};
use serde_json::{Value, json};

use crate::raw::{exchange, request};
use crate::sim;

/// The usage in the whole answer to this request, when 100 tokens came from a cache and 20 were written to it.
async fn usage(path: &str, body: Value, key: &str, shape: UsageShape) -> Value {
    let sim = sim(Script::answer("a b").usage(shape).cached(100, 20)).await;
    exchange(sim.addr(), &request("POST", path, &body.to_string())).await.json()[key].clone()
}

fn count(usage: &Value, key: &str) -> u64 {
    usage[key].as_u64().unwrap()
}

#[tokio::test]
async fn openai_counts_cached_and_written_tokens_among_those_of_the_prompt() {
    let chat = json!({"model": "m", "messages": []});
    let seen = usage("/v1/chat/completions", chat.clone(), "usage", UsageShape::Standard).await;
    // An empty list of messages is 3 tokens here.
    assert_eq!((count(&seen, "prompt_tokens"), count(&seen, "total_tokens")), (123, 125));
    assert_eq!(seen["prompt_tokens_details"], json!({"cached_tokens": 100, "cache_write_tokens": 20}));
    let deepseek = usage("/v1/chat/completions", chat, "usage", UsageShape::DeepSeek).await;
    assert_eq!(count(&deepseek, "prompt_cache_hit_tokens"), 100);
    assert_eq!(count(&deepseek, "prompt_cache_miss_tokens"), 23);

    let body = json!({"model": "m", "input": "Hi"});
    let seen = usage("/v1/responses", body, "usage", UsageShape::Standard).await;
    // The four characters of the JSON text are one token more.
    assert_eq!((count(&seen, "input_tokens"), count(&seen, "total_tokens")), (124, 126));
    assert_eq!(seen["input_tokens_details"], json!({"cached_tokens": 100, "cache_write_tokens": 20}));
}

#[tokio::test]
async fn anthropic_and_aws_count_them_apart() {
    let body = json!({"model": "m", "max_tokens": 9, "messages": []});
    let seen = usage("/v1/messages", body, "usage", UsageShape::Standard).await;
    assert_eq!(count(&seen, "input_tokens"), 3);
    assert_eq!(count(&seen, "cache_read_input_tokens"), 100);
    assert_eq!(count(&seen, "cache_creation_input_tokens"), 20);

    let body = json!({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]});
    let seen = usage("/model/m/converse", body, "usage", UsageShape::Standard).await;
    let fresh = count(&seen, "inputTokens");
    assert_eq!((count(&seen, "cacheReadInputTokens"), count(&seen, "cacheWriteInputTokens")), (100, 20));
    assert_eq!(count(&seen, "totalTokens"), fresh + 100 + 20 + 2);
}

#[tokio::test]
async fn google_counts_cached_tokens_among_those_of_the_prompt_and_tells_nothing_of_writing() {
    let body = json!({"contents": [{"parts": [{"text": "Hi"}]}]});
    let seen = usage("/v1beta/models/m:generateContent", body, "usageMetadata", UsageShape::Standard).await;
    assert_eq!(count(&seen, "cachedContentTokenCount"), 100);
    assert_eq!(count(&seen, "totalTokenCount"), count(&seen, "promptTokenCount") + 2);
    assert!(count(&seen, "promptTokenCount") > 120);
}
