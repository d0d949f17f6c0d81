//! A small HTTP client for the gateway's own planes: one connection per request, plain HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 20;
/// What is asked of the gateway here is answered in seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Loopback or the next room.
const CONNECT: Duration = Duration::from_secs(3);

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON; `null` if it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The value of a header, empty if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Nobody listens there.
    #[error("nothing answers at {0}: {1}")]
    Unreachable(String, std::io::Error),
    /// The address is none that can be asked.
    #[error("'{0}' is not an address of the form http://host:port")]
    Address(String),
    /// It was reached, and the exchange broke.
    #[error("the exchange with {0} broke: {1}")]
    Broken(String, Box<dyn std::error::Error + Send + Sync>),
    /// It was reached, and took too long.
    #[error("{0} did not answer within {seconds} s", seconds = PATIENCE.as_secs())]
    Late(String),
}

/// Sends a request with a JSON body, or without one, and reads the whole answer.
///
/// # Errors
/// [`CallError`] if there is no whole answer; an answer of any status is one.
pub(crate) async fn call(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Result<Answer, CallError> {
    let uri: Uri = url.parse().map_err(|_| CallError::Address(url.to_owned()))?;
    let authority = match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(authority)) => authority.as_str().to_owned(),
        _ => return Err(CallError::Address(url.to_owned())),
    };
    let stream = connect(&authority, uri.port_u16()).await?;
    let exchange = exchange(stream, method, &uri, &authority, headers, body);
    match timeout(PATIENCE, exchange).await {
        Ok(done) => done.map_err(|e| CallError::Broken(authority, e)),
        Err(_) => Err(CallError::Late(authority)),
    }
}

async fn connect(authority: &str, port: Option<u16>) -> Result<TcpStream, CallError> {
    let address = match port {
        Some(_) => authority.to_owned(),
        None => format!("{authority}:80"),
    };
    let connected = match timeout(CONNECT, TcpStream::connect(&address)).await {
        Ok(connected) => connected,
        Err(late) => Err(late.into()),
    };
    connected.map_err(|e| CallError::Unreachable(authority.to_owned(), e))
}

async fn exchange(
    stream: TcpStream,
    method: Method,
    uri: &Uri,
    authority: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender, and what breaks it is told to the request.
    tokio::spawn(async move { drop(connection.await) });
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut request = Request::builder().method(method).uri(path).header(http::header::HOST, authority);
    if body.is_some() {
        request = request.header(http::header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.unwrap_or_default())))?;
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}
