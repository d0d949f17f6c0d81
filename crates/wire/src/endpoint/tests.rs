use serde_json::json;

use super::{Endpoint, EventTap};
use crate::chat::BadCompletion;
use crate::dialect::{ChunkKind, Dialect};
use crate::envelope::{Envelope, EnvelopeError, Limits};
use crate::passthrough::{Edits, ProviderField, render};

fn check(endpoint: Endpoint, body: &str) -> Result<crate::chat::CompletionFacts, BadCompletion> {
    endpoint.check_answer(Dialect::Chat, body.as_bytes())
}

fn read(endpoint: Endpoint, body: &str) -> Result<Envelope, EnvelopeError> {
    Envelope::read_for(endpoint, Dialect::Chat, body.as_bytes(), &Limits::default())
}

#[test]
fn each_endpoint_is_named_by_its_path_below_the_version() {
    for endpoint in Endpoint::OTHERS {
        let name = endpoint.name().unwrap();
        assert_eq!(Endpoint::named(name), Some(endpoint));
        // What Gemini asks of a model has the model in its path.
        let at = Some(endpoint).filter(|endpoint| *endpoint != Endpoint::GeminiCount);
        assert_eq!(Endpoint::of_path(&format!("/{name}")), at);
    }
    assert_eq!(Endpoint::of_path("/images/generations"), Some(Endpoint::ImageGenerations));
    for path in ["/chat/completions", "/messages", "/embeddings/", "embeddings", "/", ""] {
        assert_eq!(Endpoint::of_path(path), None, "{path}");
    }
    assert_eq!(Endpoint::Generation.name(), None);
}

#[test]
fn a_good_answer_has_its_list() {
    let embeddings = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],
        "model":"text-embedding-3-small","usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    let facts = check(Endpoint::Embeddings, embeddings).unwrap();
    assert_eq!(facts.model.as_deref(), Some("text-embedding-3-small"));
    let usage = facts.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (5, 0));
    check(Endpoint::Moderations, r#"{"id":"modr-1","results":[{"flagged":false}]}"#).unwrap();
    check(Endpoint::ImageGenerations, r#"{"created":1,"data":[{"b64_json":"iVBO"}]}"#).unwrap();
    // Jina, Cohere and vLLM; then Voyage.
    check(Endpoint::Rerank, r#"{"results":[{"index":0,"relevance_score":0.9}]}"#).unwrap();
    check(Endpoint::Rerank, r#"{"object":"list","data":[{"index":0,"relevance_score":0.9}]}"#).unwrap();
    check(Endpoint::Rerank, r#"{"results":[]}"#).unwrap();
}

#[test]
fn what_has_no_list_is_no_answer() {
    for (endpoint, list, others) in [
        (Endpoint::Embeddings, "data", r#"{"results":[{}]}"#),
        (Endpoint::Moderations, "results", r#"{"data":[{}]}"#),
        (Endpoint::ImageGenerations, "data", r#"{"results":[{}]}"#),
        (Endpoint::Rerank, "results", r#"{"choices":[{}]}"#),
    ] {
        let lacks = Err(BadCompletion::Lacks(list));
        for body in ["{}", others, r#"{"data":null,"results":null}"#, r#"{"data":{},"results":"x"}"#] {
            assert_eq!(check(endpoint, body), lacks, "{body}");
        }
        assert_eq!(check(endpoint, " "), Err(BadCompletion::Empty));
        assert_eq!(check(endpoint, "<html>"), Err(BadCompletion::Html));
        assert_eq!(check(endpoint, "[1]"), Err(BadCompletion::NotJson));
        assert_eq!(check(endpoint, r#"{"data":[{"#), Err(BadCompletion::NotJson));
    }
    for endpoint in [Endpoint::Embeddings, Endpoint::Moderations, Endpoint::ImageGenerations] {
        assert!(check(endpoint, r#"{"data":[],"results":[]}"#).is_err(), "{endpoint:?}");
    }
}

#[test]
fn an_error_inside_a_success_is_an_error() {
    let body = r#"{"error":{"message":"No capacity.","type":"server_error","code":"x"}}"#;
    for endpoint in Endpoint::OTHERS {
        let Err(BadCompletion::ErrorObject(error)) = check(endpoint, body) else { panic!("{endpoint:?}") };
        assert_eq!(error.message, "No capacity.");
    }
    // OpenAI's Completions have a text in each choice; a message there is another endpoint's answer.
    let text = r#"{"choices":[{"text":"","index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":0}}"#;
    assert!(!check(Endpoint::Completions, text).unwrap().has_output);
    let message = r#"{"choices":[{"message":{"role":"assistant","content":"x"}}]}"#;
    assert_eq!(check(Endpoint::Completions, message), Err(BadCompletion::NoChoices));
    assert_eq!(check(Endpoint::Generation, text), Err(BadCompletion::NoChoices));
}

#[test]
fn a_count_is_a_number() {
    check(Endpoint::CountTokens, r#"{"input_tokens":32}"#).unwrap();
    check(Endpoint::InputTokens, r#"{"object":"response.input_tokens","input_tokens":11}"#).unwrap();
    check(Endpoint::GeminiCount, r#"{"totalTokens":31,"promptTokensDetails":[]}"#).unwrap();
    for endpoint in [Endpoint::CountTokens, Endpoint::InputTokens] {
        for body in ["{}", r#"{"input_tokens":"7"}"#, r#"{"input_tokens":-1}"#, r#"{"totalTokens":1}"#] {
            assert_eq!(check(endpoint, body), Err(BadCompletion::Lacks("input_tokens")), "{body}");
        }
    }
}

#[test]
fn a_count_is_asked_for_in_the_dialect_that_it_is_a_part_of() {
    let body = r#"{"model":"r","models":["a"],"system":"s","messages":[{"role":"user","content":"hi"}]}"#;
    let body = bytes::Bytes::from_static(body.as_bytes());
    let envelope =
        Envelope::read_for(Endpoint::CountTokens, Dialect::Chat, &body, &Limits::default()).unwrap();
    assert_eq!((envelope.dialect(), envelope.stream()), (Dialect::Messages, false));
    let edits = Edits { strip_models: true, stream: Some(false), ..Edits::model("claude-haiku-4-5") };
    let sent = r#"{"model":"claude-haiku-4-5","system":"s","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(render(&body, &envelope, &edits), sent);
    let missing = read(Endpoint::CountTokens, r#"{"model":"m"}"#).unwrap_err();
    assert_eq!(missing, EnvelopeError::Missing { field: "messages" });
    // A stored prompt or conversation may be all there is.
    read(Endpoint::InputTokens, r#"{"model":"m","conversation":"conv_1"}"#).unwrap();
}

/// Gemini API reference, "countTokens": a whole request names its model, and there as a resource.
#[test]
fn a_whole_request_that_is_counted_names_the_targets_model() {
    let read = |body: &str| Envelope::read_gemini_count(body.as_bytes(), "r", &Limits::default());
    let body = r#"{"generateContentRequest":{"model":"models/r","contents":[]},"provider":{}}"#;
    let envelope = read(body).unwrap();
    assert_eq!((envelope.endpoint(), envelope.dialect()), (Endpoint::GeminiCount, Dialect::Gemini));
    let edits = Edits { provider: ProviderField::Strip, ..Edits::model("gemini-3-pro") };
    let sent = render(&bytes::Bytes::copy_from_slice(body.as_bytes()), &envelope, &edits);
    assert_eq!(sent, r#"{"generateContentRequest":{"model":"models/gemini-3-pro","contents":[]}}"#);
    assert_eq!(read(r#"{"model":"m"}"#).unwrap_err(), EnvelopeError::Missing { field: "contents" });
    read(r#"{"contents":[]}"#).unwrap();
}

#[test]
fn a_transcript_is_a_text_and_may_be_silence() {
    for endpoint in [Endpoint::Transcriptions, Endpoint::Translations] {
        check(endpoint, r#"{"text":"","usage":{"type":"duration","seconds":3}}"#).unwrap();
        assert_eq!(check(endpoint, r#"{"text":null}"#), Err(BadCompletion::Lacks("text")));
    }
    assert_eq!(Endpoint::check_text(b"\n"), Ok(()));
    assert_eq!(Endpoint::check_text(b"1\n00:00:00,000 --> 00:00:01,000\nHello"), Ok(()));
    assert_eq!(Endpoint::check_text(b""), Err(BadCompletion::Empty));
    assert_eq!(Endpoint::check_text(b" <html>"), Err(BadCompletion::Html));
    let error = Endpoint::check_text(br#"{"error":{"message":"No."}}"#);
    assert!(matches!(error, Err(BadCompletion::ErrorObject(_))));
}

#[test]
fn a_request_needs_a_model_and_no_messages() {
    let envelope = read(Endpoint::Embeddings, r#"{"input":["one two"],"model":"m","user":"u"}"#).unwrap();
    assert_eq!((envelope.model(), envelope.endpoint()), ("m", Endpoint::Embeddings));
    assert_eq!(envelope.affinity(), Some("u"));
    // A quarter of the eleven bytes of `["one two"]`, rounded up.
    assert_eq!(envelope.estimated_prompt_tokens(), 3);
    let missing = |body| read(Endpoint::Embeddings, body).unwrap_err();
    assert_eq!(missing(r#"{"input":"x"}"#), EnvelopeError::Missing { field: "model" });
    let twice = missing(r#"{"model":"a","input":"x","model":"b"}"#);
    assert_eq!(twice, EnvelopeError::DuplicateKey { key: "model" });
    assert_eq!(missing(r#"{"Model":"a","input":"x"}"#), EnvelopeError::Misspelt { key: "model" });
}

#[test]
fn what_never_is_a_stream_takes_no_notice_of_stream() {
    let envelope = read(Endpoint::Embeddings, r#"{"model":"m","input":"x","stream":true}"#).unwrap();
    assert!(!envelope.stream());
    assert!(read(Endpoint::Completions, r#"{"model":"m","prompt":"x","stream":true}"#).unwrap().stream());
}

/// OpenAI documents a default, and its SDK's example names no model.
#[test]
fn a_moderation_without_a_model_means_the_documented_one() {
    let body = bytes::Bytes::from_static(br#"{"provider":{"order":["openai"]},"input":"x"}"#);
    let envelope =
        Envelope::read_for(Endpoint::Moderations, Dialect::Chat, &body, &Limits::default()).unwrap();
    assert_eq!(envelope.model(), "omni-moderation-latest");
    let edits = Edits { provider: ProviderField::Strip, strip_models: true, ..Edits::model("mod-1") };
    assert_eq!(render(&body, &envelope, &edits), r#"{"model":"mod-1","input":"x"}"#);
    let same = Edits { model: "omni-moderation-latest", ..edits };
    assert_eq!(render(&body, &envelope, &same), r#"{"model":"omni-moderation-latest","input":"x"}"#);
    assert_eq!(read(Endpoint::Moderations, "{}").unwrap_err(), EnvelopeError::Missing { field: "input" });
}

#[test]
fn only_the_models_name_changes_and_our_own_fields_go() {
    let body = bytes::Bytes::from_static(
        br#"{ "input" : [1.0, 2e3],"models":["b"], "model":"route","encoding_format":"base64" ,"provider":{} }"#,
    );
    let envelope =
        Envelope::read_for(Endpoint::Embeddings, Dialect::Chat, &body, &Limits::default()).unwrap();
    let edits = Edits { provider: ProviderField::Strip, strip_models: true, ..Edits::model("te-3") };
    let expected = r#"{ "input" : [1.0, 2e3], "model":"te-3","encoding_format":"base64" }"#;
    assert_eq!(render(&body, &envelope, &edits), expected);
}

/// `max_completion_tokens` is a name of Chat Completions alone, usage is asked for as there.
#[test]
fn completions_keep_their_name_for_the_limit_on_output() {
    use crate::passthrough::MaxTokensName;
    let body = bytes::Bytes::from_static(br#"{"model":"m","prompt":"x","max_tokens":5,"stream":true}"#);
    let envelope =
        Envelope::read_for(Endpoint::Completions, Dialect::Chat, &body, &Limits::default()).unwrap();
    assert_eq!(envelope.max_output_tokens(), Some(5));
    let edits = Edits {
        stream: Some(true),
        include_usage: Some(true),
        max_tokens_name: Some(MaxTokensName::MaxCompletionTokens),
        ..Edits::model("m")
    };
    let expected =
        r#"{"stream_options":{"include_usage":true},"model":"m","prompt":"x","max_tokens":5,"stream":true}"#;
    assert_eq!(render(&body, &envelope, &edits), expected);
}

#[test]
fn a_stream_of_texts_commits_with_its_first_text() {
    let mut tap = Endpoint::Completions.tap(Dialect::Chat);
    let chunk = |text: &str, finish: serde_json::Value| {
        json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m",
               "choices": [{"text": text, "index": 0, "logprobs": null, "finish_reason": finish}]})
        .to_string()
    };
    assert_eq!(tap.event(None, chunk("", json!(null)).as_bytes()).kind, ChunkKind::Preamble);
    assert_eq!(tap.event(None, chunk(" hello", json!(null)).as_bytes()).kind, ChunkKind::Output);
    assert!(!tap.finished());
    assert_eq!(tap.event(None, chunk("", json!("length")).as_bytes()).kind, ChunkKind::Finish);
    assert!(tap.finished());
    let usage = br#"{"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1}}"#;
    assert!(tap.event(None, usage).usage_only);
    assert_eq!(tap.usage().unwrap().output_tokens, 1);
    assert_eq!(tap.event(None, b"[DONE]").kind, ChunkKind::Done);
    assert_eq!(Endpoint::Completions.end_event(Dialect::Chat), b"data: [DONE]\n\n");
    // In a conversation a choice's text is no output.
    let mut chat = Endpoint::Generation.tap(Dialect::Chat);
    assert_eq!(chat.event(None, chunk(" hello", json!(null)).as_bytes()).kind, ChunkKind::Preamble);
}

#[test]
fn typed_events_end_with_the_one_that_says_so() {
    let mut tap = EventTap::new();
    let partial = br#"{"type":"image_generation.partial_image","partial_image_index":0,"b64_json":"aaaa"}"#;
    let facts = tap.event(partial);
    assert_eq!((facts.kind, facts.finish), (ChunkKind::Output, false));
    let last = br#"{"type":"image_generation.completed","b64_json":"bbbb","usage":{"input_tokens":3,"output_tokens":9,"total_tokens":12}}"#;
    let facts = tap.event(last);
    assert_eq!((facts.kind, facts.finish), (ChunkKind::Output, true));
    assert!(tap.finished() && !tap.done());
    assert_eq!(tap.usage().unwrap().output_tokens, 9);
    assert_eq!(Endpoint::ImageGenerations.end_event(Dialect::Chat), b"");
}

#[test]
fn typed_events_keep_their_names() {
    let mut out = bytes::BytesMut::new();
    let (name, data) = (&b"image_generation.completed"[..], &br#"{"type":"x"}"#[..]);
    Endpoint::ImageGenerations.write_event(Dialect::Chat, &mut out, Some(name), data);
    assert_eq!(out, &b"event: image_generation.completed\ndata: {\"type\":\"x\"}\n\n"[..]);
}

#[test]
fn errors_and_garbage_among_typed_events() {
    for error in [
        r#"{"type":"error","error":{"message":"No.","type":"server_error","code":"x","param":null}}"#,
        r#"{"error":{"message":"No."}}"#,
        r#"{"type":"error","message":"No.","code":"x"}"#,
    ] {
        let ChunkKind::Error(error) = EventTap::new().event(error.as_bytes()).kind else { panic!("{error}") };
        assert_eq!(error.message, "No.");
    }
    for garbage in ["", "<html>", "{", "{}", "[]", r#"{"type":7}"#] {
        assert_eq!(EventTap::new().event(garbage.as_bytes()).kind, ChunkKind::Malformed, "{garbage}");
    }
}
