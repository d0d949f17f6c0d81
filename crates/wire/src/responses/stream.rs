//! The tap: a decoder that looks at a stream's events while their bytes pass by unchanged.
//!
//! What commits is what a reader would see: text, thoughts, a refusal, a call's arguments; and what runs at the provider,
//! which must not be done again elsewhere. Not yet the beginning of a response or of an item.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat::Usage;
use crate::dialect::{ChunkFacts, ChunkKind, StreamFrame};
use crate::error::UpstreamError;
use crate::json::{self, is_falsy, visible, word};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    sequence_number: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<Item<'a>>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// The state of one stream that is being watched.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    id: String,
    created_s: u64,
    sequence: u64,
    open_calls: usize,
    open_items: usize,
    called_tool: bool,
    finished: bool,
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
        // Some servers end every stream so; without a terminal event it ends nothing.
        if data == b"[DONE]" {
            return ChunkFacts::of(ChunkKind::Preamble);
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

    /// The response is complete, or ended before the model was done.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// The last event was seen: it is the one that finishes.
    #[must_use]
    pub fn done(&self) -> bool {
        self.finished
    }

    /// A call has begun and is not complete.
    #[must_use]
    pub fn tool_call_open(&self) -> bool {
        self.open_calls > 0
    }

    /// A call was seen.
    #[must_use]
    pub fn tool_calls_seen(&self) -> bool {
        self.called_tool
    }

    /// The token counts, once they came.
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

    /// What an event that ends the stream with an error must repeat. The output so far is not kept here.
    #[must_use]
    pub fn frame(&self) -> StreamFrame {
        StreamFrame {
            id: self.id.clone(),
            model: self.model.clone().unwrap_or_default(),
            created_s: self.created_s,
            sequence: self.sequence,
            output: None,
        }
    }
}

impl StreamDecoder {
    fn take(&mut self, event: &Event<'_>, name: Option<&[u8]>, data: &[u8]) -> ChunkFacts {
        let kind = event.kind.and_then(word).or_else(|| std::str::from_utf8(name?).ok().map(str::to_owned));
        if let Some(error) = error_of(event, kind.as_deref(), data) {
            return ChunkFacts::of(ChunkKind::Error(error));
        }
        let Some(kind) = kind else { return self.bad_event(name) };
        self.sequence = number(event.sequence_number).map_or(self.sequence + 1, |given| given + 1);
        match kind.as_str() {
            "response.created" | "response.in_progress" | "response.queued" => self.lifecycle(event),
            "response.completed" | "response.incomplete" => {
                self.finished = true;
                let facts = self.lifecycle(event);
                ChunkFacts { kind: ChunkKind::Finish, finish: true, ..facts }
            }
            "response.output_item.added" => self.added(event),
            "response.output_item.done" => self.item_done(event),
            kind if kind.ends_with(".delta") => {
                self.output(visible(event.delta).max(u64::from(!is_known(kind))))
            }
            // What runs at the provider says so; the beginnings and ends of parts say nothing new.
            kind if runs_at_provider(kind) => self.output(1),
            _ => ChunkFacts::of(ChunkKind::Preamble),
        }
    }

    fn lifecycle(&mut self, event: &Event<'_>) -> ChunkFacts {
        let Some(response) = &event.response else { return ChunkFacts::of(ChunkKind::Preamble) };
        if self.id.is_empty() {
            self.id = response.id.and_then(word).unwrap_or_default();
            self.created_s = number(response.created_at).unwrap_or(0);
        }
        let news = self.model.is_none();
        self.model = self.model.take().or_else(|| response.model.and_then(word));
        let usage = response.usage.and_then(|usage| Usage::parse(usage.get()));
        self.usage = usage.or(self.usage);
        let model = self.model.clone().filter(|_| news);
        ChunkFacts { usage, model, ..ChunkFacts::of(ChunkKind::Preamble) }
    }

    fn added(&mut self, event: &Event<'_>) -> ChunkFacts {
        let kind = event.item.as_ref().and_then(|item| item.kind).and_then(word).unwrap_or_default();
        self.open_items += 1;
        match kind.as_str() {
            "function_call" | "custom_tool_call" => {
                self.open_calls += 1;
                self.called_tool = true;
                ChunkFacts::of(ChunkKind::Preamble)
            }
            "message" | "reasoning" => ChunkFacts::of(ChunkKind::Preamble),
            // It runs at the provider, or with the client at once: that it began is enough.
            _ => {
                self.called_tool = true;
                self.output(1)
            }
        }
    }

    fn item_done(&mut self, event: &Event<'_>) -> ChunkFacts {
        self.open_items = self.open_items.saturating_sub(1);
        let Some(item) = &event.item else { return ChunkFacts::of(ChunkKind::Preamble) };
        match item.kind.and_then(word).as_deref() {
            Some("function_call" | "custom_tool_call") => {
                self.open_calls = self.open_calls.saturating_sub(1);
                self.called_tool = true;
                self.output(1)
            }
            // Counted with its deltas, where there were any.
            Some("message") => self.output(visible(item.content).min(1)),
            Some("reasoning") => self.output(visible(item.summary).min(1)),
            _ => self.output(1),
        }
    }

    fn output(&mut self, bytes: u64) -> ChunkFacts {
        self.output_chars += bytes;
        let kind = if bytes > 0 { ChunkKind::Output } else { ChunkKind::Preamble };
        let output_tokens_estimate = u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
        ChunkFacts { output_tokens_estimate, ..ChunkFacts::of(kind) }
    }

    /// Only a delta of plain text is expendable, and what its name says: its text comes again whole.
    fn bad_event(&mut self, name: Option<&[u8]>) -> ChunkFacts {
        self.malformed += 1;
        let expendable = name == Some(b"response.output_text.delta") && self.open_calls == 0;
        ChunkFacts { expendable, ..ChunkFacts::of(ChunkKind::Malformed) }
    }
}

/// An event's data; a list would pass for a struct, so the brace is asked for.
fn parse(data: &[u8]) -> Option<Event<'_>> {
    data.starts_with(b"{").then(|| serde_json::from_slice(data).ok()).flatten()
}

/// Deltas of which it is known that an empty one says nothing.
fn is_known(kind: &str) -> bool {
    [
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
    ]
    .contains(&kind)
}

fn runs_at_provider(kind: &str) -> bool {
    let name = kind.strip_prefix("response.").unwrap_or_default();
    name.split_once('.').is_some_and(|(item, _)| item.ends_with("_call") || item == "mcp_list_tools")
}

fn number(raw: Option<&RawValue>) -> Option<u64> {
    let text = raw?.get();
    text.parse()
        .ok()
        .or_else(|| text.parse::<f64>().ok().filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64))
}

/// An error that an event reports: a response that failed or was cancelled, an `error` event (flat, as it is documented, or
/// with an object in it), or an error without any type, as llama.cpp sends it.
fn error_of(event: &Event<'_>, kind: Option<&str>, data: &[u8]) -> Option<UpstreamError> {
    let response = event.response.as_ref();
    let status = response.and_then(|response| response.status).and_then(word);
    let failed = kind == Some("response.failed") || matches!(status.as_deref(), Some("failed" | "cancelled"));
    if failed {
        let error = response.and_then(|response| response.error).filter(|error| !is_falsy(error.get()));
        let parsed = error.and_then(|error| UpstreamError::parse(error.get().as_bytes()));
        return Some(parsed.unwrap_or_else(unreadable));
    }
    let holds_error = event.error.is_some_and(|error| !is_falsy(error.get()));
    if holds_error || kind == Some("error") {
        let mut error = UpstreamError::parse(data).unwrap_or_else(unreadable);
        // In a flat event that is the event's own type and number.
        error.kind = error.kind.filter(|kind| kind != "error");
        error.extra.remove("sequence_number");
        return Some(error);
    }
    None
}

fn unreadable() -> UpstreamError {
    UpstreamError::of_kind("server_error", "the provider reported an error that cannot be read")
}
