//! What one client can take from the others.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use crate::harness::{
    FINISH, GPT, STREAM_HEAD, TEXT, connect, gateway, plain, provider, read_all, request, request_with, says,
    talk, until,
};

#[tokio::test]
async fn a_body_that_is_only_announced_takes_no_memory_from_others() {
    let gateway = gateway(&says(plain("Hi")).await, ", max_body: 1MiB, body_memory: 2MiB", GPT, "");
    let mut promising = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(&gateway).await;
        let head = request(&gateway, false, "");
        let (head, _) = head.split_once("content-length").unwrap();
        stream.write_all(format!("{head}content-length: 1048576\r\n\r\n{{").as_bytes()).await.unwrap();
        promising.push(stream);
    }
    until("all four are being read", || gateway.app().admission.in_flight() == 4).await;
    let answer = talk(&gateway, &request(&gateway, false, "")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_model_of_any_length_is_not_kept() {
    let gateway = gateway(&says(plain("Hi")).await, "", GPT, "");
    let body = |model: &str| format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"x"}}]}}"#);
    let answer = talk(&gateway, &request_with(&gateway, "", &body(&"m".repeat(257)))).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains(r#""param":"model""#), "{answer}");
    let answer = talk(&gateway, &request_with(&gateway, "", &body(&"m".repeat(256)))).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn a_client_cannot_grow_what_is_sent_to_a_provider() {
    let gateway = gateway(&says(plain("Hi")).await, "", GPT, "");
    let hops = format!("x-pointsman-hop: {}\r\n", "a,".repeat(600));
    let answer = talk(&gateway, &request(&gateway, false, &hops)).await;
    assert!(answer.starts_with("HTTP/1.1 508"), "{answer}");
}

#[tokio::test]
async fn a_stream_does_not_keep_its_requests_body_while_it_runs() {
    let url = provider(|mut stream| async move {
        stream.write_all(format!("{STREAM_HEAD}{TEXT}\n\n").as_bytes()).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        stream.write_all(format!("{FINISH}\n\n").as_bytes()).await.ok();
    })
    .await;
    let gateway = gateway(&url, "", GPT, "");
    let mut client = connect(&gateway).await;
    client.write_all(request(&gateway, true, "").as_bytes()).await.unwrap();
    until("a stream is open", || gateway.app().metrics.open_streams() == 1).await;
    assert_eq!(gateway.app().admission.in_flight(), 1);
    assert!(gateway.app().admission.body_bytes() < 200, "{}", gateway.app().admission.body_bytes());
    let answer = read_all(&mut client).await;
    assert!(answer.contains("[DONE]"), "{answer}");
}

#[tokio::test]
async fn an_answer_counts_until_its_client_has_taken_it() {
    const LARGE: usize = 32 * 1024 * 1024;
    let gateway = gateway(&says(plain(&"x".repeat(LARGE))).await, "", GPT, "");
    let mut client = connect(&gateway).await;
    client.write_all(request(&gateway, false, "").as_bytes()).await.unwrap();
    let admission = &gateway.app().admission;
    until("the whole answer is here", || admission.body_bytes() >= LARGE).await;
    client.readable().await.unwrap();
    // The kernel takes a few megabytes of it; the rest waits for this client.
    assert_eq!(admission.in_flight(), 1);
    assert!(admission.body_bytes() >= LARGE);
    let answer = read_all(&mut client).await;
    assert!(answer.len() > LARGE);
    until("all is given back", || admission.in_flight() == 0 && admission.body_bytes() == 0).await;
}

#[tokio::test]
async fn who_waits_for_a_first_output_at_the_end_of_the_drain_is_told_so() {
    let url = provider(|stream| async move {
        sleep(Duration::from_secs(20)).await;
        drop(stream);
    })
    .await;
    let gateway = gateway(&url, ", drain: { delay: 0s, timeout: 100ms }", GPT, "");
    let mut client = connect(&gateway).await;
    client.write_all(request(&gateway, false, "").as_bytes()).await.unwrap();
    until("it is on its way", || gateway.app().admission.in_flight() == 1).await;
    let leaving = tokio::spawn(gateway.shut_down());
    let answer = read_all(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer:?}");
    assert!(answer.contains("shutting down"), "{answer}");
    leaving.await.unwrap();
}

#[tokio::test]
async fn an_http2_client_that_takes_nothing_of_a_stream_gives_its_place_back() {
    // A client may open its window later, or never.
    for window in [0, 4_096] {
        takes_nothing(window).await;
    }
}

async fn takes_nothing(window: u32) {
    let url = provider(|mut stream| async move {
        stream.write_all(STREAM_HEAD.as_bytes()).await.ok();
        let many = format!("{TEXT}\n\n").repeat(50);
        while stream.write_all(many.as_bytes()).await.is_ok() {}
    })
    .await;
    let gateway = gateway(&url, "", GPT, "defaults: { budget: { write: 300ms } }\n");
    let connected = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake::<_, Full<Bytes>>(TokioIo::new(connect(&gateway).await));
    let (mut sender, connection) = connected.await.unwrap();
    // The connection itself is alive: it answers pings, and other streams on it would be served.
    tokio::spawn(connection);
    let body = r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"x"}]}"#;
    let request = http::Request::post(format!("http://{}/v1/chat/completions", gateway.data_addr()));
    let response = sender.send_request(request.body(Full::from(body)).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let admission = &gateway.app().admission;
    assert_eq!(admission.in_flight(), 1);
    until("the place is given back", || admission.in_flight() == 0).await;
    assert_eq!(gateway.upstream_stats().requests, 0);
    // Whoever reads on at last (which a closed window does not allow) must not take what came for the whole answer.
    assert!(window == 0 || response.into_body().collect().await.is_err(), "a clean end");
}
