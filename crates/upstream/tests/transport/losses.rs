//! HTTP/2 connections that are lost with all that is on them, or may be.

use std::time::Duration;

use crate::frames::{Frames, INTERNAL_ERROR};
use crate::http2::{h2, text};
use crate::support::*;

/// Whether their heads had come or not, whenever each is asked.
#[tokio::test]
async fn a_lost_connection_is_told_of_by_one_of_its_requests() {
    let server = Server::start(|_, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        for _ in 0..3 {
            let stream = frames.next_request().await.unwrap();
            frames.respond_head(stream).await;
        }
        frames.next_request().await.unwrap();
        frames.go_away(u32::MAX >> 1, INTERNAL_ERROR).await;
    })
    .await;
    let (client, origin) = (client(), server.origin());
    let mut bodies = Vec::new();
    for _ in 0..3 {
        bodies.push(client.send(h2(&origin, "x"), &limits()).await.unwrap().body);
    }
    let mut told = vec![client.send(h2(&origin, "x"), &limits()).await.unwrap_err().told];
    for body in &mut bodies {
        tokio::time::sleep(Duration::from_millis(10)).await;
        told.push(read_all(body).await.unwrap_err().told);
    }
    assert_eq!(told, [false, true, true, true]);
}

/// Its peer may have vanished: nobody hears of that on an HTTP/2 connection.
#[tokio::test]
async fn a_connection_on_which_a_stream_was_given_up_after_a_long_silence_gets_no_new_streams() {
    let server = Server::start(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return frames.serve_ok().await;
        }
        let first = frames.next_request().await.unwrap();
        frames.respond_head(first).await;
        while frames.read().await.is_some() {}
    })
    .await;
    let client = client();
    let mut given_up = client.send(h2(&server.origin(), "x"), &limits()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(1_200), given_up.body.chunk()).await.is_err());
    drop(given_up);
    assert_eq!(text(client.send(h2(&server.origin(), "x"), &limits()).await).await, "ok");
    assert_eq!(server.connections(), 2);
    eventually("the silent one is closed", || client.stats().open == 1).await;
}
