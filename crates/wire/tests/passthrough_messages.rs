//! Splices on a client's own bytes in the messages dialect: what a prompt cache sees stays as it was (C102).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use bytes::Bytes;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::envelope::{Envelope, Limits};
use pointsman_wire::passthrough::{Edits, MaxTokensName, ProviderField, render};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn rendered(body: &str, edits: &Edits<'_>) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let envelope = Envelope::read_as(Dialect::Messages, &body, &Limits::default()).unwrap();
    String::from_utf8(render(&body, &envelope, edits).to_vec()).unwrap()
}

/// What a coding agent sends: cache marks, betas, tools with fields of their own, unknown blocks.
const AGENT: &str = r#"{"model": "my-route", "max_tokens":32000,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=1;"},{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h","scope":"global"}}],
 "tools":[{"name":"Read","input_schema":{"type":"object","$schema":"s"},"input_examples":[{"p":1.0}],"defer_loading":true}],"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
 "messages":[{"role":"user","content":[{"type":"text","text":"Gr\u00fc\u00dfe","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"EqQB"},{"type":"tool_use","id":"t","name":"Read","input":{"b":1,"a":2.50}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"},{"type":"new_block","x":{}}]},{"role":"system","content":"now"}],
 "x_new":{},"diagnostics":{"previous_message_id":null},"stream":true}"#;

#[test]
fn c101_c102_only_the_model_changes_in_what_an_agent_sends() {
    let sent = rendered(AGENT, &Edits { stream: Some(true), ..Edits::model("claude-opus-5-5") });
    assert_eq!(sent, AGENT.replace("\"my-route\"", "\"claude-opus-5-5\""));
}

#[test]
fn c102_two_requests_with_the_same_beginning_keep_it_the_same() {
    let other = AGENT.replace("\"now\"", "\"later\"");
    let edits = Edits::model("claude-opus-5-5");
    let (one, two) = (rendered(AGENT, &edits), rendered(&other, &edits));
    let same = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(&one[same..same + 3], "now");
}

#[test]
fn without_edits_the_very_same_bytes_come_back() {
    let body = Bytes::from_static(AGENT.as_bytes());
    let envelope = Envelope::read_as(Dialect::Messages, &body, &Limits::default()).unwrap();
    assert_eq!(render(&body, &envelope, &Edits::model("my-route")).as_ptr(), body.as_ptr());
}

#[test]
fn nothing_of_the_chat_dialect_is_added_or_renamed() {
    let edits = Edits {
        stream: Some(true),
        include_usage: Some(true),
        max_tokens_name: Some(MaxTokensName::MaxCompletionTokens),
        ..Edits::model("m")
    };
    assert_eq!(
        rendered(r#"{"model":"m","max_tokens":5,"messages":[]}"#, &edits),
        r#"{"stream":true,"model":"m","max_tokens":5,"messages":[]}"#
    );
    let own = r#"{"model":"m","stream":true,"stream_options":{"x":1},"messages":[]}"#;
    assert_eq!(rendered(own, &edits), own);
    let off = Edits { stream: Some(false), ..Edits::model("m") };
    assert_eq!(rendered(own, &off), own.replace("\"stream\":true", "\"stream\":false"));
}

#[test]
fn our_own_fields_go() {
    let edits = Edits { strip_models: true, provider: ProviderField::Strip, ..Edits::model("m") };
    let body = r#"{"models":["a"],"model":"m","messages":[],"provider":{"zdr":true}}"#;
    assert_eq!(rendered(body, &edits), r#"{"model":"m","messages":[]}"#);
}

/// A member of a request as it is written.
fn member() -> impl Strategy<Value = (String, String)> {
    let value = prop_oneof![
        Just("1.50e1"),
        Just("\"\\u0041\""),
        Just("[ 1,2 ]"),
        Just("{\"z\":{\"a\":[]}}"),
        Just("null")
    ];
    let routed = prop_oneof![
        Just(("stream", "true")),
        Just(("stream", "false")),
        Just(("models", "[\"a\"]")),
        Just(("provider", "{\"zdr\":true}")),
        Just(("max_tokens", "5.0")),
        Just(("system", "[ {\"type\":\"text\",\"text\":\"s\"} ]")),
        Just(("thinking", "{\"type\":\"adaptive\"}")),
        Just(("metadata", "{\"user_id\":\"u\"}")),
        Just(("tool_choice", "{\"type\":\"auto\"}")),
        Just(("cache_control", "{\"type\":\"ephemeral\"}")),
    ];
    prop_oneof![
        ("x_[a-z]{1,3}", value).prop_map(|(key, value)| (key, value.to_owned())),
        routed.prop_map(|(key, value)| (key.to_owned(), value.to_owned())),
    ]
}

fn body() -> impl Strategy<Value = (String, Vec<String>)> {
    let required = [("model".to_owned(), "\"m\"".to_owned()), ("messages".to_owned(), "[ ]".to_owned())];
    let members = proptest::collection::vec(member(), 0..8)
        .prop_map(move |members| {
            let mut seen: Vec<(String, String)> = Vec::new();
            for (key, value) in required.iter().cloned().chain(members) {
                if !seen.iter().any(|(other, _)| *other == key) {
                    seen.push((key, value));
                }
            }
            seen
        })
        .prop_shuffle();
    (members, "[ \n]{0,2}").prop_map(|(members, space)| {
        let members: Vec<String> = members
            .iter()
            .map(|(key, value)| format!("{space}\"{key}\"{space}:{space}{value}{space}"))
            .collect();
        (format!("{{{}}}", members.join(",")), members)
    })
}

/// What the edits mean, said on a value tree.
fn edited(mut request: Map<String, Value>, edits: &Edits<'_>) -> Map<String, Value> {
    request.insert("model".into(), json!(edits.model));
    let streamed = request.get("stream") == Some(&json!(true));
    if let Some(stream) = edits.stream.filter(|stream| *stream != streamed) {
        request.insert("stream".into(), json!(stream));
    }
    if edits.strip_models {
        request.remove("models");
    }
    if edits.provider == ProviderField::Strip {
        request.remove("provider");
    }
    request
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_outcome_means_what_the_edits_say_and_the_rest_keeps_its_bytes(
        (body, members) in body(),
        model in prop_oneof![Just("m"), Just("other/model")],
        stream in any::<Option<bool>>(),
        include_usage in any::<Option<bool>>(),
        strip_models in any::<bool>(),
        strip_provider in any::<bool>(),
    ) {
        let provider = if strip_provider { ProviderField::Strip } else { ProviderField::Keep };
        let max_tokens_name = Some(MaxTokensName::MaxCompletionTokens);
        let edits = Edits { model, stream, include_usage, strip_models, provider, max_tokens_name };
        let out = rendered(&body, &edits);
        let before: Map<String, Value> = serde_json::from_str(&body).unwrap();
        let after: Map<String, Value> = serde_json::from_str(&out).unwrap();
        prop_assert_eq!(&after, &edited(before.clone(), &edits), "{}", out);
        let changed = ["\"model\"", "\"stream\"", "\"models\"", "\"provider\""];
        let mut from = 0;
        for written in members.iter().filter(|written| !changed.iter().any(|key| written.contains(key))) {
            let at = out[from..].find(written);
            prop_assert!(at.is_some(), "{:?} is not in its place in {}", written, out);
            from += at.unwrap() + written.len();
        }
        if after == before {
            prop_assert_eq!(&out, &body, "nothing changes: not a byte does");
        }
    }
}
