//! Small servers on real sockets, and short ways to say what a test sends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use pointsman_upstream::{
    Body, Client, ClientConfig, HttpVersion, Origin, Request, SendLimits, TransportError,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Long enough that only a hang meets it.
pub const SOON: Duration = Duration::from_secs(10);

/// A server that handles each connection by a function of (its number from 0, the socket).
pub struct Server {
    pub address: SocketAddr,
    pub accepted: Arc<AtomicUsize>,
}

impl Server {
    pub async fn start<F, Fut>(handle: F) -> Self
    where
        F: Fn(usize, TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(handle(number, socket));
            }
        });
        Self { address, accepted }
    }

    pub fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub fn origin(&self) -> Arc<Origin> {
        origin(&format!("http://{}", self.address))
    }

    /// The same port by a name that the client resolves to 127.0.0.1 and a certificate can be made for.
    pub fn tls_origin(&self) -> Arc<Origin> {
        origin(&format!("https://localhost:{}", self.address.port()))
    }
}

pub fn origin(url: &str) -> Arc<Origin> {
    Arc::new(Origin::parse(url).unwrap().0)
}

pub fn client() -> Client {
    Client::new(ClientConfig::default()).unwrap()
}

pub fn post(origin: &Arc<Origin>, body: impl Into<Bytes>) -> Request {
    Request {
        origin: Arc::clone(origin),
        method: Method::POST,
        path_and_query: "/v1/chat/completions".to_owned(),
        headers: HeaderMap::new(),
        body: body.into(),
        http: HttpVersion::Auto,
        replay_on_stale: false,
    }
}

pub fn limits() -> SendLimits {
    SendLimits { connect: SOON, headers: Some(SOON), write: SOON }
}

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(_) => panic!("timed out: {what}"),
    }
}

/// Waits until `condition` holds, looking again whenever other tasks had a turn.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

pub async fn read_all(body: &mut Body) -> Result<Vec<u8>, TransportError> {
    let mut all = Vec::new();
    while let Some(chunk) = soon("a chunk", body.chunk()).await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all)
}

/// One HTTP/1.1 request as it came: the head as text, and the body by its content-length. `None` at a clean end.
pub async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut buffer = [0u8; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    };
    let body = bytes.split_off(head_end);
    let head = String::from_utf8(bytes).unwrap();
    let mut body = body;
    let length = header(&head, "content-length").map_or(0, |value| value.parse::<usize>().unwrap());
    while body.len() < length {
        let mut buffer = vec![0u8; 64 * 1024];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => body.extend_from_slice(&buffer[..count]),
        }
    }
    Some((head, body))
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

pub async fn respond(stream: &mut TcpStream, body: &str) {
    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Answers every request of the connection with `ok` until the client goes.
pub async fn serve_ok(mut stream: TcpStream) {
    while read_request(&mut stream).await.is_some() {
        respond(&mut stream, "ok").await;
    }
}

/// Reads and forgets until the client closes or resets.
pub async fn until_gone(stream: &mut (impl AsyncRead + Unpin)) {
    tokio::io::copy(stream, &mut tokio::io::sink()).await.ok();
}

/// Closes with RST instead of FIN.
pub fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// A channel to learn from a server what it saw.
pub fn seen<T>() -> (mpsc::UnboundedSender<T>, mpsc::UnboundedReceiver<T>) {
    mpsc::unbounded_channel()
}
