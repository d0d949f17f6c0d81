//! The tap: a decoder that looks at a stream's events while their bytes pass by.
//!
//! Each event is parsed partly and by reference: whether a value is there matters, not what it says.

pub(super) mod steady;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Usage, is_failure};
use crate::dialect::{ChunkFacts, ChunkKind};
use crate::error::UpstreamError;
use crate::json::{self, is_falsy};
use steady::{Name, rewritten};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    created: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    x_groq: Option<Groq<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A member as it stands there, `null` too.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
struct Groq<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    /// In place of a delta, in Completions.
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    #[serde(borrow)]
    images: Option<&'a RawValue>,
}

impl Delta<'_> {
    /// The bytes of output in it, as they stand in the JSON without quotes.
    fn output_bytes(&self) -> u64 {
        let parts = [
            self.content,
            self.reasoning_content.or(self.reasoning).or(self.reasoning_details),
            self.refusal,
            self.tool_calls,
            self.function_call,
            self.audio,
            self.images,
        ];
        parts.into_iter().flatten().filter(|part| !is_falsy(part.get())).map(|part| visible(part.get())).sum()
    }

    fn calls_tool(&self) -> bool {
        [self.tool_calls, self.function_call].into_iter().flatten().any(|call| !is_falsy(call.get()))
    }
}

fn visible(json: &str) -> u64 {
    let quotes = if json.starts_with('"') { 2 } else { 0 };
    (json.len() as u64).saturating_sub(quotes).max(1)
}

/// One choice of a stream, as far as it has come.
#[derive(Debug, Clone, Copy)]
struct ChoiceState {
    index: u64,
    finished: bool,
    called_tool: bool,
}

/// No stream has more choices than this (`n` is at most 128 with OpenAI).
const MAX_CHOICES: usize = 256;

/// The state of one stream that is being watched.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    choices: Vec<ChoiceState>,
    done: bool,
    usage: Option<Usage>,
    model: Option<String>,
    name: Name,
    named_tool: bool,
    texts: bool,
    malformed: u64,
    output_chars: u64,
}

impl StreamDecoder {
    /// A decoder for one stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The client chose a tool by its name: a call of it ends with `stop`, as OpenAI does it, and stays so.
    #[must_use]
    pub fn with_named_tool(mut self, named: bool) -> Self {
        self.named_tool = named;
        self
    }

    /// A stream of Completions: its choices hold texts.
    #[must_use]
    pub(crate) fn of_texts() -> Self {
        Self { texts: true, ..Self::default() }
    }

    /// Looks at the data of one event.
    pub fn event(&mut self, data: &[u8]) -> ChunkFacts {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return ChunkFacts::of(ChunkKind::Done);
        }
        if let Some(chunk) = chunk(data) {
            return self.take(&chunk, data);
        }
        if let Some(data) = json::without_duplicates(data)
            && let Some(chunk) = chunk(&data)
        {
            return self.take(&chunk, &data);
        }
        self.malformed += 1;
        ChunkFacts { expendable: !self.tool_call_open(), ..ChunkFacts::of(ChunkKind::Malformed) }
    }

    fn take(&mut self, chunk: &Chunk<'_>, data: &[u8]) -> ChunkFacts {
        let usage = self.take_usage(chunk);
        let model = self.take_model(chunk);
        let renamed = self.name.take(chunk.id, chunk.created, chunk.model);
        let mut facts = match error_of(chunk, data) {
            Some(error) => ChunkFacts::of(ChunkKind::Error(error)),
            None => self.choices(chunk.choices.as_deref().unwrap_or_default()),
        };
        if renamed || (facts.finish && self.stops_after_tools(chunk)) {
            let tools = |_, index| !self.named_tool && self.called_tool(index);
            facts.amended = rewritten(data, &self.name, &tools);
        }
        facts.usage_only = usage.is_some() && chunk.choices.as_ref().is_none_or(Vec::is_empty);
        facts.usage = usage;
        facts.model = model;
        facts
    }

    /// A finish reason was seen for every choice that was seen, and for at least one.
    #[must_use]
    pub fn finished(&self) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finished)
    }

    /// `[DONE]` was seen.
    #[must_use]
    pub fn done(&self) -> bool {
        self.done
    }

    /// A tool call has begun in a choice that has not finished.
    #[must_use]
    pub fn tool_call_open(&self) -> bool {
        self.choices.iter().any(|choice| choice.called_tool && !choice.finished)
    }

    /// A tool call was seen.
    #[must_use]
    pub fn tool_calls_seen(&self) -> bool {
        self.choices.iter().any(|choice| choice.called_tool)
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

    fn called_tool(&self, index: u64) -> bool {
        self.choices.iter().any(|choice| choice.index == index && choice.called_tool)
    }

    /// A choice that called a tool says that it simply stopped: an agent would not go on.
    fn stops_after_tools(&self, chunk: &Chunk<'_>) -> bool {
        let mut choices = chunk.choices.iter().flatten();
        !self.named_tool
            && choices.any(|choice| {
                self.called_tool(index(choice))
                    && finish_reason(choice).is_some_and(|reason| reason == "stop")
            })
    }

    fn take_usage(&mut self, chunk: &Chunk<'_>) -> Option<Usage> {
        let raw = chunk.usage.or_else(|| chunk.x_groq.as_ref().and_then(|groq| groq.usage))?;
        let usage = Usage::parse(raw.get())?;
        self.usage = Some(usage);
        Some(usage)
    }

    fn take_model(&mut self, chunk: &Chunk<'_>) -> Option<String> {
        if self.model.is_some() {
            return None;
        }
        let name = json::text(chunk.model?.get().as_bytes())?;
        if name.is_empty() {
            return None;
        }
        self.model = Some(name.into_owned());
        self.model.clone()
    }

    fn choices(&mut self, choices: &[Choice<'_>]) -> ChunkFacts {
        let mut bytes = 0;
        let mut finish = false;
        for choice in choices {
            let delta = choice.delta.as_ref();
            let text = choice.text.filter(|text| self.texts && !is_falsy(text.get()));
            bytes += delta.map_or(0, Delta::output_bytes) + text.map_or(0, |text| visible(text.get()));
            let ends = finish_reason(choice).is_some();
            finish |= ends;
            if let Some(state) = self.state(index(choice)) {
                state.called_tool |= delta.is_some_and(Delta::calls_tool);
                state.finished |= ends;
            }
        }
        self.output_chars += bytes;
        let kind = match (bytes > 0, finish) {
            (true, _) => ChunkKind::Output,
            (false, true) => ChunkKind::Finish,
            (false, false) => ChunkKind::Preamble,
        };
        let output_tokens_estimate = u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
        ChunkFacts { finish, output_tokens_estimate, ..ChunkFacts::of(kind) }
    }

    fn state(&mut self, index: u64) -> Option<&mut ChoiceState> {
        let at = self.choices.iter().position(|choice| choice.index == index);
        let at = at.unwrap_or_else(|| {
            if self.choices.len() < MAX_CHOICES {
                self.choices.push(ChoiceState { index, finished: false, called_tool: false });
            }
            self.choices.len() - 1
        });
        self.choices.get_mut(at)
    }
}

/// An event's data as a chunk; a list would pass for a struct, so the brace is asked for.
fn chunk(data: &[u8]) -> Option<Chunk<'_>> {
    data.starts_with(b"{").then(|| serde_json::from_slice(data).ok()).flatten()
}

fn index(choice: &Choice<'_>) -> u64 {
    choice.index.and_then(|index| index.get().parse().ok()).unwrap_or(0)
}

fn finish_reason<'a>(choice: &Choice<'a>) -> Option<std::borrow::Cow<'a, str>> {
    let reason: &'a RawValue = choice.finish_reason?;
    json::text(reason.get().as_bytes()).filter(|reason| !reason.is_empty())
}

/// An error that an event reports: by an `error` key (as SDKs read it: any value that is not empty), by a
/// finish reason that means failure, or by being an error object itself.
fn error_of(chunk: &Chunk<'_>, data: &[u8]) -> Option<UpstreamError> {
    let choices = chunk.choices.as_deref().unwrap_or_default();
    let in_choice = choices.iter().find_map(|choice| choice.error);
    if let Some(error) = chunk.error.or(in_choice).filter(|error| !is_falsy(error.get())) {
        let wrapped = format!("{{\"error\":{}}}", error.get());
        return Some(UpstreamError::parse(wrapped.as_bytes()).unwrap_or_else(unreadable));
    }
    let failed = choices.iter().filter_map(finish_reason).find(|reason| is_failure(reason));
    if let Some(reason) = failed {
        return Some(UpstreamError::of_kind(&reason, "the provider broke off its answer"));
    }
    if chunk.choices.is_none() && chunk.usage.is_none() { UpstreamError::parse(data) } else { None }
}

fn unreadable() -> UpstreamError {
    UpstreamError::of_kind("error", "the provider reported an error that cannot be read")
}
