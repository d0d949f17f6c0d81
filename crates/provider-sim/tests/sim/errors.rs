//! Error answers: status, headers and body as the providers' documentation has them.

use std::time::{Duration, SystemTime};

use pointsman_provider_sim::{Guidance, Script};
use serde_json::{Value, json};

use crate::raw::{End, Seen, chat, exchange};
use crate::sim;

async fn reply(script: Script) -> Seen {
    let sim = sim(script.clone()).await;
    let whole = exchange(sim.addr(), &chat(json!({"model": "m"}))).await;
    let stream = exchange(sim.addr(), &chat(json!({"model": "m", "stream": true}))).await;
    assert_eq!((whole.status, &whole.body), (stream.status, &stream.body), "a stream gets the same error");
    assert_eq!(whole.end, End::KeptAlive);
    whole
}

async fn error_of(script: Script) -> (u16, Value) {
    let seen = reply(script).await;
    (seen.status, seen.json()["error"].clone())
}

#[tokio::test]
async fn a_status_with_headers_and_body_is_sent_as_written() {
    let seen =
        reply(Script::status(418).header("Retry-After", "2").header("x-a", "b\r\nx-c: d").body("short"))
            .await;
    assert_eq!((seen.status, seen.text().as_str()), (418, "short"));
    assert_eq!(seen.header("Retry-After"), Some("2"));
    assert_eq!(seen.header("x-a"), Some("b  x-c: d"), "a value cannot add headers");
}

#[tokio::test]
async fn openai_errors_have_all_four_keys() {
    for (script, status, kind, code) in [
        (Script::openai_rate_limit(2), 429, "requests", json!("rate_limit_exceeded")),
        (Script::request_over_token_limit(), 429, "tokens", json!("rate_limit_exceeded")),
        (Script::openai_quota(), 429, "insufficient_quota", json!("insufficient_quota")),
        (Script::openai_overloaded(), 503, "service_unavailable_error", json!("server_is_overloaded")),
        (Script::server_error(500), 500, "server_error", Value::Null),
        (Script::context_length_exceeded(), 400, "invalid_request_error", json!("context_length_exceeded")),
        (Script::content_policy(), 400, "invalid_request_error", json!("content_policy_violation")),
        (Script::invalid_api_key(), 401, "invalid_request_error", json!("invalid_api_key")),
        (Script::model_not_found("m"), 404, "invalid_request_error", json!("model_not_found")),
        (Script::invalid_request("top_p"), 400, "invalid_request_error", json!("invalid_value")),
        (Script::unprocessable(422), 422, "invalid_request_error", Value::Null),
    ] {
        let (seen, error) = error_of(script).await;
        assert_eq!((seen, &error["type"], &error["code"]), (status, &json!(kind), &code));
        let keys: Vec<&String> = error.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["code", "message", "param", "type"]);
    }
}

#[tokio::test]
async fn azure_names_the_status_as_code_and_says_when_in_the_text() {
    let seen = reply(Script::azure_429(7)).await;
    let error = &seen.json()["error"];
    assert_eq!(error["code"], "429");
    assert_eq!(error.get("type"), None);
    assert!(error["message"].as_str().unwrap().contains("Please retry after 7 seconds"));
    assert_eq!((seen.header("retry-after"), seen.header("retry-after-ms")), (Some("7"), Some("7000")));
    let (status, error) = error_of(Script::azure_content_filter()).await;
    assert_eq!((status, &error["code"], &error["type"]), (400, &json!("content_filter"), &Value::Null));
    assert_eq!(error["innererror"]["code"], "ResponsibleAIPolicyViolation");
    assert_eq!(error["innererror"]["content_filter_result"]["violence"]["filtered"], true);
}

#[tokio::test]
async fn other_providers_have_their_own_envelopes() {
    let seen = reply(Script::anthropic_style_529()).await;
    assert_eq!((seen.status, &seen.json()["type"]), (529, &json!("error")));
    assert_eq!(seen.json()["error"]["type"], "overloaded_error");
    assert_eq!(error_of(Script::payment_required()).await.1["code"], 402);
    assert_eq!(error_of(Script::vllm_context_length()).await.1["type"], "BadRequestError");
    assert_eq!(error_of(Script::llama_cpp_loading()).await.0, 503);
    assert_eq!(reply(Script::sglang_context_length()).await.json()["object"], "error");
    let page = reply(Script::cdn_html(502)).await;
    assert_eq!((page.status, page.header("content-type")), (502, Some("text/html")));
}

#[tokio::test]
async fn every_form_of_retry_guidance_is_sent() {
    let header = |guidance: Guidance, name: &'static str| async move {
        reply(Script::rate_limit(guidance)).await.header(name).map(str::to_owned)
    };
    assert_eq!(header(Guidance::Absent, "retry-after").await, None);
    assert_eq!(header(Guidance::Seconds(86_400), "retry-after").await.as_deref(), Some("86400"));
    assert_eq!(header(Guidance::Millis(1_500), "retry-after-ms").await.as_deref(), Some("1500"));
    assert_eq!(header(Guidance::Garbage, "retry-after").await.as_deref(), Some("soon"));
    assert_eq!(header(Guidance::Negative, "retry-after").await.as_deref(), Some("-1"));
    let go = || Guidance::Reset("6m0s".to_owned());
    assert_eq!(header(go(), "x-ratelimit-reset-requests").await.as_deref(), Some("6m0s"));
    assert_eq!(header(go(), "x-ratelimit-remaining-requests").await.as_deref(), Some("0"));
    let text = reply(Script::rate_limit(Guidance::Text(20))).await;
    assert!(text.text().contains("Please try again in 20s.") && text.header("retry-after").is_none());
}

#[tokio::test]
async fn a_retry_date_counts_from_the_moment_of_answering() {
    let script = Script::rate_limit(Guidance::Date(3600));
    let before = SystemTime::now();
    let seen = reply(script).await;
    let date = httpdate::parse_http_date(seen.header("retry-after").unwrap()).unwrap();
    let distance = date.duration_since(before).unwrap();
    // An HTTP date has whole seconds; the upper bound leaves room for a slow machine.
    assert!((Duration::from_secs(3598)..Duration::from_secs(3660)).contains(&distance), "{distance:?}");
}
