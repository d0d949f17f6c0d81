//! Speech and transcripts: a medium that passes as it comes, and forms with files.

use bytes::Bytes;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::checks::pair;
use crate::raw::Seen;
use crate::support::World;

const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";
const FORM: &str = "multipart/form-data; boundary=----b0undary";
const JSON: &str = "application/json";

fn speech(more: Value) -> Vec<u8> {
    let mut body = json!({ "model": "gpt-4o", "input": "Hello.", "voice": "alloy" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string().into_bytes()
}

async fn speak(world: &World) -> Seen {
    world.raw("/v1/audio/speech", JSON, &speech(json!({}))).await
}

/// A form with a file of any bytes before its model, as a browser writes it.
fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut body = b"------b0undary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\0\xff\r\n--not the end\r\n".to_vec();
    for (name, value) in fields {
        body.extend_from_slice(
            format!("------b0undary\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                .as_bytes(),
        );
    }
    body.extend_from_slice(b"------b0undary--\r\n");
    body
}

async fn transcribe(world: &World, fields: &[(&str, &str)]) -> Seen {
    world.raw("/v1/audio/transcriptions", FORM, &form(fields)).await
}

// Speech

#[tokio::test]
async fn speech_passes_as_the_bytes_that_it_is() {
    let world = pair("").await;
    let seen = speak(&world).await;
    assert_eq!((seen.status, seen.whole), (200, true), "{seen:?}");
    assert!(seen.text().starts_with("a answers"), "{}", seen.text());
    assert_eq!(seen.header("content-type"), Some("audio/mpeg"));
    assert_eq!(seen.header("x-pointsman-target"), Some("a"));
    let received = &world.sim(0).received()[0];
    assert_eq!(received.path, "/v1/audio/speech");
    assert_eq!(received.header("accept"), Some("*/*"));
    let entry = world.gateway.app().ledger.get(seen.header("x-request-id").unwrap()).unwrap();
    assert_eq!((entry.endpoint, entry.terminal), (Some("audio/speech"), "success"));
}

#[tokio::test]
async fn before_the_first_sound_another_target_takes_over() {
    let error = r#"{"error":{"message":"No voice.","type":"server_error","param":null,"code":null}}"#;
    for script in [
        Script::openai_overloaded(),
        Script::reset_before_headers(),
        Script::silence(),
        Script::healthy().html(),
        Script::fixed(200, "application/json", error),
        Script::fixed(200, "audio/mpeg", ""),
        Script::end_after(0),
        Script::stall_after(0),
    ] {
        let world = pair(QUICK).await;
        world.sim(0).set(script.clone());
        let seen = speak(&world).await;
        assert_eq!((seen.status, seen.whole), (200, true), "{script:?}: {seen:?}");
        assert!(seen.text().starts_with("b answers"), "{script:?}: {}", seen.text());
        assert_eq!(seen.header("x-pointsman-action"), Some("failover"));
    }
}

/// Half a medium must not be taken for the whole.
#[tokio::test]
async fn after_the_first_sound_a_break_leaves_the_answer_without_its_end() {
    for script in [Script::cut_after(3), Script::stall_after(3)] {
        let world = pair(QUICK).await;
        world.sim(0).set(script.clone());
        let seen = speak(&world).await;
        assert_eq!((seen.status, seen.whole), (200, false), "{script:?}");
        assert!(seen.text().starts_with("a answers") && !seen.text().contains("error"), "{}", seen.text());
        assert_eq!(world.sim(1).calls(), 0);
        let entry = world.gateway.app().ledger.get(seen.header("x-request-id").unwrap()).unwrap();
        assert_eq!((entry.terminal, entry.attempts[0].failure), ("partial", Some("partial_stream")));
    }
}

#[tokio::test]
async fn who_leaves_in_the_middle_takes_the_upstream_along() {
    let world = pair("").await;
    world.sim(0).set(Script::stall_after(2));
    let mut stream = world.open("/v1/audio/speech", JSON, &speech(json!({}))).await;
    let mut some = [0; 400];
    assert!(stream.read(&mut some).await.unwrap() > 0);
    drop(stream);
    world.sim(0).wait_until(|sim| sim.aborted() == 1).await.unwrap();
    world.assert_untouched("a");
}

#[tokio::test]
async fn speech_as_events_passes_with_the_names_of_its_events() {
    let world = pair("").await;
    let seen = world.raw("/v1/audio/speech", JSON, &speech(json!({ "stream_format": "sse" }))).await;
    assert_eq!(seen.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = seen.text();
    assert!(text.starts_with("event: speech.audio.delta\ndata: {\"type\":\"speech.audio.delta\""), "{text}");
    assert!(text.contains("event: speech.audio.done\n") && seen.whole, "{text}");
}

// Transcripts

#[tokio::test]
async fn a_form_passes_byte_by_byte_but_for_its_model() {
    let yaml = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: whisper, upstream_model: whisper-large-v3, api_key: sk-a }
"#;
    let world = crate::checks::world_from(&["a"], yaml).await;
    let seen = transcribe(&world, &[("model", "whisper"), ("language", "en")]).await;
    assert_eq!((seen.status, seen.header("content-type")), (200, Some(JSON)), "{seen:?}");
    assert!(seen.json()["text"].as_str().unwrap().starts_with("a answers"));
    let received = &world.sim(0).received()[0];
    assert_eq!(received.header("content-type"), Some(FORM));
    assert_eq!(received.body, form(&[("model", "whisper-large-v3"), ("language", "en")]));
    let entry = world.gateway.app().ledger.get(seen.header("x-request-id").unwrap()).unwrap();
    assert_eq!((entry.endpoint, entry.requested.as_str()), (Some("audio/transcriptions"), "whisper"));
    assert!(entry.usage.unwrap().output_tokens > 0);
}

/// The file is kept until somebody answers: a failover sends it again, whole.
#[tokio::test]
async fn a_failover_sends_the_whole_form_again() {
    for script in [
        Script::openai_overloaded(),
        Script::reset_before_headers(),
        Script::healthy().html(),
        Script::fixed(200, "application/json", "{}"),
    ] {
        let world = pair(QUICK).await;
        world.sim(0).set(script.clone());
        let fields = [("model", "gpt-4o")];
        let seen = transcribe(&world, &fields).await;
        assert!(seen.json()["text"].as_str().unwrap().starts_with("b answers"), "{script:?}: {seen:?}");
        assert_eq!(world.sim(1).received()[0].body, form(&fields));
    }
}

#[tokio::test]
async fn a_transcript_comes_as_text_where_text_is_asked_for() {
    let world = pair(QUICK).await;
    let fields = [("response_format", "srt"), ("model", "gpt-4o")];
    let seen = transcribe(&world, &fields).await;
    assert_eq!(seen.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(seen.text().starts_with("a answers") && seen.text().ends_with('\n'), "{}", seen.text());
    world.sim(0).set(Script::healthy().html());
    assert!(transcribe(&world, &fields).await.text().starts_with("b answers"));
}

#[tokio::test]
async fn a_transcript_streams_where_a_stream_is_asked_for() {
    let world = pair("").await;
    let seen = transcribe(&world, &[("model", "gpt-4o"), ("stream", "true")]).await;
    let text = seen.text();
    assert!(text.starts_with("event: transcript.text.delta\n"), "{text}");
    assert!(text.contains("event: transcript.text.done\n") && seen.whole, "{text}");
    let id = seen.header("x-request-id").unwrap();
    assert_eq!(world.gateway.app().ledger.get(id).unwrap().terminal, "success");
}

#[tokio::test]
async fn the_other_forms_go_their_way_too() {
    for (path, list) in
        [("audio/translations", "text"), ("images/edits", "data"), ("images/variations", "data")]
    {
        let world = pair("").await;
        let body = form(&[("model", "gpt-4o"), ("prompt", "p")]);
        let seen = world.raw(&format!("/v1/{path}"), FORM, &body).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        assert!(!seen.json()[list].is_null(), "{path}: {}", seen.text());
        assert_eq!(world.sim(0).received()[0].path, format!("/v1/{path}"));
    }
}

/// Images by address or id come as JSON.
#[tokio::test]
async fn an_edit_may_come_as_json() {
    let world = pair("").await;
    let body = json!({ "model": "gpt-4o", "prompt": "p", "images": [{ "file_id": "file-1" }] });
    let answer = world.ask("images/edits", &body).await;
    crate::whole::assert_from(&answer, "a", "data");
}

#[tokio::test]
async fn a_form_that_is_none_is_refused_and_costs_no_call() {
    let world = pair("").await;
    for (content_type, body, says) in [
        (FORM, form(&[]), "'model' is required"),
        (FORM, form(&[("model", "gpt-4o"), ("model", "b")]), "more than once"),
        (FORM, form(&[("model", "gpt-4o"), ("provider", "{}")]), "x-pointsman-*"),
        (FORM, b"------b0undary\r\n".to_vec(), "The form in the request body"),
        ("multipart/form-data", form(&[("model", "gpt-4o")]), "no usable boundary"),
    ] {
        let seen = world.raw("/v1/audio/transcriptions", content_type, &body).await;
        assert_eq!(seen.status, 400, "{seen:?}");
        let message = seen.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{message}");
    }
    assert_eq!(world.sim(0).calls(), 0);
}

#[tokio::test]
async fn a_file_is_bounded_as_every_body_is() {
    let yaml = r#"
server: { listen: 127.0.0.1:0, max_body: 1KiB }
targets: { a: { provider: openai, base_url: "<a>", model: m, api_key: sk-a } }
"#;
    let world = crate::checks::world_from(&["a"], yaml).await;
    let body = form(&[("model", "m"), ("prompt", &"x".repeat(2_000))]);
    assert_eq!(world.raw("/v1/audio/transcriptions", FORM, &body).await.status, 413);
    assert_eq!(world.sim(0).calls(), 0);
}

// What is not there

#[tokio::test]
async fn sockets_are_answered_with_a_clear_501_in_the_callers_dialect() {
    let world = pair("").await;
    let upgrade = [("upgrade", "websocket"), ("connection", "upgrade"), ("sec-websocket-version", "13")];
    for path in ["/v1/realtime?model=gpt-4o", "/realtime", "/openai/v1/realtime", "/v1/responses"] {
        let answer = world.send("GET", path, Bytes::new(), &upgrade).await;
        assert_eq!(answer.status, 501, "{path}: {}", answer.text());
        assert_eq!(answer.error()["code"], "not_built");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    let calls = world.send("POST", "/v1/realtime/calls", Bytes::new(), &[]).await;
    assert_eq!(calls.status, 501);
    let messages = world.send("GET", "/anthropic/v1/messages", Bytes::new(), &upgrade).await;
    assert_eq!((messages.status.as_u16(), &messages.json()["type"]), (501, &json!("error")));
}

#[tokio::test]
async fn a_path_that_is_not_there_says_what_is() {
    let world = pair("").await;
    let close = world.send("POST", "/v1/embedding", Bytes::from("{}"), &[]).await;
    assert_eq!((close.status.as_u16(), &close.error()["code"]), (404, &json!("unknown_url")));
    assert_eq!(close.error()["message"], "there is no POST /v1/embedding here; close is /v1/embeddings");
    let far = world.send("POST", "/v1/fine_tuning/jobs", Bytes::from("{}"), &[]).await;
    assert_eq!(far.status, 404);
    assert!(far.error()["message"].as_str().unwrap().contains("it serves conversations"), "{}", far.text());
}
