//! HTTP/1.1 in the clear: the plain way there and back, and every way in which it can break.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use pointsman_upstream::{PoolStats, TransportError, TransportErrorKind as Kind, TransportPhase as Phase};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

#[tokio::test]
async fn a_request_goes_out_whole_and_its_answer_comes_back() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            while let Some(request) = read_request(&mut stream).await {
                tx.send(request).unwrap();
                respond(&mut stream, "{\"id\":1}").await;
            }
        }
    })
    .await;
    let client = client();
    let mut request = post(&server.origin(), "{\"model\":\"m\"}");
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer k"));
    let mut response = client.send(request, &limits()).await.unwrap();
    assert_eq!(response.status, 200);
    assert!(!response.timing.reused);
    assert!(response.timing.connect.is_some());
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"{\"id\":1}");
    let (head, body) = rx.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "host"), Some(server.address.to_string().as_str()));
    assert_eq!(header(&head, "authorization"), Some("Bearer k"));
    assert_eq!(header(&head, "accept-encoding"), Some("identity"));
    assert_eq!(header(&head, "user-agent"), Some(concat!("pointsman/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(header(&head, "content-length"), Some("13"));
    assert_eq!(body, b"{\"model\":\"m\"}");
}

#[tokio::test]
async fn a_body_read_to_its_end_leaves_the_connection_for_the_next_request() {
    let server = Server::start(|_, stream| serve_ok(stream)).await;
    let client = client();
    for round in 0..3 {
        let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
        assert_eq!(response.timing.reused, round > 0);
        assert_eq!(response.timing.connect.is_some(), round == 0);
        assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
    }
    assert_eq!(server.connections(), 1);
    let stats = client.stats();
    assert_eq!((stats.open, stats.idle, stats.in_use, stats.requests), (1, 1, 0, 0));
}

#[tokio::test]
async fn dropping_a_body_before_its_end_closes_the_connection_at_once() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            let start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:\r\n";
            stream.write_all(start).await.unwrap();
            let end = stream.read(&mut [0u8; 16]).await;
            tx.send(matches!(end, Ok(0) | Err(_))).unwrap();
        }
    })
    .await;
    let client = client();
    let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "data:");
    drop(response);
    assert!(soon("the server sees the end", rx.recv()).await.unwrap());
    eventually("the socket is closed", || client.stats().open == 0).await;
    assert_eq!(client.stats().requests, 0);
}

#[tokio::test]
async fn dropping_the_send_future_closes_the_connection_at_once() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            tx.send("request").unwrap();
            let end = stream.read(&mut [0u8; 16]).await;
            tx.send(if matches!(end, Ok(0) | Err(_)) { "gone" } else { "more" }).unwrap();
        }
    })
    .await;
    let client = client();
    let (sender, origin) = (client.clone(), server.origin());
    let sending = tokio::spawn(async move { sender.send(post(&origin, "x"), &limits()).await });
    assert_eq!(soon("the request arrives", rx.recv()).await, Some("request"));
    sending.abort();
    assert_eq!(soon("the server sees the end", rx.recv()).await, Some("gone"));
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_body_shorter_than_its_content_length_is_closed_and_not_ended() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await.unwrap();
    })
    .await;
    let mut response = client().send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "half");
    let error = soon("the end", response.body.chunk()).await.unwrap().unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Headers, Kind::Closed));
    assert!(response.body.chunk().await.is_none(), "an error is said once");
}

#[tokio::test]
async fn a_chunked_body_without_its_last_chunk_is_closed_and_not_ended() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        let start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
        stream.write_all(start).await.unwrap();
    })
    .await;
    let client = client();
    let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    let error = read_all(&mut response.body).await.unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Headers, Kind::Closed));
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_body_is_a_reset() {
    let (go, mut wait) = seen::<()>();
    let waiting = std::sync::Mutex::new(Some(async move { wait.recv().await }));
    let server = Server::start(move |_, mut stream| {
        let read_by_client = waiting.lock().unwrap().take().unwrap();
        async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await.unwrap();
            read_by_client.await;
            reset(stream);
        }
    })
    .await;
    let mut response = client().send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "half");
    go.send(()).unwrap();
    let error = soon("the reset", response.body.chunk()).await.unwrap().unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Headers, Kind::Reset));
}

#[tokio::test]
async fn a_body_that_ends_with_the_connection_ends_cleanly() {
    // RFC 9112, section 6.3, rule 8: neither content-length nor chunked means read until close.
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\ndata: [DONE]\n\n").await.unwrap();
    })
    .await;
    let client = client();
    let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"data: [DONE]\n\n");
    eventually("the connection is not kept", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn headers_of_one_request_never_appear_in_another_on_the_same_connection() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            while let Some((head, _)) = read_request(&mut stream).await {
                tx.send(head).unwrap();
                respond(&mut stream, "ok").await;
            }
        }
    })
    .await;
    let client = client();
    let mut first = post(&server.origin(), "x");
    first.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer first"));
    first.headers.insert("x-first", HeaderValue::from_static("1"));
    read_all(&mut client.send(first, &limits()).await.unwrap().body).await.unwrap();
    let mut second = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert!(second.timing.reused);
    read_all(&mut second.body).await.unwrap();
    assert!(rx.recv().await.unwrap().contains("Bearer first"));
    let head = rx.recv().await.unwrap();
    assert_eq!((header(&head, "authorization"), header(&head, "x-first")), (None, None));
}

#[tokio::test]
async fn headers_of_the_connection_are_not_taken_from_the_caller() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            tx.send(read_request(&mut stream).await.unwrap()).unwrap();
            respond(&mut stream, "ok").await;
        }
    })
    .await;
    let mut request = post(&server.origin(), "four");
    for (name, value) in [
        ("host", "evil.example"),
        ("content-length", "999"),
        ("transfer-encoding", "chunked"),
        ("connection", "upgrade"),
        ("proxy-authorization", "Basic c2VjcmV0"),
    ] {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    request.headers.insert("accept-encoding", HeaderValue::from_static("gzip"));
    client().send(request, &limits()).await.unwrap();
    let (head, body) = rx.recv().await.unwrap();
    assert_eq!(body, b"four");
    assert_eq!(header(&head, "host"), Some(server.address.to_string().as_str()));
    assert_eq!(header(&head, "content-length"), Some("4"));
    for name in ["transfer-encoding", "connection", "proxy-authorization"] {
        assert_eq!(header(&head, name), None, "{name}");
    }
    assert_eq!(header(&head, "accept-encoding"), Some("gzip"), "a caller's own choice stands");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        let answer = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        assert!(read_request(&mut stream).await.is_none(), "a second request came");
    })
    .await;
    let response = client().send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.status, 307);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_error() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n\r\n").await.unwrap();
    })
    .await;
    let error = client().send(post(&server.origin(), "x"), &limits()).await.unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Sent, Kind::Protocol));
}

#[tokio::test]
async fn response_headers_beyond_64_kib_are_refused() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
        for number in 0..90 {
            head.extend_from_slice(format!("x-{number}: {}\r\n", "a".repeat(1024)).as_bytes());
        }
        // The client may close before it read all.
        if stream.write_all(&head).await.is_ok() {
            until_gone(&mut stream).await;
        }
    })
    .await;
    let error = client().send(post(&server.origin(), "x"), &limits()).await.unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Sent, Kind::Protocol));
}

#[tokio::test]
async fn a_body_that_nobody_reads_holds_up_the_server() {
    const CHUNK: usize = 64 * 1024;
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let server = Server::start(move |_, mut stream| {
        let count = Arc::clone(&count);
        async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n").await.unwrap();
            while stream.write_all(&[b'a'; CHUNK]).await.is_ok() {
                count.fetch_add(CHUNK, Ordering::SeqCst);
            }
        }
    })
    .await;
    let response = client().send(post(&server.origin(), "x"), &limits()).await.unwrap();
    // Kernel buffers on loopback hold some megabytes; the whole gigabyte would mean that we buffer.
    let mut before = usize::MAX;
    while written.load(Ordering::SeqCst) != before {
        before = written.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(before < 64 * 1024 * 1024, "{before} bytes were taken unread");
    drop(response);
}

#[tokio::test]
async fn cancelling_a_chunk_loses_no_bytes() {
    let (go, mut wait) = seen::<()>();
    let waiting = std::sync::Mutex::new(Some(async move { wait.recv().await }));
    let server = Server::start(move |_, mut stream| {
        let cancelled = waiting.lock().unwrap().take().unwrap();
        async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await.unwrap();
            cancelled.await;
            stream.write_all(b"late").await.unwrap();
        }
    })
    .await;
    let mut response = client().send(post(&server.origin(), "x"), &limits()).await.unwrap();
    let cancelled = tokio::time::timeout(Duration::from_millis(5), response.body.chunk()).await;
    assert!(cancelled.is_err());
    go.send(()).unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"late");
}

#[tokio::test]
async fn a_reader_that_saw_enough_can_drain_the_rest_and_keep_the_connection() {
    let server = Server::start(|_, mut stream| async move {
        while read_request(&mut stream).await.is_some() {
            let start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n[DONE]\r\n";
            stream.write_all(start).await.unwrap();
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        }
    })
    .await;
    let client = client();
    let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "[DONE]");
    response.body.drain(SOON, 1024).await;
    eventually("the connection is idle", || client.stats().idle == 1).await;
}

#[tokio::test]
async fn draining_gives_up_on_a_body_that_does_not_end() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nabc").await.unwrap();
        until_gone(&mut stream).await;
    })
    .await;
    let client = client();
    let response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    response.body.drain(Duration::from_millis(20), 1024).await;
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_request_and_an_error_show_no_credential_and_no_content() {
    let mut request = post(&origin("http://127.0.0.1:9"), "my prompt");
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer sk-secret"));
    request.path_and_query = "/v1?key=sk-secret".to_owned();
    let shown = format!("{request:?}");
    assert!(!shown.contains("sk-secret") && !shown.contains("my prompt"), "{shown}");
    let error = TransportError { phase: Phase::NotSent, kind: Kind::Refused, reused: false, told: false };
    let sentence = "the connection was refused, before anything of the request was sent or processed \
                    (on a new connection)";
    assert_eq!(error.to_string(), sentence);
}
