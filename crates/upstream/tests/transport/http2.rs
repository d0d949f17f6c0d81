//! HTTP/2: sharing connections, their limits, and the ways in which streams and connections end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use pointsman_upstream::{
    Client, ClientConfig, HttpVersion, Origin, PoolStats, Request, Response, SendLimits, TransportError,
    TransportErrorKind as Kind, TransportPhase as Phase,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::frames::{
    CANCEL, DATA, END_STREAM, Frames, HEADERS, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, RST_STREAM,
};
use crate::support::*;

const SHORT: Duration = Duration::from_millis(200);
const SLACK: Duration = Duration::from_secs(5);

pub type Sent = Result<Response, TransportError>;

/// By prior knowledge, in the clear.
pub fn h2(origin: &Arc<Origin>, body: impl Into<bytes::Bytes>) -> Request {
    Request { http: HttpVersion::Http2, ..post(origin, body) }
}

fn replayable(origin: &Arc<Origin>) -> Request {
    Request { replay_on_stale: true, ..h2(origin, "x") }
}

pub async fn text(response: Sent) -> String {
    String::from_utf8(read_all(&mut response.unwrap().body).await.unwrap()).unwrap()
}

/// Sends `count` requests at once and returns the answers in the order in which they came.
async fn at_once(client: &Client, origin: &Arc<Origin>, count: usize) -> Vec<Sent> {
    let mut sending = JoinSet::new();
    for _ in 0..count {
        let (client, request) = (client.clone(), h2(origin, "x"));
        sending.spawn(async move { client.send(request, &limits()).await });
    }
    let mut answers = Vec::new();
    while let Some(answer) = soon("an answer", sending.join_next()).await {
        answers.push(answer.unwrap());
    }
    answers
}

async fn serve_frames(stream: TcpStream) {
    Frames::accept(stream, None).await.serve_ok().await;
}

#[tokio::test]
async fn a_request_arrives_with_its_headers_and_body_and_no_host_header() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, stream| {
        let tx = tx.clone();
        async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(request) = connection.accept().await {
                let (request, mut respond) = request.unwrap();
                let answer = http::Response::builder().status(503).header("retry-after", "3");
                let mut body = respond.send_response(answer.body(()).unwrap(), false).unwrap();
                body.send_data("busy".into(), true).unwrap();
                tx.send(request.into_parts().0).unwrap();
            }
        }
    })
    .await;
    let client = client();
    let mut request = h2(&server.origin(), "{}");
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer k"));
    let mut response = client.send(request, &limits()).await.unwrap();
    assert_eq!(response.status, 503);
    assert_eq!(response.headers["retry-after"], "3");
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"busy");
    let head = rx.recv().await.unwrap();
    assert_eq!(head.method, "POST");
    assert_eq!(head.uri.to_string(), format!("http://{}/v1/chat/completions", server.address));
    assert_eq!(head.headers["authorization"], "Bearer k");
    assert_eq!(head.headers["accept-encoding"], "identity");
    assert_eq!(head.headers["content-length"], "2");
    assert!(!head.headers.contains_key("host"));
}

#[tokio::test]
async fn requests_that_start_together_share_one_connection() {
    let server = Server::start(|_, stream| serve_frames(stream)).await;
    let client = client();
    let answers = at_once(&client, &server.origin(), 20).await;
    assert_eq!(server.connections(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.as_ref().unwrap().timing.connect.is_some()).count(), 1);
    drop(answers);
    eventually("the connection is idle", || {
        client.stats() == PoolStats { open: 1, idle: 1, in_use: 0, requests: 0 }
    })
    .await;
}

/// Announces `limit` streams, checks that no connection has more than `most` at once, and answers only when as many
/// requests are in flight over all connections as `all` waits for.
async fn answer_all_together(stream: TcpStream, limit: Option<u32>, most: usize, all: Arc<Barrier>) {
    let mut builder = h2::server::Builder::new();
    if let Some(limit) = limit {
        builder.max_concurrent_streams(limit);
    }
    let mut connection = builder.handshake::<_, bytes::Bytes>(stream).await.unwrap();
    let mut open = 0;
    while let Some(request) = connection.accept().await {
        let (_, mut respond) = request.unwrap();
        open += 1;
        assert!(open <= most, "{open} streams on one connection");
        let all = Arc::clone(&all);
        tokio::spawn(async move {
            all.wait().await;
            let mut body = respond.send_response(http::Response::new(()), false).unwrap();
            body.send_data("ok".into(), true).unwrap();
        });
    }
}

/// C083 (iv).
#[tokio::test]
async fn ten_requests_run_at_once_where_the_peer_allows_two_streams_per_connection() {
    let all = Arc::new(Barrier::new(10));
    let server =
        Server::start(move |_, stream| answer_all_together(stream, Some(2), 2, Arc::clone(&all))).await;
    let client = client();
    for answer in at_once(&client, &server.origin(), 10).await {
        assert_eq!(text(answer).await, "ok");
    }
    assert!(server.connections() < 10, "streams are shared: {} connections", server.connections());
}

#[tokio::test]
async fn our_own_cap_holds_where_the_peer_sets_no_limit() {
    let all = Arc::new(Barrier::new(6));
    let server = Server::start(move |_, stream| answer_all_together(stream, None, 3, Arc::clone(&all))).await;
    let config = ClientConfig { h2_streams_per_connection: 3, ..ClientConfig::default() };
    let client = Client::new(config).unwrap();
    for answer in at_once(&client, &server.origin(), 6).await {
        assert_eq!(text(answer).await, "ok");
    }
    assert!(server.connections() < 6, "streams are shared: {} connections", server.connections());
}

/// C082: connecting ends with the handshake of HTTP/2, and so does its limit.
#[tokio::test]
async fn a_server_that_never_sends_settings_meets_the_connect_limit() {
    let server = Server::start(|_, mut stream| async move {
        until_gone(&mut stream).await;
    })
    .await;
    let client = client();
    let limits = SendLimits { connect: SHORT, ..limits() };
    let started = Instant::now();
    let error = client.send(h2(&server.origin(), "x"), &limits).await.unwrap_err();
    let expected =
        TransportError { phase: Phase::NotSent, kind: Kind::ConnectTimeout, reused: false, told: false };
    assert_eq!(error, expected);
    assert!(started.elapsed() < SHORT + SLACK);
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_server_that_closes_or_answers_in_http1_fails_the_handshake() {
    for answer in ["", "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"] {
        let server = Server::start(move |_, mut stream| async move {
            stream.read_exact(&mut [0u8; 24]).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        })
        .await;
        let error = client().send(h2(&server.origin(), "x"), &limits()).await.unwrap_err();
        let expected =
            TransportError { phase: Phase::NotSent, kind: Kind::Handshake, reused: false, told: false };
        assert_eq!(error, expected, "{answer:?}");
    }
}

/// C083 (ii).
#[tokio::test]
async fn streams_that_a_goaway_declares_unprocessed_move_to_a_new_connection_and_the_others_go_on() {
    let server = Server::start(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return frames.serve_ok().await;
        }
        let mut last = 0;
        while last < 5 {
            last = frames.next_request().await.unwrap();
        }
        frames.go_away(1, NO_ERROR).await;
        frames.respond(1, "kept").await;
        frames.read().await;
    })
    .await;
    let client = client();
    let mut bodies = Vec::new();
    let mut moved = 0;
    for answer in at_once(&client, &server.origin(), 3).await {
        moved += usize::from(answer.as_ref().unwrap().timing.stale_replaced);
        bodies.push(text(answer).await);
    }
    bodies.sort();
    assert_eq!(bodies, ["kept", "ok", "ok"]);
    assert_eq!(moved, 2);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn after_a_goaway_new_requests_use_a_new_connection_while_the_old_stream_goes_on() {
    let (tx, mut rx) = seen::<()>();
    let go = std::sync::Mutex::new(Some(async move { rx.recv().await }));
    let server = Server::start(move |number, stream| {
        let go = go.lock().unwrap().take();
        async move {
            let mut frames = Frames::accept(stream, None).await;
            if number > 0 {
                return frames.serve_ok().await;
            }
            let id = frames.next_request().await.unwrap();
            frames.respond_head(id).await;
            frames.write(DATA, 0, id, b"one ").await;
            frames.go_away(id, NO_ERROR).await;
            go.unwrap().await;
            frames.write(DATA, END_STREAM, id, b"two").await;
            frames.read().await;
        }
    })
    .await;
    let client = client();
    let mut long = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(long.body.chunk().await.unwrap().unwrap(), "one ");
    assert_eq!(text(client.send(h2(&server.origin(), "x"), &limits()).await).await, "ok");
    assert_eq!(server.connections(), 2);
    tx.send(()).unwrap();
    assert_eq!(read_all(&mut long.body).await.unwrap(), b"two");
}

#[tokio::test]
async fn a_connection_that_goes_away_before_its_first_request_is_replaced() {
    let server = Server::start(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return frames.serve_ok().await;
        }
        // Once the client is ready, so that the notice meets the request on its way.
        while !frames.read().await.unwrap().acknowledges_settings() {}
        frames.go_away(0, NO_ERROR).await;
        while frames.read().await.is_some() {}
    })
    .await;
    let answer = client().send(h2(&server.origin(), "x"), &limits()).await;
    assert_eq!(text(answer).await, "ok");
    assert_eq!(server.connections(), 2);
}

/// C083 (iii).
#[tokio::test]
async fn a_refused_stream_is_sent_again_on_a_newer_connection() {
    let server = Server::start(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return frames.serve_ok().await;
        }
        while let Some(id) = frames.next_request().await {
            frames.reset_stream(id, REFUSED_STREAM).await;
        }
    })
    .await;
    let response = client().send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    assert!(response.timing.stale_replaced);
    assert_eq!(text(Ok(response)).await, "ok");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_server_that_refuses_every_stream_is_reported_as_not_having_processed_it() {
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let server = Server::start(move |_, stream| {
        let count = Arc::clone(&count);
        async move {
            let mut frames = Frames::accept(stream, None).await;
            while let Some(id) = frames.next_request().await {
                count.fetch_add(1, Ordering::SeqCst);
                frames.reset_stream(id, REFUSED_STREAM).await;
            }
        }
    })
    .await;
    let error = client().send(h2(&server.origin(), "x"), &limits()).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::NotSent, kind: Kind::Reset, reused: false, told: false }
    );
    assert_eq!(refused.load(Ordering::SeqCst), 4, "the first try and three repetitions");
}

#[tokio::test]
async fn a_stream_reset_for_another_reason_may_have_been_processed_and_is_not_repeated() {
    let server = Server::start(|_, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        let first = frames.next_request().await.unwrap();
        frames.respond(first, "ok").await;
        let second = frames.next_request().await.unwrap();
        frames.reset_stream(second, INTERNAL_ERROR).await;
        assert!(frames.next_request().await.is_none(), "it was repeated");
    })
    .await;
    let client = client();
    assert_eq!(text(client.send(h2(&server.origin(), "x"), &limits()).await).await, "ok");
    let error = client.send(replayable(&server.origin()), &limits()).await.unwrap_err();
    assert_eq!(error, TransportError { phase: Phase::Sent, kind: Kind::Reset, reused: true, told: false });
    assert_eq!(server.connections(), 1);
}

/// C083 (v).
#[tokio::test]
async fn a_stream_reset_in_the_middle_of_its_body_is_a_cut() {
    let server = Server::start(|_, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        let id = frames.next_request().await.unwrap();
        frames.respond_head(id).await;
        frames.write(DATA, 0, id, b"half").await;
        frames.reset_stream(id, CANCEL).await;
        frames.read().await;
    })
    .await;
    let mut response = client().send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    let error = read_all(&mut response.body).await.unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Headers, Kind::Reset));
}

#[tokio::test]
async fn a_connection_closed_in_the_middle_of_a_body_is_a_cut() {
    let server = Server::start(|_, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        let id = frames.next_request().await.unwrap();
        frames.respond_head(id).await;
        frames.write(DATA, 0, id, b"half").await;
    })
    .await;
    let client = client();
    let mut response = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    let error = read_all(&mut response.body).await.unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Headers, Kind::Closed));
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

/// One request that leaves a connection behind, which dies at the next one; later connections work.
async fn lost_on_reuse() -> Server {
    Server::start(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return frames.serve_ok().await;
        }
        let id = frames.next_request().await.unwrap();
        frames.respond(id, "ok").await;
        frames.next_request().await;
    })
    .await
}

#[tokio::test]
async fn a_reused_connection_lost_before_the_answer_is_repeated_only_if_replay_safe() {
    for replay_on_stale in [true, false] {
        let server = lost_on_reuse().await;
        let client = client();
        assert_eq!(text(client.send(h2(&server.origin(), "x"), &limits()).await).await, "ok");
        let request = Request { replay_on_stale, ..h2(&server.origin(), "x") };
        let answer = client.send(request, &limits()).await;
        if replay_on_stale {
            assert!(answer.as_ref().unwrap().timing.stale_replaced);
            assert_eq!(text(answer).await, "ok");
        } else {
            let error = answer.unwrap_err();
            assert_eq!((error.phase, error.reused), (Phase::Sent, true));
            // A socket closed with something unread (here: acknowledgements) is a reset to its peer.
            assert!(matches!(error.kind, Kind::Closed | Kind::Reset), "{error:?}");
        }
    }
}

/// C083 (i).
#[tokio::test]
async fn a_connection_on_which_the_headers_limit_struck_gets_no_new_streams_but_keeps_its_old_ones() {
    let (tx, mut rx) = seen::<()>();
    let go = std::sync::Mutex::new(Some(async move { rx.recv().await }));
    let server = Server::start(move |number, stream| {
        let go = go.lock().unwrap().take();
        async move {
            let mut frames = Frames::accept(stream, None).await;
            if number > 0 {
                return frames.serve_ok().await;
            }
            let first = frames.next_request().await.unwrap();
            frames.respond_head(first).await;
            frames.next_request().await.unwrap();
            go.unwrap().await;
            frames.write(DATA, END_STREAM, first, b"still here").await;
            while frames.read().await.is_some() {}
        }
    })
    .await;
    let client = client();
    let mut old = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    let short = SendLimits { headers: Some(SHORT), ..limits() };
    let error = client.send(h2(&server.origin(), "x"), &short).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::Sent, kind: Kind::HeadersTimeout, reused: true, told: false }
    );
    let new = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    assert!(!new.timing.reused);
    assert_eq!(server.connections(), 2);
    tx.send(()).unwrap();
    assert_eq!(read_all(&mut old.body).await.unwrap(), b"still here");
    assert_eq!(text(Ok(new)).await, "ok");
    eventually("the evicted one is closed", || client.stats().open == 1).await;
}

/// Whether the client cancels `stream`.
async fn saw_reset(frames: &mut Frames<TcpStream>, stream: u32) -> bool {
    while let Some(frame) = frames.read().await {
        if frame.kind == RST_STREAM && frame.stream == stream {
            return frame.payload == CANCEL.to_be_bytes();
        }
    }
    false
}

#[tokio::test]
async fn dropping_a_body_before_its_end_resets_the_stream_and_keeps_the_connection() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, stream| {
        let tx = tx.clone();
        async move {
            let mut frames = Frames::accept(stream, None).await;
            let id = frames.next_request().await.unwrap();
            frames.respond_head(id).await;
            frames.write(DATA, 0, id, b"half").await;
            tx.send(saw_reset(&mut frames, id).await).unwrap();
            frames.serve_ok().await;
        }
    })
    .await;
    let client = client();
    let mut response = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "half");
    drop(response);
    assert_eq!(soon("the server sees the reset", rx.recv()).await, Some(true));
    assert_eq!(client.stats().requests, 0);
    assert_eq!(text(client.send(h2(&server.origin(), "x"), &limits()).await).await, "ok");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropping_the_send_future_resets_the_stream_before_and_while_the_body_goes_out() {
    // The second body is larger than the initial window (RFC 9113, section 6.9.2), so it cannot be sent whole.
    for size in [1, 1 << 20] {
        let (tx, mut rx) = seen();
        let server = Server::start(move |_, stream| {
            let tx = tx.clone();
            async move {
                let mut frames = Frames::accept(stream, None).await;
                let id = loop {
                    let frame = frames.read().await.unwrap();
                    if frame.kind == HEADERS {
                        break frame.stream;
                    }
                };
                tx.send(true).unwrap();
                tx.send(saw_reset(&mut frames, id).await).unwrap();
            }
        })
        .await;
        let client = client();
        let (sender, request) = (client.clone(), h2(&server.origin(), vec![0; size]));
        let sending = tokio::spawn(async move { sender.send(request, &limits()).await });
        assert_eq!(soon("the request arrives", rx.recv()).await, Some(true));
        sending.abort();
        assert_eq!(soon("the server sees the reset", rx.recv()).await, Some(true), "{size} bytes");
        eventually("nothing is in flight", || client.stats().requests == 0).await;
    }
}

#[tokio::test]
async fn a_server_that_opens_no_window_stalls_the_write() {
    let server = Server::start(|_, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        while frames.read().await.is_some() {}
    })
    .await;
    let client = client();
    let limits = SendLimits { write: SHORT, ..limits() };
    let error = client.send(h2(&server.origin(), vec![0; 1 << 20]), &limits).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::Sent, kind: Kind::WriteStall, reused: false, told: false }
    );
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_stalled_socket_under_a_small_request_stalls_its_write() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, stream| {
        let tx = tx.clone();
        async move {
            // A window of 256 MiB for the connection and each stream, and then nothing is read.
            let mut builder = h2::server::Builder::new();
            builder.initial_window_size(256 << 20).initial_connection_window_size(256 << 20);
            let mut connection = builder.handshake::<_, bytes::Bytes>(stream).await.unwrap();
            let first = connection.accept().await.unwrap().unwrap();
            tx.send((connection, first)).unwrap();
        }
    })
    .await;
    let client = client();
    let (sender, request) = (client.clone(), h2(&server.origin(), vec![0; 128 << 20]));
    let large = tokio::spawn(async move { sender.send(request, &limits()).await });
    let _unread = soon("the large request arrives", rx.recv()).await.unwrap();
    let limits = SendLimits { write: SHORT, headers: None, connect: SOON };
    let error = client.send(h2(&server.origin(), "small"), &limits).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::Sent, kind: Kind::WriteStall, reused: false, told: false }
    );
    large.abort();
}

#[tokio::test]
async fn an_idle_shared_connection_is_closed_after_its_time() {
    let server = Server::start(|_, stream| serve_frames(stream)).await;
    let idle_timeout = Duration::from_millis(100);
    let client = Client::new(ClientConfig { idle_timeout, ..ClientConfig::default() }).unwrap();
    assert_eq!(text(client.send(h2(&server.origin(), "x"), &limits()).await).await, "ok");
    assert_eq!(client.stats().open, 1);
    eventually("it is closed", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn an_unread_stream_does_not_hold_up_another_on_the_same_connection() {
    let server = Server::start(|_, stream| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(request) = connection.accept().await {
            let (_, mut respond) = request.unwrap();
            let mut body = respond.send_response(http::Response::new(()), false).unwrap();
            // More than any window; what does not fit waits.
            body.send_data(vec![b'a'; 8 << 20].into(), true).unwrap();
        }
    })
    .await;
    let client = client();
    let unread = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    let mut read = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    assert!(read.timing.reused);
    assert_eq!(read_all(&mut read.body).await.unwrap().len(), 8 << 20);
    drop(unread);
}
