//! A plain answer of Messages as its meaning, and back (Anthropic API reference, "Create a Message").

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::outgoing::OutBlock;
use super::request::block;
use super::usage::Counts;
use crate::chat::Usage;
use crate::ir::{Answer, Block, Stop, Unreadable};
use crate::json::Members;

/// Reads an answer.
///
/// # Errors
/// [`Unreadable`] if it is none.
pub(crate) fn decode(body: &[u8]) -> Result<Answer<'_>, Unreadable> {
    let mut members = Members::of_body(body)?;
    let content = members.take_list("content")?.ok_or_else(|| Unreadable::at("/content", "is missing"))?;
    let mut blocks = Vec::new();
    for (place, raw) in content.into_iter().enumerate() {
        block(raw, format!("/content/{place}"), &mut blocks)?;
    }
    let reason = members.take_text("stop_reason")?.unwrap_or_default();
    let sequence = members.take_text("stop_sequence")?.map(Cow::into_owned);
    let mut counts = Counts::default();
    if let Some(usage) = members.take("usage") {
        counts.take(usage.get());
    }
    Ok(Answer {
        id: members.take_text("id")?.unwrap_or_default(),
        model: members.take_text("model")?.unwrap_or_default(),
        blocks,
        stop: stop(&reason, sequence),
        usage: counts.usage(),
    })
}

/// Why an answer ended.
pub(super) fn stop(reason: &str, sequence: Option<String>) -> Stop {
    match reason {
        "max_tokens" => Stop::Length,
        "model_context_window_exceeded" => Stop::ContextFull,
        "pause_turn" => Stop::Paused,
        "refusal" => Stop::Refusal,
        "stop_sequence" => Stop::Sequence(sequence),
        "tool_use" => Stop::ToolCalls,
        _ => Stop::End,
    }
}

/// The reason as it is written, and the text at which it ended.
pub(super) fn reason(stop: &Stop) -> (&'static str, Option<&str>) {
    match stop {
        Stop::ContextFull => ("model_context_window_exceeded", None),
        Stop::End => ("end_turn", None),
        Stop::Length => ("max_tokens", None),
        Stop::Paused => ("pause_turn", None),
        Stop::Refusal => ("refusal", None),
        Stop::Sequence(Some(sequence)) => ("stop_sequence", Some(sequence)),
        Stop::Sequence(None) => ("end_turn", None),
        Stop::ToolCalls => ("tool_use", None),
    }
}

/// A message's id: that of the provider, in the form that it has here.
pub(super) fn message_id(id: &str) -> Cow<'_, str> {
    if id.starts_with("msg_") {
        return Cow::Borrowed(id);
    }
    let kept: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect();
    Cow::Owned(format!("msg_{kept}"))
}

/// Token counts as they are written: input leaves out what was cached.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct OutUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

impl From<Usage> for OutUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage
                .input_tokens
                .saturating_sub(usage.cached_tokens)
                .saturating_sub(usage.cache_write_tokens),
            cache_creation_input_tokens: usage.cache_write_tokens,
            cache_read_input_tokens: usage.cached_tokens,
            output_tokens: usage.output_tokens,
        }
    }
}

#[derive(Serialize)]
struct Message<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<OutBlock<'a>>,
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
    usage: OutUsage,
}

/// Writes an answer.
///
/// # Errors
/// If it cannot be written as JSON.
pub(crate) fn encode(answer: &Answer<'_>) -> serde_json::Result<Vec<u8>> {
    let (stop_reason, stop_sequence) = reason(&answer.stop);
    serde_json::to_vec(&Message {
        id: message_id(&answer.id),
        kind: "message",
        role: "assistant",
        model: &answer.model,
        content: answer.blocks.iter().filter_map(outgoing).collect(),
        stop_reason,
        stop_sequence,
        usage: answer.usage.map(OutUsage::from).unwrap_or_default(),
    })
}

fn outgoing<'a>(block: &'a Block<'_>) -> Option<OutBlock<'a>> {
    match block {
        Block::Text { text, .. } | Block::Refusal(text) => Some(OutBlock::text(text.as_ref(), None)),
        Block::Reasoning { text, signature } => {
            let seal = signature.as_ref().map_or("", |signature| signature.value.as_ref());
            Some(OutBlock::Thinking { thinking: Cow::Borrowed(text), signature: Cow::Borrowed(seal) })
        }
        Block::ToolCall(call) => Some(OutBlock::ToolUse {
            id: Cow::Borrowed(&call.id),
            name: Cow::Borrowed(&call.name),
            input: input(&call.arguments),
            cache_control: None,
        }),
        _ => None,
    }
}

/// What a model wrote as arguments; where it is no object, it is handed on as a text.
fn input(arguments: &str) -> Cow<'_, RawValue> {
    let text = arguments.trim();
    let text = if text.is_empty() { "{}" } else { text };
    if text.starts_with('{')
        && let Ok(raw) = serde_json::from_str::<&RawValue>(text)
    {
        return Cow::Borrowed(raw);
    }
    let wrapped = serde_json::json!({ "_raw": text }).to_string();
    Cow::Owned(RawValue::from_string(wrapped).unwrap_or_default())
}
