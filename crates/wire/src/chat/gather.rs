//! A plain answer gathered from a provider's stream.

mod choice;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use super::stream::StreamDecoder;
use super::{BadCompletion, Usage};
use crate::dialect::ChunkKind;
use crate::error::UpstreamError;
use choice::ChoiceParts;

/// Why no answer can be gathered. Nothing has reached the client: another target may still be tried.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GatherError {
    /// The answer is larger than allowed.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The provider reported an error.
    #[error("the provider reported an error in its stream")]
    Upstream(UpstreamError),
    /// An event that is no chunk.
    #[error("the provider's stream holds an event that cannot be read")]
    Malformed,
    /// The stream ended before each choice had finished.
    #[error("the provider's stream ended before its answer was complete")]
    Unfinished,
    /// The stream ended without any choice.
    #[error("the provider's stream has no choices")]
    NoChoices,
    /// The stream ended without any message.
    #[error("the provider's stream has no message")]
    NoMessage,
}

impl From<BadCompletion> for GatherError {
    fn from(bad: BadCompletion) -> Self {
        match bad {
            BadCompletion::ErrorObject(error) => Self::Upstream(error),
            BadCompletion::NoChoices | BadCompletion::Empty => Self::NoChoices,
            BadCompletion::NoContent | BadCompletion::Lacks(_) => Self::NoMessage,
            BadCompletion::Html | BadCompletion::NotJson => Self::Malformed,
        }
    }
}

/// Collects a stream into a `chat.completion`.
///
/// Texts are joined under the names they came by; tool calls are merged by index (a missing index, id or type
/// is made up for); what is unknown is kept: lists are joined, of other values the last one stays.
#[derive(Debug)]
pub struct Gather {
    limit: usize,
    kept: usize,
    tap: StreamDecoder,
    /// Top-level members other than `choices`.
    head: Map<String, Value>,
    choices: BTreeMap<u64, ChoiceParts>,
}

/// More choices than this are no answer.
const MAX_CHOICES: usize = 128;

impl Gather {
    /// Collects at most about `max_bytes` of answer.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            limit: max_bytes,
            kept: 0,
            tap: StreamDecoder::new(),
            head: Map::new(),
            choices: BTreeMap::new(),
        }
    }

    /// The state of the stream so far.
    #[must_use]
    pub fn tap(&self) -> &StreamDecoder {
        &self.tap
    }

    /// The last token counts seen.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        self.tap.usage()
    }

    /// Takes the data of one event in.
    ///
    /// # Errors
    /// [`GatherError`]; the stream is then of no use.
    pub fn event(&mut self, data: &[u8]) -> Result<(), GatherError> {
        match self.tap.event(data).kind {
            ChunkKind::Done => return Ok(()),
            ChunkKind::Error(error) => return Err(GatherError::Upstream(error)),
            ChunkKind::Malformed => return Err(GatherError::Malformed),
            ChunkKind::Preamble | ChunkKind::Output | ChunkKind::Finish => {}
        }
        let Ok(Value::Object(mut chunk)) = serde_json::from_slice(data) else {
            return Err(GatherError::Malformed);
        };
        if let Some(Value::Array(choices)) = chunk.remove("choices") {
            for choice in choices {
                self.choice(choice)?;
            }
        }
        for (key, value) in chunk {
            self.keep_head(key, value);
        }
        if self.kept > self.limit { Err(GatherError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// The answer as JSON.
    ///
    /// # Errors
    /// [`GatherError::Unfinished`] or [`GatherError::NoChoices`].
    pub fn finish(self) -> Result<Bytes, GatherError> {
        if self.choices.is_empty() {
            return Err(GatherError::NoChoices);
        }
        if !self.tap.finished() {
            return Err(GatherError::Unfinished);
        }
        let mut head = self.head;
        if let Some(usage) = head.get("x_groq").and_then(|groq| groq.get("usage")).cloned() {
            head.entry("usage").or_insert(usage);
        }
        let id = head.remove("id").unwrap_or_else(|| Value::from("chatcmpl-gathered"));
        let call_prefix = id.as_str().unwrap_or_default().to_owned();
        let completion = Completion {
            id,
            object: "chat.completion",
            created: head.remove("created").unwrap_or_else(|| Value::from(0)),
            model: head.remove("model").unwrap_or_default(),
            choices: self
                .choices
                .into_iter()
                .map(|(index, parts)| parts.into_json(index, &call_prefix))
                .collect(),
            rest: head,
        };
        serde_json::to_vec(&completion).map(Bytes::from).map_err(|_| GatherError::Malformed)
    }

    fn choice(&mut self, choice: Value) -> Result<(), GatherError> {
        let Value::Object(choice) = choice else { return Err(GatherError::Malformed) };
        let index = choice.get("index").and_then(Value::as_u64).unwrap_or(0);
        if self.choices.len() >= MAX_CHOICES && !self.choices.contains_key(&index) {
            return Err(GatherError::TooLarge { limit: self.limit });
        }
        self.kept += self.choices.entry(index).or_default().add(choice);
        Ok(())
    }

    /// The first id, creation time and model hold; of everything else the last value that is not null.
    fn keep_head(&mut self, key: String, value: Value) {
        let empty = value.is_null() || value.as_str() == Some("");
        let first_holds = matches!(key.as_str(), "id" | "created" | "model");
        // `obfuscation` pads single chunks and means nothing in a whole answer.
        if empty || matches!(key.as_str(), "object" | "obfuscation" | "error") {
            return;
        }
        if first_holds && self.head.contains_key(&key) {
            return;
        }
        if let Some(old) = self.head.get(&key) {
            self.kept = self.kept.saturating_sub(size(old));
        }
        self.kept += size(&value);
        self.head.insert(key, value);
    }
}

#[derive(Serialize)]
struct Completion {
    id: Value,
    object: &'static str,
    created: Value,
    model: Value,
    choices: Vec<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// About how much a value takes, in bytes. Values come from one bounded event, so that the depth is bounded too.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 8,
        Value::Array(list) => list.iter().map(size).sum::<usize>() + 8,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>() + 8,
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}
