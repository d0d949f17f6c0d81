//! A plain answer of Converse as its meaning (Amazon Bedrock API Reference, "Converse").

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::REDACTED;
use super::usage::usage;
use crate::chat::call_id;
use crate::dialect::Dialect;
use crate::ir::{Answer, Block, Signature, Stop, Text, ToolCall, Unreadable};
use crate::json::{self, Members};

/// Reads an answer. It has no id and does not name its model: whoever knows both must add them.
///
/// # Errors
/// [`Unreadable`] if it is none.
pub(crate) fn decode(body: &[u8]) -> Result<Answer<'_>, Unreadable> {
    let mut members = Members::of_body(body)?;
    let missing = || Unreadable::at("/output/message/content", "is missing");
    let mut output = members.take_object("output")?.ok_or_else(missing)?;
    let mut message = output.take_object("message")?.ok_or_else(missing)?;
    let mut blocks = Vec::new();
    let content = message.take_list("content")?.ok_or_else(missing)?;
    for (place, raw) in content.into_iter().enumerate() {
        let block = Members::of(raw, format!("/output/message/content/{place}"))?;
        blocks.extend(self::block(block, place)?);
    }
    let reason = members.take_text("stopReason")?.unwrap_or_default();
    Ok(Answer {
        id: Cow::Borrowed(""),
        model: Cow::Borrowed(""),
        blocks,
        stop: stop(&reason),
        usage: members.take("usage").and_then(|json| usage(json.get())),
    })
}

/// A block; `None` for one of a kind that has no place elsewhere.
fn block<'a>(mut block: Members<'a>, place: usize) -> Result<Option<Block<'a>>, Unreadable> {
    if let Some(text) = block.take_text("text")? {
        return Ok(Some(Block::Text { text, cache: None }));
    }
    // Where a text comes from; the text stays what it is.
    if let Some(mut cited) = block.take_object("citationsContent")? {
        let mut text = String::new();
        for raw in cited.take_list("content")?.unwrap_or_default() {
            let mut part = Members::of(raw, cited.at("content"))?;
            text.push_str(&part.take_text("text")?.unwrap_or_default());
        }
        return Ok(Some(Block::Text { text: Cow::Owned(text), cache: None }));
    }
    if let Some(mut thoughts) = block.take_object("reasoningContent")? {
        return reasoning(&mut thoughts);
    }
    let Some(mut call) = block.take_object("toolUse")? else { return Ok(None) };
    let id = call.take_text("toolUseId")?.filter(|id| !id.is_empty());
    Ok(Some(Block::ToolCall(ToolCall {
        id: id.unwrap_or_else(|| Cow::Owned(call_id("", place))),
        name: call.need_text("name")?,
        namespace: None,
        custom: false,
        arguments: call.take("input").map_or(Cow::Borrowed("{}"), input),
        cache: None,
        pointer: call.pointer().to_owned(),
    })))
}

fn reasoning<'a>(thoughts: &mut Members<'a>) -> Result<Option<Block<'a>>, Unreadable> {
    let seal = |value| Some(Signature { dialect: Dialect::Bedrock, origin: None, value });
    if let Some(data) = thoughts.take_text("redactedContent")? {
        let signature = seal(Cow::Owned(format!("{REDACTED}{data}")));
        return Ok(Some(Block::Reasoning { text: Cow::Borrowed(""), signature }));
    }
    let Some(mut thought) = thoughts.take_object("reasoningText")? else { return Ok(None) };
    let text = thought.take_text("text")?.unwrap_or_default();
    let signature = thought.take_text("signature")?.and_then(seal);
    Ok(Some(Block::Reasoning { text, signature }))
}

/// An object as it was written.
fn input(raw: &RawValue) -> Text<'_> {
    json::text(raw.get().as_bytes()).unwrap_or_else(|| Cow::Borrowed(raw.get()))
}

/// Why an answer ended. Whatever is neither an end nor a limit is the provider's policy.
pub(super) fn stop(reason: &str) -> Stop {
    match reason {
        "max_tokens" => Stop::Length,
        "model_context_window_exceeded" => Stop::ContextFull,
        "content_filtered" | "guardrail_intervened" => Stop::Refusal,
        "stop_sequence" => Stop::Sequence(None),
        "tool_use" => Stop::ToolCalls,
        _ => Stop::End,
    }
}
