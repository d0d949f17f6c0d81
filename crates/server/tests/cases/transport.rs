//! Connections that never come about, crowds on those that do, and the last streams of a gateway that leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::Script;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::checks::world_from;
use crate::clients::{Raw, eventually, http1};
use crate::support::{Answer, World, chat};
use crate::tongue::{BOTH, Tongue};

const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"gpt-4o","system_fingerprint":"fp_a","choices":[{"index":0,"message":{"role":"assistant","content":"a answers"},"finish_reason":"stop"}]}"#;

/// A server that takes connections and says nothing, until it is well: then it speaks HTTP/2.
async fn wedged() -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer_or_hang(stream, Arc::clone(&is_well)));
        }
    });
    (format!("http://{address}/v1"), well)
}

async fn answer_or_hang(mut stream: TcpStream, well: Arc<AtomicBool>) {
    if !well.load(Ordering::SeqCst) {
        // Read to its end: the other side hears nothing until it has had enough.
        let mut nothing = Vec::new();
        stream.read_to_end(&mut nothing).await.unwrap_or_default();
        return;
    }
    let service = service_fn(async |_| {
        let answer = http::Response::builder().header("content-type", "application/json");
        Ok::<_, std::convert::Infallible>(answer.body(Full::new(Bytes::from(ANSWER))).unwrap())
    });
    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The gateway may hang up when the test is over.
    drop(http2.serve_connection(TokioIo::new(stream), service).await);
}

/// C082: a handshake that never ends holds up nobody for longer than connecting may take, and needs no restart.
#[tokio::test]
async fn requests_behind_a_wedged_handshake_fail_over_each_for_itself() {
    let (url, well) = wedged().await;
    let yaml = format!(
        "targets:\n  a: {{ provider: openai, base_url: \"{url}\", model: gpt-4o, api_key: sk-a, http: 2, budget: {{ connect: 500ms }} }}\n\
         \x20 b: {{ provider: openai, base_url: \"<b>\", model: gpt-4o, api_key: sk-b }}\n\
         defaults: {{ breaker: {{ failures: 1, open_for: 30s }} }}\n"
    );
    let world = world_from(&["b"], &yaml).await;
    let request = chat("gpt-4o", false);
    let answers: Vec<Answer> = join_all((0..50).map(|_| world.post(&request))).await;
    for answer in &answers {
        crate::checks::assert_whole_from(answer, "b");
        assert!(world.entry(answer).duration_ms < 20_000);
    }
    let failed: Vec<_> = answers.iter().filter(|a| a.header("x-pointsman-attempts") == Some("2")).collect();
    assert!(!failed.is_empty());
    let entry = world.entry(failed[0]);
    assert_eq!((entry.attempts[0].phase, entry.attempts[0].outcome), ("not_sent", "failed"));
    // The endpoint's, that is: the target itself was never reached.
    assert_eq!(world.domain("a", DomainKind::Endpoint).state, DomainState::Open);
    assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 0);
    eventually("held upstream", 0, || world.held().upstream_in_use).await;
    well.store(true, Ordering::SeqCst);
    world.clock.advance(Duration::from_secs(31));
    crate::checks::assert_whole_from(&world.post(&request).await, "a");
}

/// C085: a thousand slow streams are no limit to anybody: all run at once, and short requests pass between them.
#[tokio::test]
async fn a_thousand_slow_streams_hold_up_no_short_request() {
    const STREAMS: usize = 1_000;
    let rest = "defaults: { budget: { idle: 10m } }\n";
    let targets = "targets:\n  a: { provider: openai, base_url: \"<a>\", model: slow, api_key: sk-a }\n  \
                   b: { provider: openai, base_url: \"<b>\", model: quick, api_key: sk-b }\n";
    let world = world_from(&["a", "b"], &format!("{targets}{rest}")).await;
    world.sim(0).set(Script::stall_after(1));
    let mut streams = Vec::new();
    for _ in 0..STREAMS / 50 {
        let batch = (0..50).map(|_| async {
            let mut raw: Raw = world.connect().await;
            raw.send(&http1(&world, &chat("slow", true), &[])).await;
            raw.until("data: ").await;
            raw
        });
        streams.extend(join_all(batch).await);
    }
    assert_eq!(world.sim(0).active_requests(), STREAMS);
    assert_eq!(world.held().open_streams, i64::try_from(STREAMS).unwrap());
    world.sim(0).enqueue(vec![Script::healthy(); 50]);
    for model in ["slow", "quick"] {
        for _ in 0..50 {
            let answer = world.post(&chat(model, false)).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(world.entry(&answer).attempts.len(), 1);
        }
    }
    drop(streams);
    world.everything_is_back().await;
}

/// C084, C085: pictures of ten megabytes pass whole, several at once, and leave nothing.
#[tokio::test]
async fn large_bodies_pass_whole_and_leave_nothing() {
    for tongue in BOTH {
        let world = tongue.alone("").await;
        let mut body = tongue.request(true);
        let data = "A".repeat(10 << 20);
        body["messages"][0]["content"] = match tongue {
            Tongue::Chat => {
                json!([{"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}}])
            }
            Tongue::Messages => {
                json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}])
            }
        };
        let asked = (0..2).map(|_| tongue.post(&world, &body, &[]));
        for answer in join_all(asked).await {
            tongue.assert_whole(&answer, "a");
        }
        let length = body.to_string().len();
        assert!(world.sim(0).received().iter().all(|received| received.body.len() >= length));
        world.everything_is_back().await;
    }
}

/// C086: what no request may be is refused in the client's own envelope before anybody is asked.
#[tokio::test]
async fn bodies_that_are_no_requests_are_refused_in_the_dialect() {
    for tongue in BOTH {
        let target = tongue.target("a", "");
        let yaml = format!("server: {{ listen: 127.0.0.1:0, max_body: 8MiB }}\ntargets:\n{target}");
        let world = world_from(&["a"], &yaml).await;
        let text = tongue.request(true).to_string();
        let inner = &text[1..];
        let deep = format!("{{\"metadata\":{}1{},{inner}", "[".repeat(100_000), "]".repeat(100_000));
        let cases = [
            (deep, &[][..], 400),
            (text, &[("content-encoding", "gzip")][..], 415),
            (String::new(), &[][..], 400),
        ];
        for (body, headers, status) in cases {
            let answer = tongue.send(&world, tongue.path(), Bytes::from(body), headers).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(answer.json()["type"] == "error", tongue == Tongue::Messages, "{}", answer.text());
            assert!(answer.json()["error"]["message"].is_string());
        }
        // Nothing of ten gigabytes has to be sent to hear it.
        let mut raw = world.connect().await;
        let (path, host) = (tongue.path(), world.host());
        let announced = "content-length: 10000000000\r\nexpect: 100-continue";
        raw.send(&format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n{announced}\r\n\r\n")).await;
        let text = raw.until("}}").await;
        assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("request_too_large"), "{text}");
        assert_eq!(text.contains(r#""type":"error""#), tongue == Tongue::Messages, "{text}");
        let mut tools = tongue.request(false);
        let tool = match tongue {
            Tongue::Chat => json!({"type": "function", "function": {"name": "f"}}),
            Tongue::Messages => json!({"name": "f", "input_schema": {"type": "object"}}),
        };
        tools["tools"] = vec![tool; 100_000].into();
        tongue.assert_whole(&tongue.post(&world, &tools, &[]).await, "a");
        assert_eq!(world.sim(0).calls(), 1);
        world.everything_is_back().await;
    }
}

/// C087: what outlives the drain is ended by a word of its dialect, and its connection in good order.
#[tokio::test]
async fn the_last_streams_of_a_gateway_that_leaves_are_told_so() {
    for (tongue, event) in [(Tongue::Chat, "data: {\"error\""), (Tongue::Messages, "event: error\n")] {
        let target = tongue.target("a", "");
        let drain = "drain: { delay: 0s, timeout: 200ms }";
        let yaml = format!("server: {{ listen: 127.0.0.1:0, {drain} }}\ntargets:\n{target}");
        let world = world_from(&["a"], &yaml).await;
        world.sim(0).set(Script::stall_after(3));
        let mut raw = world.connect().await;
        let body = tongue.request(true).to_string();
        let (path, host, length) = (tongue.path(), world.host(), body.len());
        raw.send(&format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n{body}"))
            .await;
        raw.until("delta").await;
        let World { sims, gateway, .. } = world;
        let leaving = tokio::spawn(gateway.shut_down());
        let text = raw.rest().await;
        assert_eq!(text.matches(event).count(), 1, "{text}");
        assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{text}");
        assert!(text.contains(r#""terminal":"partial""#) && text.ends_with("0\r\n\r\n"), "{text}");
        leaving.await.unwrap();
        sims[0].wait_until(|sim| sim.active_requests() == 0 && sim.aborted() == 1).await.unwrap();
    }
}
