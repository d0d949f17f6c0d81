//! A plain answer of Chat Completions as its meaning, and back (OpenAI API reference, "The chat completion object").

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Usage;
use super::events::{call_id, texts};
use super::request::tool_call;
use crate::ir::{Answer, Block, Stop, Text, ToolCall, Unreadable};
use crate::json::{self, Members};

/// Reads an answer. Of several choices the first is the answer.
///
/// # Errors
/// [`Unreadable`] if it is none.
pub(crate) fn decode(body: &[u8]) -> Result<Answer<'_>, Unreadable> {
    let mut members = Members::of_body(body)?;
    let choices = members.take_list("choices")?.unwrap_or_default();
    let first = choices.first().ok_or_else(|| Unreadable::at("/choices", "is empty"))?;
    let mut choice = Members::of(first, "/choices/0")?;
    let mut message =
        choice.take_object("message")?.ok_or_else(|| Unreadable::at("/choices/0/message", "is missing"))?;
    let mut blocks = Vec::new();
    let refused = blocks_of(&mut message, &mut blocks)?;
    let reason = choice.take_text("finish_reason")?.unwrap_or_default();
    let id = members.take_text("id")?.unwrap_or_default();
    for (place, block) in blocks.iter_mut().enumerate() {
        if let Block::ToolCall(call) = block
            && call.id.is_empty()
        {
            call.id = Cow::Owned(call_id(&id, place));
        }
    }
    let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
    Ok(Answer {
        id,
        model: members.take_text("model")?.unwrap_or_default(),
        stop: stop(&reason, calls, refused),
        usage: members.take("usage").and_then(|usage| Usage::parse(usage.get())),
        blocks,
    })
}

/// Takes what a message says; whether it refuses.
fn blocks_of<'a>(message: &mut Members<'a>, blocks: &mut Vec<Block<'a>>) -> Result<bool, Unreadable> {
    let thoughts = message.take("reasoning_content").or_else(|| message.take("reasoning"));
    if let Some(text) = thoughts.and_then(words) {
        blocks.push(Block::Reasoning { text, signature: None });
    }
    if let Some(raw) = message.take("content") {
        let mut said = Vec::new();
        texts(raw, &mut said);
        blocks.extend(said.into_iter().map(|(reasoning, text)| match (reasoning, Cow::Owned(text)) {
            (true, text) => Block::Reasoning { text, signature: None },
            (false, text) => Block::Text { text, cache: None },
        }));
    }
    let refusal = message.take("refusal").and_then(words);
    let refused = refusal.is_some();
    blocks.extend(refusal.map(Block::Refusal));
    for (place, raw) in message.take_list("tool_calls")?.unwrap_or_default().into_iter().enumerate() {
        blocks.push(tool_call(raw, format!("/choices/0/message/tool_calls/{place}"))?);
    }
    Ok(refused)
}

fn words(raw: &RawValue) -> Option<Text<'_>> {
    json::lossy_text(raw.get().as_bytes()).filter(|text| !text.is_empty())
}

/// Why an answer ended. A forced call ends with `stop`, so that the calls themselves say that there are some; one that the
/// limit cut off is none.
pub(super) fn stop(reason: &str, calls: bool, refused: bool) -> Stop {
    match reason {
        "length" | "max_tokens" => Stop::Length,
        "content_filter" => Stop::Refusal,
        _ if calls => Stop::ToolCalls,
        _ if refused => Stop::Refusal,
        _ => Stop::End,
    }
}

/// The reason as it is written.
pub(super) fn reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::ContextFull | Stop::Length => "length",
        Stop::End | Stop::Paused | Stop::Sequence(_) => "stop",
        Stop::Refusal => "content_filter",
        Stop::ToolCalls => "tool_calls",
    }
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<OutUsage>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u8,
    message: Message<'a>,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<Cow<'a, str>>,
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<Function<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<Custom<'a>>,
}

#[derive(Serialize)]
struct Custom<'a> {
    name: &'a str,
    input: &'a str,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// Token counts as they are written.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct OutUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for OutUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.input_tokens.saturating_add(usage.output_tokens),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached_tokens,
                cache_write_tokens: usage.cache_write_tokens,
            },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning_tokens },
        }
    }
}

/// A call without arguments has an empty object of them, unless it was cut off before they came.
fn outgoing<'a>(call: &'a ToolCall<'_>, cut: bool) -> Call<'a> {
    let (id, name) = (call.id.as_ref(), call.name.as_ref());
    if call.custom {
        let custom = Some(Custom { name, input: &call.arguments });
        return Call { id, kind: "custom", function: None, custom };
    }
    let none = call.arguments.trim().is_empty() && !cut;
    let arguments = if none { "{}" } else { call.arguments.as_ref() };
    Call { id, kind: "function", function: Some(Function { name, arguments }), custom: None }
}

/// Writes an answer.
///
/// # Errors
/// If it cannot be written as JSON.
pub(crate) fn encode(answer: &Answer<'_>, created_s: u64) -> serde_json::Result<Vec<u8>> {
    let mut texts = Vec::new();
    let mut thoughts = Vec::new();
    let mut refusal = None;
    let mut tool_calls = Vec::new();
    for block in &answer.blocks {
        match block {
            Block::Text { text, .. } => texts.push(text.as_ref()),
            Block::Reasoning { text, .. } if !text.is_empty() => thoughts.push(text.as_ref()),
            Block::Refusal(text) => refusal = Some(text.as_ref()),
            Block::ToolCall(call) => {
                tool_calls.push(outgoing(call, answer.stop.breaks_off()));
            }
            _ => {}
        }
    }
    let joined = |texts: Vec<&str>| (!texts.is_empty()).then(|| Cow::Owned(texts.concat()));
    let message = Message {
        role: "assistant",
        content: joined(texts),
        refusal,
        reasoning_content: joined(thoughts),
        tool_calls,
    };
    serde_json::to_vec(&Completion {
        id: &answer.id,
        object: "chat.completion",
        created: created_s,
        model: &answer.model,
        choices: [Choice { index: 0, message, logprobs: None, finish_reason: reason(&answer.stop) }],
        usage: answer.usage.map(OutUsage::from),
    })
}
