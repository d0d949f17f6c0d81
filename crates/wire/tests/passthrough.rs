//! Splices on a client's own bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use bytes::Bytes;
use pointsman_wire::envelope::{Envelope, Limits};
use pointsman_wire::passthrough::{Edits, MaxTokensName, ProviderField, render};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn rendered(body: &str, edits: &Edits<'_>) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let envelope = Envelope::read(&body, &Limits::default()).unwrap();
    String::from_utf8(render(&body, &envelope, edits).to_vec()).unwrap()
}

#[test]
fn without_edits_the_very_same_bytes_come_back() {
    let body = Bytes::from_static(b"{ \"model\" : \"a\\u002fb\",\"messages\":[],\"temperature\":1.0e0 }");
    let envelope = Envelope::read(&body, &Limits::default()).unwrap();
    let out = render(&body, &envelope, &Edits::model("a/b"));
    assert_eq!(out, body);
    assert_eq!(out.as_ptr(), body.as_ptr(), "a clone, not a copy");
}

#[test]
fn only_the_model_changes_and_order_spelling_and_space_stay() {
    let body = "{\n  \"temperature\": 1.0E-0, \"x_unknown\": {\"b\":1,\"a\":2},\n  \"mod\\u0065l\" : \"route\" , \"messages\": []\n}\n";
    let expected = body.replace("\"route\"", "\"up\\\"stream\"");
    assert_eq!(rendered(body, &Edits::model("up\"stream")), expected);
}

#[test]
fn a_stream_is_turned_on_and_usage_asked_for() {
    let edits = Edits { stream: Some(true), include_usage: Some(true), ..Edits::model("m") };
    assert_eq!(
        rendered(r#"{"model":"m","messages":[]}"#, &edits),
        r#"{"stream":true,"stream_options":{"include_usage":true},"model":"m","messages":[]}"#
    );
    assert_eq!(
        rendered(r#"{"stream":false,"model":"m","messages":[],"stream_options":null}"#, &edits),
        r#"{"stream":true,"model":"m","messages":[],"stream_options":{"include_usage":true}}"#
    );
}

#[test]
fn usage_is_merged_into_the_clients_own_stream_options() {
    let edits = Edits { include_usage: Some(true), ..Edits::model("m") };
    let body =
        |options: &str| format!(r#"{{"stream":true,"model":"m","messages":[],"stream_options":{options}}}"#);
    for (own, merged) in [
        (r#"{"include_obfuscation": false}"#, r#"{"include_usage":true,"include_obfuscation": false}"#),
        ("{}", r#"{"include_usage":true}"#),
        ("{ }", r#"{"include_usage":true }"#),
        (r#"{"include_usage": false, "x":1}"#, r#"{"include_usage": true, "x":1}"#),
        (r#"{"include_usage":null}"#, r#"{"include_usage":true}"#),
        (r#"{"include_usage":true}"#, r#"{"include_usage":true}"#),
    ] {
        assert_eq!(rendered(&body(own), &edits), body(merged));
    }
}

#[test]
fn usage_is_not_asked_for_without_a_stream_since_providers_refuse_that() {
    let body = r#"{"model":"m","messages":[]}"#;
    assert_eq!(rendered(body, &Edits { include_usage: Some(true), ..Edits::model("m") }), body);
}

#[test]
fn turning_a_stream_off_takes_its_options_along() {
    let edits = Edits { stream: Some(false), ..Edits::model("m") };
    assert_eq!(
        rendered(
            r#"{"stream_options":{"include_usage":true},"stream":true,"model":"m","messages":[]}"#,
            &edits
        ),
        r#"{"stream":false,"model":"m","messages":[]}"#
    );
}

#[test]
fn our_own_fields_go_from_any_place() {
    let edits = Edits { strip_models: true, provider: ProviderField::Strip, ..Edits::model("m") };
    let rest = r#""model":"m","messages":[]"#;
    for body in [
        r#"{"models":["a"],"provider":{},"model":"m","messages":[]}"#,
        r#"{"model":"m","models":["a"],"provider":{},"messages":[]}"#,
        r#"{"model":"m","messages":[],"models":["a"],"provider":{}}"#,
        r#"{"provider":{},"model":"m","messages":[],"models":["a"]}"#,
        r#"{"model":"m","provider":{},"messages":[],"mod\u0065ls":["a"]}"#,
    ] {
        assert_eq!(rendered(body, &edits), format!("{{{rest}}}"), "{body}");
    }
}

#[test]
fn a_provider_field_can_be_replaced_or_added() {
    let edits = Edits { provider: ProviderField::Replace(r#"{"only":["x"]}"#), ..Edits::model("m") };
    assert_eq!(
        rendered(r#"{"model":"m","provider":{"zdr":true},"messages":[]}"#, &edits),
        r#"{"model":"m","provider":{"only":["x"]},"messages":[]}"#
    );
    assert_eq!(
        rendered(r#"{"model":"m","messages":[]}"#, &edits),
        r#"{"provider":{"only":["x"]},"model":"m","messages":[]}"#
    );
}

#[test]
fn the_output_limit_is_renamed_unless_both_names_are_there() {
    let to_old = Edits { max_tokens_name: Some(MaxTokensName::MaxTokens), ..Edits::model("m") };
    let to_new = Edits { max_tokens_name: Some(MaxTokensName::MaxCompletionTokens), ..Edits::model("m") };
    let old = r#"{"model":"m","messages":[],"max_tokens": 007e0}"#.replace("007e0", "7");
    let new = old.replace("max_tokens", "max_completion_tokens");
    assert_eq!(rendered(&new, &to_old), old);
    assert_eq!(rendered(&old, &to_new), new);
    assert_eq!(rendered(&old, &to_old), old);
    let both = r#"{"model":"m","messages":[],"max_tokens":1,"max_completion_tokens":2}"#;
    assert_eq!(rendered(both, &to_old), both);
}

// === the same by property: any request, any edits ===

/// A member of a request as it is written.
fn member() -> impl Strategy<Value = (String, String)> {
    let value = prop_oneof![
        Just("1.50e1"),
        Just("\"\\u0041\""),
        Just("[ 1,2 ]"),
        Just("{\"z\":{\"a\":[]}}"),
        Just("null")
    ];
    prop_oneof![
        ("x_[a-z]{1,3}", value).prop_map(|(key, value)| (key, value.to_owned())),
        Just(("stream".to_owned(), "true".to_owned())),
        Just(("stream".to_owned(), "false".to_owned())),
        Just(("str\\u0065am".to_owned(), "true".to_owned())),
        Just(("stream_options".to_owned(), "{ }".to_owned())),
        Just(("stream_options".to_owned(), "{\"include_usage\" : false}".to_owned())),
        Just((
            "stream_options".to_owned(),
            "{\"include_obfuscation\":true, \"include_usage\":true}".to_owned()
        )),
        Just(("models".to_owned(), "[\"a\"]".to_owned())),
        Just(("provider".to_owned(), "{\"zdr\":true}".to_owned())),
        Just(("max_tokens".to_owned(), "5".to_owned())),
        Just(("max_completion_tokens".to_owned(), "6".to_owned())),
    ]
}

/// A request's text, and the members in it as they are written.
fn body() -> impl Strategy<Value = (String, Vec<String>)> {
    let required = [
        ("model".to_owned(), "\"m\"".to_owned()),
        ("messages".to_owned(), "[{\"role\":\"user\"}]".to_owned()),
    ];
    let members = proptest::collection::vec(member(), 0..8)
        .prop_map(move |members| {
            let mut seen: Vec<(String, String)> = Vec::new();
            for (key, value) in required.iter().cloned().chain(members) {
                if !seen.iter().any(|(other, _)| unescaped(other) == unescaped(&key)) {
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
        (format!("{space}{{{}}}{space}", members.join(",")), members)
    })
}

fn unescaped(key: &str) -> String {
    key.replace("\\u0065", "e")
}

fn edits() -> impl Strategy<Value = Edits<'static>> {
    let provider = prop_oneof![
        Just(ProviderField::Keep),
        Just(ProviderField::Strip),
        Just(ProviderField::Replace("{\"only\":[]}"))
    ];
    let name = prop_oneof![
        Just(None),
        Just(Some(MaxTokensName::MaxTokens)),
        Just(Some(MaxTokensName::MaxCompletionTokens))
    ];
    let model = prop_oneof![Just("m"), Just("other/model")];
    (model, any::<Option<bool>>(), any::<Option<bool>>(), any::<bool>(), provider, name).prop_map(
        |(model, stream, include_usage, strip_models, provider, max_tokens_name)| Edits {
            model,
            stream,
            include_usage,
            strip_models,
            provider,
            max_tokens_name,
        },
    )
}

/// What the edits mean, said on a value tree.
fn edited(mut request: Map<String, Value>, edits: &Edits<'_>) -> Map<String, Value> {
    request.insert("model".into(), json!(edits.model));
    let streamed = request.get("stream") == Some(&json!(true));
    let streams = edits.stream.unwrap_or(streamed);
    if streams != streamed {
        request.insert("stream".into(), json!(streams));
    }
    let wanted =
        request.get("stream_options").and_then(|options| options.get("include_usage")) == Some(&json!(true));
    if edits.stream == Some(false) {
        request.remove("stream_options");
    } else if edits.include_usage == Some(true) && streams && !wanted {
        let options = request.entry("stream_options").or_insert_with(|| json!({}));
        options.as_object_mut().unwrap().insert("include_usage".into(), json!(true));
    } else if edits.include_usage == Some(false) && wanted {
        request["stream_options"]["include_usage"] = json!(false);
    }
    if edits.strip_models {
        request.remove("models");
    }
    match edits.provider {
        ProviderField::Keep => {}
        ProviderField::Strip => drop(request.remove("provider")),
        ProviderField::Replace(json) => {
            drop(request.insert("provider".into(), serde_json::from_str(json).unwrap()))
        }
    }
    let names = match edits.max_tokens_name {
        None => return request,
        Some(MaxTokensName::MaxTokens) => ("max_completion_tokens", "max_tokens"),
        Some(MaxTokensName::MaxCompletionTokens) => ("max_tokens", "max_completion_tokens"),
    };
    if !request.contains_key(names.1)
        && let Some(limit) = request.remove(names.0)
    {
        request.insert(names.1.into(), limit);
    }
    request
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_outcome_means_what_the_edits_say_and_the_rest_keeps_its_bytes((body, members) in body(), edits in edits()) {
        let out = rendered(&body, &edits);
        let before: Map<String, Value> = serde_json::from_str(&body).unwrap();
        let after: Map<String, Value> = serde_json::from_str(&out).unwrap();
        prop_assert_eq!(&after, &edited(before.clone(), &edits), "{}", out);
        let mut from = 0;
        for written in members.iter().filter(|written| written.contains("\"x_") || written.contains("\"messages\"")) {
            let at = out[from..].find(written);
            prop_assert!(at.is_some(), "{:?} is not in its place in {}", written, out);
            from += at.unwrap() + written.len();
        }
        if after == before {
            prop_assert_eq!(&out, &body, "nothing changes: not a byte does");
        }
        // What was rendered can be read and rendered again, to the same end.
        prop_assert_eq!(rendered(&out, &edits), out);
    }

    #[test]
    fn without_the_changed_places_both_texts_are_the_same((body, _) in body()) {
        let out = rendered(&body, &Edits::model("other/model"));
        prop_assert_eq!(out.replace("\"other/model\"", "\"m\""), body);
    }
}
