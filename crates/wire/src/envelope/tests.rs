use serde_json::{Value, json};

use super::{DataCollection, Envelope, EnvelopeError, Limits, MaxPrice, Needs, Sort, Structured};

fn read_text(body: &str) -> Result<Envelope, EnvelopeError> {
    Envelope::read(body.as_bytes(), &Limits::default())
}

/// Reads a request that has, besides a model and one message, these members.
fn with(members: Value) -> Envelope {
    try_with(members).unwrap()
}

fn try_with(members: Value) -> Result<Envelope, EnvelopeError> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    read_text(&body.to_string())
}

/// The error's field and sentence.
fn complaint(outcome: Result<Envelope, EnvelopeError>) -> (Option<String>, String) {
    let error = outcome.unwrap_err();
    assert_eq!(error.status(), 400, "{error}");
    (error.param().map(str::to_owned), error.message())
}

mod gemini;
mod messages;

mod what_it_reads {
    use super::*;

    #[test]
    fn the_smallest_request() {
        let envelope = read_text(r#"{"model":"gpt-4o","messages":[]}"#).unwrap();
        assert_eq!(envelope.model(), "gpt-4o");
        assert!(!envelope.stream());
        assert!(!envelope.include_usage());
        assert_eq!(envelope.max_output_tokens(), None);
        assert_eq!(envelope.affinity(), None);
        assert_eq!(envelope.needs(), Needs::default());
        assert_eq!(envelope.needs().n, 1);
    }

    #[test]
    fn keys_and_the_model_are_unescaped() {
        let envelope =
            read_text(r#"{"mod\u0065l":"z-ai\/glm\u002d5.2","m\u0065ssages":[],"str\u0065am":true}"#)
                .unwrap();
        assert_eq!(envelope.model(), "z-ai/glm-5.2");
        assert!(envelope.stream());
    }

    #[test]
    fn null_is_the_same_as_absent() {
        let envelope = with(json!({
            "stream": null, "stream_options": null, "max_tokens": null, "n": null, "tools": null,
            "provider": null, "models": null, "response_format": null, "user": null, "reasoning_effort": null,
            "logprobs": null, "audio": null, "parallel_tool_calls": null
        }));
        assert_eq!(envelope.needs(), Needs { has_messages: true, ..Needs::default() });
        assert!(!envelope.stream());
        assert_eq!(envelope.affinity(), None);
    }

    #[test]
    fn usage_is_wanted_only_if_it_is_asked_for() {
        assert!(with(json!({"stream_options": {"include_usage": true}})).include_usage());
        assert!(!with(json!({"stream_options": {"include_usage": false}})).include_usage());
        assert!(!with(json!({"stream_options": {"include_obfuscation": false}})).include_usage());
    }

    #[test]
    fn the_newer_name_of_the_output_limit_comes_first() {
        assert_eq!(with(json!({"max_tokens": 10})).max_output_tokens(), Some(10));
        assert_eq!(
            with(json!({"max_tokens": 10, "max_completion_tokens": 20})).max_output_tokens(),
            Some(20)
        );
        assert_eq!(with(json!({"max_tokens": 100.0})).max_output_tokens(), Some(100));
        assert_eq!(with(json!({"max_tokens": -1})).max_output_tokens(), None);
    }

    #[test]
    fn affinity_prefers_the_cache_key_then_the_safety_identifier_then_the_user() {
        let all = json!({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k"});
        assert_eq!(with(all).affinity(), Some("k"));
        assert_eq!(with(json!({"user": "u", "safety_identifier": "s"})).affinity(), Some("s"));
        assert_eq!(with(json!({"user": "u", "safety_identifier": ""})).affinity(), Some("u"));
    }
}

mod what_the_request_needs {
    use super::*;

    fn needs(members: Value) -> Needs {
        with(members).needs()
    }

    #[test]
    fn tools_and_functions() {
        let tool = json!({"type": "function", "function": {"name": "f"}});
        assert!(needs(json!({"tools": [tool]})).tools);
        assert!(needs(json!({"functions": [{"name": "f"}]})).tools);
        assert!(!needs(json!({"tools": []})).tools);
        assert_eq!(needs(json!({"parallel_tool_calls": false})).parallel_tools, Some(false));
    }

    #[test]
    fn each_kind_of_media() {
        let part = |part: Value| needs(json!({"messages": [{"role": "user", "content": [part]}]}));
        let image = part(json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}));
        assert!(image.images && !image.audio && !image.files && !image.video);
        assert!(part(json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}})).audio);
        assert!(part(json!({"type": "file", "file": {"file_id": "f"}})).files);
        assert!(part(json!({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}})).video);
        let text = part(json!({"type": "text", "text": "\"type\":\"image_url\""}));
        assert_eq!(text, Needs { has_messages: true, ..Needs::default() });
    }

    #[test]
    fn structured_output() {
        assert_eq!(needs(json!({"response_format": {"type": "text"}})).structured, None);
        let object = needs(json!({"response_format": {"type": "json_object"}}));
        assert_eq!(object.structured, Some(Structured::JsonObject));
        let schema = needs(
            json!({"response_format": {"json_schema": {"name": "n", "schema": {}}, "type": "json_schema"}}),
        );
        assert_eq!(schema.structured, Some(Structured::JsonSchema));
    }

    #[test]
    fn reasoning_by_each_of_its_names() {
        for asks in [
            json!({"reasoning_effort": "low"}),
            json!({"reasoning": {"effort": "high"}}),
            json!({"reasoning": {"enabled": true}}),
            json!({"thinking": {"type": "enabled"}}),
        ] {
            assert!(needs(asks.clone()).reasoning, "{asks}");
        }
        for does_not in [
            json!({"reasoning_effort": "none"}),
            json!({"reasoning": {"effort": "none"}}),
            json!({"reasoning": {"enabled": false}}),
            json!({"thinking": {"type": "disabled"}}),
        ] {
            assert!(!needs(does_not.clone()).reasoning, "{does_not}");
        }
    }

    #[test]
    fn prefill_is_an_assistants_message_at_the_end() {
        let user = json!({"role": "user", "content": "hi"});
        let assistant = json!({"content": "I", "role": "assistant"});
        assert!(needs(json!({"messages": [user, assistant]})).prefill);
        assert!(!needs(json!({"messages": [user, assistant, user]})).prefill);
    }

    #[test]
    fn choices_probabilities_and_spoken_output() {
        let all = needs(json!({"n": 3, "logprobs": true, "modalities": ["text", "audio"]}));
        assert!(all.n == 3 && all.logprobs && all.audio_out);
        assert!(needs(json!({"top_logprobs": 2})).logprobs);
        assert!(needs(json!({"audio": {"voice": "alloy", "format": "wav"}})).audio_out);
        let none = needs(json!({"n": 1, "logprobs": false, "modalities": ["text"]}));
        assert!(!none.logprobs && !none.audio_out);
    }

    #[test]
    fn a_field_that_nobody_documents_is_noticed() {
        assert!(needs(json!({"api_base": "http://127.0.0.1:9/"})).unknown_fields);
        let known =
            json!({"temperature": 0, "seed": 1, "top_k": 4, "chat_template_kwargs": {}, "metadata": {}});
        assert!(!needs(known).unknown_fields);
    }
}

mod the_estimate {
    use super::*;

    #[test]
    fn a_token_is_four_bytes_of_messages_and_tools() {
        let messages = r#"[{"role":"user","content":"0123456789"}]"#;
        let tools = r#"[{"type":"function","function":{"name":"f"}}]"#;
        let body = format!(r#"{{"model":"m","messages":{messages},"tools":{tools}}}"#);
        let expected = messages.len().div_ceil(4) + tools.len().div_ceil(4);
        assert_eq!(read_text(&body).unwrap().estimated_prompt_tokens(), expected as u64);
    }

    #[test]
    fn a_picture_counts_the_same_however_many_bytes_it_has() {
        let estimate = |url: String| {
            let part = json!({"type": "image_url", "image_url": {"url": url}});
            with(json!({"messages": [{"role": "user", "content": [part]}]})).estimated_prompt_tokens()
        };
        let small = estimate("https://example.com/a.png".to_owned());
        let large = estimate(format!("data:image/png;base64,{}", "A".repeat(4_000_000)));
        assert_eq!(small, large);
        assert!((800..900).contains(&small), "{small}");
    }
}

mod preferences {
    use super::*;

    #[test]
    fn each_is_read() {
        let envelope = with(json!({
            "models": ["a/b", "c/d"],
            "provider": {
                "order": ["x"], "only": ["x", "y"], "ignore": ["z"], "allow_fallbacks": false,
                "require_parameters": true, "data_collection": "deny", "zdr": true, "sort": "throughput",
                "max_price": {"prompt": 1, "completion": "2.5"}, "quantizations": ["fp8"]
            }
        }));
        let preferences = envelope.preferences();
        assert_eq!(preferences.models, ["a/b", "c/d"]);
        assert_eq!(preferences.order, ["x"]);
        assert_eq!(preferences.only, ["x", "y"]);
        assert_eq!(preferences.ignore, ["z"]);
        assert_eq!(preferences.allow_fallbacks, Some(false));
        assert_eq!(preferences.require_parameters, Some(true));
        assert_eq!(preferences.data_collection, Some(DataCollection::Deny));
        assert_eq!(preferences.zdr, Some(true));
        assert_eq!(preferences.sort, Some(Sort::Throughput));
        assert_eq!(preferences.max_price, Some(MaxPrice { prompt: Some(1.0), completion: Some(2.5) }));
        assert_eq!(preferences.quantizations, ["fp8"]);
        assert!(preferences.without_effect.is_empty());
    }

    #[test]
    fn documented_ones_without_effect_are_named() {
        let envelope = with(json!({"provider": {"preferred_max_latency": 2, "max_price": {"image": 1}}}));
        assert_eq!(envelope.preferences().without_effect, ["max_price.image", "preferred_max_latency"]);
    }

    #[test]
    fn a_malformed_one_is_refused_by_name_and_never_ignored() {
        for (members, field) in [
            (json!({"provider": "openai"}), "provider"),
            (json!({"provider": {"data_colection": "deny"}}), "provider.data_colection"),
            (json!({"provider": {"data_collection": "no"}}), "provider.data_collection"),
            (json!({"provider": {"zdr": "yes"}}), "provider.zdr"),
            (json!({"provider": {"only": "openai"}}), "provider.only"),
            (json!({"provider": {"only": [1]}}), "provider.only"),
            (json!({"provider": {"order": [""]}}), "provider.order"),
            (json!({"provider": {"sort": "cheapest"}}), "provider.sort"),
            (json!({"provider": {"max_price": {"prompt": -1}}}), "provider.max_price.prompt"),
            (json!({"provider": {"max_price": {"promt": 1}}}), "provider.max_price.promt"),
            (json!({"models": "a"}), "models"),
            (json!({"models": vec!["m"; 65]}), "models"),
        ] {
            let (param, message) = complaint(try_with(members.clone()));
            assert_eq!(param.as_deref(), Some(field), "{members}");
            assert!(message.contains(field), "{message}");
        }
    }

    #[test]
    fn one_that_comes_twice_is_refused() {
        let body = r#"{"model":"m","messages":[],"provider":{"zdr":true,"zd\u0072":false}}"#;
        assert_eq!(complaint(read_text(body)).0.as_deref(), Some("provider.zdr"));
    }
}

mod what_it_refuses {
    use super::*;

    #[test]
    fn a_routed_key_that_comes_twice_however_it_is_spelt() {
        for body in [
            r#"{"model":"cheap","messages":[],"model":"expensive"}"#,
            r#"{"model":"cheap","messages":[],"mod\u0065l":"expensive"}"#,
        ] {
            assert_eq!(read_text(body).unwrap_err(), EnvelopeError::DuplicateKey { key: "model" });
        }
        for key in ["messages", "stream", "max_tokens", "n", "tools", "provider", "models", "stream_options"]
        {
            let value = match key {
                "messages" | "tools" | "models" => "[]",
                "provider" | "stream_options" => "{}",
                "stream" => "true",
                _ => "1",
            };
            let body = format!(r#"{{"model":"m","messages":[],"{key}":{value},"{key}":{value}}}"#);
            assert_eq!(complaint(read_text(&body)).0.as_deref(), Some(key));
        }
        let body =
            r#"{"model":"m","messages":[],"stream_options":{"include_usage":true,"include_usage":false}}"#;
        assert_eq!(complaint(read_text(body)).0.as_deref(), Some("stream_options.include_usage"));
    }

    #[test]
    fn a_routed_key_in_other_letters_since_some_servers_take_it_for_the_same() {
        for (key, meant) in [
            ("Model", "model"),
            ("MODEL", "model"),
            ("\\u004dodel", "model"),
            ("meſſages", "messages"),
            ("Max_Tokens", "max_tokens"),
            ("max_to\u{212A}ens", "max_tokens"),
        ] {
            let body = format!(r#"{{"model":"cheap","messages":[],"{key}":"expensive"}}"#);
            assert_eq!(read_text(&body).unwrap_err(), EnvelopeError::Misspelt { key: meant }, "{key}");
        }
        assert!(read_text(r#"{"model":"m","messages":[],"X-Model":1,"Temperature":1}"#).is_ok());
    }

    #[test]
    fn other_keys_that_come_twice_are_the_providers_business() {
        assert!(read_text(r#"{"model":"m","messages":[],"temperature":1,"temperature":2}"#).is_ok());
    }

    #[test]
    fn missing_and_mistyped_fields() {
        let wrong = |members: Value| complaint(try_with(members));
        assert_eq!(complaint(read_text(r#"{"messages":[]}"#)).1, "The field 'model' is required.");
        assert_eq!(complaint(read_text(r#"{"model":"m"}"#)).1, "The field 'messages' is required.");
        assert_eq!(wrong(json!({"model": ""})).1, "The field 'model' must be a non-empty string.");
        assert_eq!(wrong(json!({"model": 4})).1, "The field 'model' must be a non-empty string.");
        assert_eq!(wrong(json!({"model": null})).1, "The field 'model' must be a non-empty string.");
        assert_eq!(wrong(json!({"messages": "hi"})).1, "The field 'messages' must be an array.");
        assert_eq!(wrong(json!({"messages": null})).1, "The field 'messages' must be an array.");
        assert_eq!(wrong(json!({"stream": "true"})).1, "The field 'stream' must be true or false.");
        assert_eq!(wrong(json!({"max_tokens": "10"})).1, "The field 'max_tokens' must be a whole number.");
        assert_eq!(wrong(json!({"n": 1.5})).1, "The field 'n' must be a whole number.");
        assert_eq!(wrong(json!({"tools": {}})).1, "The field 'tools' must be an array.");
        assert_eq!(wrong(json!({"stream_options": true})).0.as_deref(), Some("stream_options"));
        let usage = wrong(json!({"stream_options": {"include_usage": 1}}));
        assert_eq!(usage.0.as_deref(), Some("stream_options.include_usage"));
    }

    #[test]
    fn what_is_no_json_object() {
        assert_eq!(read_text("").unwrap_err(), EnvelopeError::NotJson { offset: 0 });
        assert_eq!(read_text("[]").unwrap_err(), EnvelopeError::NotAnObject);
        assert_eq!(read_text("\"model\"").unwrap_err(), EnvelopeError::NotAnObject);
        let cut = r#"{"model":"m","messages":[{"role":"user""#;
        assert_eq!(read_text(cut).unwrap_err(), EnvelopeError::NotJson { offset: cut.len() });
        let tail = r#"{"model":"m","messages":[]} {}"#;
        assert_eq!(read_text(tail).unwrap_err(), EnvelopeError::NotJson { offset: 28 });
        let body = b"{\"model\":\"\xFF\",\"messages\":[]}";
        let error = Envelope::read(body, &Limits::default()).unwrap_err();
        assert_eq!(error, EnvelopeError::InvalidUtf8 { offset: 10 });
    }

    #[test]
    fn what_nests_too_deep_wherever_it_does() {
        let limits = Limits { max_bytes: 1 << 20, max_depth: 8 };
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for place in ["\"x\":D", "\"tools\":D", "\"provider\":D", "\"stream_options\":{\"x\":D}"] {
            let depth = if place.contains('{') { 7 } else { 8 };
            let body =
                |depth| format!(r#"{{"model":"m","messages":[],{}}}"#, place.replace('D', &nested(depth)));
            let error = Envelope::read(body(depth).as_bytes(), &limits).unwrap_err();
            assert_eq!(error, EnvelopeError::TooDeep { limit: 8 }, "{place}");
            let fits = Envelope::read(body(depth - 1).as_bytes(), &limits);
            assert!(!matches!(fits, Err(EnvelopeError::TooDeep { .. })), "{place}");
        }
        let hostile = format!("{{\"messages\":{}", "[{\"content\":".repeat(1_000_000));
        assert_eq!(read_text(&hostile).unwrap_err(), EnvelopeError::TooDeep { limit: 128 });
    }

    #[test]
    fn what_is_too_large_with_413() {
        let limits = Limits { max_bytes: 10, max_depth: 8 };
        let error = Envelope::read(br#"{"model":"m"}"#, &limits).unwrap_err();
        assert_eq!(error, EnvelopeError::TooLarge { limit: 10, actual: 13 });
        assert_eq!(error.status(), 413);
        assert_eq!(error.message(), "The request body has 13 bytes; at most 10 are accepted.");
    }

    #[test]
    fn an_error_never_quotes_the_body() {
        let secret = "my secret prompt";
        for body in [
            format!(r#"{{"model":"m","messages":"{secret}"}}"#),
            format!(r#"{{"model":"m","messages":[],"stream":"{secret}"}}"#),
            format!(r#"{{"model":"m","messages":[],"provider":{{"sort":"{secret}"}}}}"#),
            format!(r#"{{"model":"m","messages":["{secret}" 1]}}"#),
        ] {
            assert!(!read_text(&body).unwrap_err().message().contains(secret));
        }
    }
}

mod whatever_comes {
    use proptest::prelude::*;

    use super::*;

    fn request() -> impl Strategy<Value = String> {
        let content = prop_oneof![
            "[a-z\"\\\\é ]{0,8}".prop_map(Value::from),
            Just(
                json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:x"}}])
            ),
            Just(json!(null)),
        ];
        let message = (content, prop_oneof![Just("user"), Just("assistant")])
            .prop_map(|(content, role)| json!({"role": role, "content": content}));
        let extra = prop_oneof![
            Just(json!({"stream": true, "stream_options": {"include_usage": true}})),
            Just(json!({"provider": {"only": ["a"]}, "models": ["b"]})),
            Just(json!({"tools": [{"type": "function"}], "n": 2, "user": "u"})),
            Just(json!({})),
        ];
        (proptest::collection::vec(message, 0..4), extra, any::<bool>()).prop_map(
            |(messages, extra, pretty)| {
                let mut request = json!({"model": "m", "messages": messages});
                request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
                if pretty { serde_json::to_string_pretty(&request).unwrap() } else { request.to_string() }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_json_and_means_the_same_to_another_parser(
            request in request(), at: usize, with in r#"[\[\]{}:,"\\a-z0-9.-]{0,2}"#,
        ) {
            let mut damaged: Vec<char> = request.chars().collect();
            let at = at % damaged.len();
            damaged.splice(at..=at, with.chars());
            let damaged: String = damaged.into_iter().collect();
            let parsed = serde_json::from_str::<Value>(&damaged);
            match read_text(&damaged) {
                Ok(envelope) => {
                    let value = parsed.unwrap();
                    prop_assert_eq!(value["model"].as_str(), Some(envelope.model()));
                    prop_assert_eq!(value["stream"] == json!(true), envelope.stream());
                    let last = value["messages"].as_array().unwrap().last();
                    let prefill = last.is_some_and(|message| message["role"] == "assistant");
                    prop_assert_eq!(envelope.needs().prefill, prefill);
                }
                Err(EnvelopeError::NotJson { .. }) => prop_assert!(parsed.is_err(), "{}", damaged),
                Err(error) => prop_assert!(!error.message().is_empty()),
            }
        }
    }
}
