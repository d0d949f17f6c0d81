//! The tap over a stream of typed events: images that become clearer, speech and transcripts in parts (OpenAI API
//! reference, streaming events of `/images`, `/audio/speech` and `/audio/transcriptions`).
//!
//! Each event is an object with a `type`: `….partial_image`, `….delta` and the like are output, `….completed` and
//! `….done` are output and the end, and have the usage.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat::Usage;
use crate::dialect::{ChunkFacts, ChunkKind};
use crate::error::UpstreamError;
use crate::json::{self, is_falsy};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The state of one stream that is being watched.
#[derive(Debug, Default)]
pub struct EventTap {
    finished: bool,
    done: bool,
    usage: Option<Usage>,
    malformed: u64,
    output_chars: u64,
}

impl EventTap {
    /// A tap for one stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the data of one event.
    pub fn event(&mut self, data: &[u8]) -> ChunkFacts {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return ChunkFacts::of(ChunkKind::Done);
        }
        let event = Some(data).filter(|data| data.starts_with(b"{"));
        let Some(event) = event.and_then(|data| serde_json::from_slice::<Event<'_>>(data).ok()) else {
            self.malformed += 1;
            return ChunkFacts::of(ChunkKind::Malformed);
        };
        self.take(&event, data)
    }

    fn take(&mut self, event: &Event<'_>, data: &[u8]) -> ChunkFacts {
        let kind = event.kind.and_then(|kind| json::text(kind.get().as_bytes())).unwrap_or_default();
        if let Some(error) = error_of(event, &kind, data) {
            return ChunkFacts::of(ChunkKind::Error(error));
        }
        if kind.is_empty() {
            self.malformed += 1;
            return ChunkFacts::of(ChunkKind::Malformed);
        }
        let usage = event.usage.and_then(|usage| Usage::parse(usage.get()));
        self.usage = usage.or(self.usage);
        let finish = kind.ends_with(".completed") || kind.ends_with(".done");
        self.finished |= finish;
        let bytes = data.len() as u64;
        self.output_chars += bytes;
        let output_tokens_estimate = u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
        ChunkFacts { finish, usage, output_tokens_estimate, ..ChunkFacts::of(ChunkKind::Output) }
    }

    /// The last event was seen.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// `[DONE]` was seen; these streams need none.
    #[must_use]
    pub fn done(&self) -> bool {
        self.done
    }

    /// The last token counts seen.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// How many events were malformed.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// How much output there was, in bytes as they stand in the JSON.
    #[must_use]
    pub fn output_chars(&self) -> u64 {
        self.output_chars
    }
}

/// An error by an `error` key, by `"type": "error"`, or by being an error object itself.
fn error_of(event: &Event<'_>, kind: &str, data: &[u8]) -> Option<UpstreamError> {
    let unreadable = || UpstreamError::of_kind("error", "the provider reported an error that cannot be read");
    if let Some(error) = event.error.filter(|error| !is_falsy(error.get())) {
        let wrapped = format!("{{\"error\":{}}}", error.get());
        return Some(UpstreamError::parse(wrapped.as_bytes()).unwrap_or_else(unreadable));
    }
    if kind == "error" {
        return Some(UpstreamError::parse(data).unwrap_or_else(unreadable));
    }
    if kind.is_empty() { UpstreamError::parse(data) } else { None }
}
