//! Each phase has its own limit, and each limit its own name.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pointsman_upstream::{
    Client, ClientConfig, Origin, PoolStats, SendLimits, TransportError, TransportErrorKind as Kind,
    TransportPhase as Phase,
};
use socket2::{Domain, Socket, Type};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::support::*;

const SHORT: Duration = Duration::from_millis(200);
/// How late a timer may be on a busy machine before a test calls it wrong.
const SLACK: Duration = Duration::from_secs(5);
const OTHER_LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn not_sent(kind: Kind) -> TransportError {
    TransportError { phase: Phase::NotSent, kind, reused: false, told: false }
}

/// A port where connecting never ends: the queue of connections to accept is full, so that SYNs are dropped.
async fn black_hole(address: SocketAddr) -> (SocketAddr, Socket, Vec<TcpStream>) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(SHORT, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "the queue does not fill");
    }
    (address, socket, waiting)
}

fn resolving(host: &str, addresses: &[Ipv4Addr]) -> Client {
    let addresses = addresses.iter().copied().map(IpAddr::V4).collect();
    Client::with_addresses(ClientConfig::default(), HashMap::from([(host.to_owned(), addresses)])).unwrap()
}

fn any_port(ip: Ipv4Addr) -> SocketAddr {
    SocketAddr::from((ip, 0))
}

#[tokio::test]
async fn where_nothing_listens_the_connection_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client();
    let error = client.send(post(&origin(&format!("http://{address}")), "x"), &limits()).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::Refused));
    assert_eq!(client.stats(), PoolStats::default());
}

#[tokio::test]
async fn a_name_without_an_address_is_a_dns_error() {
    let client = resolving("nowhere.test", &[]);
    let error = client.send(post(&origin("http://nowhere.test"), "x"), &limits()).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::Dns));
}

#[tokio::test]
async fn connecting_to_what_never_answers_ends_with_the_connect_limit() {
    let (address, _socket, _waiting) = black_hole(any_port(Ipv4Addr::LOCALHOST)).await;
    let client = client();
    let limits = SendLimits { connect: SHORT, ..limits() };
    let started = Instant::now();
    let error = client.send(post(&origin(&format!("http://{address}")), "x"), &limits).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::ConnectTimeout));
    assert!(started.elapsed() >= SHORT && started.elapsed() < SHORT + SLACK);
    assert_eq!(client.stats(), PoolStats::default());
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let server = Server::start(|_, stream| serve_ok(stream)).await;
    let client = resolving("two.test", &[OTHER_LOOPBACK, Ipv4Addr::LOCALHOST]);
    let origin = origin(&format!("http://two.test:{}", server.address.port()));
    let response = client.send(post(&origin, "x"), &limits()).await.unwrap();
    assert_eq!(response.status, 200);
}

#[tokio::test]
async fn an_address_that_never_answers_leaves_time_for_the_next_within_the_connect_limit() {
    let server = Server::start(|_, stream| serve_ok(stream)).await;
    let port = server.address.port();
    let _hole = black_hole(SocketAddr::from((OTHER_LOOPBACK, port))).await;
    let client = resolving("two.test", &[OTHER_LOOPBACK, Ipv4Addr::LOCALHOST]);
    let origin = origin(&format!("http://two.test:{port}"));
    let limits = SendLimits { connect: Duration::from_secs(2), ..limits() };
    let response = client.send(post(&origin, "x"), &limits).await.unwrap();
    assert_eq!(response.status, 200);
}

#[tokio::test]
async fn silence_after_the_request_ends_with_the_headers_limit_and_closes_the_socket() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            tx.send(read_request(&mut stream).await.is_none()).unwrap();
        }
    })
    .await;
    let client = client();
    let limits = SendLimits { headers: Some(SHORT), ..limits() };
    let started = Instant::now();
    let error = client.send(post(&server.origin(), "x"), &limits).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::Sent, kind: Kind::HeadersTimeout, reused: false, told: false }
    );
    assert!(started.elapsed() >= SHORT && started.elapsed() < SHORT + SLACK);
    assert_eq!(soon("the server sees the end", rx.recv()).await, Some(true));
    assert_eq!(server.connections(), 1, "a limit is never a reason to repeat");
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn without_a_headers_limit_the_caller_decides_how_long_to_wait() {
    let server = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        tokio::time::sleep(2 * SHORT).await;
        respond(&mut stream, "slow").await;
    })
    .await;
    let limits = SendLimits { connect: SHORT + SLACK, headers: None, write: SHORT };
    let mut response = client().send(post(&server.origin(), "x"), &limits).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"slow");
}

#[tokio::test]
async fn a_server_that_reads_nothing_of_a_large_body_stalls_the_write() {
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, stream| {
        let tx = tx.clone();
        async move { tx.send(stream).unwrap() }
    })
    .await;
    let client = client();
    let limits = SendLimits { write: SHORT, ..limits() };
    let body = vec![b'a'; 50 * 1024 * 1024];
    let started = Instant::now();
    let error = client.send(post(&server.origin(), body), &limits).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::Sent, kind: Kind::WriteStall, reused: false, told: false }
    );
    assert!(started.elapsed() < SHORT + SLACK);
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
    let _unread = rx.recv().await.unwrap();
}

/// 16 MiB in 16 reads, 40 ms apart: each limit is shorter than the whole, but none is met.
#[tokio::test]
async fn a_slow_but_steady_upload_meets_neither_the_write_nor_the_headers_limit() {
    const MIB: usize = 1024 * 1024;
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Small, so that the client sees the server's pace.
    listener.set_recv_buffer_size(256 * 1024).unwrap();
    listener.bind(&any_port(Ipv4Addr::LOCALHOST).into()).unwrap();
    listener.listen(8).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener.into()).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0u8; MIB];
        for _ in 0..15 {
            stream.read_exact(&mut buffer).await.unwrap();
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        // The rest: head and body together are a little over 16 MiB.
        let mut rest = 0;
        while rest < MIB {
            rest += stream.read(&mut buffer).await.unwrap();
        }
        respond(&mut stream, "ok").await;
        until_gone(&mut stream).await;
    });
    let limit = Duration::from_millis(400);
    let limits = SendLimits { connect: SOON, headers: Some(limit), write: limit };
    let origin: Arc<Origin> = origin(&format!("http://{address}"));
    let started = Instant::now();
    let response = client().send(post(&origin, vec![b'a'; 16 * MIB]), &limits).await.unwrap();
    assert_eq!(response.status, 200);
    assert!(started.elapsed() > limit, "the upload took longer than either limit");
}

#[tokio::test]
async fn an_answer_before_the_request_was_read_is_delivered() {
    let server = Server::start(|_, mut stream| async move {
        stream.read_exact(&mut [0u8; 1024]).await.unwrap();
        let answer = b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nbig";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        // Read on, so that the close does not become a reset that destroys the answer.
        until_gone(&mut stream).await;
    })
    .await;
    let body = vec![b'a'; 8 * 1024 * 1024];
    let client = client();
    let mut response = client.send(post(&server.origin(), body), &limits()).await.unwrap();
    assert_eq!(response.status, 413);
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"big");
    eventually("the connection is not kept", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_request_that_cannot_be_written_as_http_is_refused_before_connecting() {
    let server = Server::start(|_, stream| serve_ok(stream)).await;
    for path in ["no-slash", "/with space", ""] {
        let mut request = post(&server.origin(), "x");
        request.path_and_query = path.to_owned();
        let error = client().send(request, &limits()).await.unwrap_err();
        assert_eq!(error, not_sent(Kind::Other), "{path}");
    }
    assert_eq!(server.connections(), 0);
}
