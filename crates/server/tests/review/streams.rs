//! Streams that end, and streams that do not.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::harness::{
    FINISH, GPT, STREAM_HEAD, TEXT, connect, gateway, json_answer, plain, provider, request, says, talk,
};

#[tokio::test]
async fn a_stream_that_ends_inside_its_first_event_is_no_complete_answer() {
    for end in ["", "\n", "\n\n"] {
        let gateway = gateway(&says(format!("{STREAM_HEAD}{TEXT}{end}")).await, "", GPT, "");
        let answer = talk(&gateway, &request(&gateway, true, "")).await;
        assert!(!answer.contains("[DONE]"), "half an answer is sold as a whole one: {answer}");
        assert_eq!(answer.matches(r#""error":"#).count(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_stream_may_end_without_the_blank_line_after_its_finish() {
    for end in ["", "\n", "\n\n"] {
        let gateway = gateway(&says(format!("{STREAM_HEAD}{TEXT}\n\n{FINISH}{end}")).await, "", GPT, "");
        let answer = talk(&gateway, &request(&gateway, true, "")).await;
        assert_eq!(answer.matches("[DONE]").count(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_stream_that_never_pauses_does_not_outlive_its_time() {
    let url = provider(|mut stream| async move {
        stream.write_all(STREAM_HEAD.as_bytes()).await.ok();
        let many = format!("{TEXT}\n\n").repeat(50);
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until && stream.write_all(many.as_bytes()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let gateway = gateway(&url, "", GPT, "defaults: { budget: { stream: 300ms } }\n");
    let began = Instant::now();
    let answer = talk(&gateway, &request(&gateway, true, "")).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(answer.contains("the stream's whole time") || answer.contains("broke"), "no error at the end");
}

#[tokio::test]
async fn a_provider_that_only_sends_comments_does_not_silence_the_heartbeat() {
    let url = provider(|mut stream| async move {
        stream.write_all(format!("{STREAM_HEAD}{TEXT}\n\n").as_bytes()).await.unwrap();
        for _ in 0..40 {
            sleep(Duration::from_millis(50)).await;
            stream.write_all(b": still here\n\n").await.unwrap();
        }
        stream.write_all(format!("{FINISH}\n\n").as_bytes()).await.unwrap();
    })
    .await;
    let gateway = gateway(&url, ", keepalive: 250ms", GPT, "");
    let answer = talk(&gateway, &request(&gateway, true, "")).await;
    assert!(!answer.contains("still here"), "{answer}");
    let beats = answer.lines().filter(|line| line.starts_with(':')).count();
    assert!(beats >= 3, "{beats} heartbeats in two seconds: {answer}");
}

#[tokio::test]
async fn an_error_in_place_of_a_stream_is_read_as_what_it_says() {
    let error = r#"{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let gateway = gateway(&says(json_answer(200, error)).await, "", GPT, "");
    let answer = talk(&gateway, &request(&gateway, true, "")).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains(r#""failure":"quota_exhausted""#), "{answer}");
}

#[tokio::test]
async fn a_whole_answer_is_no_stream() {
    let gateway = gateway(&says(plain("Hi")).await, "", GPT, "");
    let answer = talk(&gateway, &request(&gateway, true, "")).await;
    assert!(answer.contains(r#""failure":"bad_response""#), "{answer}");
}

const GATHERED: &str = "defaults: { stream: { gather: on } }\n";

#[tokio::test]
async fn a_whole_answer_is_welcome_where_a_stream_would_have_been_gathered() {
    let gateway = gateway(&says(plain("Hi there")).await, "", GPT, GATHERED);
    let answer = talk(&gateway, &request(&gateway, false, "")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("Hi there"), "{answer}");
}

#[tokio::test]
async fn a_gathered_stream_that_is_finished_but_never_ends_is_an_answer() {
    let url = provider(|mut stream| async move {
        stream.write_all(format!("{STREAM_HEAD}{TEXT}\n\n{FINISH}\n\n").as_bytes()).await.unwrap();
        sleep(Duration::from_secs(20)).await;
    })
    .await;
    let gateway = gateway(&url, "", GPT, GATHERED);
    let answer = talk(&gateway, &request(&gateway, false, "")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(r#""content":"Hi""#), "{answer}");
}

/// OpenAI's SDK for Node leaves at `[DONE]`: with the end of the body still to come its connection is lost to it, and
/// with it the call's to the provider.
#[tokio::test]
async fn the_end_marker_and_the_end_of_the_body_come_together() {
    let url = provider(|mut stream| async move {
        let chunk = |text: &str| format!("{:x}\r\n{text}\n\n\r\n", text.len() + 2);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = format!("{head}{}{}{}", chunk(TEXT), chunk(FINISH), chunk("data: [DONE]"));
        stream.write_all(answer.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(5)).await;
        stream.write_all(b"0\r\n\r\n").await.ok();
    })
    .await;
    let gateway = gateway(&url, "", GPT, "");
    let mut client = connect(&gateway).await;
    client.write_all(request(&gateway, true, "").as_bytes()).await.unwrap();
    let mut piece = String::new();
    while !piece.contains("[DONE]") {
        let mut bytes = vec![0; 64 * 1024];
        let count = client.read(&mut bytes).await.unwrap();
        assert!(count > 0, "no end marker");
        piece = String::from_utf8(bytes[..count].to_vec()).unwrap();
    }
    assert!(piece.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{piece:?}");
}
