//! A plain answer gathered from a provider's stream.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::stream::StreamDecoder;
use crate::chat::{GatherError, Usage};
use crate::dialect::ChunkKind;

/// Collects a stream into a `message`, as the official SDKs do: `message_start` gives the frame, each block
/// begins with its start and grows by its deltas, `message_delta` lays its values over the message's. What is
/// unknown is kept.
#[derive(Debug)]
pub struct Gather {
    limit: usize,
    kept: usize,
    tap: StreamDecoder,
    message: Map<String, Value>,
    blocks: BTreeMap<u64, Block>,
}

/// One content block so far.
#[derive(Debug, Default)]
struct Block {
    fields: Map<String, Value>,
    /// The input of a tool call, in pieces of JSON text.
    input: String,
}

/// More blocks than this are no answer.
const MAX_BLOCKS: usize = 4096;

impl Gather {
    /// Collects at most about `max_bytes` of answer.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            limit: max_bytes,
            kept: 0,
            tap: StreamDecoder::new(),
            message: Map::new(),
            blocks: BTreeMap::new(),
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

    /// Takes one event in: its name, if it has one, and its data.
    ///
    /// # Errors
    /// [`GatherError`]; the stream is then of no use.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<(), GatherError> {
        match self.tap.event(name, data).kind {
            ChunkKind::Done => return Ok(()),
            ChunkKind::Error(error) => return Err(GatherError::Upstream(error)),
            ChunkKind::Malformed => return Err(GatherError::Malformed),
            ChunkKind::Preamble | ChunkKind::Output | ChunkKind::Finish => {}
        }
        let Ok(Value::Object(mut event)) = serde_json::from_slice(data) else {
            return Err(GatherError::Malformed);
        };
        let kind = event.remove("type").as_ref().and_then(Value::as_str).map(str::to_owned);
        let kind = kind.or_else(|| name.and_then(|name| std::str::from_utf8(name).ok()).map(str::to_owned));
        match kind.as_deref() {
            Some("message_start") => self.start(event),
            Some("content_block_start") => self.open(event)?,
            Some("content_block_delta") => self.grow(event)?,
            Some("message_delta") => self.overlay(event),
            _ => {}
        }
        if self.kept > self.limit { Err(GatherError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// The answer as JSON.
    ///
    /// # Errors
    /// [`GatherError::NoMessage`], [`GatherError::Unfinished`], or [`GatherError::Malformed`] if the input of a
    /// tool call is no JSON though the model was done with it.
    pub fn finish(self) -> Result<Bytes, GatherError> {
        if !self.tap.started() {
            return Err(GatherError::NoMessage);
        }
        if !self.tap.finished() {
            return Err(GatherError::Unfinished);
        }
        let mut message = self.message;
        let cut = matches!(
            message.get("stop_reason").and_then(Value::as_str),
            Some("max_tokens" | "model_context_window_exceeded" | "refusal")
        );
        let mut content = Vec::with_capacity(self.blocks.len());
        for block in self.blocks.into_values() {
            match block.whole() {
                Some(block) => content.push(block),
                // The model was cut off in the middle of a call. An input is not made up: the call is left out,
                // and the stop reason says why.
                None if cut => {}
                None => return Err(GatherError::Malformed),
            }
        }
        message.remove("content");
        let whole = Whole { message, content };
        serde_json::to_vec(&whole).map(Bytes::from).map_err(|_| GatherError::Malformed)
    }

    fn start(&mut self, mut event: Map<String, Value>) {
        if let Some(Value::Object(message)) = event.remove("message") {
            self.kept += size(&message);
            self.message = message;
        }
    }

    fn open(&mut self, mut event: Map<String, Value>) -> Result<(), GatherError> {
        let index = index(&event);
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(GatherError::TooLarge { limit: self.limit });
        }
        let Some(Value::Object(fields)) = event.remove("content_block") else {
            return Err(GatherError::Malformed);
        };
        self.kept += size(&fields);
        // A second block at a place that is taken would swallow the first.
        match self.blocks.insert(index, Block { fields, input: String::new() }) {
            None => Ok(()),
            Some(_) => Err(GatherError::Malformed),
        }
    }

    fn grow(&mut self, mut event: Map<String, Value>) -> Result<(), GatherError> {
        let index = index(&event);
        let Some(Value::Object(delta)) = event.remove("delta") else { return Err(GatherError::Malformed) };
        let block = self.blocks.get_mut(&index).ok_or(GatherError::Malformed)?;
        self.kept += block.grow(delta);
        Ok(())
    }

    /// What `message_delta` says holds from now on; a null takes nothing away.
    fn overlay(&mut self, event: Map<String, Value>) {
        for (key, value) in event {
            match (key.as_str(), value) {
                ("delta", Value::Object(delta)) => {
                    self.kept += size(&delta);
                    put_all(&mut self.message, delta);
                }
                ("usage", Value::Object(usage)) => {
                    let slot = self.message.entry("usage").or_insert_with(|| json!({}));
                    match slot.as_object_mut() {
                        Some(slot) => put_all(slot, usage),
                        None => *slot = Value::Object(usage),
                    }
                }
                (_, Value::Null) => {}
                (_, value) => drop(self.message.insert(key, value)),
            }
        }
    }
}

impl Block {
    /// Takes a delta in; gives the number of bytes that are kept of it.
    fn grow(&mut self, mut delta: Map<String, Value>) -> usize {
        let kind = delta.remove("type");
        let kept = size(&delta);
        if kind.as_ref().and_then(Value::as_str) == Some("citations_delta") {
            let citation = delta.remove("citation").unwrap_or_default();
            match self.fields.get_mut("citations") {
                Some(Value::Array(list)) => list.push(citation),
                _ => drop(self.fields.insert("citations".to_owned(), Value::Array(vec![citation]))),
            }
        }
        if let Some(Value::String(piece)) = delta.remove("partial_json") {
            self.input.push_str(&piece);
        }
        for (key, value) in delta {
            match (self.fields.get_mut(&key), value) {
                (Some(Value::String(whole)), Value::String(piece)) => whole.push_str(&piece),
                (_, Value::Null) => {}
                (_, value) => drop(self.fields.insert(key, value)),
            }
        }
        kept
    }

    /// The finished block; `None` if its input is no JSON.
    fn whole(self) -> Option<WholeBlock> {
        let mut fields = self.fields;
        let calls = fields.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("tool_use"));
        if self.input.trim().is_empty() {
            if calls {
                // No input comes as no text at all; llama.cpp leaves out the empty object of the start too.
                fields.entry("input").or_insert_with(|| json!({}));
            }
            return Some(WholeBlock { fields, input: None });
        }
        fields.remove("input");
        Some(WholeBlock { fields, input: Some(RawValue::from_string(self.input).ok()?) })
    }
}

#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    message: Map<String, Value>,
    content: Vec<WholeBlock>,
}

struct WholeBlock {
    fields: Map<String, Value>,
    /// As the model wrote it: a value tree would round its large numbers.
    input: Option<Box<RawValue>>,
}

impl Serialize for WholeBlock {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let input = self.input.as_ref();
        // `collect_map` wants one type of value.
        let fields = self.fields.iter().map(|(key, value)| (key.as_str(), Part::Field(value)));
        serializer.collect_map(fields.chain(input.map(|input| ("input", Part::Input(input)))))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Field(&'a Value),
    Input(&'a RawValue),
}

fn index(event: &Map<String, Value>) -> u64 {
    event.get("index").and_then(Value::as_u64).unwrap_or(0)
}

fn put_all(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        if value.is_null() {
            into.entry(key).or_insert(Value::Null);
        } else {
            into.insert(key, value);
        }
    }
}

/// About the bytes that an object takes as JSON.
fn size(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(key, value)| key.len() + 4 + value_size(value)).sum()
}

/// The value was parsed under a depth limit, which bounds this too.
fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|item| value_size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => size(fields) + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}
