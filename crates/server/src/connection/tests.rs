//! Slow clients in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::clock::Clock;

/// A client of a connection that is served, after it has sent this.
async fn client(first: &str) -> TcpStream {
    let yaml =
        "targets: { a: { provider: openai, base_url: \"http://127.0.0.1:9/v1\", model: m, api_key: k } }";
    let config = pointsman_config::parse(yaml, "test.yaml", &BTreeMap::new()).unwrap().config;
    let app = Arc::new(App::new(config, Clock::default(), None).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hosts = Arc::new(Hosts::new(address, &[]));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(first.as_bytes()).await.unwrap();
    let (served, _) = listener.accept().await.unwrap();
    let served = served.into_std().unwrap();
    tokio::spawn(serve(served, app, Arc::default(), hosts, Stages::default()));
    client
}

/// When it is let go, in virtual time, and what it gets to read until then.
async fn let_go(mut client: TcpStream) -> (Duration, String) {
    let begun = Instant::now();
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    (begun.elapsed(), text)
}

fn in_time(took: Duration, limit: Duration) -> bool {
    (limit..limit + Duration::from_secs(1)).contains(&took)
}

/// What the kernel then does takes real time: that its timers are set is all that can be seen here.
#[tokio::test]
async fn a_client_is_probed_while_it_waits_in_silence() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let socket = SockRef::from(&stream);
    assert!(!socket.keepalive().unwrap());
    tune(&stream, Duration::from_secs(7)).unwrap();
    assert!(socket.keepalive().unwrap());
    let times = (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
    assert_eq!(times, (PROBED_AFTER, PROBED_EVERY));
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
}

/// C086.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_headers_is_let_go() {
    let client = client("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow").await;
    let (took, _) = let_go(client).await;
    assert!(in_time(took, HEADERS_WITHIN), "{took:?}");
}

/// C086.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_begin_is_let_go() {
    for first in ["", "PRI * HT", "GE"] {
        let (took, text) = let_go(client(first).await).await;
        assert!(in_time(took, BEGIN_WITHIN), "{first:?}: {took:?}");
        assert_eq!(text, "");
    }
}

/// Its preface and settings (RFC 9113, sections 3.4 and 6.5) are all that it ever says.
#[tokio::test(start_paused = true)]
async fn an_http2_client_that_is_gone_without_a_word_is_let_go() {
    let settings = "\0\0\0\u{4}\0\0\0\0\0";
    let mut client = client(&format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{settings}")).await;
    let begun = Instant::now();
    let mut frames = Vec::new();
    let ended = client.read_to_end(&mut frames);
    tokio::time::timeout(Duration::from_secs(3_600), ended).await.expect("it is let go").unwrap();
    assert!(in_time(begun.elapsed(), PING_EVERY + PONG_WITHIN), "{:?}", begun.elapsed());
}

/// C086.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_of_its_body_is_told_so() {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n";
    for framing in ["content-length: 100\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"] {
        let mut client = client(&format!("{head}{framing}")).await;
        let mut answer = Vec::new();
        let begun = Instant::now();
        while !String::from_utf8_lossy(&answer).contains("request_timeout") {
            assert!(client.read_buf(&mut answer).await.unwrap() > 0);
        }
        assert!(in_time(begun.elapsed(), Duration::from_secs(30)), "{:?}", begun.elapsed());
        assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 408 "));
    }
}

/// Sends one byte after the other, so far apart, until this comes back or the connection is closed; how long that took.
async fn trickles(client: TcpStream, byte: u8, every: Duration, until: &str) -> Duration {
    let begun = Instant::now();
    let (mut from, mut to) = client.into_split();
    let sending = async {
        loop {
            sleep(every).await;
            if to.write_all(&[byte]).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let reading = async {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(until) || until.is_empty() {
            if from.read_buf(&mut seen).await.is_ok_and(|count| count == 0) {
                break;
            }
        }
        String::from_utf8(seen).unwrap()
    };
    tokio::select! {
        () = sending => unreachable!(),
        text = reading => assert!(text.contains(until), "{text}"),
    }
    begun.elapsed()
}

/// C086: a limit of the whole holds, whatever comes in between.
#[tokio::test(start_paused = true)]
async fn a_client_whose_headers_or_body_trickle_is_let_go() {
    let slowly = Duration::from_secs(10);
    let headers = client("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ").await;
    let took = trickles(headers, b'x', slowly, "").await;
    assert!(in_time(took, HEADERS_WITHIN), "{took:?}");
    let body = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{";
    let took = trickles(client(body).await, b' ', slowly, "request_timeout").await;
    assert!(in_time(took, Duration::from_secs(300)), "{took:?}");
}

/// Load balancers keep their connections for 60 s: the gateway must not be the one who closes first.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_outlives_those_of_load_balancers_and_is_closed_in_time() {
    let mut client = client("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("ok") {
        assert!(client.read_buf(&mut answer).await.unwrap() > 0);
    }
    let (took, _) = let_go(client).await;
    assert!(in_time(took, HEADERS_WITHIN) && took > Duration::from_secs(60), "{took:?}");
}
