//! The input of a request: a text, or a list of items.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{opaque, tool};
use crate::chat::source;
use crate::dialect::Dialect;
use crate::ir::{
    Block, CacheMark, Media, MediaKind, Request, Role, Source, ToolCall, ToolResult, Turn, Unreadable, Weight,
};
use crate::json::{self, Members};
use crate::responses::seal;

/// Items of which the gateway's translation may leave out what only the provider did: what came of it stands in the messages.
const DONE_BY_PROVIDER: [&str; 8] = [
    "code_interpreter_call",
    "file_search_call",
    "image_generation_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "web_search_call",
];

/// Reads the input.
pub(super) fn input<'a>(raw: &'a RawValue, request: &mut Request<'a>) -> Result<(), Unreadable> {
    if let Some(text) = json::text(raw.get().as_bytes()) {
        let blocks = vec![Block::Text { text, cache: None }];
        request.turns.push(Turn { role: Role::User, blocks, pointer: "/input".to_owned() });
        return Ok(());
    }
    let items =
        json::list(raw).ok_or_else(|| Unreadable::at("/input", "must be a text or a list of items"))?;
    for (place, raw) in items.into_iter().enumerate() {
        item(raw, format!("/input/{place}"), request)?;
    }
    Ok(())
}

fn item<'a>(raw: &'a RawValue, pointer: String, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let mut item = Members::of(raw, pointer.clone())?;
    // The type of a message may be left out.
    let kind = item.take_text("type")?.unwrap_or(Cow::Borrowed("message"));
    let turn = match kind.as_ref() {
        "message" => message(item)?,
        "reasoning" => Turn { role: Role::Assistant, blocks: thoughts(&mut item)?, pointer },
        "function_call" | "custom_tool_call" => {
            let blocks = vec![Block::ToolCall(call(&mut item, kind == "custom_tool_call", pointer.clone())?)];
            Turn { role: Role::Assistant, blocks, pointer }
        }
        "function_call_output" | "custom_tool_call_output" => {
            Turn { role: Role::User, blocks: vec![output(&mut item, pointer.clone())?], pointer }
        }
        // Tools that the client adds within the conversation.
        "additional_tools" => {
            let place = item.at("tools");
            for (number, raw) in item.take_list("tools")?.unwrap_or_default().into_iter().enumerate() {
                tool(raw, format!("{place}/{number}"), None, request)?;
            }
            return Ok(());
        }
        done if DONE_BY_PROVIDER.contains(&done) => {
            request.opaque.push(opaque(pointer, raw, Weight::Hint));
            return Ok(());
        }
        _ => {
            request.opaque.push(opaque(pointer, raw, Weight::Meaning));
            return Ok(());
        }
    };
    request.turns.push(turn);
    Ok(())
}

fn message(mut item: Members<'_>) -> Result<Turn<'_>, Unreadable> {
    let role = match item.need_text("role")?.as_ref() {
        "assistant" => Role::Assistant,
        "developer" | "system" => Role::System,
        "user" => Role::User,
        _ => return Err(Unreadable::at(item.at("role"), "must be user, assistant, system or developer")),
    };
    let pointer = item.pointer().to_owned();
    let place = item.at("content");
    let content = item.take("content").ok_or_else(|| Unreadable::at(place.clone(), "is missing"))?;
    let mut blocks = Vec::new();
    self::content(content, &place, &mut blocks)?;
    // `phase` and what else there may be; an item's id and status say nothing to another provider.
    for (place, name, raw) in item.rest() {
        if !matches!(name.as_str(), "id" | "status") {
            blocks.push(Block::Opaque(opaque(place, raw, Weight::Hint)));
        }
    }
    Ok(Turn { role, blocks, pointer })
}

/// Reads a content: a text, or a list of parts.
fn content<'a>(raw: &'a RawValue, place: &str, blocks: &mut Vec<Block<'a>>) -> Result<(), Unreadable> {
    if let Some(text) = json::text(raw.get().as_bytes()) {
        blocks.push(Block::Text { text, cache: None });
        return Ok(());
    }
    let parts = json::list(raw).ok_or_else(|| Unreadable::at(place, "must be a text or a list of parts"))?;
    parts.into_iter().enumerate().try_for_each(|(number, raw)| part(raw, format!("{place}/{number}"), blocks))
}

fn part<'a>(raw: &'a RawValue, pointer: String, blocks: &mut Vec<Block<'a>>) -> Result<(), Unreadable> {
    let mut part = Members::of(raw, pointer.clone())?;
    let cache = cache_mark(&mut part)?;
    let kind = part.need_text("type")?;
    let block = match kind.as_ref() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            Block::Text { text: part.need_text("text")?, cache }
        }
        "refusal" => Block::Refusal(part.need_text("refusal")?),
        "input_image" => {
            let source = match (part.take_text("image_url")?, part.take_text("file_id")?) {
                (Some(url), _) => source(url),
                (None, Some(id)) => Source::File(id),
                (None, None) => return Err(Unreadable::at(pointer, "needs image_url or file_id")),
            };
            Block::Media(Media { kind: MediaKind::Image, source, title: None, cache, pointer })
        }
        "input_file" => file(&mut part, cache, pointer)?,
        "input_audio" => {
            let place = part.at("input_audio");
            let mut audio =
                part.take_object("input_audio")?.ok_or_else(|| Unreadable::at(place, "is missing"))?;
            let media_type = Cow::Owned(format!("audio/{}", audio.need_text("format")?));
            let source = Source::Data { media_type, base64: audio.need_text("data")? };
            Block::Media(Media { kind: MediaKind::Audio, source, title: None, cache, pointer })
        }
        _ => {
            blocks.push(Block::Opaque(opaque(pointer, raw, Weight::Meaning)));
            return Ok(());
        }
    };
    blocks.push(block);
    for (place, name, raw) in part.rest() {
        // What stands in each answer and says nothing there.
        let empty = matches!(name.as_str(), "annotations" | "logprobs") && raw.get() == "[]";
        let usual = name == "detail" && raw.get() == "\"auto\"";
        if !empty && !usual {
            blocks.push(Block::Opaque(opaque(place, raw, Weight::Hint)));
        }
    }
    Ok(())
}

fn file<'a>(
    part: &mut Members<'a>,
    cache: Option<CacheMark>,
    pointer: String,
) -> Result<Block<'a>, Unreadable> {
    let title = part.take_text("filename")?;
    let (data, url, id) =
        (part.take_text("file_data")?, part.take_text("file_url")?, part.take_text("file_id")?);
    let source = match (data, url, id) {
        (Some(data), ..) => source(data),
        (None, Some(url), _) => Source::Url(url),
        (None, None, Some(id)) => Source::File(id),
        (None, None, None) => return Err(Unreadable::at(pointer, "needs file_data, file_url or file_id")),
    };
    Ok(Block::Media(Media { kind: MediaKind::Document, source, title, cache, pointer }))
}

fn cache_mark(part: &mut Members<'_>) -> Result<Option<CacheMark>, Unreadable> {
    let Some(mut mark) = part.take_object("prompt_cache_breakpoint")? else { return Ok(None) };
    let long = mark.take_text("ttl")?.is_some_and(|ttl| ttl == "12h");
    Ok(Some(if long { CacheMark::Long } else { CacheMark::Short }))
}

/// Reads a call of a tool, in a request or an answer.
pub(in crate::responses) fn call<'a>(
    item: &mut Members<'a>,
    custom: bool,
    pointer: String,
) -> Result<ToolCall<'a>, Unreadable> {
    let arguments = item.take_text(if custom { "input" } else { "arguments" })?.unwrap_or_default();
    Ok(ToolCall {
        id: item.need_text("call_id")?,
        name: item.need_text("name")?,
        namespace: item.take_text("namespace")?,
        custom,
        arguments,
        cache: None,
        pointer,
    })
}

fn output<'a>(item: &mut Members<'a>, pointer: String) -> Result<Block<'a>, Unreadable> {
    let call = item.need_text("call_id")?;
    let place = item.at("output");
    let mut inside = Vec::new();
    if let Some(raw) = item.take("output") {
        content(raw, &place, &mut inside)?;
    }
    Ok(Block::ToolResult(ToolResult { call, content: inside, failed: false, cache: None, pointer }))
}

/// Reads what a model thought: its summary, or the thoughts themselves where a server gives them out.
pub(in crate::responses) fn thoughts<'a>(item: &mut Members<'a>) -> Result<Vec<Block<'a>>, Unreadable> {
    let id = item.take_text("id")?.unwrap_or_default();
    let mut texts = Vec::new();
    for name in ["summary", "content"] {
        let place = item.at(name);
        for (number, raw) in item.take_list(name)?.unwrap_or_default().into_iter().enumerate() {
            texts.extend(Members::of(raw, format!("{place}/{number}"))?.take_text("text")?);
        }
    }
    let sealed = item.take_text("encrypted_content")?.filter(|seal| !seal.is_empty());
    if texts.is_empty() && sealed.is_none() {
        return Ok(Vec::new());
    }
    let text = match texts.len() {
        1 => texts.pop().unwrap_or_default(),
        _ => Cow::Owned(texts.join("\n\n")),
    };
    let signature = sealed.map(|value| seal::read(&id, value, Dialect::Responses));
    Ok(vec![Block::Reasoning { text, signature }])
}
