use serde_json::{Value, json};

use super::{
    ErrorView, MAX_ERROR_BODY, UpstreamError, chat_error_body, chat_error_event, gemini_error_body,
    mask_credentials,
};

/// The message of an error body, and its type, param and code.
fn parts(body: &str) -> Option<(String, [Option<String>; 3])> {
    UpstreamError::parse(body.as_bytes()).map(|error| (error.message, [error.kind, error.param, error.code]))
}

fn expect(body: &str, message: &str, kind: Option<&str>, param: Option<&str>, code: Option<&str>) {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    assert_eq!(parts(body), Some((message.to_owned(), [kind, param, code].map(owned))), "{body}");
}

mod parsing {
    use super::*;

    #[test]
    fn openais_shape() {
        let body = r#"{"error":{"message":"bad","type":"invalid_request_error","param":"x","code":"invalid_value"}}"#;
        expect(body, "bad", Some("invalid_request_error"), Some("x"), Some("invalid_value"));
        let nulls = r#"{"error":{"message":"bad","type":null,"param":null,"code":null}}"#;
        expect(nulls, "bad", None, None, None);
        expect(&format!("\u{FEFF} {nulls}"), "bad", None, None, None);
    }

    #[test]
    fn a_number_as_code_and_further_fields() {
        let body =
            r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":2048}}"#;
        expect(body, "too long", Some("exceed_context_size_error"), None, Some("400"));
        let error = UpstreamError::parse(body.as_bytes()).unwrap();
        assert_eq!(error.extra, json!({"n_ctx": 2048}).as_object().unwrap().clone());
        assert_eq!(error.status(), Some(400));
    }

    #[test]
    fn bare_shapes() {
        // SGLang and Mistral.
        let bare = r#"{"object":"error","message":"bad","type":"BadRequest","param":null,"code":400}"#;
        expect(bare, "bad", Some("BadRequest"), None, Some("400"));
        expect(r#"{"message":"Unauthorized","request_id":"1"}"#, "Unauthorized", None, None, None);
        expect(r#"{"error":"model 'x' not found"}"#, "model 'x' not found", None, None, None);
    }

    #[test]
    fn a_text_with_a_word_beside_it() {
        expect(r#"{"code":"permission-denied","error":"No."}"#, "No.", None, None, Some("permission-denied"));
        let error =
            UpstreamError::parse(br#"{"error":"Model is overloaded","error_type":"overloaded"}"#).unwrap();
        assert_eq!(
            (error.message.as_str(), &error.extra["error_type"]),
            ("Model is overloaded", &"overloaded".into())
        );
        expect(r#"{"error":"no","message":"The whole story."}"#, "The whole story.", None, None, None);
    }

    #[test]
    fn an_error_in_a_list_as_google_sends_it() {
        let body = r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]"#;
        expect(body, "quota", None, None, Some("429"));
    }

    #[test]
    fn validation_details_as_fastapi_sends_them() {
        expect(r#"{"detail":"Not Found"}"#, "Not Found", None, None, None);
        let list = r#"{"detail":[
            {"type":"missing","loc":["body","messages"],"msg":"Field required"},
            {"type":"extra_forbidden","loc":["body","tools",0,"x"],"msg":"Extra inputs are not permitted"}]}"#;
        let message = "messages: Field required; tools.0.x: Extra inputs are not permitted";
        expect(list, message, Some("missing"), Some("messages"), None);
        let nested = r#"{"object":"error","message":{"detail":[{"loc":["body","n"],"msg":"bad"}]},"type":"invalid_request_error","code":"1"}"#;
        expect(nested, "n: bad", Some("invalid_request_error"), Some("n"), Some("1"));
    }

    #[test]
    fn what_is_no_error_body() {
        let large = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(MAX_ERROR_BODY));
        for body in [
            "",
            "<html><body>502 Bad Gateway</body></html>",
            "null",
            "[]",
            "\"error\"",
            "{}",
            "{\"error\":",
            r#"{"error":null}"#,
            r#"{"error":{}}"#,
            r#"{"error":""}"#,
            r#"{"id":"x","choices":[]}"#,
            &large,
            &"[".repeat(MAX_ERROR_BODY),
        ] {
            assert_eq!(parts(body), None, "{}", &body[..body.len().min(60)]);
        }
    }

    #[test]
    fn its_debug_form_shows_no_text_of_the_provider() {
        let error =
            UpstreamError::parse(br#"{"error":{"message":"your prompt: SECRET","code":"c","x":"SECRET"}}"#);
        assert!(!format!("{error:?}").contains("SECRET"));
    }
}

mod rendering {
    use super::*;

    #[test]
    fn absent_values_are_null_and_the_four_keys_are_always_there() {
        let view = ErrorView { status: 500, message: "no", kind: None, param: None, code: None, extra: None };
        let body = chat_error_body(&view, None);
        assert_eq!(body, br#"{"error":{"message":"no","type":null,"param":null,"code":null}}"#);
    }

    #[test]
    fn further_fields_are_kept_but_replace_nothing() {
        // Azure's content filter, as its documentation shows it.
        let upstream = json!({"error": {
            "message": "The response was filtered", "type": null, "param": "prompt", "code": "content_filter",
            "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation",
                "content_filter_result": {"violence": {"filtered": true, "severity": "medium"}}}
        }});
        let error = UpstreamError::parse(upstream.to_string().as_bytes()).unwrap();
        let body: Value = serde_json::from_slice(&chat_error_body(&ErrorView::from(&error), None)).unwrap();
        assert_eq!(body, upstream);

        let forged = json!({"message": "forged", "x": 1});
        let view = ErrorView {
            status: 500,
            message: "true",
            kind: None,
            param: None,
            code: None,
            extra: forged.as_object(),
        };
        let body: Value = serde_json::from_slice(&chat_error_body(&view, None)).unwrap();
        assert_eq!(body["error"]["message"], "true");
        assert_eq!(body["error"]["x"], 1);
    }

    #[test]
    fn the_gateways_own_facts_stand_beside_the_error() {
        let view = ErrorView {
            status: 500,
            message: "no\n",
            kind: Some("t"),
            param: None,
            code: Some("c"),
            extra: None,
        };
        let facts = json!({"request_id": "r"});
        let event = chat_error_event(&view, Some(&facts));
        let expected: &[u8] = b"data: {\"error\":{\"message\":\"no\\n\",\"type\":\"t\",\"param\":null,\"code\":\"c\"},\"pointsman\":{\"request_id\":\"r\"}}\n\n";
        assert_eq!(event, expected);
    }
}

mod gemini {
    use super::*;

    #[test]
    fn an_error_is_a_status_of_googles_and_its_first_detail_is_the_gateways() {
        let view = ErrorView {
            status: 429,
            message: "too many",
            kind: Some("RESOURCE_EXHAUSTED"),
            param: None,
            code: Some("rate_limit_exceeded"),
            extra: None,
        };
        let facts = json!({"request_id": "r", "terminal": "exhausted", "retry_after_ms": 1500});
        let body: Value = serde_json::from_slice(&gemini_error_body(&view, Some("r"), Some(&facts))).unwrap();
        assert_eq!(
            body,
            json!({"error": {"code": 429, "message": "too many", "status": "RESOURCE_EXHAUSTED", "details": [
                {"request_id": "r", "terminal": "exhausted", "retry_after_ms": 1500, "code": "rate_limit_exceeded"},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s"},
            ]}})
        );
    }

    #[test]
    fn what_google_said_stays_googles() {
        let details =
            json!([{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": []}, "x"]);
        let body =
            json!({"error": {"code": 400, "message": "bad", "status": "OUT_OF_RANGE", "details": details}});
        let error = UpstreamError::parse(body.to_string().as_bytes()).unwrap();
        let said: Value =
            serde_json::from_slice(&gemini_error_body(&ErrorView::from(&error), None, None)).unwrap();
        assert_eq!((&said["error"]["code"], &said["error"]["status"]), (&json!(400), &json!("OUT_OF_RANGE")));
        assert_eq!(said["error"]["details"][1], details[0]);
        assert_eq!(said["error"]["details"].as_array().unwrap().len(), 2);
    }
}

mod masking {
    use super::*;

    #[test]
    fn keys_are_masked_by_their_look_and_by_their_label() {
        for (text, masked) in [
            (
                "Incorrect API key provided: sk-proj-abcd1234efgh. You can find your API key at https://x.",
                "Incorrect API key provided: sk-***. You can find your API key at https://x.",
            ),
            ("Incorrect API key provided: sk-abcd*****wxyz.", "Incorrect API key provided: sk-***."),
            ("key gsk_0123456789abcdef is blocked", "key gsk_*** is blocked"),
            ("Authorization: Bearer abc.def-123 refused", "Authorization: Bearer *** refused"),
            (
                "https://x.example/v1?key=AIzaSyA0123456789012345678901234567890&alt=sse",
                "https://x.example/v1?key=AIza***&alt=sse",
            ),
            ("AIzaSyA0123456789012345678901234567890", "AIza***"),
            ("api-key: 0123456789abcdef0123456789abcdef", "api-key: ***"),
            ("{\"x-api-key\": \"0a1b2c3d4e\"}", "{\"x-api-key\": \"***\"}"),
            ("Incorrect API key provided: 0123abcd4567.", "Incorrect API key provided: ***."),
            ("a sk-aaaaaaaa1 b sk-bbbbbbbb2", "a sk-*** b sk-***"),
            ("ключ sk-aaaaaaaa1 ключ", "ключ sk-*** ключ"),
        ] {
            assert_eq!(mask_credentials(text), masked);
        }
    }

    #[test]
    fn an_error_is_masked_in_all_its_texts() {
        let body = json!({"error": {"message": "bad sk-aaaaaaaa1", "type": "t", "param": "sk-bbbbbbbb2", "code": 1,
            "metadata": {"raw": ["key: cccccccc3"], "n": 1}}});
        let masked = UpstreamError::parse(body.to_string().as_bytes()).unwrap().masked();
        assert_eq!((masked.message.as_str(), masked.param.as_deref()), ("bad sk-***", Some("sk-***")));
        assert_eq!(masked.extra["metadata"], json!({"raw": ["key: ***"], "n": 1}));
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "",
            "The key question: is the token limit exceeded?",
            "task-force-0123456789 and risk-0123456789",
            "Invalid value for 'max_tokens': 5",
            "monkey=banana12345",
            "This model's maximum context length is 8192 tokens.",
        ] {
            assert_eq!(mask_credentials(text), text);
        }
    }
}
