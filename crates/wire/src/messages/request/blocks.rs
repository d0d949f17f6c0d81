//! The content of a message: a text, or a list of blocks.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{hints, opaque};
use crate::dialect::Dialect;
use crate::ir::{Block, CacheMark, Media, MediaKind, Source, ToolCall, ToolResult, Unreadable, Weight};
use crate::json::{self, Members};
use crate::translate::unpack;

/// Reads a content.
pub(super) fn content<'a>(
    raw: &'a RawValue,
    place: &str,
    blocks: &mut Vec<Block<'a>>,
) -> Result<(), Unreadable> {
    if let Some(text) = json::text(raw.get().as_bytes()) {
        blocks.push(Block::Text { text, cache: None });
        return Ok(());
    }
    let list = json::list(raw).ok_or_else(|| Unreadable::at(place, "must be a text or a list of blocks"))?;
    list.into_iter().enumerate().try_for_each(|(number, raw)| block(raw, format!("{place}/{number}"), blocks))
}

/// Reads a block of a request or an answer.
pub(crate) fn block<'a>(
    raw: &'a RawValue,
    pointer: String,
    blocks: &mut Vec<Block<'a>>,
) -> Result<(), Unreadable> {
    let mut members = Members::of(raw, pointer.clone())?;
    let cache = cache_mark(&mut members)?;
    let kind = members.need_text("type")?;
    let block = match kind.as_ref() {
        "text" => {
            // Citations say where a text comes from; the text stays what it is.
            let text = members.need_text("text")?;
            let citations = members.take("citations").filter(|raw| raw.get() != "[]");
            let place = members.at("citations");
            blocks.extend(citations.map(|raw| Block::Opaque(opaque(place, raw, Weight::Hint))));
            Block::Text { text, cache }
        }
        "thinking" => {
            let value = members.take_text("signature")?.filter(|seal| !seal.is_empty());
            let signature = value.map(|value| unpack(value, Dialect::Messages));
            Block::Reasoning { text: members.take_text("thinking")?.unwrap_or_default(), signature }
        }
        // Thoughts that only the provider can read: without them the answer is the same question's.
        "redacted_thinking" => {
            blocks.push(Block::Opaque(opaque(pointer, raw, Weight::Hint)));
            return Ok(());
        }
        "image" => media(&mut members, MediaKind::Image, cache, pointer)?,
        "document" => media(&mut members, MediaKind::Document, cache, pointer)?,
        "tool_use" => Block::ToolCall(ToolCall {
            id: members.need_text("id")?,
            name: members.need_text("name")?,
            namespace: None,
            custom: false,
            arguments: members.take("input").map_or(Cow::Borrowed("{}"), |raw| Cow::Borrowed(raw.get())),
            cache,
            pointer,
        }),
        "tool_result" => tool_result(&mut members, cache, pointer)?,
        // A tool that a search of the client's has found. Elsewhere every tool is offered from the start: its name says it.
        "tool_reference" => {
            blocks.push(Block::Text { text: members.need_text("tool_name")?, cache });
            blocks.push(Block::Opaque(opaque(pointer, raw, Weight::Hint)));
            return Ok(());
        }
        _ => {
            blocks.push(Block::Opaque(opaque(pointer, raw, Weight::Meaning)));
            return Ok(());
        }
    };
    blocks.push(block);
    blocks.extend(hints(members).map(Block::Opaque));
    Ok(())
}

/// Takes the cache mark of a block or tool.
pub(super) fn cache_mark(members: &mut Members<'_>) -> Result<Option<CacheMark>, Unreadable> {
    let Some(mut mark) = members.take_object("cache_control")? else { return Ok(None) };
    let long = mark.take_text("ttl")?.is_some_and(|ttl| ttl == "1h");
    Ok(Some(if long { CacheMark::Long } else { CacheMark::Short }))
}

fn tool_result<'a>(
    members: &mut Members<'a>,
    cache: Option<CacheMark>,
    pointer: String,
) -> Result<Block<'a>, Unreadable> {
    let call = members.need_text("tool_use_id")?;
    let mut inside = Vec::new();
    let place = members.at("content");
    if let Some(raw) = members.take("content") {
        content(raw, &place, &mut inside)?;
    }
    let failed = members.take_as("is_error", "must be true or false")?.unwrap_or(false);
    Ok(Block::ToolResult(ToolResult { call, content: inside, failed, cache, pointer }))
}

fn media<'a>(
    members: &mut Members<'a>,
    kind: MediaKind,
    cache: Option<CacheMark>,
    pointer: String,
) -> Result<Block<'a>, Unreadable> {
    let place = members.at("source");
    let Some(raw) = members.take("source") else { return Err(Unreadable::at(place, "is missing")) };
    let mut source = Members::of(raw, place.clone())?;
    let source = match source.need_text("type")?.as_ref() {
        "base64" => {
            Source::Data { media_type: source.need_text("media_type")?, base64: source.need_text("data")? }
        }
        "text" => Source::Plain(source.need_text("data")?),
        "url" => Source::Url(source.need_text("url")?),
        "file" => Source::File(source.need_text("file_id")?),
        // A document made of blocks.
        _ => return Ok(Block::Opaque(opaque(place, raw, Weight::Meaning))),
    };
    let title = members.take_text("title")?;
    Ok(Block::Media(Media { kind, source, title, cache, pointer }))
}
