//! The tap: a decoder that looks at a stream's chunks while their bytes pass by unchanged.
//!
//! What commits is what a reader would see: text, a thought, a call, whatever part is none of the signs that nobody sees
//! (a signature, an empty text). A prompt that is blocked is answered so, and no error.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::finish::is_failure;
use super::usage::Counts;
use crate::chat::Usage;
use crate::dialect::{ChunkFacts, ChunkKind};
use crate::error::UpstreamError;
use crate::json::{self, Scanner, is_falsy, word};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    model_version: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    index: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow)]
    block_reason: Option<&'a RawValue>,
}

impl Chunk<'_> {
    /// Why the prompt is blocked, if it is.
    pub(super) fn blocked(&self) -> Option<String> {
        self.prompt_feedback.as_ref().and_then(|feedback| feedback.block_reason).and_then(word)
    }

    pub(super) fn candidates(&self) -> &[Candidate<'_>] {
        self.candidates.as_deref().unwrap_or_default()
    }

    /// The provider's model name.
    pub(super) fn model(&self) -> Option<String> {
        self.model_version.and_then(word)
    }

    /// Adds the token counts to those so far.
    pub(super) fn count(&self, counts: &mut Counts) -> Option<Usage> {
        counts.take(self.usage_metadata?.get());
        counts.usage()
    }

    /// An error that it reports: by an `error`, or by an end that is none.
    pub(super) fn error_of(&self, data: &[u8]) -> Option<UpstreamError> {
        if self.error.is_some_and(|error| !is_falsy(error.get())) {
            return Some(UpstreamError::parse(data).unwrap_or_else(unreadable));
        }
        let failed = self.candidates().iter().filter_map(Candidate::finish).find(|reason| is_failure(reason));
        failed.map(|reason| UpstreamError::of_kind(&reason, "the provider's model broke off its answer"))
    }
}

impl Candidate<'_> {
    /// Why it ended, if it did.
    pub(super) fn finish(&self) -> Option<String> {
        self.finish_reason.and_then(word).filter(|reason| reason != "FINISH_REASON_UNSPECIFIED")
    }

    /// What it says, in bytes as they stand in the JSON; and whether it calls a tool.
    pub(super) fn output(&self) -> (u64, bool) {
        let parts = self.content.as_ref().and_then(|content| content.parts.as_deref()).unwrap_or_default();
        parts
            .iter()
            .filter_map(|part| weigh(part.get()))
            .fold((0, false), |(bytes, called), part| (bytes.saturating_add(part.0), called || part.1))
    }

    fn index(&self) -> u64 {
        self.index.and_then(|index| index.get().parse().ok()).unwrap_or(0)
    }
}

/// What a reader would see of a part, in bytes, and whether it is a call.
fn weigh(part: &str) -> Option<(u64, bool)> {
    let mut scanner = Scanner::new(part.as_bytes(), usize::MAX);
    let (mut bytes, mut called, mut first) = (0_u64, false, true);
    scanner.open_object().ok()?;
    while let Some(key) = scanner.next_key(&mut first).ok()? {
        let value = scanner.skip_value().ok()?;
        let length = value.len() as u64;
        match json::text(scanner.slice(&key)).unwrap_or_default().as_ref() {
            "text" if scanner.slice(&value).starts_with(b"\"") => bytes = bytes.saturating_add(length - 2),
            // Nobody sees them.
            "text" | "thought" | "thoughtSignature" | "partMetadata" => {}
            other => {
                called |= other == "functionCall";
                if scanner.slice(&value) != b"null" {
                    bytes = bytes.saturating_add(length);
                }
            }
        }
    }
    Some((bytes, called))
}

/// More candidates than this are no answer.
const MAX_CANDIDATES: u64 = 64;

/// The state of one stream that is being watched.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    /// The candidates that were seen, and those that ended: a bit for each.
    seen: u64,
    ended: u64,
    blocked: bool,
    called_tool: bool,
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

    /// Looks at the data of one event.
    pub fn event(&mut self, data: &[u8]) -> ChunkFacts {
        let data = data.trim_ascii();
        // Proxies that know one dialect only end every stream so; without an end of the answer it ends nothing.
        if data == b"[DONE]" && self.finished() {
            self.done = true;
            return ChunkFacts::of(ChunkKind::Done);
        }
        if let Some(chunk) = parse(data) {
            return self.take(&chunk, data);
        }
        if let Some(data) = json::without_duplicates(data)
            && let Some(chunk) = parse(&data)
        {
            return self.take(&chunk, &data);
        }
        // Without SSE an error comes in a list; some send it so in a stream too.
        if data.starts_with(b"[")
            && let Some(error) = UpstreamError::parse(data)
        {
            return ChunkFacts::of(ChunkKind::Error(error));
        }
        self.malformed += 1;
        ChunkFacts::of(ChunkKind::Malformed)
    }

    /// Each candidate that was seen has ended, or the prompt is blocked.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.blocked || (self.seen != 0 && self.seen == self.ended)
    }

    /// An end marker was seen; the dialect itself has none.
    #[must_use]
    pub fn done(&self) -> bool {
        self.done
    }

    /// Never: a call comes whole.
    #[must_use]
    pub fn tool_call_open(&self) -> bool {
        false
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

    fn take(&mut self, chunk: &Chunk<'_>, data: &[u8]) -> ChunkFacts {
        if let Some(error) = chunk.error_of(data) {
            return ChunkFacts::of(ChunkKind::Error(error));
        }
        let usage = chunk.count(&mut self.counts);
        self.usage = usage.or(self.usage);
        let new_model = self.model.is_none().then(|| chunk.model()).flatten();
        self.model = self.model.take().or_else(|| new_model.clone());
        let mut finish = chunk.blocked().is_some();
        self.blocked |= finish;
        let mut bytes = 0_u64;
        for candidate in chunk.candidates() {
            let bit = 1_u64 << candidate.index().min(MAX_CANDIDATES - 1);
            let (output, called) = candidate.output();
            bytes = bytes.saturating_add(output);
            self.called_tool |= called;
            self.seen |= bit;
            if candidate.finish().is_some() {
                self.ended |= bit;
                finish = true;
            }
        }
        self.output_chars = self.output_chars.saturating_add(bytes);
        let kind = match (bytes, finish) {
            (0, true) => ChunkKind::Finish,
            (0, false) => ChunkKind::Preamble,
            _ => ChunkKind::Output,
        };
        let output_tokens_estimate = u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
        ChunkFacts { finish, usage, model: new_model, output_tokens_estimate, ..ChunkFacts::of(kind) }
    }
}

/// A chunk's data; a list would pass for a struct, so the brace is asked for.
pub(super) fn parse(data: &[u8]) -> Option<Chunk<'_>> {
    data.starts_with(b"{").then(|| serde_json::from_slice(data).ok()).flatten()
}

fn unreadable() -> UpstreamError {
    UpstreamError::of_kind("INTERNAL", "the provider reported an error that cannot be read")
}
