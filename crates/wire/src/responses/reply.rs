//! A plain answer of Responses as its meaning, and back (OpenAI API reference, "The response object").

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::item::{Item, Part, summary};
use super::object::{Items, Object, Status, item_id, response_id};
use super::request::{call, thoughts};
use super::usage::OutUsage;
use crate::chat::Usage;
use crate::ir::{Answer, Block, Stop, ToolCall, Unreadable};
use crate::json::Members;
use crate::translate::Back;

/// Reads an answer.
///
/// # Errors
/// [`Unreadable`] if it is none.
pub(crate) fn decode(body: &[u8]) -> Result<Answer<'_>, Unreadable> {
    let mut members = Members::of_body(body)?;
    let output = members.take_list("output")?.ok_or_else(|| Unreadable::at("/output", "is missing"))?;
    let mut blocks = Vec::new();
    for (place, raw) in output.into_iter().enumerate() {
        item(raw, format!("/output/{place}"), &mut blocks)?;
    }
    let incomplete = members.take_object("incomplete_details")?;
    let reason = incomplete.map(|mut details| details.take_text("reason")).transpose()?.flatten();
    // Why is not always said: it was cut off all the same.
    let cut = members.take_text("status")?.is_some_and(|status| status == "incomplete");
    let reason = reason.or_else(|| cut.then_some(Cow::Borrowed("max_output_tokens")));
    Ok(Answer {
        id: members.take_text("id")?.unwrap_or_default(),
        model: members.take_text("model")?.unwrap_or_default(),
        stop: stop(
            reason.as_deref(),
            blocks.iter().any(|block| matches!(block, Block::ToolCall(_))),
            blocks.iter().any(|block| matches!(block, Block::Refusal(_))),
        ),
        usage: members.take("usage").and_then(|usage| Usage::parse(usage.get())),
        blocks,
    })
}

/// Reads an item of an answer.
fn item<'a>(raw: &'a RawValue, pointer: String, blocks: &mut Vec<Block<'a>>) -> Result<(), Unreadable> {
    let mut item = Members::of(raw, pointer.clone())?;
    match item.need_text("type")?.as_ref() {
        "message" => {
            let place = item.at("content");
            for (number, raw) in item.take_list("content")?.unwrap_or_default().into_iter().enumerate() {
                let mut part = Members::of(raw, format!("{place}/{number}"))?;
                match part.take_text("type")?.as_deref() {
                    Some("refusal") => blocks.extend(part.take_text("refusal")?.map(Block::Refusal)),
                    _ => {
                        let text = part.take_text("text")?.filter(|text| !text.is_empty());
                        blocks.extend(text.map(|text| Block::Text { text, cache: None }));
                    }
                }
            }
        }
        "function_call" => blocks.push(Block::ToolCall(call(&mut item, false, pointer)?)),
        "custom_tool_call" => blocks.push(Block::ToolCall(call(&mut item, true, pointer)?)),
        "reasoning" => blocks.extend(thoughts(&mut item)?),
        // What the provider did by itself; what came of it stands in the message.
        _ => {}
    }
    Ok(())
}

/// Why an answer ended.
pub(super) fn stop(incomplete: Option<&str>, calls: bool, refused: bool) -> Stop {
    match incomplete {
        Some("content_filter") => Stop::Refusal,
        Some(_) => Stop::Length,
        None if calls => Stop::ToolCalls,
        None if refused => Stop::Refusal,
        None => Stop::End,
    }
}

/// How a response ends. A refusal in words is an answer; one without words was cut off.
pub(super) fn status(stop: &Stop, refusal: bool) -> Status {
    match stop {
        Stop::ContextFull | Stop::Length => Status::Incomplete("max_output_tokens"),
        Stop::Refusal if !refusal => Status::Incomplete("content_filter"),
        Stop::End | Stop::Paused | Stop::Refusal | Stop::Sequence(_) | Stop::ToolCalls => Status::Completed,
    }
}

/// Writes an answer.
///
/// # Errors
/// If it cannot be written as JSON.
pub(crate) fn encode(answer: &Answer<'_>, back: &Back) -> serde_json::Result<Vec<u8>> {
    let id = response_id(&answer.id);
    let refusal = answer.blocks.iter().any(|block| matches!(block, Block::Refusal(_)));
    let status = status(&answer.stop, refusal);
    let mut output = Vec::new();
    for block in &answer.blocks {
        output.extend(outgoing(block, &id, output.len()));
    }
    // What was cut off is not complete; a call that a filter broke off is none, and must not be made.
    if matches!(status, Status::Incomplete(_))
        && let Some(last) = output.last_mut()
    {
        last.set_status("incomplete");
    }
    serde_json::to_vec(&Object {
        id: &id,
        created_s: back.created_s,
        model: &answer.model,
        status,
        error: None,
        output: Items::Of(&output),
        usage: answer.usage.map(OutUsage::from),
        echo: &back.echo,
    })
}

fn outgoing<'a>(block: &'a Block<'_>, response: &str, place: usize) -> Option<Item<'a>> {
    let said = |part| Item::Message {
        id: Some(Cow::Owned(item_id("msg", response, place))),
        role: "assistant",
        content: vec![part],
        status: Some("completed"),
    };
    match block {
        Block::Text { text, .. } => Some(said(Part::output_text(Cow::Borrowed(text)))),
        Block::Refusal(refusal) => Some(said(Part::Refusal { refusal: Cow::Borrowed(refusal) })),
        Block::Reasoning { text, signature } => Some(Item::Reasoning {
            id: Cow::Owned(item_id("rs", response, place)),
            summary: summary(text),
            encrypted_content: signature.as_ref().map(|seal| Cow::Borrowed(seal.value.as_ref())),
        }),
        Block::ToolCall(call) => Some(outgoing_call(call, response, place)),
        Block::Media(_) | Block::Opaque(_) | Block::ToolResult(_) => None,
    }
}

fn outgoing_call<'a>(call: &'a ToolCall<'_>, response: &str, place: usize) -> Item<'a> {
    let (call_id, name) = (Cow::Borrowed(call.id.as_ref()), Cow::Borrowed(call.name.as_ref()));
    let namespace = call.namespace.as_deref().map(Cow::Borrowed);
    let status = Some("completed");
    if call.custom {
        let id = Some(Cow::Owned(item_id("ctc", response, place)));
        let input = Cow::Borrowed(call.arguments.as_ref());
        return Item::CustomToolCall { id, call_id, name, namespace, input, status };
    }
    let id = Some(Cow::Owned(item_id("fc", response, place)));
    let none = call.arguments.trim().is_empty();
    let arguments = Cow::Borrowed(if none { "{}" } else { call.arguments.as_ref() });
    Item::FunctionCall { id, call_id, name, namespace, arguments, status }
}
