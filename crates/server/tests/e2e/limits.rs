//! Limits: of requests in flight, of memory, of sizes; and crowds that leave nothing behind.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::clients::{Guest, Http2, Manner, eventually, gateway, http1, tool};
use crate::support::{Answer, World, chat};

/// Nothing was sent for it: the client may come back, and is told when.
fn is_turned_away(answer: &Answer) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("x-should-retry"), Some("true"));
    assert!(answer.header("retry-after").and_then(|s| s.parse::<u64>().ok()).is_some_and(|s| s >= 1));
    assert_eq!(answer.json()["error"]["code"], "server_is_overloaded");
    assert_eq!(answer.json()["error"]["type"], "service_unavailable_error");
    assert!(answer.header("x-request-id").is_some());
}

/// The request's own fault, in the client's dialect.
fn is_refused(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let error = answer.json()["error"].clone();
    assert_eq!(error["type"], "invalid_request_error");
    error
}

async fn scrape(world: &World) -> String {
    world.gateway.app().metrics.render(world.gateway.app())
}

/// C096, too: health is answered however full it is.
#[tokio::test]
async fn more_than_max_in_flight_are_turned_away_unsent() {
    let world = gateway(", max_in_flight: 2", &[""], "").await;
    world.sim(0).set(Script::silence());
    let mut guests = Vec::new();
    for _ in 0..2 {
        guests.push(Guest::ask(&world, &chat("gpt-4o", true), Manner::Close).await);
    }
    world.sim(0).wait_until(|sim| sim.active_requests() == 2).await.unwrap();
    is_turned_away(&world.post(&chat("gpt-4o", false)).await);
    assert_eq!(world.get("/healthz").await.status, 200);
    assert_eq!(world.get("/readyz").await.status, 200);
    assert_eq!(world.sim(0).calls(), 2);
    let metrics = scrape(&world).await;
    assert!(
        metrics.contains(r#"limit_rejections_total{scope="server",name="max_in_flight"} 1"#),
        "{metrics}"
    );
    drop(guests);
    world.everything_is_back().await;
    world.sim(0).set(Script::healthy());
    assert_eq!(world.post(&chat("gpt-4o", false)).await.status, 200);
}

/// C084: bodies together take no more memory than they may.
#[tokio::test]
async fn bodies_that_find_no_memory_are_turned_away() {
    let world = gateway(", max_body: 64KiB, body_memory: 100KiB", &[""], "").await;
    world.sim(0).set(Script::silence());
    let mut large = chat("gpt-4o", true);
    large["messages"][0]["content"] = json!("x".repeat(60 * 1024));
    let guest = Guest::ask(&world, &large, Manner::Close).await;
    world.sim(0).wait_until(|sim| sim.active_requests() == 1).await.unwrap();
    assert!(world.held().body_bytes > 60 * 1024);
    is_turned_away(&world.post(&large).await);
    world.sim(0).enqueue([Script::healthy()]);
    assert_eq!(world.post(&chat("gpt-4o", false)).await.status, 200, "a small one still fits");
    drop(guest);
    world.everything_is_back().await;
    assert!(scrape(&world).await.contains(r#"name="body_memory"} 1"#));
}

/// C084: once nothing can be sent again, the request's body need not be kept for as long as the answer takes.
#[tokio::test]
async fn a_committed_stream_does_not_hold_its_requests_body() {
    let world = gateway("", &[""], "").await;
    world.sim(0).set(Script::stall_after(2));
    let mut large = chat("gpt-4o", true);
    large["messages"][0]["content"] = json!("x".repeat(4 << 20));
    let mut guest = Guest::ask(&world, &large, Manner::Close).await;
    guest.until("data: ").await;
    assert!(world.held().body_bytes < 64 << 10, "{:?}", world.held());
    drop(guest);
    world.everything_is_back().await;
}

/// C086: whether the size is announced or not.
#[tokio::test]
async fn a_body_over_max_body_is_413() {
    let world = gateway(", max_body: 64KiB", &[""], "").await;
    let mut large = chat("gpt-4o", false);
    large["messages"][0]["content"] = json!("x".repeat(65 * 1024));
    let error = is_refused(&world.post(&large).await, 413);
    assert!(error["message"].as_str().unwrap().contains("server.max_body"), "{error}");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
        world.host()
    );
    // Nothing of ten gigabytes has to be sent to hear it, nor is it asked for.
    let mut raw = world.connect().await;
    raw.send(&format!("{head}content-length: 10000000000\r\nexpect: 100-continue\r\n\r\n")).await;
    assert!(raw.until("request_too_large").await.starts_with("HTTP/1.1 413 "));
    // A body without an announced end is cut off as soon as it is too long.
    let mut raw = world.connect().await;
    raw.send(&format!("{head}transfer-encoding: chunked\r\n\r\n")).await;
    let chunk = format!("1000\r\n{}\r\n", "y".repeat(0x1000));
    for _ in 0..17 {
        raw.send(&chunk).await;
    }
    assert!(raw.until("request_too_large").await.starts_with("HTTP/1.1 413 "));
    drop(raw);
    assert_eq!(world.sim(0).calls(), 0);
    world.everything_is_back().await;
}

#[tokio::test]
async fn headers_that_are_too_large_or_too_many_are_431() {
    let world = gateway(", max_header: 16KiB", &[""], "").await;
    let large = format!(
        "GET /v1/models HTTP/1.1\r\nhost: {}\r\nx-large: {}\r\n\r\n",
        world.host(),
        "x".repeat(20_000)
    );
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let many = format!("GET /v1/models HTTP/1.1\r\nhost: {}\r\n{many}\r\n", world.host());
    for text in [large, many] {
        let mut raw = world.connect().await;
        raw.send(&text).await;
        assert!(raw.rest().await.starts_with("HTTP/1.1 431 "));
    }
    assert_eq!(world.get("/v1/models").await.status, 200);
}

/// C086: neither the stack nor the time is the client's to spend.
#[tokio::test]
async fn json_that_is_nested_too_deeply_is_400() {
    let world = gateway("", &[""], "").await;
    for depth in [200, 1_000_000] {
        let body = format!(
            r#"{{"model":"gpt-4o","messages":[],"metadata":{}1{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let answer = world.send("POST", "/v1/chat/completions", Bytes::from(body), &[]).await;
        is_refused(&answer, 400);
    }
    assert_eq!(world.sim(0).calls(), 0);
}

#[tokio::test]
async fn a_body_that_is_no_request_is_400_and_names_the_field() {
    let world = gateway("", &[""], "").await;
    let cases = [
        (r#"{"messages":[]}"#, Some("model")),
        (r#"{"model":"gpt-4o"}"#, Some("messages")),
        (r#"{"model":"gpt-4o","model":"gpt-4o","messages":[]}"#, Some("model")),
        (r#"{"model":"gpt-4o","messages":[],"stream":"yes"}"#, Some("stream")),
        (r#"{"model":"gpt-4o","messages":["#, None),
        ("[]", None),
        ("", None),
    ];
    for (body, param) in cases {
        let answer = world.send("POST", "/v1/chat/completions", Bytes::from(body), &[]).await;
        let error = is_refused(&answer, 400);
        if param.is_some() {
            assert_eq!(error["param"].as_str(), param, "{body}: {error}");
        }
    }
    assert_eq!(world.sim(0).calls(), 0);
}

/// C086.
#[tokio::test]
async fn a_hundred_thousand_tools_are_a_request_like_any_other() {
    let world = gateway("", &[""], "").await;
    let mut body = chat("gpt-4o", false);
    body["tools"] = (0..100_000).map(|n| tool(&format!("tool_{n}"))).collect();
    assert_eq!(world.post(&body).await.status, 200);
    assert_eq!(world.sim(0).received()[0].json().unwrap()["tools"].as_array().unwrap().len(), 100_000);
    world.everything_is_back().await;
}

/// C086: a few bytes cannot become gigabytes.
#[tokio::test]
async fn a_compressed_body_is_415() {
    let world = gateway("", &[""], "").await;
    for coding in ["gzip", "br", "zstd", "identity, gzip"] {
        let answer = world.post_with(&chat("gpt-4o", false), &[("content-encoding", coding)]).await;
        is_refused(&answer, 415);
    }
    let plain = world.post_with(&chat("gpt-4o", false), &[("content-encoding", "identity")]).await;
    assert_eq!(plain.status, 200);
    assert_eq!(world.sim(0).calls(), 1);
}

#[tokio::test]
async fn one_connection_serves_many_requests_one_after_the_other() {
    let world = gateway("", &[""], "").await;
    let mut raw = world.connect().await;
    for stream in [false, true, false, true] {
        raw.send(&http1(&world, &chat("gpt-4o", stream), &[])).await;
        let text = if stream { raw.until("[DONE]\n\n\r\n0\r\n\r\n").await } else { raw.sized().await };
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        eventually("connections", 1, || world.gateway.connections()).await;
        raw.forget();
    }
    assert_eq!(world.sim(0).calls(), 4);
    assert_eq!(world.sim(0).accepted_connections(), 1, "the provider's connection is reused, too");
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_their_order() {
    let world = gateway("", &[""], "").await;
    world.sim(0).enqueue([Script::answer("first"), Script::answer("second")]);
    let mut raw = world.connect().await;
    let two = http1(&world, &chat("gpt-4o", false), &[]) + &http1(&world, &chat("gpt-4o", true), &[]);
    raw.send(&two).await;
    let text = raw.until("[DONE]").await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
    assert!(text.find("\"first\"").unwrap() < text.find("text/event-stream").unwrap(), "{text}");
    assert_eq!(world.sim(0).calls(), 2);
}

#[tokio::test]
async fn fifty_streams_share_one_http2_connection() {
    let world = gateway("", &["", ""], "defaults: { strategy: round-robin }\n").await;
    for sim in &world.sims {
        sim.set(Script::healthy().tokens(20).between_tokens(Duration::from_millis(5)));
    }
    let client = Http2::connect(&world).await;
    let asked = (0..50).map(|_| {
        let answer = client.sender.clone().send_request(client.request(&chat("gpt-4o", true)));
        tokio::spawn(async move { answer.await.unwrap().into_body().collect().await.unwrap().to_bytes() })
    });
    for answer in asked.collect::<Vec<_>>() {
        let text = String::from_utf8(answer.await.unwrap().to_vec()).unwrap();
        assert_eq!(text.matches("data: [DONE]\n\n").count(), 1);
        let voices = ["fp_a", "fp_b"].map(|voice| text.contains(voice));
        assert!(voices == [true, false] || voices == [false, true], "one voice: {text}");
    }
    assert_eq!(world.gateway.connections(), 1);
    assert_eq!(world.sim(0).calls() + world.sim(1).calls(), 50);
    drop(client);
    world.everything_is_back().await;
}

/// Whatever a client had sent until it left.
async fn hit_and_run(world: &World, number: usize) {
    let mut raw = world.connect().await;
    let whole = http1(world, &chat("gpt-4o", number.is_multiple_of(2)), &[]);
    let part = match number % 5 {
        0 => "",
        1 => &whole[..30],
        2 => &whole[..whole.len() - 10],
        _ => &whole,
    };
    // The gateway may be quicker to close than this to write.
    raw.stream.write_all(part.as_bytes()).await.unwrap_or_default();
    if number.is_multiple_of(3) {
        raw.reset();
    }
}

/// C084: a thousand clients that come and go leave nothing.
#[tokio::test]
async fn a_thousand_clients_that_leave_at_once_leave_nothing() {
    let world = Arc::new(gateway("", &["", ""], "").await);
    world.sim(0).set(Script::healthy().tokens(50).between_tokens(Duration::from_millis(10)));
    for batch in 0..20 {
        let clients = (0..50).map(|n| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { hit_and_run(&world, batch * 50 + n).await })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
    }
    world.everything_is_back().await;
    world.nobody_is_blamed();
    assert_eq!(world.post(&chat("gpt-4o", false)).await.status, 200);
}

/// The same on one HTTP/2 connection, whose streams are reset as fast as they are opened (CVE-2023-44487).
#[tokio::test]
async fn a_thousand_streams_that_are_reset_at_once_leave_nothing() {
    let world = gateway("", &[""], "").await;
    world.sim(0).set(Script::silence());
    let client = Http2::connect(&world).await;
    for _ in 0..1_000 {
        let answer = client.sender.clone().send_request(client.request(&chat("gpt-4o", true)));
        // Far enough to be sent, or not: what matters is what is left.
        if timeout(Duration::from_millis(1), answer).await.is_ok_and(|answer| answer.is_err()) {
            break;
        }
    }
    drop(client);
    world.everything_is_back().await;
    world.nobody_is_blamed();
}
