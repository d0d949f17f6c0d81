//! Whom a failure is put down to, and what the client is told of it.

use crate::harness::{GPT, assert_untouched, gateway, json_answer, plain, request, says, talk};

#[tokio::test]
async fn a_lack_of_our_own_memory_is_not_put_down_to_the_target() {
    let url = says(plain(&"x".repeat(300 * 1024))).await;
    let server = ", max_body: 64KiB, body_memory: 128KiB";
    let gateway = gateway(&url, server, GPT, "");
    let answer = talk(&gateway, &request(&gateway, false, "")).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_untouched(&gateway);
    assert_eq!(gateway.app().admission.body_bytes(), 0);
}

const CALLERS: &str = ", model: gpt-4o, api_key: caller";
const KEY: &str = "x-pointsman-provider-key-openai: sk-the-callers-own\r\n";

#[tokio::test]
async fn what_a_callers_own_account_may_not_do_takes_nothing_from_others() {
    for (status, code) in [(401, "invalid_api_key"), (404, "model_not_found"), (429, "rate_limit_exceeded")] {
        let error = format!(r#"{{"error":{{"message":"no","type":"x","param":null,"code":"{code}"}}}}"#);
        let gateway = gateway(&says(json_answer(status, &error)).await, "", CALLERS, "");
        for _ in 0..3 {
            let answer = talk(&gateway, &request(&gateway, false, KEY)).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(answer.contains("x-should-retry: false"), "{answer}");
            assert!(answer.contains(code), "{answer}");
        }
        assert_untouched(&gateway);
    }
}

#[tokio::test]
async fn an_error_inside_an_answer_of_a_callers_own_account_takes_nothing_from_others() {
    let error =
        r#"{"error":{"message":"no","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let gateway = gateway(&says(json_answer(200, error)).await, "", CALLERS, "");
    let answer = talk(&gateway, &request(&gateway, false, KEY)).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_untouched(&gateway);
}
