//! Nothing of one exchange gets into another, and nothing is left of any.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pointsman_upstream::{
    Client, ClientConfig, HttpVersion, Origin, PoolStats, Request, SendLimits, TransportError,
    TransportErrorKind as Kind, TransportPhase as Phase,
};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use crate::frames::Frames;
use crate::support::*;

/// A server that answers one request twice must not answer the next request with the second answer.
#[tokio::test]
async fn a_surplus_answer_is_never_taken_for_the_answer_to_the_next_request() {
    for together in [true, false] {
        let server = Server::start(move |number, mut stream| async move {
            if number > 0 {
                return serve_ok(stream).await;
            }
            read_request(&mut stream).await.unwrap();
            let surplus = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged";
            if together {
                let both = format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok{surplus}");
                stream.write_all(both.as_bytes()).await.unwrap();
            } else {
                respond(&mut stream, "ok").await;
                stream.write_all(surplus.as_bytes()).await.unwrap();
            }
            until_gone(&mut stream).await;
        })
        .await;
        let client = client();
        for _ in 0..2 {
            let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
            assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok", "together: {together}");
        }
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    // RFC 9110, section 15.2: a client must accept them although it did not ask.
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        stream.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n").await.unwrap();
        respond(&mut stream, "final").await;
    })
    .await;
    let mut response = client().send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.status, 200);
    assert!(!response.headers.contains_key("link"));
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"final");
}

/// Requests that wait together for a connection are not reusing it: its loss is the provider's failure.
#[tokio::test]
async fn a_shared_connection_lost_before_it_ever_answered_is_not_taken_for_stale() {
    let server = Server::start(|_, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        for _ in 0..5 {
            frames.next_request().await.unwrap();
        }
    })
    .await;
    let client = client();
    let mut sending = JoinSet::new();
    for _ in 0..5 {
        let (client, request) = (client.clone(), post(&server.origin(), "x"));
        let request = Request { http: HttpVersion::Http2, replay_on_stale: true, ..request };
        sending.spawn(async move { client.send(request, &limits()).await });
    }
    while let Some(answer) = soon("an answer", sending.join_next()).await {
        let error = answer.unwrap().unwrap_err();
        assert_eq!((error.phase, error.reused), (Phase::Sent, false));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_client_with_its_own_pool_shares_settings_and_no_connection() {
    let server = Server::start(|_, stream| serve_ok(stream)).await;
    let addresses = HashMap::from([("api.test".to_owned(), vec![IpAddr::from([127, 0, 0, 1])])]);
    let first = Client::with_addresses(ClientConfig::default(), addresses).unwrap();
    let second = first.with_own_pool();
    let origin = origin(&format!("http://api.test:{}", server.address.port()));
    for client in [&first, &second] {
        let mut response = client.send(post(&origin, "x"), &limits()).await.unwrap();
        read_all(&mut response.body).await.unwrap();
        assert_eq!(client.stats().open, 1);
    }
    assert_eq!(server.connections(), 2);
}

/// C085.
#[tokio::test]
async fn a_slow_origin_takes_no_connection_from_another() {
    let slow = Server::start(|_, mut stream| async move { until_gone(&mut stream).await }).await;
    let quick = Server::start(|_, stream| serve_ok(stream)).await;
    let client = client();
    let mut waiting = JoinSet::new();
    for _ in 0..200 {
        let (client, request) = (client.clone(), post(&slow.origin(), "x"));
        waiting.spawn(async move { client.send(request, &limits()).await });
    }
    eventually("all are waiting", || slow.connections() == 200).await;
    let response = client.send(post(&quick.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(response.status, 200);
    waiting.shutdown().await;
    drop(response);
    eventually("only the quick one may be kept", || client.stats().open <= 1).await;
    assert_eq!(client.stats().requests, 0);
}

/// What a caller does with request number `index`, so that every way to leave early is taken. Returns whether it got an
/// answer.
async fn leave_in_some_way(client: Client, origin: Arc<Origin>, http: HttpVersion, index: usize) -> bool {
    let request = Request { http, replay_on_stale: true, ..post(&origin, vec![b'a'; index * 997]) };
    let limits = SendLimits { headers: Some(SOON), ..limits() };
    if index.is_multiple_of(5) {
        // May strike anywhere between the start and the answer.
        let limit = Duration::from_micros(index as u64 * 50);
        tokio::time::timeout(limit, client.send(request, &limits)).await.ok();
        return false;
    }
    let Ok(mut response) = client.send(request, &limits).await else { return false };
    match index % 3 {
        0 => drop(response),
        1 => drop(response.body.chunk().await),
        _ => drop(read_all(&mut response.body).await),
    }
    true
}

async fn answer_or_break(number: usize, mut stream: tokio::net::TcpStream) {
    let mut served = 0;
    while read_request(&mut stream).await.is_some() {
        served += 1;
        if (number + served).is_multiple_of(7) {
            return reset(stream);
        }
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf").await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
        if (number + served).is_multiple_of(11) || stream.write_all(b"half").await.is_err() {
            return;
        }
    }
}

async fn answer_or_break_frames(number: usize, stream: tokio::net::TcpStream) {
    let mut frames = Frames::accept(stream, Some(8)).await;
    frames.opens_windows = true;
    let mut served = 0;
    while let Some(id) = frames.next_request().await {
        served += 1;
        match (number + served) % 9 {
            0 => return,
            1 => frames.reset_stream(id, crate::frames::REFUSED_STREAM).await,
            2 => {
                frames.go_away(id, crate::frames::NO_ERROR).await;
                frames.respond(id, "halfhalf").await;
            }
            _ => frames.respond(id, "halfhalf").await,
        }
    }
}

/// C084.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_after_many_requests_that_end_in_every_way() {
    let http1 = Server::start(answer_or_break).await;
    let http2 = Server::start(answer_or_break_frames).await;
    let idle_timeout = Duration::from_millis(200);
    let client = Client::new(ClientConfig { idle_timeout, ..ClientConfig::default() }).unwrap();
    let mut running = JoinSet::new();
    for index in 0..400 {
        let (server, http) = match index % 2 {
            0 => (&http1, HttpVersion::Http1),
            _ => (&http2, HttpVersion::Http2),
        };
        running.spawn(leave_in_some_way(client.clone(), server.origin(), http, index / 2));
    }
    let mut answers = 0;
    while let Some(answered) = soon("all end", running.join_next()).await {
        answers += usize::from(answered.unwrap());
    }
    assert!(answers > 100, "only {answers} answers: the test shows little");
    assert_eq!(client.stats().requests, 0);
    eventually("all sockets are closed", || client.stats() == PoolStats::default()).await;
}

#[test]
fn errors_name_the_phase_and_the_kind_in_one_sentence() {
    let error = TransportError { phase: Phase::Headers, kind: Kind::Closed, reused: true, told: false };
    let sentence = "the upstream closed the connection early, in the middle of the response body (on a reused connection)";
    assert_eq!(error.to_string(), sentence);
    assert_eq!((error.phase.as_str(), error.kind.as_str()), ("headers", "closed"));
}
