//! Proxies from the environment: in the clear, by tunnel, by SOCKS, and for whom not.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, HeaderValue};
use pointsman_upstream::{
    Client, ClientConfig, HttpVersion, PoolStats, ProxyConfig, Request, TransportError,
    TransportErrorKind as Kind, TransportPhase as Phase,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use crate::frames::Frames;
use crate::support::*;
use crate::tls::Authority;

fn proxies(vars: &[(&str, String)]) -> ProxyConfig {
    let vars: HashMap<_, _> = vars.iter().map(|(name, value)| (*name, value.clone())).collect();
    ProxyConfig::from_vars(|name| vars.get(name).cloned())
}

fn client_through(proxy: ProxyConfig) -> Client {
    Client::new(ClientConfig { proxy, ..ClientConfig::default() }).unwrap()
}

fn url(proxy: &Server) -> String {
    format!("http://user:p%40ss@{}", proxy.address)
}

/// `user:p@ss` (RFC 7617).
const CREDENTIAL: &str = "Basic dXNlcjpwQHNz";

/// A proxy that reports each request it reads, and answers it itself.
async fn answering(tx: tokio::sync::mpsc::UnboundedSender<String>) -> Server {
    Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            while let Some((head, _)) = read_request(&mut stream).await {
                tx.send(head).unwrap();
                respond(&mut stream, "from the proxy").await;
            }
        }
    })
    .await
}

/// A proxy that reports the CONNECT request and then joins the client with `to`.
async fn tunnelling(tx: tokio::sync::mpsc::UnboundedSender<String>, to: SocketAddr) -> Server {
    Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            let (head, _) = read_request(&mut stream).await.unwrap();
            tx.send(head).unwrap();
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            let mut onward = TcpStream::connect(to).await.unwrap();
            // Either side may hang up first.
            copy_bidirectional(&mut stream, &mut onward).await.ok();
        }
    })
    .await
}

#[tokio::test]
async fn a_request_in_the_clear_names_its_origin_to_the_proxy() {
    let (tx, mut rx) = seen();
    let proxy = answering(tx).await;
    let client = client_through(proxies(&[("HTTP_PROXY", url(&proxy))]));
    let origin = origin("http://api.test:8080");
    for _ in 0..2 {
        let mut response = client.send(post(&origin, "x"), &limits()).await.unwrap();
        assert_eq!(read_all(&mut response.body).await.unwrap(), b"from the proxy");
        let head = rx.recv().await.unwrap();
        // RFC 9112, section 3.2.2.
        assert!(head.starts_with("POST http://api.test:8080/v1/chat/completions HTTP/1.1\r\n"), "{head}");
        assert_eq!(header(&head, "host"), Some("api.test:8080"));
        assert_eq!(header(&head, "proxy-authorization"), Some(CREDENTIAL));
    }
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn over_tls_the_proxy_sees_only_the_name_and_the_origin_never_sees_the_proxys_credential() {
    let authority = Authority::new();
    let tls = authority.acceptor("api.test", &["http/1.1"]);
    let (tx, mut at_origin) = seen();
    let server = Server::start(move |_, stream| {
        let (tls, tx) = (tls.clone(), tx.clone());
        async move {
            let mut stream = tls.accept(stream).await.unwrap();
            tx.send(read_request(&mut stream).await.unwrap().0).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            stream.flush().await.unwrap();
            until_gone(&mut stream).await;
        }
    })
    .await;
    let (tx, mut at_proxy) = seen();
    let proxy = tunnelling(tx, server.address).await;
    let config = ClientConfig { proxy: proxies(&[("https_proxy", url(&proxy))]), ..authority.config() };
    let mut request = post(&origin("https://api.test"), "x");
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer k"));
    let mut response = Client::new(config).unwrap().send(request, &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
    let head = at_proxy.recv().await.unwrap();
    assert!(head.starts_with("CONNECT api.test:443 HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "proxy-authorization"), Some(CREDENTIAL));
    assert_eq!(header(&head, "authorization"), None);
    let head = at_origin.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "proxy-authorization"), None);
}

#[tokio::test]
async fn http2_in_the_clear_goes_through_a_tunnel() {
    let server = Server::start(|_, stream| async move {
        Frames::accept(stream, None).await.serve_ok().await;
    })
    .await;
    let (tx, mut rx) = seen();
    let proxy = tunnelling(tx, server.address).await;
    let client = client_through(proxies(&[("ALL_PROXY", url(&proxy))]));
    let request = Request { http: HttpVersion::Http2, ..post(&origin("http://api.test"), "x") };
    let mut response = client.send(request, &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
    assert!(rx.recv().await.unwrap().starts_with("CONNECT api.test:80 "));
}

/// A SOCKS 5 proxy (RFC 1928) without authentication that reports the destination it is asked for.
async fn socks5(tx: tokio::sync::mpsc::UnboundedSender<String>, to: SocketAddr) -> Server {
    Server::start(move |_, mut stream| {
        let tx = tx.clone();
        async move {
            let mut greeting = [0u8; 2];
            stream.read_exact(&mut greeting).await.unwrap();
            stream.read_exact(&mut vec![0u8; usize::from(greeting[1])]).await.unwrap();
            stream.write_all(&[5, 0]).await.unwrap();
            let mut request = [0u8; 4];
            stream.read_exact(&mut request).await.unwrap();
            assert_eq!(&request[..3], &[5, 1, 0], "CONNECT");
            let host = match request[3] {
                1 => std::net::Ipv4Addr::from(stream.read_u32().await.unwrap()).to_string(),
                3 => {
                    let mut name = vec![0u8; usize::from(stream.read_u8().await.unwrap())];
                    stream.read_exact(&mut name).await.unwrap();
                    String::from_utf8(name).unwrap()
                }
                other => panic!("address type {other}"),
            };
            let port = stream.read_u16().await.unwrap();
            tx.send(format!("{host}:{port}")).unwrap();
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            let mut onward = TcpStream::connect(to).await.unwrap();
            copy_bidirectional(&mut stream, &mut onward).await.ok();
        }
    })
    .await
}

#[tokio::test]
async fn a_socks5h_proxy_gets_the_name_and_a_socks5_proxy_the_address() {
    for (scheme, destination) in [("socks5h", "api.test:81"), ("socks5", "192.0.2.7:81")] {
        let server = Server::start(|_, stream| serve_ok(stream)).await;
        let (tx, mut rx) = seen();
        let proxy = socks5(tx, server.address).await;
        let proxy = proxies(&[("all_proxy", format!("{scheme}://{}", proxy.address))]);
        let config = ClientConfig { proxy, ..ClientConfig::default() };
        let addresses = HashMap::from([("api.test".to_owned(), vec![IpAddr::from([192, 0, 2, 7])])]);
        let client = Client::with_addresses(config, addresses).unwrap();
        let mut response = client.send(post(&origin("http://api.test:81"), "x"), &limits()).await.unwrap();
        assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
        assert_eq!(rx.recv().await.unwrap(), destination);
    }
}

#[tokio::test]
async fn a_proxy_can_itself_be_reached_over_tls() {
    let authority = Authority::new();
    let tls = authority.acceptor("localhost", &[]);
    let (tx, mut rx) = seen();
    let proxy = Server::start(move |_, stream| {
        let (tls, tx) = (tls.clone(), tx.clone());
        async move {
            let mut stream = tls.accept(stream).await.unwrap();
            tx.send(read_request(&mut stream).await.unwrap().0).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            stream.flush().await.unwrap();
            until_gone(&mut stream).await;
        }
    })
    .await;
    let url = format!("https://localhost:{}", proxy.address.port());
    let config = ClientConfig { proxy: proxies(&[("HTTP_PROXY", url)]), ..authority.config() };
    let client = Client::new(config).unwrap();
    let mut response = client.send(post(&origin("http://api.test"), "x"), &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
    assert!(rx.recv().await.unwrap().starts_with("POST http://api.test/v1/chat/completions "));
}

#[tokio::test]
async fn a_tunnel_that_the_proxy_refuses_is_a_handshake_error_and_nothing_was_sent() {
    let proxy = Server::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        let answer = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    })
    .await;
    let client = client_through(proxies(&[("HTTPS_PROXY", url(&proxy))]));
    let error = client.send(post(&origin("https://api.test"), "x"), &limits()).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::NotSent, kind: Kind::Handshake, reused: false, told: false }
    );
    eventually("nothing is left", || client.stats() == PoolStats::default()).await;
}

#[tokio::test]
async fn a_local_address_is_reached_directly_although_a_proxy_is_set() {
    let server = Server::start(|_, stream| serve_ok(stream)).await;
    let (tx, mut rx) = seen();
    let proxy = answering(tx).await;
    let client = client_through(proxies(&[("ALL_PROXY", url(&proxy))]));
    let mut response = client.send(post(&server.origin(), "x"), &limits()).await.unwrap();
    assert_eq!(read_all(&mut response.body).await.unwrap(), b"ok");
    assert!(rx.try_recv().is_err(), "the proxy was asked");
}

#[tokio::test]
async fn a_proxy_where_nothing_listens_refuses_the_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client_through(proxies(&[("HTTP_PROXY", format!("http://{address}"))]));
    let error = client.send(post(&origin("http://api.test"), "x"), &limits()).await.unwrap_err();
    assert_eq!(
        error,
        TransportError { phase: Phase::NotSent, kind: Kind::Refused, reused: false, told: false }
    );
}

#[test]
fn rules_show_no_credential() {
    let rules = proxies(&[("HTTP_PROXY", "http://user:secret@proxy.test".to_owned())]);
    assert!(!format!("{rules:?}").contains("secret"));
}
