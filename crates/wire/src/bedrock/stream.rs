//! The tap: a decoder that looks at a stream's events while they pass by.
//!
//! What commits is what a reader would see: text, thoughts, the input of a tool call. Not yet the start of a call (it is
//! repeated whole by whoever answers instead), and not a signature, which nobody sees. But a piece of a kind that is not known
//! commits. What the answer took comes after its end, in `metadata`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::broken_off;
use super::frames::{ERROR, EXCEPTION};
use super::is_failure;
use super::usage::usage;
use crate::chat::Usage;
use crate::dialect::{ChunkFacts, ChunkKind};
use crate::error::UpstreamError;
use crate::json::{Members, visible, word};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow)]
    content_block_index: Option<&'a RawValue>,
    #[serde(borrow)]
    start: Option<Start<'a>>,
    #[serde(borrow)]
    delta: Option<Members<'a>>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow)]
    tool_use: Option<&'a RawValue>,
}

/// No more calls than this are open at a time; in practice it is one.
const MAX_OPEN: usize = 64;

/// The state of one stream that is being watched.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    started: bool,
    /// The calls that are open, by the index of their block.
    calls: Vec<u64>,
    called_tool: bool,
    finished: bool,
    done: bool,
    usage: Option<Usage>,
    malformed: u64,
    output_chars: u64,
}

impl StreamDecoder {
    /// A decoder for one stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at one event: its name and its data.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> ChunkFacts {
        let name = name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
        if let Some(kind) = name.strip_prefix(EXCEPTION).or_else(|| name.strip_prefix(ERROR)) {
            return ChunkFacts::of(ChunkKind::Error(failure(kind, data)));
        }
        match parse(data) {
            Some(event) => self.take(name, &event),
            None => self.bad_event(),
        }
    }

    /// `messageStart` was seen.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    /// A stop reason was seen.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// What follows the end was seen: nothing more comes.
    #[must_use]
    pub fn done(&self) -> bool {
        self.done
    }

    /// A block that calls a tool is open.
    #[must_use]
    pub fn tool_call_open(&self) -> bool {
        !self.calls.is_empty()
    }

    /// A tool call was seen.
    #[must_use]
    pub fn tool_calls_seen(&self) -> bool {
        self.called_tool
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

    fn take(&mut self, name: &str, event: &Event<'_>) -> ChunkFacts {
        match name {
            "messageStart" if self.started => {
                // Two answers in one stream: whoever reads on gets them glued together.
                let words = "the provider began a second message in the same stream";
                ChunkFacts::of(ChunkKind::Error(UpstreamError::of_kind("internalServerException", words)))
            }
            "messageStart" => {
                self.started = true;
                ChunkFacts::of(ChunkKind::Preamble)
            }
            // Without its start nothing of a message can be read.
            name if !self.started && (name.starts_with("contentBlock") || name == "messageStop") => {
                self.bad_event()
            }
            "contentBlockStart" => self.open(event),
            "contentBlockDelta" => self.delta(event),
            "contentBlockStop" => {
                let index = index(event);
                self.calls.retain(|open| *open != index);
                ChunkFacts::of(ChunkKind::Preamble)
            }
            "messageStop" => self.stop(event),
            "metadata" => {
                let counted = event.usage.and_then(|json| usage(json.get()));
                self.usage = counted.or(self.usage);
                self.done = self.finished;
                ChunkFacts { usage: counted, ..ChunkFacts::of(ChunkKind::Preamble) }
            }
            _ => ChunkFacts::of(ChunkKind::Preamble),
        }
    }

    fn open(&mut self, event: &Event<'_>) -> ChunkFacts {
        let Some(start) = &event.start else { return self.bad_event() };
        if start.tool_use.is_none() {
            // A kind that is not known to be empty.
            return self.output(1);
        }
        self.called_tool = true;
        if self.calls.len() < MAX_OPEN {
            self.calls.push(index(event));
        }
        ChunkFacts::of(ChunkKind::Preamble)
    }

    fn delta(&mut self, event: &Event<'_>) -> ChunkFacts {
        let Some(delta) = &event.delta else { return self.bad_event() };
        let mut bytes = 0_u64;
        for (key, value) in delta.iter() {
            bytes += match key {
                "text" => visible(Some(value)),
                "toolUse" | "reasoningContent" => {
                    inner(value, if key == "toolUse" { "input" } else { "text" })
                }
                _ => 1,
            };
        }
        self.output(bytes)
    }

    fn stop(&mut self, event: &Event<'_>) -> ChunkFacts {
        let Some(reason) = event.stop_reason.and_then(word) else { return self.bad_event() };
        if is_failure(&reason) {
            return ChunkFacts::of(ChunkKind::Error(broken_off(&reason)));
        }
        self.finished = true;
        ChunkFacts { finish: true, ..ChunkFacts::of(ChunkKind::Finish) }
    }

    fn output(&mut self, bytes: u64) -> ChunkFacts {
        self.output_chars = self.output_chars.saturating_add(bytes);
        let kind = if bytes > 0 { ChunkKind::Output } else { ChunkKind::Preamble };
        let output_tokens_estimate = u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
        ChunkFacts { output_tokens_estimate, ..ChunkFacts::of(kind) }
    }

    /// A frame with a good checksum that cannot be read is no accident on the way: nothing of it is expendable.
    fn bad_event(&mut self) -> ChunkFacts {
        self.malformed += 1;
        ChunkFacts::of(ChunkKind::Malformed)
    }
}

/// What a reader would see of a piece of a call or of thoughts.
fn inner(value: &RawValue, seen: &str) -> u64 {
    let Ok(members) = Members::of(value, "") else { return 1 };
    let each = members.iter().map(|(key, value)| match key {
        key if key == seen => visible(Some(value)),
        "signature" => 0,
        // Redacted thoughts, and kinds not known yet.
        _ => 1,
    });
    each.sum()
}

/// An event's data; a list would pass for a struct, so the brace is asked for.
fn parse(data: &[u8]) -> Option<Event<'_>> {
    data.starts_with(b"{").then(|| serde_json::from_slice(data).ok()).flatten()
}

fn index(event: &Event<'_>) -> u64 {
    event.content_block_index.and_then(|index| index.get().parse().ok()).unwrap_or(0)
}

fn failure(kind: &str, data: &[u8]) -> UpstreamError {
    let error = UpstreamError::parse(data).unwrap_or_else(|| {
        UpstreamError::of_kind(kind, "the provider reported an error that cannot be read")
    });
    UpstreamError { kind: Some(kind.to_owned()), ..error }
}
