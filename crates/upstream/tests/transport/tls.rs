//! TLS: who is trusted, which HTTP is agreed on, and handshakes that go wrong or nowhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pointsman_upstream::{
    Client, ClientConfig, ClientError, HttpVersion, PoolStats, Request, SendLimits, TransportError,
    TransportErrorKind as Kind, TransportPhase as Phase,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::frames::Frames;
use crate::support::*;

const SHORT: Duration = Duration::from_millis(300);
const SLACK: Duration = Duration::from_secs(5);

/// A certificate authority of the test's own.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: NamedTempFile,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// A server end for `name` that offers `protocols` by ALPN.
    pub fn acceptor(&self, name: &str, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    pub fn config(&self) -> ClientConfig {
        ClientConfig { ca_file: Some(self.file.path().to_owned()), ..ClientConfig::default() }
    }

    fn client(&self) -> Client {
        Client::new(self.config()).unwrap()
    }
}

fn not_sent(kind: Kind) -> TransportError {
    TransportError { phase: Phase::NotSent, kind, reused: false, told: false }
}

/// HTTP/1.1 over TLS, `ok` to each request.
async fn serve_ok_over(tls: TlsAcceptor, socket: TcpStream) {
    // A client that does not trust the certificate hangs up in the handshake.
    let Ok(mut stream) = tls.accept(socket).await else { return };
    while read_request(&mut stream).await.is_some() {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        stream.flush().await.unwrap();
    }
}

async fn https_server(authority: &Authority, name: &str) -> Server {
    let tls = authority.acceptor(name, &["http/1.1"]);
    Server::start(move |_, socket| serve_ok_over(tls.clone(), socket)).await
}

#[tokio::test]
async fn a_server_with_a_certificate_of_the_ca_file_is_trusted_and_its_connection_reused() {
    let authority = Authority::new();
    let server = https_server(&authority, "localhost").await;
    let client = authority.client();
    for round in 0..2 {
        let mut response = client.send(post(&server.tls_origin(), "x"), &limits()).await.unwrap();
        assert_eq!(response.timing.reused, round > 0);
        assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
        eventually("the connection is idle", || client.stats().idle == 1).await;
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_a_tls_error() {
    let server = https_server(&Authority::new(), "localhost").await;
    let error = client().send(post(&server.tls_origin(), "x"), &limits()).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::Tls));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_a_tls_error() {
    let authority = Authority::new();
    let server = https_server(&authority, "other.example").await;
    let client = authority.client();
    let error = client.send(post(&server.tls_origin(), "x"), &limits()).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::Tls));
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_a_tls_error() {
    let server = Server::start(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        until_gone(&mut stream).await;
    })
    .await;
    let error = client().send(post(&server.tls_origin(), "x"), &limits()).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::Tls));
}

#[tokio::test]
async fn a_connection_closed_in_the_tls_handshake_is_a_handshake_error() {
    let server = Server::start(|_, mut stream| async move {
        stream.read_exact(&mut [0u8; 16]).await.unwrap();
    })
    .await;
    let error = client().send(post(&server.tls_origin(), "x"), &limits()).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::Handshake));
}

/// C087: a handshake that takes its time, as the first one after a start may, is no failure within the limit.
#[tokio::test]
async fn a_slow_handshake_is_waited_for() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &["h2", "http/1.1"]);
    let server = Server::start(move |_, stream| {
        let tls = tls.clone();
        async move {
            tokio::time::sleep(SHORT).await;
            Frames::accept(tls.accept(stream).await.unwrap(), None).await.serve_ok().await;
        }
    })
    .await;
    // The shortest limit that a profile has.
    let limits = SendLimits { connect: Duration::from_secs(2), ..limits() };
    let response = authority.client().send(post(&server.tls_origin(), "x"), &limits).await.unwrap();
    assert_eq!(response.status, 200);
}

async fn hold_open(mut stream: TcpStream) {
    until_gone(&mut stream).await;
}

/// C082.
#[tokio::test]
async fn fifty_requests_to_a_stalled_handshake_time_out_each_and_recovery_needs_no_restart() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &["h2", "http/1.1"]);
    let healthy = Arc::new(AtomicBool::new(false));
    let now_healthy = Arc::clone(&healthy);
    let server = Server::start(move |_, stream| {
        let (tls, healthy) = (tls.clone(), Arc::clone(&healthy));
        async move {
            if !healthy.load(Ordering::SeqCst) {
                return hold_open(stream).await;
            }
            let stream = tls.accept(stream).await.unwrap();
            Frames::accept(stream, None).await.serve_ok().await;
        }
    })
    .await;
    let client = authority.client();
    let limits = SendLimits { connect: SHORT, ..limits() };
    let started = Instant::now();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (client, request) = (client.clone(), post(&server.tls_origin(), "x"));
        waiting.spawn(async move { client.send(request, &limits).await });
    }
    while let Some(result) = waiting.join_next().await {
        assert_eq!(result.unwrap().unwrap_err(), not_sent(Kind::ConnectTimeout));
    }
    assert!(started.elapsed() >= SHORT && started.elapsed() < SHORT + SLACK);
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
    now_healthy.store(true, Ordering::SeqCst);
    let limits = SendLimits { connect: SOON, ..limits };
    client.send(post(&server.tls_origin(), "x"), &limits).await.unwrap();
}

/// C082.
#[tokio::test]
async fn a_wedged_handshake_does_not_hold_up_a_later_request() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &["h2"]);
    let server = Server::start(move |number, stream| {
        let tls = tls.clone();
        async move {
            if number == 0 {
                return hold_open(stream).await;
            }
            let stream = tls.accept(stream).await.unwrap();
            Frames::accept(stream, None).await.serve_ok().await;
        }
    })
    .await;
    let client = authority.client();
    let (wedged, request) = (client.clone(), post(&server.tls_origin(), "x"));
    let wedged = tokio::spawn(async move { wedged.send(request, &limits()).await });
    eventually("the first is shaking hands", || server.connections() == 1).await;
    let started = Instant::now();
    client.send(post(&server.tls_origin(), "x"), &limits()).await.unwrap();
    assert!(started.elapsed() < SOON / 2, "it waited for the wedged one");
    wedged.abort();
}

#[tokio::test]
async fn http2_is_spoken_where_alpn_agrees_on_it() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &["h2", "http/1.1"]);
    let server = Server::start(move |_, stream| {
        let tls = tls.clone();
        async move {
            let stream = tls.accept(stream).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
            Frames::accept(stream, None).await.serve_ok().await;
        }
    })
    .await;
    let client = authority.client();
    let mut response = client.send(post(&server.tls_origin(), "x"), &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
}

#[tokio::test]
async fn http1_can_be_asked_for_where_http2_is_offered_too() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &["h2", "http/1.1"]);
    let server = Server::start(move |_, socket| serve_ok_over(tls.clone(), socket)).await;
    let request = Request { http: HttpVersion::Http1, ..post(&server.tls_origin(), "x") };
    let mut response = authority.client().send(request, &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
}

#[tokio::test]
async fn a_server_without_alpn_gets_http1_but_not_where_http2_is_demanded() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &[]);
    let server = Server::start(move |_, socket| serve_ok_over(tls.clone(), socket)).await;
    let client = authority.client();
    let mut response = client.send(post(&server.tls_origin(), "x"), &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
    let request = Request { http: HttpVersion::Http2, ..post(&server.tls_origin(), "x") };
    let error = client.send(request, &limits()).await.unwrap_err();
    assert_eq!(error, not_sent(Kind::Handshake));
}

/// Without `close_notify` an attacker could have cut the connection (RFC 8446, section 6.1).
#[tokio::test]
async fn a_body_that_ends_with_the_connection_but_without_close_notify_is_not_ended() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &["http/1.1"]);
    let server = Server::start(move |_, socket| {
        let tls = tls.clone();
        async move {
            let mut stream = tls.accept(socket).await.unwrap();
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await.unwrap();
            stream.flush().await.unwrap();
            drop(stream.into_inner().0);
        }
    })
    .await;
    let client = authority.client();
    let mut response = client.send(post(&server.tls_origin(), "x"), &limits()).await.unwrap();
    let error = read_all(&mut response.body).await.unwrap_err();
    assert_eq!((error.phase, error.kind), (Phase::Headers, Kind::Closed));
}

#[tokio::test]
async fn a_server_that_reads_nothing_stalls_the_write_over_tls_too() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &["http/1.1"]);
    let (tx, mut rx) = seen();
    let server = Server::start(move |_, socket| {
        let (tls, tx) = (tls.clone(), tx.clone());
        async move { tx.send(tls.accept(socket).await.unwrap()).unwrap() }
    })
    .await;
    let client = authority.client();
    let limits = SendLimits { write: SHORT, ..limits() };
    let error = client.send(post(&server.tls_origin(), vec![0; 50 << 20]), &limits).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::Sent, kind: Kind::WriteStall, reused: false, told: false }
    );
    let _unread = rx.recv().await.unwrap();
}

#[test]
fn a_ca_file_that_cannot_be_used_is_named_with_the_reason() {
    let with = |path: PathBuf| {
        let config = ClientConfig { ca_file: Some(path), ..ClientConfig::default() };
        Client::new(config).unwrap_err()
    };
    let missing = with(PathBuf::from("/nonexistent/ca.pem"));
    assert!(missing.to_string().contains("/nonexistent/ca.pem"), "{missing}");
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "not a certificate").unwrap();
    assert!(matches!(with(file.path().to_owned()), ClientError::CaFile { .. }));
}
