//! A Converse answer (Amazon Bedrock API, `Converse` and `ConverseStream`): its output as deltas in content blocks,
//! its events, and the whole message.

use serde_json::{Value, json};

use crate::answer::{Delta, Voice, deltas};
use crate::blocks::{Block, blocks, gathered};
use crate::prompt::Prompt;
use crate::request::Ask;
use crate::script::{Script, UsageShape};
use crate::speech::Event;

mod check;
mod errors;
pub(crate) mod frame;
mod shape;

pub(crate) use check::check;
pub(crate) use errors::{error, spell};

use frame::Kind;

/// A complete answer, before it is spelled as a stream or as one body.
#[derive(Clone, Debug)]
pub(crate) struct Conversed {
    deltas: Vec<Delta>,
    /// For each delta, the block that it belongs to.
    blocks: Vec<usize>,
    call: u64,
    stop_reason: String,
    usage: UsageShape,
    prompt: Prompt,
    no_content: bool,
}

impl Conversed {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        let answer = &script.answer;
        let asked = ask.model.clone().unwrap_or_default();
        let deltas = if answer.no_choices { Vec::new() } else { deltas(script, &asked, voice, false) };
        let stop_reason = match (answer.finish.as_deref(), &answer.refusal) {
            (Some("stop"), _) => "end_turn",
            (Some("length"), _) => "max_tokens",
            (Some("tool_calls"), _) => "tool_use",
            (Some("content_filter"), _) | (None, Some(_)) => "content_filtered",
            (Some(own), _) => own,
            (None, None) if answer.tool_calls.is_empty() => "end_turn",
            (None, None) => "tool_use",
        };
        Self {
            blocks: blocks(&deltas),
            deltas,
            call: voice.call,
            stop_reason: stop_reason.to_owned(),
            usage: answer.usage,
            prompt: Prompt::new(answer, ask),
            no_content: answer.no_choices,
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.deltas.len()
    }

    pub(crate) fn opening(&self) -> Vec<Event> {
        if self.no_content {
            Vec::new()
        } else {
            vec![event("messageStart", json!({"role": "assistant"}), 0)]
        }
    }

    /// The delta with this index, after the end of the block before it. Only a tool call has a start, which counts as
    /// an output, as its opening fragment does in Chat Completions.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        let (Some(delta), Some(block)) = (self.deltas.get(index), self.blocks.get(index)) else {
            return Vec::new();
        };
        let before = index.checked_sub(1).filter(|before| self.blocks.get(*before) != Some(block));
        let mut events = before.map(|before| self.close(before)).unwrap_or_default();
        let content = match delta {
            Delta::ToolOpen { index: call, name, .. } => {
                let start = json!({"toolUse": {"toolUseId": self.tool_id(*call), "name": name}});
                events.push(event(
                    "contentBlockStart",
                    json!({"contentBlockIndex": block, "start": start}),
                    index,
                ));
                return events;
            }
            Delta::Reasoning { text, .. } => json!({"reasoningContent": {"text": text}}),
            Delta::Text(text) | Delta::Refusal(text) => json!({ "text": text }),
            Delta::ToolArguments { text, .. } => json!({"toolUse": {"input": text}}),
        };
        events.push(event("contentBlockDelta", json!({"contentBlockIndex": block, "delta": content}), index));
        events
    }

    /// The end of the last block, and the stop reason.
    pub(crate) fn finish(&self) -> Vec<Event> {
        if self.no_content {
            return Vec::new();
        }
        let last = self.outputs().checked_sub(1);
        let mut events = last.map(|last| self.close(last)).unwrap_or_default();
        events.push(event("messageStop", json!({"stopReason": self.stop_reason}), self.outputs()));
        events
    }

    /// The usage, which comes after the stop reason.
    pub(crate) fn done(&self) -> Event {
        let mut metadata = json!({"metrics": {"latencyMs": self.latency()}});
        if let Some(usage) = self.usage() {
            put(&mut metadata, "usage", usage);
        }
        event("metadata", metadata, self.outputs())
    }

    pub(crate) fn whole(&self) -> String {
        let message = json!({"role": "assistant", "content": self.content()});
        let output = if self.no_content { json!({}) } else { json!({ "message": message }) };
        let mut whole = json!({"output": output, "stopReason": self.stop_reason, "metrics": {"latencyMs": self.latency()}});
        if let Some(usage) = self.usage() {
            put(&mut whole, "usage", usage);
        }
        whole.to_string()
    }

    pub(crate) fn failure(&self, error: &Value) -> Event {
        errors::event(error)
    }

    pub(crate) fn failed_whole(&self, error: &Value) -> String {
        errors::body(error)
    }

    fn usage(&self) -> Option<Value> {
        if matches!(self.usage, UsageShape::Null | UsageShape::Missing) {
            return None;
        }
        let output = u64::try_from(self.outputs()).unwrap_or(u64::MAX);
        Some(json!({
            "inputTokens": self.prompt.fresh, "outputTokens": output,
            "totalTokens": self.prompt.total().saturating_add(output),
            "cacheReadInputTokens": self.prompt.cached, "cacheWriteInputTokens": self.prompt.written,
        }))
    }

    fn latency(&self) -> usize {
        100 + self.outputs()
    }

    /// The end of the block of this delta; reasoning is signed just before.
    fn close(&self, last: usize) -> Vec<Event> {
        let Some(block) = self.blocks.get(last) else { return Vec::new() };
        let reasoning = matches!(self.deltas.get(last), Some(Delta::Reasoning { .. }));
        let signature = reasoning.then(|| {
            let delta = json!({"reasoningContent": {"signature": self.signature()}});
            event("contentBlockDelta", json!({"contentBlockIndex": block, "delta": delta}), last)
        });
        let stop = event("contentBlockStop", json!({ "contentBlockIndex": block }), last);
        signature.into_iter().chain([stop]).collect()
    }

    fn signature(&self) -> String {
        format!("c2lnbmF0dXJlLXNpbS0{}", self.call)
    }

    fn tool_id(&self, index: usize) -> String {
        format!("tooluse_sim_{}_{index}", self.call)
    }

    /// All blocks, whole.
    fn content(&self) -> Vec<Value> {
        let block = |block| match block {
            Block::Thinking(text) => {
                json!({"reasoningContent": {"reasoningText": {"text": text, "signature": self.signature()}}})
            }
            Block::Text(text) => json!({ "text": text }),
            Block::Tool { index, name, input } => {
                json!({"toolUse": {"toolUseId": self.tool_id(index), "name": name, "input": input}})
            }
        };
        gathered(&self.deltas).into_iter().map(block).collect()
    }
}

/// An event, padded so that its length does not tell the words.
fn event(name: &'static str, mut fields: Value, index: usize) -> Event {
    const PADDING: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let padding = PADDING.get(..1 + index * 11 % PADDING.len()).unwrap_or_default();
    put(&mut fields, "p", json!(padding));
    Event::framed(Kind::Event, name, fields.to_string())
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
