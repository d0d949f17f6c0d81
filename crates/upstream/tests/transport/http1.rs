//! HTTP/1.1 in the clear: the plain way there and back, and every way in which it can break.

use http::header::{AUTHORIZATION, HeaderValue};
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
