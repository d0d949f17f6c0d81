//! Images that become clearer: a stream of typed events.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::pair;

const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

fn request() -> Value {
    json!({ "model": "gpt-4o", "prompt": "a lamp", "stream": true, "partial_images": 1 })
}

/// The names and the data of the events of a stream.
fn events(text: &str) -> Vec<(String, Value)> {
    let blocks = text.split_terminator("\n\n").filter(|block| !block.starts_with(':'));
    let parsed = blocks.map(|block| {
        let (name, data) = block.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        (name.to_owned(), serde_json::from_str(data).unwrap())
    });
    parsed.collect()
}

#[tokio::test]
async fn a_stream_of_images_goes_through_with_the_names_of_its_events() {
    let world = pair("").await;
    let answer = world.ask("images/generations", &request()).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = events(&answer.text());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["image_generation.partial_image", "image_generation.completed"]);
    assert!(events.iter().all(|(name, data)| data["type"] == json!(name)));
    assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
    let sent = world.sim(0).received()[0].json().unwrap();
    assert_eq!(sent, request(), "nothing is asked for that images do not know");
    let entry = world.entry(&answer);
    assert_eq!((entry.terminal, entry.usage.unwrap().output_tokens), ("success", 272));
}

#[tokio::test]
async fn before_the_first_image_another_target_takes_over() {
    for script in
        [Script::openai_overloaded(), Script::silence(), Script::end_after(0), Script::healthy().html()]
    {
        let world = pair(QUICK).await;
        world.sim(0).set(script);
        let answer = world.ask("images/generations", &request()).await;
        assert_eq!(answer.header("x-pointsman-target"), Some("b"));
        assert_eq!(events(&answer.text()).len(), 2);
    }
}

#[tokio::test]
async fn after_the_first_image_a_break_is_told_once() {
    for script in [Script::cut_after(1), Script::end_after(1)] {
        let world = pair(QUICK).await;
        world.sim(0).set(script);
        let answer = world.ask("images/generations", &request()).await;
        assert_eq!(answer.status, 200);
        let text = answer.text();
        let (images, error) = text.split_once("data: {\"error\"").unwrap();
        assert_eq!(events(images).len(), 1, "{text}");
        assert_eq!(error.matches("\n\n").count(), 1, "nothing follows: {text}");
        assert_eq!(world.sim(1).calls(), 0);
        assert_eq!(world.entry(&answer).terminal, "partial");
    }
}
