use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::FailureClass::{
    Auth, BadResponse, Cancelled, ContextOverflow, InvalidRequest, ModelNotFound, Overloaded, Permission,
    Policy, QuotaExhausted, RateLimit, ServerError, Timeout, Unknown, Unsupported,
};
use super::{Classified, FailureClass, classify, classify_error};
use crate::error::UpstreamError;
use crate::provider::{provider, providers};

mod cases;

fn answer(name: &str, status: u16, body: &str) -> Classified {
    classify(provider(name).unwrap(), Some(status), &[], body.as_bytes(), 0)
}

fn in_stream(name: &str, body: &str) -> Classified {
    let error = UpstreamError::parse(body.as_bytes()).unwrap();
    classify_error(provider(name).unwrap(), &error, 0)
}

/// An OpenAI error body.
fn error(message: &str, kind: &str, code: &str) -> String {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
}

#[test]
fn each_documented_answer_has_its_class() {
    for case in cases::CASES {
        let got = answer(case.provider, case.status, case.body);
        assert_eq!(
            got.class, case.class,
            "{} {} {} (by: {})",
            case.provider, case.status, case.body, got.rule
        );
    }
}

#[test]
fn no_row_of_any_table_is_without_a_case() {
    let used: BTreeSet<&str> =
        cases::CASES.iter().map(|case| answer(case.provider, case.status, case.body).rule).collect();
    let unused: BTreeSet<&str> = providers()
        .iter()
        .flat_map(|provider| provider.table.rows())
        .map(|row| row.rule)
        .filter(|rule| !used.contains(rule))
        .collect();
    // Those that no answer with an error status can reach; each has a test of its own below.
    let elsewhere = BTreeSet::from([
        "a type for a wrong request",
        "a type for something not found",
        "an error inside a successful answer",
        "status 503 with a time to come back",
    ]);
    assert_eq!(unused, elsewhere);
}

#[test]
fn openai_codes_mean_the_same_with_every_provider() {
    for provider in providers().iter().map(|provider| provider.name) {
        for (status, code, class) in [
            (429, "insufficient_quota", QuotaExhausted),
            (429, "credit_balance_exhausted", QuotaExhausted),
            (429, "organization_spend_limit_exceeded", QuotaExhausted),
            (429, "project_spend_limit_exceeded", QuotaExhausted),
            (429, "organization_usage_limit_exceeded", QuotaExhausted),
            (429, "billing_not_active", QuotaExhausted),
            (429, "rate_limit_exceeded", RateLimit),
            (429, "slow_down", RateLimit),
            (503, "slow_down", Overloaded),
            (503, "server_is_overloaded", Overloaded),
            (503, "engine_overloaded", Overloaded),
            (400, "context_length_exceeded", ContextOverflow),
            (400, "content_policy_violation", Policy),
            (400, "content_filter", Policy),
            (400, "unsupported_parameter", Unsupported),
            (400, "unsupported_value", Unsupported),
            (400, "string_above_max_length", InvalidRequest),
            (400, "invalid_value", InvalidRequest),
            (401, "invalid_api_key", Auth),
            (403, "unsupported_country_region_territory", Permission),
            (404, "model_not_found", ModelNotFound),
        ] {
            let got = answer(provider, status, &error("…", "invalid_request_error", code));
            assert_eq!(got.class, class, "{provider} {status} {code} (by: {})", got.rule);
        }
    }
}

#[test]
fn a_status_alone_is_enough_when_there_is_nothing_else() {
    let expected = |status: u16| match status {
        300..=399 => BadResponse,
        401 => Auth,
        402 => QuotaExhausted,
        403 | 451 => Permission,
        404 | 410 => ModelNotFound,
        408 | 504 => Timeout,
        429 => RateLimit,
        499 => Cancelled,
        501 => Unsupported,
        529 => Overloaded,
        407 => ServerError,
        400..=499 => InvalidRequest,
        500..=599 => ServerError,
        _ => Unknown,
    };
    for body in ["", "<html><body>nginx</body></html>", "{}"] {
        for status in 300..=650 {
            if status == 403 && body.starts_with('<') {
                continue;
            }
            let got = answer("openai", status, body);
            assert_eq!(got.class, expected(status), "{status} {body:?}");
        }
    }
}

#[test]
fn a_5xx_is_never_unknown_and_no_answer_panics() {
    for provider in providers() {
        for status in 100..700 {
            for body in [
                "",
                "null",
                "[[",
                "{\"error\":\"x\"}",
                "\u{FEFF}{}",
                "{\"error\":{\"message\":\"é👍 limit: 0\"}}",
            ] {
                let got =
                    classify(provider, Some(status), &[("retry-after", "x")], body.as_bytes(), i64::MIN);
                assert!(
                    !((500..600).contains(&status) && got.class == Unknown),
                    "{} {status} {body}",
                    provider.name
                );
            }
        }
    }
}

#[test]
fn a_success_status_without_an_answer_is_a_bad_response_and_with_an_error_is_that_error() {
    assert_eq!(answer("openai", 200, "").class, BadResponse);
    assert_eq!(answer("openai", 200, "<html>").class, BadResponse);
    assert_eq!(answer("openai", 200, "{\"choices\":[]}").class, BadResponse);
    assert_eq!(
        answer("openrouter", 200, r#"{"error":{"code":429,"message":"Provider returned error"}}"#).class,
        RateLimit
    );
    assert_eq!(
        answer("openrouter", 200, r#"{"error":{"code":502,"message":"Provider returned error"}}"#).class,
        ServerError
    );
    assert_eq!(answer("openai", 200, &error("boom", "weird", "weird")).class, ServerError);
}

#[test]
fn an_error_in_a_stream_has_the_same_class_as_one_with_a_status() {
    for (name, body, class) in [
        ("openai", error("…", "server_error", "server_error"), ServerError),
        ("openai", error("…", "service_unavailable_error", "server_is_overloaded"), Overloaded),
        ("openai", error("…", "tokens", "rate_limit_exceeded"), RateLimit),
        ("openai", error("…", "insufficient_quota", "insufficient_quota"), QuotaExhausted),
        ("openai", error("…", "invalid_request_error", "context_length_exceeded"), ContextOverflow),
        ("openai", error("…", "invalid_request_error", "invalid_value"), InvalidRequest),
        ("openai", error("…", "not_found_error", ""), ModelNotFound),
        ("vllm", json!({"error": {"message": "This model's maximum context length is 32768 tokens.", "type": "BadRequestError", "code": 400}}).to_string(), ContextOverflow),
        ("vllm", json!({"error": {"message": "boom", "type": "InternalServerError", "code": 500}}).to_string(), ServerError),
        ("llama-cpp", json!({"error": {"code": 500, "message": "The model produced output that does not match the expected format", "type": "server_error"}}).to_string(), ServerError),
        ("llama-cpp", json!({"error": {"code": 400, "message": "Field 'n' is wrong", "type": "invalid_request_error"}}).to_string(), InvalidRequest),
        ("openrouter", json!({"error": {"code": 429, "message": "Rate limit exceeded"}}).to_string(), RateLimit),
        ("openai-compatible", json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}).to_string(), Overloaded),
        ("openai", json!({"error": "something broke"}).to_string(), ServerError),
    ] {
        let got = in_stream(name, &body);
        assert_eq!(got.class, class, "{name} {body} (by: {})", got.rule);
    }
}

#[test]
fn c030_an_error_in_a_messages_stream_has_the_class_of_its_type() {
    let event = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
    };
    for (kind, message, class) in [
        ("overloaded_error", "Overloaded", Overloaded),
        ("api_error", "Internal server error", ServerError),
        ("rate_limit_error", "too fast", RateLimit),
        ("timeout_error", "late", Timeout),
        ("authentication_error", "invalid x-api-key", Auth),
        ("permission_error", "no", Permission),
        ("billing_error", "no money", QuotaExhausted),
        ("not_found_error", "model: claude-nope", ModelNotFound),
        ("invalid_request_error", "messages: must not be empty", InvalidRequest),
        ("request_too_large", "too large", ContextOverflow),
    ] {
        let got = in_stream("anthropic", &event(kind, message));
        assert_eq!(got.class, class, "{kind} (by: {})", got.rule);
    }
}

#[test]
fn a_throttled_anthropic_account_comes_back_when_its_reset_says() {
    let headers = [
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "1970-01-01T00:00:30Z"),
    ];
    let body = br#"{"type":"error","error":{"type":"rate_limit_error","message":"too fast"}}"#;
    let got = classify(provider("anthropic").unwrap(), Some(429), &headers, body, 0);
    assert_eq!((got.class, got.retry_after), (RateLimit, Some(Duration::from_secs(30))));
}

#[test]
fn a_503_with_a_time_to_come_back_is_load_and_without_is_a_fault() {
    let openai = provider("openai").unwrap();
    assert_eq!(classify(openai, Some(503), &[("retry-after", "5")], b"", 0).class, Overloaded);
    // This header comes with every answer and says nothing about a fault.
    let every_day = [("x-ratelimit-reset-requests", "20ms"), ("x-ratelimit-remaining-requests", "99")];
    let got = classify(openai, Some(503), &every_day, b"", 0);
    assert_eq!((got.class, got.retry_after), (ServerError, None));
}

#[test]
fn guidance_comes_from_headers_body_and_text() {
    let azure = provider("azure").unwrap();
    let text = |seconds: u32| {
        json!({"error": {"code": "429", "message": format!("Requests to the ChatCompletions_Create Operation under Azure \
            OpenAI API version 2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry \
            after {seconds} seconds.")}})
        .to_string()
    };
    for seconds in [7, 86400] {
        let got = classify(azure, Some(429), &[], text(seconds).as_bytes(), 0);
        assert_eq!((got.class, got.retry_after), (RateLimit, Some(Duration::from_secs(u64::from(seconds)))));
    }
    let got = classify(azure, Some(429), &[("retry-after", "604800")], b"", 0);
    assert_eq!(
        (got.class, got.retry_after),
        (RateLimit, Some(Duration::from_secs(604_800))),
        "the caller decides what is too long"
    );
    let got =
        classify(provider("openai").unwrap(), Some(429), &[("x-ratelimit-reset-tokens", "6m0s")], b"", 0);
    assert_eq!(got.retry_after, Some(Duration::from_secs(360)));
}

#[test]
fn a_client_cannot_talk_an_account_or_a_model_out_of_service() {
    let out_of_service = [QuotaExhausted, Auth, Permission, ModelNotFound, RateLimit];
    for provider in providers().iter().map(|provider| provider.name) {
        for words in [
            "Your credit balance is too low to access the API",
            "insufficient credits",
            "insufficient_quota",
            "You have reached your specified API usage limits",
            "invalid api key",
            "api key not valid",
            "model not found",
            "is not a valid model ID",
            "do not have access to it",
            "key limit exceeded",
            "data policy",
            "limit: 0, free-models-per-day",
            "usage limit reached",
            "DeploymentNotFound",
        ] {
            for status in [400, 422] {
                let message = format!("Invalid value: '{words}'. Supported values are: 'low' and 'high'.");
                let got =
                    answer(provider, status, &error(&message, "invalid_request_error", "invalid_value"));
                assert!(
                    !out_of_service.contains(&got.class),
                    "{provider}: {words} gives {:?} by {}",
                    got.class,
                    got.rule
                );
            }
        }
    }
}

#[test]
fn the_providers_error_is_kept_for_the_client() {
    let got = answer(
        "azure",
        400,
        r#"{"error":{"message":"m","param":"prompt","code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
    );
    let error = got.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("content_filter"));
    assert_eq!(error.extra["innererror"]["code"], "ResponsibleAIPolicyViolation");
}

proptest::proptest! {
    #[test]
    fn no_text_of_a_provider_upsets_the_tables(message in "\\PC{0,40}(limit: 0|limit 5, requested|try again in )\\PC{0,20}", header in "\\PC{0,12}") {
        let body = error(&message, "tokens", "rate_limit_exceeded");
        for provider in providers() {
            let headers = [("retry-after", header.as_str()), ("x-ratelimit-reset-tokens", header.as_str())];
            let got = classify(provider, Some(429), &headers, body.as_bytes(), 1_792_567_620_000);
            // A wait that can be added to any clock.
            proptest::prop_assert!(got.retry_after.is_none_or(|wait| wait <= Duration::from_secs(100_000_000)));
        }
    }
}
