//! A plain answer gathered from a provider's stream.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::reply;
use super::stream::StreamDecoder;
use crate::chat::{GatherError, Usage};
use crate::dialect::ChunkKind;
use crate::json::{Members, arguments, lossy_word as word};

/// Collects a stream into the answer of Converse: each block grows by its deltas.
#[derive(Debug)]
pub struct Gather {
    limit: usize,
    kept: usize,
    tap: StreamDecoder,
    blocks: BTreeMap<u64, Block>,
    stop_reason: String,
    /// What stands beside the message, as it was written, by its name.
    beside: BTreeMap<String, Box<RawValue>>,
}

/// One block so far.
#[derive(Debug, Default)]
struct Block {
    /// Id and name of a call.
    call: Option<(String, String)>,
    text: String,
    input: String,
    thought: Option<String>,
    signature: String,
    redacted: Option<String>,
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
            blocks: BTreeMap::new(),
            stop_reason: String::new(),
            beside: BTreeMap::new(),
        }
    }

    /// The last token counts seen.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        self.tap.usage()
    }

    /// Takes one event in: its name and its data.
    ///
    /// # Errors
    /// [`GatherError`]; the stream is then of no use.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<(), GatherError> {
        match self.tap.event(name, data).kind {
            ChunkKind::Error(error) => return Err(GatherError::Upstream(error)),
            ChunkKind::Malformed => return Err(GatherError::Malformed),
            ChunkKind::Done | ChunkKind::Preamble | ChunkKind::Output | ChunkKind::Finish => {}
        }
        let mut event = Members::of_body(data).map_err(|_| GatherError::Malformed)?;
        match name {
            Some(b"contentBlockStart") => self.start(event)?,
            Some(b"contentBlockDelta") => self.grow(event)?,
            Some(b"messageStop") => {
                self.stop_reason = event.take("stopReason").and_then(word).unwrap_or_default();
                self.keep(event, &["additionalModelResponseFields"]);
            }
            Some(b"metadata") => {
                self.keep(event, &["usage", "metrics", "trace", "performanceConfig", "serviceTier"]);
            }
            _ => {}
        }
        if self.kept > self.limit { Err(GatherError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// The answer as JSON.
    ///
    /// # Errors
    /// [`GatherError::NoMessage`], [`GatherError::Unfinished`], or [`GatherError::Malformed`] if the input of a tool call is
    /// no object though the model was done with it.
    pub fn finish(self) -> Result<Bytes, GatherError> {
        if !self.tap.started() {
            return Err(GatherError::NoMessage);
        }
        if !self.tap.finished() {
            return Err(GatherError::Unfinished);
        }
        let cut = reply::stop(&self.stop_reason).breaks_off();
        let mut content = Vec::with_capacity(self.blocks.len());
        for block in self.blocks.into_values() {
            match block.whole() {
                Some(block) => content.push(block),
                // The model was cut off in the middle of a call, and the stop reason says why.
                None if cut => {}
                None => return Err(GatherError::Malformed),
            }
        }
        let whole = Whole {
            output: Output { message: Message { role: "assistant", content } },
            stop_reason: self.stop_reason,
            beside: self.beside,
        };
        serde_json::to_vec(&whole).map(Bytes::from).map_err(|_| GatherError::Malformed)
    }

    fn start(&mut self, mut event: Members<'_>) -> Result<(), GatherError> {
        let Ok(Some(mut start)) = event.take_object("start") else { return Ok(()) };
        let Ok(Some(mut call)) = start.take_object("toolUse") else { return Ok(()) };
        let mut text = |name| call.take(name).and_then(word).unwrap_or_default();
        let (id, name) = (text("toolUseId"), text("name"));
        self.kept += id.len() + name.len();
        self.block(&mut event)?.call = Some((id, name));
        Ok(())
    }

    fn grow(&mut self, mut event: Members<'_>) -> Result<(), GatherError> {
        let Ok(Some(mut delta)) = event.take_object("delta") else { return Err(GatherError::Malformed) };
        let thoughts = delta.take_object("reasoningContent").ok().flatten();
        let call = delta.take_object("toolUse").ok().flatten();
        let text = delta.take("text").and_then(word).unwrap_or_default();
        let mut kept = text.len();
        let block = self.block(&mut event)?;
        block.text.push_str(&text);
        if let Some(mut thoughts) = thoughts {
            let mut text = |name| thoughts.take(name).and_then(word).unwrap_or_default();
            let (thought, signature, redacted) = (text("text"), text("signature"), text("redactedContent"));
            kept += thought.len() + signature.len() + redacted.len();
            match redacted.is_empty() {
                true => block.thought.get_or_insert_default().push_str(&thought),
                false => block.redacted.get_or_insert_default().push_str(&redacted),
            }
            block.signature.push_str(&signature);
        }
        if let Some(input) = call.and_then(|mut call| call.take("input").and_then(word)) {
            kept += input.len();
            block.input.push_str(&input);
        }
        self.kept += kept;
        Ok(())
    }

    fn block(&mut self, event: &mut Members<'_>) -> Result<&mut Block, GatherError> {
        let index = event.take("contentBlockIndex").and_then(|raw| raw.get().parse().ok()).unwrap_or(0);
        if self.blocks.len() >= MAX_BLOCKS && !self.blocks.contains_key(&index) {
            return Err(GatherError::TooLarge { limit: self.limit });
        }
        Ok(self.blocks.entry(index).or_default())
    }

    fn keep(&mut self, mut event: Members<'_>, names: &[&str]) {
        for name in names {
            if let Some(raw) = event.take(name) {
                self.kept += raw.get().len();
                self.beside.insert((*name).to_owned(), raw.to_owned());
            }
        }
    }
}

impl Block {
    /// The finished block; `None` if it is a call whose input is no object.
    fn whole(self) -> Option<WholeBlock> {
        if let Some((id, name)) = self.call {
            let input = arguments(&self.input)?.into_owned();
            return Some(WholeBlock::ToolUse { tool_use_id: id, name, input });
        }
        Some(match (self.redacted, self.thought) {
            (Some(data), _) => WholeBlock::ReasoningContent(json!({ "redactedContent": data })),
            (None, Some(text)) => {
                let mut thought = json!({ "text": text });
                if !self.signature.is_empty()
                    && let Some(thought) = thought.as_object_mut()
                {
                    thought.insert("signature".to_owned(), Value::String(self.signature));
                }
                WholeBlock::ReasoningContent(json!({ "reasoningText": thought }))
            }
            (None, None) => WholeBlock::Text(self.text),
        })
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole {
    output: Output,
    stop_reason: String,
    #[serde(flatten)]
    beside: BTreeMap<String, Box<RawValue>>,
}

#[derive(serde::Serialize)]
struct Output {
    message: Message,
}

#[derive(serde::Serialize)]
struct Message {
    role: &'static str,
    content: Vec<WholeBlock>,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
enum WholeBlock {
    ReasoningContent(Value),
    Text(String),
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: String,
        name: String,
        input: Box<RawValue>,
    },
}
