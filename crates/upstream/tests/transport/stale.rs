//! Connections that were good a moment ago: found closed, lost on reuse, aged, surplus.

use std::io::{Read, Write};
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use pointsman_upstream::{
    Client, ClientConfig, Origin, PoolStats, Request, Response, SendLimits, TransportError,
    TransportErrorKind as Kind, TransportPhase as Phase,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::*;

/// Serves one request; what comes after it is the test's.
async fn serve_one(stream: &mut TcpStream) {
    read_request(stream).await.unwrap();
    respond(stream, "ok").await;
}

/// One request that leaves an idle connection behind.
async fn warm(client: &Client, origin: &Arc<Origin>) {
    let mut response = client.send(post(origin, "x"), &limits()).await.unwrap();
    read_all(&mut response.body).await.unwrap();
    eventually("the connection is idle", || client.stats().idle == 1).await;
}

fn replayable(origin: &Arc<Origin>) -> Request {
    Request { replay_on_stale: true, ..post(origin, "x") }
}

async fn text(response: Result<Response, TransportError>) -> String {
    String::from_utf8(read_all(&mut response.unwrap().body).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_is_replaced() {
    let server = Server::start(|number, mut stream| async move {
        serve_one(&mut stream).await;
        if number > 0 {
            serve_ok(stream).await;
        }
    })
    .await;
    let client = client();
    let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    read_all(&mut response.body).await.unwrap();
    eventually("the close is seen", || client.stats().open == 0).await;
    let response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert!(!response.timing.reused);
    assert_eq!(server.connections(), 2);
}

/// The close arrives while this runtime is busy, so the pool still believes in the connection.
#[tokio::test]
async fn a_close_that_nobody_has_noticed_yet_costs_no_error_as_nothing_was_sent() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let origin = origin(&format!("http://{}", listener.local_addr().unwrap()));
    let (closed, was_closed) = std::sync::mpsc::channel();
    let (close, may_close) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        for number in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let count = stream.read(&mut [0u8; 4096]).unwrap();
            assert!(count > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
            if number == 0 {
                may_close.recv().unwrap();
                drop(stream);
                closed.send(()).unwrap();
            }
        }
    });
    let client = client();
    warm(&client, &origin).await;
    close.send(()).unwrap();
    was_closed.recv().unwrap();
    assert_eq!(client.stats().idle, 1, "the test is about a close that was not noticed");
    let response = client.send(post(&origin, "x"), &limits()).await.unwrap();
    assert!(!response.timing.reused);
    assert_eq!(text(Ok(response)).await, "ok");
    server.join().unwrap();
}

#[derive(Clone, Copy)]
enum Loss {
    Reset,
    Close,
}

/// The first connection answers once and is lost at its second request; later ones work.
async fn lost_on_reuse(loss: Loss) -> Server {
    Server::start(move |number, mut stream| async move {
        serve_one(&mut stream).await;
        if number > 0 {
            return serve_ok(stream).await;
        }
        read_request(&mut stream).await.unwrap();
        match loss {
            Loss::Reset => reset(stream),
            Loss::Close => drop(stream),
        }
    })
    .await
}

#[tokio::test]
async fn a_reused_connection_lost_before_the_answer_is_repeated_once_if_replay_safe() {
    for loss in [Loss::Reset, Loss::Close] {
        let server = lost_on_reuse(loss).await;
        let client = client();
        warm(&client, &server.origin()).await;
        let response = client.send(replayable(&server.origin()), &limits()).await.unwrap();
        assert!(response.timing.stale_replaced);
        assert!(!response.timing.reused);
        assert_eq!(text(Ok(response)).await, "ok");
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn a_reused_connection_lost_before_the_answer_is_an_error_if_not_replay_safe() {
    for (loss, kind) in [(Loss::Reset, Kind::Reset), (Loss::Close, Kind::Closed)] {
        let server = lost_on_reuse(loss).await;
        let client = client();
        warm(&client, &server.origin()).await;
        let error = client.send(post(&server.origin(), "x"), &limits()).await.unwrap_err();
        assert_eq!(error, TransportError { phase: Phase::Sent, kind, reused: true, told: false });
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_new_connection_lost_before_the_answer_is_never_repeated() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        reset(stream);
    })
    .await;
    let client = client();
    let error = client.send(replayable(&server.origin()), &limits()).await.unwrap_err();
    assert_eq!(error, TransportError { phase: Phase::Sent, kind: Kind::Reset, reused: false, told: false });
    assert_eq!(server.connections(), 1);
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn the_repetition_itself_is_not_repeated() {
    let server = Server::start(|number, mut stream| async move {
        if number == 0 {
            serve_one(&mut stream).await;
        }
        read_request(&mut stream).await.unwrap();
        reset(stream);
    })
    .await;
    let client = client();
    warm(&client, &server.origin()).await;
    let error = client.send(replayable(&server.origin()), &limits()).await.unwrap_err();
    assert_eq!(error, TransportError { phase: Phase::Sent, kind: Kind::Reset, reused: false, told: false });
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_loss_after_the_first_byte_of_an_answer_is_not_repeated() {
    let server = Server::start(|_, mut stream| async move {
        serve_one(&mut stream).await;
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 2").await.unwrap();
    })
    .await;
    let client = client();
    warm(&client, &server.origin()).await;
    let error = client.send(replayable(&server.origin()), &limits()).await.unwrap_err();
    assert_eq!(error, TransportError { phase: Phase::Sent, kind: Kind::Closed, reused: true, told: false });
    assert_eq!(server.connections(), 1);
}

/// Opens `count` connections at once and leaves those idle that the pool keeps.
async fn open_at_once(client: &Client, origin: &Arc<Origin>, count: usize) {
    let mut responses = Vec::new();
    for _ in 0..count {
        responses.push(client.send(post(origin, "x"), &limits()).await.unwrap());
    }
    for mut response in responses {
        read_all(&mut response.body).await.unwrap();
    }
}

/// Answers with a head at once, and with the body only when nothing more is asked of the server.
async fn held(mut stream: TcpStream) {
    while read_request(&mut stream).await.is_some() {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.write_all(b"ok").await.unwrap();
    }
}

#[tokio::test]
async fn after_one_stale_connection_the_next_try_is_on_a_new_one_and_not_on_another_idle_one() {
    let server = Server::start(|number, mut stream| async move {
        if number < 3 {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            stream.write_all(b"ok").await.unwrap();
            read_request(&mut stream).await;
            return reset(stream);
        }
        serve_ok(stream).await;
    })
    .await;
    let client = client();
    open_at_once(&client, &server.origin(), 3).await;
    eventually("three are idle", || client.stats().idle == 3).await;
    let response = client.send(replayable(&server.origin()), &limits()).await;
    assert_eq!(text(response).await, "ok");
    assert_eq!(server.connections(), 4);
}

/// As when a middlebox has forgotten them all: one request waits in vain, and the next is on a new connection.
#[tokio::test]
async fn after_one_connection_that_vanished_no_other_idle_one_is_tried() {
    let server = Server::start(|number, mut stream| async move {
        if number < 3 {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            stream.write_all(b"ok").await.unwrap();
            return until_gone(&mut stream).await;
        }
        serve_ok(stream).await;
    })
    .await;
    let client = client();
    open_at_once(&client, &server.origin(), 3).await;
    eventually("three are idle", || client.stats().idle == 3).await;
    let short = SendLimits { headers: Some(Duration::from_millis(200)), ..limits() };
    let error = client.send(post(&server.origin(), "x"), &short).await.unwrap_err();
    assert_eq!(error.kind, Kind::HeadersTimeout);
    eventually("the others are closed", || client.stats().open == 0).await;
    assert_eq!(text(client.send(post(&server.origin(), "x"), &short).await).await, "ok");
    assert_eq!(server.connections(), 4);
}

/// Slow is not gone: what was answered in the meantime is kept.
#[tokio::test]
async fn a_connection_that_served_while_another_kept_silent_stays() {
    let server = Server::start(|number, mut stream| async move {
        serve_one(&mut stream).await;
        match number {
            0 => until_gone(&mut stream).await,
            _ => serve_ok(stream).await,
        }
    })
    .await;
    let (client, origin) = (client(), server.origin());
    warm(&client, &origin).await;
    let short = SendLimits { headers: Some(Duration::from_millis(300)), ..limits() };
    let waiting = tokio::spawn({
        let (client, request) = (client.clone(), post(&origin, "x"));
        async move { client.send(request, &short).await }
    });
    eventually("it waits", || client.stats().requests == 1).await;
    warm(&client, &origin).await;
    assert_eq!(waiting.await.unwrap().unwrap_err().kind, Kind::HeadersTimeout);
    eventually("only the silent one is closed", || client.stats().open == 1).await;
    warm(&client, &origin).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn no_more_idle_connections_are_kept_than_allowed() {
    let server = Server::start(|_, stream| held(stream)).await;
    let client = Client::new(ClientConfig { max_idle_per_origin: 2, ..ClientConfig::default() }).unwrap();
    open_at_once(&client, &server.origin(), 5).await;
    assert_eq!(server.connections(), 5);
    eventually("the surplus is closed", || client.stats().open == 2 && client.stats().idle == 2).await;
}

#[tokio::test]
async fn the_connection_used_last_is_used_next() {
    let server = Server::start(|number, mut stream| async move {
        while read_request(&mut stream).await.is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n").await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            stream.write_all(number.to_string().as_bytes()).await.unwrap();
        }
    })
    .await;
    let client = client();
    let mut first = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    let mut second = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    read_all(&mut second.body).await.unwrap();
    assert_eq!(read_all(&mut first.body).await.unwrap(), b"0");
    eventually("both are idle", || client.stats().idle == 2).await;
    assert_eq!(text(client.send(post(&server.origin(), "x"), &limits()).await).await, "0");
}

#[tokio::test]
async fn a_connection_that_idles_too_long_is_closed() {
    let server = Server::start(|_, stream| serve_ok(stream)).await;
    let idle_timeout = Duration::from_millis(100);
    let client = Client::new(ClientConfig { idle_timeout, ..ClientConfig::default() }).unwrap();
    warm(&client, &server.origin()).await;
    eventually("it is closed", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn idle_connections_go_with_the_last_clone_of_the_client() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            serve_one(&mut stream).await;
            tx.send(read_request(&mut stream).await.is_none()).unwrap();
        }
    })
    .await;
    let client = client();
    warm(&client, &server.origin()).await;
    drop(client);
    assert_eq!(soon("the server sees the end", rx.recv()).await, Some(true));
}

#[test]
fn a_response_may_be_dropped_where_no_runtime_is() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, response) = runtime.block_on(async {
        let server = Server::start(|_, stream| held(stream)).await;
        let client = client();
        let response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
        (client, response)
    });
    drop(runtime);
    drop(response);
    assert_eq!(client.stats(), PoolStats::default());
}
