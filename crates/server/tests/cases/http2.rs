//! Connections shared by many requests: what one of them loses is told to nobody whom it does not concern.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pointsman_core::domain::DomainKind;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use crate::checks::{assert_broken_off, assert_whole_from, world_from};
use crate::frames::{CANCEL, DATA, Frames, NO_ERROR, REFUSED_STREAM};
use crate::support::{Answer, World, chat};

/// A whole plain answer.
const ANSWER: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"gpt-4o","system_fingerprint":"fp_a","choices":[{"index":0,"message":{"role":"assistant","content":"a answers"},"finish_reason":"stop"}]}"#;

/// A provider that does with its connections, counted from 0, what it is told; and how many there were.
async fn provider<F, Fut>(handle: F) -> (String, Arc<AtomicUsize>)
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
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(handle(count.fetch_add(1, Ordering::SeqCst), stream));
        }
    });
    (format!("http://{address}/v1"), accepted)
}

/// Target `a` is there, target `b` a healthy sim; one pool of connections serves all requests.
async fn world(url: &str, more: &str) -> World {
    let yaml = format!(
        "server: {{ listen: 127.0.0.1:0, runtime: shared }}\ntargets:\n  \
         a: {{ provider: openai, base_url: \"{url}\", model: gpt-4o, api_key: sk-a, http: 2{more} }}\n  \
         b: {{ provider: openai, base_url: \"<b>\", model: gpt-4o, api_key: sk-b }}\n"
    );
    world_from(&["b"], &yaml).await
}

async fn answer_all(mut frames: Frames<TcpStream>) {
    while let Some(stream) = frames.next_request().await {
        frames.respond(stream, ANSWER).await;
    }
}

/// Each was answered by `a` in its first attempt, and nothing counts against it.
fn assert_unnoticed(world: &World, answers: &[Answer]) {
    for answer in answers {
        assert_whole_from(answer, "a");
        assert_eq!(world.entry(answer).attempts.len(), 1, "moving to another connection is no retry");
    }
    world.assert_untouched("a");
    assert_eq!(world.sim(0).calls(), 0);
}

/// C083 (ii): streams beyond the last one that a GOAWAY names were not processed.
#[tokio::test]
async fn what_a_goaway_leaves_out_is_sent_again_unseen() {
    let (url, connections) = provider(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return answer_all(frames).await;
        }
        let mut last = 0;
        while last < 5 {
            last = frames.next_request().await.unwrap();
        }
        frames.go_away(1, NO_ERROR).await;
        frames.respond(1, ANSWER).await;
        while frames.read().await.is_some() {}
    })
    .await;
    let world = world(&url, "").await;
    let request = chat("gpt-4o", false);
    let answers = join_all((0..3).map(|_| world.post(&request))).await;
    assert_unnoticed(&world, &answers);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

/// C083 (iii).
#[tokio::test]
async fn a_refused_stream_is_sent_again_unseen() {
    let (url, connections) = provider(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return answer_all(frames).await;
        }
        while let Some(stream) = frames.next_request().await {
            frames.reset_stream(stream, REFUSED_STREAM).await;
        }
    })
    .await;
    let world = world(&url, "").await;
    let answer = world.post(&chat("gpt-4o", false)).await;
    assert_unnoticed(&world, &[answer]);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

/// C083 (iv): a provider that allows two streams per connection gets as many connections as ten requests need.
#[tokio::test]
async fn a_limit_of_streams_per_connection_is_kept_and_holds_up_nobody() {
    // Nobody is answered before all ten are there.
    let all = Arc::new(Barrier::new(10));
    let (url, connections) = provider(move |_, stream| {
        let all = Arc::clone(&all);
        async move {
            let service = service_fn(|_| {
                let all = Arc::clone(&all);
                async move {
                    all.wait().await;
                    Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(ANSWER))))
                }
            });
            let mut http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // The gateway hangs up when the test is over.
            drop(http2.max_concurrent_streams(2).serve_connection(TokioIo::new(stream), service).await);
        }
    })
    .await;
    let world = world(&url, "").await;
    let request = chat("gpt-4o", false);
    let answers = join_all((0..10).map(|_| world.post(&request))).await;
    assert_unnoticed(&world, &answers);
    let connections = connections.load(Ordering::SeqCst);
    assert!((5..10).contains(&connections), "two share one: {connections}");
}

fn event(choice: &Value) -> String {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// C083 (v): a stream that is reset in its middle is a cut, which the client is told; its neighbour goes on.
#[tokio::test]
async fn a_stream_that_is_reset_in_its_middle_is_a_cut_for_itself_alone() {
    let words = event(&json!({"index": 0, "delta": {"content": "a answers"}, "finish_reason": null}));
    let end = event(&json!({"index": 0, "delta": {}, "finish_reason": "stop"}));
    let (url, connections) = provider(move |_, stream| {
        let (words, end) = (words.clone(), end.clone());
        async move {
            let mut frames = Frames::accept(stream, None).await;
            let (cut, whole) = (frames.next_request().await.unwrap(), frames.next_request().await.unwrap());
            for stream in [cut, whole] {
                frames.respond_head(stream).await;
                frames.write(DATA, 0, stream, words.as_bytes()).await;
            }
            frames.reset_stream(cut, CANCEL).await;
            frames.write(DATA, crate::frames::END_STREAM, whole, end.as_bytes()).await;
            while frames.read().await.is_some() {}
        }
    })
    .await;
    let world = world(&url, "").await;
    let request = chat("gpt-4o", true);
    let answers = join_all((0..2).map(|_| world.post(&request))).await;
    let (whole, cut): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.is_done_once());
    assert_eq!((whole.len(), cut.len(), connections.load(Ordering::SeqCst)), (1, 1, 1));
    assert_eq!(whole[0].finish_reasons(), ["stop"]);
    assert_broken_off(cut[0]);
    assert_eq!(world.entry(cut[0]).terminal, "partial");
    assert_eq!(world.sim(0).calls(), 0, "after the first output nobody else is asked");
}

/// C083 (i): a connection that has died without a word costs one request its limit, and no other one anything.
#[tokio::test]
async fn a_connection_that_died_silently_is_not_used_again() {
    let (url, connections) = provider(|number, stream| async move {
        let mut frames = Frames::accept(stream, None).await;
        if number > 0 {
            return answer_all(frames).await;
        }
        let first = frames.next_request().await.unwrap();
        frames.respond(first, ANSWER).await;
        // Nothing is read any more, nothing said, and nothing closed.
        std::future::pending::<()>().await;
    })
    .await;
    let world = world(&url, ", budget: { response: 500ms }").await;
    let request = chat("gpt-4o", false);
    assert_unnoticed(&world, &[world.post(&request).await]);
    let failed_over = world.post(&request).await;
    assert_whole_from(&failed_over, "b");
    assert_eq!(failed_over.header("x-pointsman-reason"), Some("a:timeout>b"));
    assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 1);
    let next = world.post(&request).await;
    assert_whole_from(&next, "a");
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}
