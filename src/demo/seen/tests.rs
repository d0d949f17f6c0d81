use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::Seen;
use crate::client::Answer;

fn seen(content_type: &'static str, body: &'static str) -> Seen {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(content_type));
    headers.insert("x-pointsman-target", HeaderValue::from_static("north"));
    let answer = Answer { status: StatusCode::OK, headers, body: Bytes::from_static(body.as_bytes()) };
    Seen::new(answer, Duration::from_millis(7))
}

#[test]
fn two_answers_in_one_stream_are_noticed() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"This is north: a\"}}]}\n\n\
                  data: {\"choices\":[{\"delta\":{\"content\":\" This is south: b\"}}]}\n\ndata: [DONE]\n\n";
    let spliced = seen("text/event-stream", stream);
    assert!(!spliced.is_from("north"));
    assert!(!spliced.is_from("south"));
    assert_eq!(spliced.done(), 1);
}

#[test]
fn an_error_event_is_found_where_it_ends_the_stream() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"This is north: a\"}}]}\n\n\
                  data: {\"error\":{\"message\":\"broken\",\"code\":\"x\"},\"pointsman\":{\"terminal\":\"partial\"}}\n\n";
    let broken = seen("text/event-stream; charset=utf-8", stream);
    assert!(broken.is_from("north"));
    assert!(broken.ends_with_error());
    assert_eq!(broken.errors().len(), 1);
    assert_eq!(broken.error("/pointsman/terminal"), "partial");
    assert_eq!(broken.done(), 0);
}

#[test]
fn a_plain_answer_shows_its_text_and_who_it_is_from() {
    let plain = seen("application/json", "{\"choices\":[{\"message\":{\"content\":\"This is north: a\"}}]}");
    assert!(plain.is_from("north"));
    assert_eq!(plain.headers(), "x-pointsman-{target: north}");
    assert_eq!(plain.line(), "200 answer in 7 ms: \"This is north: a\"");
}
