//! Texts, thoughts, media and forms: who answers, what reaches the provider, what comes back.

use std::time::Duration;

use bytes::Bytes;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::asked::*;
use crate::checks::assert_whole_from;
use crate::line::assert_complete_from;
use crate::support::{Answer, World, chat};

async fn ask_messages(world: &World, body: &Value) -> Answer {
    world.send("POST", "/v1/messages", Bytes::from(body.to_string()), &[]).await
}

fn message(model: &str, stream: bool) -> Value {
    json!({ "model": model, "max_tokens": 256, "stream": stream, "messages": [{ "role": "user", "content": "Say something." }] })
}

#[tokio::test]
async fn googles_own_client_reaches_google_with_its_own_bytes() {
    let world = world("").await;
    let body = r#"{ "contents":[{"parts":[{"text":"Say something."}]}], "generation_config": {"topP": 1.0}}"#;
    for (way, path) in [
        ("generateContent", "/v1/models/gemini-3-pro:generateContent"),
        ("streamGenerateContent?alt=sse", "/v1/models/gemini-3-pro:streamGenerateContent?alt=sse"),
    ] {
        let asked = format!("/v1beta/models/gemini:{way}");
        let answer = world.send("POST", &asked, Bytes::from(body), &[("x-goog-api-key", "any")]).await;
        assert_generated_by(&answer, "g");
        assert_eq!(answer.header("x-pointsman-target"), Some("only-g"));
        let (call, _) = received(&world, G);
        assert_eq!(call.body, body, "the client's own bytes");
        assert_eq!((call.path.as_str(), header(&call, "x-goog-api-key")), (path, Some("AIza-g")));
        let usage = world.entry(&answer).usage;
        assert!(usage.is_some_and(|u| u.input_tokens > 0 && u.output_tokens > 0), "{usage:?}");
    }
}

#[tokio::test]
async fn the_same_call_is_there_under_every_prefix() {
    let world = world("").await;
    for prefix in ["/v1beta", "/v1", "/gemini/v1beta", "/gemini/v1", "/gemini", ""] {
        let path = format!("{prefix}/models/gemini:generateContent?key=any");
        let answer = world.send("POST", &path, Bytes::from(hello().to_string()), &[]).await;
        assert_generated_by(&answer, "g");
    }
    let path = "/v1beta/models/gemini:generateContent";
    assert_status(&world.send("GET", path, Bytes::new(), &[]).await, 405, "INVALID_ARGUMENT");
    let unknown = world.send("POST", "/v1beta/models/gemini:embedContent", Bytes::from("{}"), &[]).await;
    assert_status(&unknown, 404, "NOT_FOUND");
}

/// The form that Google's REST interface has without `alt=sse`.
#[tokio::test]
async fn a_stream_without_events_is_a_list_of_the_same_chunks() {
    let world = world("").await;
    for (model, who) in [("gemini", "g"), ("gpt", "o")] {
        let path = format!("/v1beta/models/{model}:streamGenerateContent");
        let answer = world.send("POST", &path, Bytes::from(hello().to_string()), &[]).await;
        assert_eq!(answer.header("content-type"), Some("application/json"), "{}", answer.text());
        let chunks = answer.json();
        let chunks = chunks.as_array().unwrap();
        assert!(chunks.len() > 2, "{chunks:?}");
        let text = |c: &Value| c["candidates"][0]["content"]["parts"][0]["text"].as_str().map(str::to_owned);
        let words: String = chunks.iter().filter_map(text).collect();
        assert!(words.starts_with(&format!("{who} answers")), "{words}");
        assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], "STOP");
    }
    world.sim(G).set(Script::cut_after(2).tokens(9));
    let path = "/v1beta/models/gemini:streamGenerateContent";
    let broken = world.send("POST", path, Bytes::from(hello().to_string()), &[]).await.json();
    assert_eq!(broken.as_array().unwrap().last().unwrap()["error"]["status"], "UNAVAILABLE", "{broken}");
}

#[tokio::test]
async fn a_gemini_client_is_answered_by_targets_of_other_dialects() {
    let world = world("").await;
    let mut body = hello();
    body["systemInstruction"] = json!({ "parts": [{ "text": "Be brief." }] });
    body["generationConfig"] = json!({ "maxOutputTokens": 100, "stopSequences": ["END"] });
    for stream in [true, false] {
        assert_generated_by(&world.generate("gpt", stream, &body).await, "o");
        let (call, sent) = received(&world, O);
        assert_eq!(
            (call.path.as_str(), header(&call, "authorization")),
            ("/v1/chat/completions", Some("Bearer sk-o"))
        );
        assert_eq!(
            (&sent["model"], &sent["stream"], &sent["stop"]),
            (&json!("gpt-4o"), &json!(stream), &json!(["END"]))
        );
        assert_eq!(sent["messages"][0], json!({ "role": "system", "content": "Be brief." }));
        let answer = world.generate("claude", stream, &body).await;
        assert_generated_by(&answer, "a");
        let (call, sent) = received(&world, A);
        assert_eq!((call.path.as_str(), header(&call, "x-api-key")), ("/v1/messages", Some("sk-ant-a")));
        assert_eq!((&sent["max_tokens"], &sent["system"][0]["text"]), (&json!(100), &json!("Be brief.")));
        assert_eq!(answer.header("x-pointsman-loss"), None);
    }
}

#[tokio::test]
async fn clients_of_other_dialects_are_answered_by_google() {
    let world = world("").await;
    for stream in [true, false] {
        let answer = world.post(&chat("gemini", stream)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        if stream {
            assert!(answer.is_done_once() && answer.content().starts_with("g answers"), "{}", answer.text());
            assert_eq!(answer.finish_reasons(), ["stop"]);
        } else {
            assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
        }
        let way = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let (call, sent) = received(&world, G);
        assert_eq!(call.path, format!("/v1/models/gemini-3-pro:{way}"));
        assert_eq!((header(&call, "x-goog-api-key"), header(&call, "authorization")), (Some("AIza-g"), None));
        assert_eq!(sent["contents"], json!([{ "role": "user", "parts": [{ "text": "Say something." }] }]));
        assert_complete_from(&ask_messages(&world, &message("gemini", stream)).await, "g");
        assert_eq!(received(&world, G).1["generationConfig"], json!({ "maxOutputTokens": 256 }));
    }
}

#[tokio::test]
async fn why_an_answer_ended_is_said_in_the_clients_words() {
    let world = world("").await;
    for (reason, google, openai, anthropic) in [
        ("length", "MAX_TOKENS", "length", "max_tokens"),
        ("content_filter", "SAFETY", "content_filter", "refusal"),
    ] {
        world.sim(G).set(Script::healthy().finish(reason));
        world.sim(O).set(Script::healthy().finish(reason));
        for stream in [true, false] {
            assert_eq!(finish(&world.generate("gemini", stream, &hello()).await), [google]);
            assert_eq!(finish(&world.generate("gpt", stream, &hello()).await), [google]);
        }
        let told = world.post(&chat("gemini", false)).await.json();
        assert_eq!(told["choices"][0]["finish_reason"], openai);
        assert_eq!(ask_messages(&world, &message("gemini", false)).await.json()["stop_reason"], anthropic);
    }
}

#[tokio::test]
async fn a_blocked_prompt_is_an_answer() {
    let world = world("").await;
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" }, "modelVersion": "gemini-3-pro", "responseId": "r" });
    world.sim(G).set(Script::fixed(200, "application/json", blocked.to_string()));
    assert_eq!(world.generate("gemini", false, &hello()).await.json(), blocked);
    let told = world.post(&chat("gemini", false)).await.json();
    assert_eq!(told["choices"][0]["finish_reason"], "content_filter");
    world.sim(G).set(Script::fixed(200, "text/event-stream", format!("data: {blocked}\n\n")));
    assert_eq!(world.generate("gemini", true, &hello()).await.chunks(), [blocked]);
    world.assert_untouched("o");
}

#[tokio::test]
async fn an_image_and_a_form_reach_each_provider() {
    let world = world("").await;
    let mut body = hello();
    body["contents"][0]["parts"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "inlineData": { "mimeType": "image/png", "data": "iVBORw0KGgo=" } }));
    let schema = json!({ "type": "object", "properties": { "x": { "type": "integer" } }, "additionalProperties": false });
    body["generationConfig"] =
        json!({ "responseMimeType": "application/json", "responseJsonSchema": schema });
    world.generate("gpt", false, &body).await;
    let (_, sent) = received(&world, O);
    assert_eq!(sent["messages"][0]["content"][1]["image_url"]["url"], "data:image/png;base64,iVBORw0KGgo=");
    assert_eq!(sent["response_format"]["json_schema"]["schema"], schema);
    world.generate("claude", false, &body).await;
    let (_, sent) = received(&world, A);
    assert_eq!(sent["messages"][0]["content"][1]["source"]["media_type"], "image/png");
    assert_eq!(sent["output_config"]["format"]["schema"], schema);
    let mut asked = chat("gemini", false);
    asked["messages"][0]["content"] =
        json!([{ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } }]);
    asked["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "s", "schema": schema } });
    let answer = world.post(&asked).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (_, sent) = received(&world, G);
    assert_eq!(
        sent["contents"][0]["parts"][0]["inlineData"],
        json!({ "mimeType": "image/png", "data": "iVBORw0KGgo=" })
    );
    assert_eq!(sent["generationConfig"]["responseJsonSchema"], schema);
}

/// What a model thought comes back as thoughts in each dialect.
#[tokio::test]
async fn thoughts_are_thoughts_in_every_dialect() {
    let world = world("").await;
    for sim in [G, O, A] {
        world.sim(sim).set(Script::healthy().reasoning("Let me think.", "reasoning_content"));
    }
    for stream in [true, false] {
        for model in ["gemini", "gpt", "claude"] {
            let answer = world.generate(model, stream, &hello()).await;
            let thoughts: String = parts(&answer)
                .iter()
                .filter(|p| p["thought"] == true)
                .filter_map(|p| p["text"].as_str())
                .collect();
            assert_eq!(thoughts, "Let me think.", "{model}: {}", answer.text());
        }
    }
    let told = world.post(&chat("gemini", false)).await.json();
    assert_eq!(told["choices"][0]["message"]["reasoning_content"], "Let me think.");
    let told = ask_messages(&world, &message("gemini", false)).await.json();
    assert_eq!(
        (&told["content"][0]["type"], &told["content"][0]["thinking"]),
        (&json!("thinking"), &json!("Let me think."))
    );
    let usage = told["usage"]["output_tokens"].as_u64().unwrap();
    assert!(usage > 0, "thoughts are output too: {told}");
}

#[tokio::test]
async fn a_stream_that_was_opened_early_lives_and_says_who_answers() {
    let quick = format!("server: {{ listen: 127.0.0.1:0, keepalive: 100ms }}\n{TARGETS}");
    let world = crate::checks::world_from(&["g", "o", "a"], &quick).await;
    for (sim, model, target) in [(G, "gemini", "only-g"), (O, "gpt", "only-o")] {
        world.sim(sim).set(Script::healthy().delay_first_token(Duration::from_millis(400)));
        let answer = world.generate(model, true, &hello()).await;
        assert_eq!(answer.header("x-pointsman-early"), Some("true"));
        assert!(answer.text().starts_with("\n\n"), "a sign of life that Google's SDKs pass over");
        assert!(words(&answer).contains("answers"), "{}", answer.text());
        assert_eq!(answer.chunks()[0]["pointsman"]["target"], target);
    }
}

#[tokio::test]
async fn a_plain_answer_that_is_gathered_from_a_stream() {
    let world = world("defaults: { stream: { gather: on } }\n").await;
    for (model, who, sim) in [("gemini", "g", G), ("gpt", "o", O), ("claude", "a", A)] {
        assert_generated_by(&world.generate(model, false, &hello()).await, who);
        assert!(world.sim(sim).received().pop().unwrap().path.contains("stream") || sim != G);
    }
    assert_whole_from(&world.post(&chat("gpt", false)).await, "o");
    assert_complete_from(&ask_messages(&world, &message("gemini", false)).await, "g");
}

#[tokio::test]
async fn the_models_are_listed_in_googles_form() {
    let world = world("").await;
    let list = world.get("/v1beta/models?pageSize=50").await.json();
    let names: Vec<&str> =
        list["models"].as_array().unwrap().iter().filter_map(|m| m["name"].as_str()).collect();
    assert!(names.contains(&"models/gemini") && names.contains(&"models/claude"), "{names:?}");
    let one = world.get("/v1beta/models/gpt").await.json();
    assert_eq!((&one["name"], &one["displayName"]), (&json!("models/gpt"), &json!("gpt")));
    assert_status(&world.get("/v1beta/models/nobody").await, 404, "NOT_FOUND");
}
