//! The tap: a decoder that looks at a stream's events while their bytes pass by unchanged.
//!
//! The order of events is that of the Anthropic API ("Streaming messages"). What commits is what a reader would
//! see: text, thinking, a citation, the input of a tool call. Not yet the start of a block without content (it
//! is repeated whole by whoever answers instead), and not a signature, which nobody sees. But a block of a kind
//! that is not known to be empty commits, and so does the call of a tool that the provider itself executes: what
//! it does must not be done again elsewhere.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::usage::Counts;
use crate::chat::Usage;
use crate::dialect::{ChunkFacts, ChunkKind};
use crate::error::UpstreamError;
use crate::json::{self, is_falsy, visible, word};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    /// A message; in a bare error a text.
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
}

/// What an open block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Tool,
    Other,
}

/// No more blocks than this are open at a time; by the specification it is one.
const MAX_OPEN: usize = 64;

/// The state of one stream that is being watched.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    started: bool,
    open: Vec<(u64, Open)>,
    called_tool: bool,
    finished: bool,
    done: bool,
    counts: Counts,
    usage: Option<Usage>,
    model: Option<String>,
    malformed: u64,
    output_chars: u64,
}

impl StreamDecoder {
    /// A decoder for one stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at one event: its name, if it has one, and its data.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> ChunkFacts {
        let data = data.trim_ascii();
        // vLLM ends its Messages streams so too; without a stop reason it ends nothing.
        if data == b"[DONE]" && self.finished {
            self.done = true;
            return ChunkFacts::of(ChunkKind::Done);
        }
        if let Some(event) = parse(data) {
            return self.take(&event, name, data);
        }
        if let Some(data) = json::without_duplicates(data)
            && let Some(event) = parse(&data)
        {
            return self.take(&event, name, &data);
        }
        if name == Some(b"error") {
            return ChunkFacts::of(ChunkKind::Error(unreadable()));
        }
        self.bad_event(name)
    }

    /// `message_start` was seen.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    /// A stop reason was seen.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// `message_stop` was seen.
    #[must_use]
    pub fn done(&self) -> bool {
        self.done
    }

    /// A block that calls a tool is open.
    #[must_use]
    pub fn tool_call_open(&self) -> bool {
        self.open.iter().any(|(_, kind)| *kind == Open::Tool)
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

    /// The provider's model name.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
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

impl StreamDecoder {
    fn take(&mut self, event: &Event<'_>, name: Option<&[u8]>, data: &[u8]) -> ChunkFacts {
        let kind = event.kind.and_then(word).or_else(|| std::str::from_utf8(name?).ok().map(str::to_owned));
        let kind = kind.as_deref();
        if let Some(error) = error_of(event, kind, name, data) {
            return ChunkFacts::of(ChunkKind::Error(error));
        }
        match kind {
            Some("message_start") => self.start(event),
            // Without its start nothing of a message can be read: SDKs fail on it.
            Some(kind)
                if !self.started && (kind.starts_with("content_block_") || kind.starts_with("message_")) =>
            {
                self.bad_event(name)
            }
            Some("content_block_start") => self.open(event),
            Some("content_block_delta") => self.delta(event, name),
            Some("content_block_stop") => {
                let index = index(event);
                self.open.retain(|(open, _)| *open != index);
                ChunkFacts::of(ChunkKind::Preamble)
            }
            Some("message_delta") => self.message_delta(event),
            Some("message_stop") => {
                self.done = true;
                ChunkFacts::of(ChunkKind::Done)
            }
            None => self.bad_event(name),
            // A ping, or an event of a kind that is not known yet.
            Some(_) => ChunkFacts::of(ChunkKind::Preamble),
        }
    }

    fn start(&mut self, event: &Event<'_>) -> ChunkFacts {
        if self.started {
            // Two answers in one stream: whoever reads on gets them glued together.
            let words = "the provider began a second message in the same stream";
            return ChunkFacts::of(ChunkKind::Error(UpstreamError::of_kind("api_error", words)));
        }
        let message =
            event.message.and_then(|message| serde_json::from_str::<Message<'_>>(message.get()).ok());
        let Some(message) = message else { return self.bad_event(None) };
        self.started = true;
        let usage = self.take_usage(message.usage);
        self.model = message.model.and_then(word);
        let bytes = visible(message.content);
        ChunkFacts { usage, model: self.model.clone(), ..self.output(bytes) }
    }

    fn open(&mut self, event: &Event<'_>) -> ChunkFacts {
        let Some(block) = &event.content_block else { return self.bad_event(None) };
        let kind = block.kind.and_then(word).unwrap_or_default();
        let (open, bytes) = match kind.as_str() {
            "text" => (Open::Text, visible(block.text)),
            "thinking" => (Open::Other, visible(block.thinking)),
            "tool_use" => (Open::Tool, visible(block.input)),
            // The provider executes it; that it began is enough.
            "server_tool_use" | "mcp_tool_use" => (Open::Tool, visible(block.input).max(1)),
            // Whole in its start: redacted thinking, the results of tools, kinds not known yet.
            _ => (Open::Other, 1),
        };
        self.called_tool |= open == Open::Tool;
        if self.open.len() < MAX_OPEN {
            self.open.push((index(event), open));
        }
        self.output(bytes)
    }

    fn delta(&mut self, event: &Event<'_>, name: Option<&[u8]>) -> ChunkFacts {
        let Some(delta) = &event.delta else { return self.bad_event(name) };
        let kind = delta.kind.and_then(word).unwrap_or_default();
        let bytes = match kind.as_str() {
            "text_delta" => visible(delta.text),
            "thinking_delta" => visible(delta.thinking),
            "input_json_delta" => visible(delta.partial_json),
            "signature_delta" => 0,
            // Citations, and kinds not known yet.
            _ => 1,
        };
        self.output(bytes)
    }

    fn message_delta(&mut self, event: &Event<'_>) -> ChunkFacts {
        let usage = self.take_usage(event.usage);
        let reason = event.delta.as_ref().and_then(|delta| delta.stop_reason).and_then(word);
        let finish = reason.is_some();
        self.finished |= finish;
        let kind = if finish { ChunkKind::Finish } else { ChunkKind::Preamble };
        ChunkFacts { finish, usage, ..ChunkFacts::of(kind) }
    }

    fn output(&mut self, bytes: u64) -> ChunkFacts {
        self.output_chars += bytes;
        let kind = if bytes > 0 { ChunkKind::Output } else { ChunkKind::Preamble };
        let output_tokens_estimate = u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
        ChunkFacts { output_tokens_estimate, ..ChunkFacts::of(kind) }
    }

    fn take_usage(&mut self, usage: Option<&RawValue>) -> Option<Usage> {
        self.counts.take(usage?.get());
        self.usage = self.counts.usage();
        self.usage
    }

    /// Only a delta of plain text is expendable. Its name must say that it was one: another lost event would break
    /// the frame. And thinking with a hole no longer fits its signature, so that the next turn would be refused.
    fn bad_event(&mut self, name: Option<&[u8]>) -> ChunkFacts {
        self.malformed += 1;
        let in_text = !self.open.is_empty() && self.open.iter().all(|(_, kind)| *kind == Open::Text);
        let expendable = name == Some(b"ping") || (in_text && name == Some(b"content_block_delta"));
        ChunkFacts { expendable, ..ChunkFacts::of(ChunkKind::Malformed) }
    }
}

/// An event's data; a list would pass for a struct, so the brace is asked for.
fn parse(data: &[u8]) -> Option<Event<'_>> {
    data.starts_with(b"{").then(|| serde_json::from_slice(data).ok()).flatten()
}

fn index(event: &Event<'_>) -> u64 {
    event.index.and_then(|index| index.get().parse().ok()).unwrap_or(0)
}

/// An error that an event reports: by its name, its type, or an `error` in it. llama.cpp sends the error object
/// itself as the data of an event named `error`; others send an error without any type.
fn error_of(
    event: &Event<'_>,
    kind: Option<&str>,
    name: Option<&[u8]>,
    data: &[u8],
) -> Option<UpstreamError> {
    let holds_error = event.error.is_some_and(|error| !is_falsy(error.get()));
    if holds_error || kind == Some("error") || name == Some(b"error") {
        return Some(UpstreamError::parse(data).unwrap_or_else(unreadable));
    }
    let message_is_text = event.message.is_some_and(|message| message.get().starts_with('"'));
    if kind.is_none() || message_is_text { UpstreamError::parse(data) } else { None }
}

fn unreadable() -> UpstreamError {
    UpstreamError::of_kind("api_error", "the provider reported an error that cannot be read")
}
