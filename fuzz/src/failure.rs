//! Error answers.

use std::time::Duration;

use pointsman_wire::classify::{Headers, classify};
use pointsman_wire::dialect::Dialect;
use pointsman_wire::error::{ErrorView, UpstreamError, mask_credentials};
use pointsman_wire::guidance::{rate_headroom, retry_after};
use pointsman_wire::provider::providers;
use pointsman_wire::sse::SseDecoder;
use serde_json::Value;

/// The longest wait that is believed, in seconds: about three years.
const LONGEST: u64 = 100_000_000;

/// A moment in 2026, in milliseconds.
const NOW: i64 = 1_790_000_000_000;

/// The input is an answer: a line with the status, lines with headers, a blank line, the body.
///
/// # Panics
/// If guidance is beyond all reason, or if an error for the client is no JSON or more than one event.
pub fn check(input: &[u8]) {
    let (head, body) = match input.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&input[..at], &input[at + 2..]),
        None => (&b""[..], input),
    };
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.trim().parse().ok());
    let headers = Lines(lines.filter_map(|line| line.split_once(": ")).collect());
    let error = UpstreamError::parse(body);
    for now in [NOW, 0, i64::MIN, i64::MAX] {
        let message = error.as_ref().map(|error| error.message.as_str());
        wait_is_bounded(retry_after(&headers, message, now));
    }
    assert!(rate_headroom(&headers).is_none_or(|room| (0.0..=1.0).contains(&room)));
    for provider in providers() {
        let classified = classify(provider, status, &headers, body, NOW);
        assert!(!classified.rule.is_empty());
        assert_eq!(classified.error, error);
        wait_is_bounded(classified.retry_after);
    }
    if let Some(error) = error {
        said_to_client(&error.masked(), status.unwrap_or(500));
    }
    drop(mask_credentials(&String::from_utf8_lossy(body)));
}

/// # Panics
/// If it is longer than about three years.
pub fn wait_is_bounded(wait: Option<Duration>) {
    assert!(wait.is_none_or(|wait| wait <= Duration::from_secs(LONGEST)), "{wait:?}");
}

/// Response headers.
struct Lines<'a>(Vec<(&'a str, &'a str)>);

impl Headers for Lines<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

fn said_to_client(error: &UpstreamError, status: u16) {
    for dialect in Dialect::ALL {
        let kind = dialect.error_kind(error.kind.as_deref(), status);
        let view = ErrorView {
            status,
            message: &error.message,
            kind: kind.as_deref(),
            param: error.param.as_deref(),
            code: error.code.as_deref(),
            extra: Some(&error.extra),
        };
        let body = dialect.error_body(&view, Some("id"), None);
        let value: Value = serde_json::from_slice(&body).expect("an error body is JSON");
        assert!(value.get("error").is_some_and(|error| error["message"].is_string()));
        let mut decoder = SseDecoder::new(1 << 20);
        decoder.push(dialect.error_event(&view, Some("id"), None, None));
        if dialect == Dialect::Responses {
            // A response that failed, and before it the one that was begun.
            decoder.next_event().expect("within its limit").expect("an event");
        }
        let event = decoder.next_event().expect("within its limit").expect("an event");
        let data: Value = serde_json::from_slice(&event.data).expect("an error event is JSON");
        if dialect == Dialect::Responses {
            assert_eq!(data["response"]["error"]["message"], value["error"]["message"]);
        } else {
            assert_eq!(data, value, "the event says what the body says");
        }
        assert_eq!(decoder.finish(), Ok(None), "an error is one event");
    }
}
