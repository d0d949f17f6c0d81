//! The content of a message: a text, or a list of parts.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::opaque;
use crate::ir::{Block, CacheMark, Media, MediaKind, Source, Text, Unreadable, Weight};
use crate::json::{self, Members};

/// Takes the content of a message.
pub(super) fn content<'a>(message: &mut Members<'a>, blocks: &mut Vec<Block<'a>>) -> Result<(), Unreadable> {
    let place = message.at("content");
    let Some(raw) = message.take("content") else { return Ok(()) };
    if let Some(text) = json::text(raw.get().as_bytes()) {
        blocks.push(Block::Text { text, cache: None });
        return Ok(());
    }
    let parts =
        json::list(raw).ok_or_else(|| Unreadable::at(place.clone(), "must be a text or a list of parts"))?;
    for (number, raw) in parts.into_iter().enumerate() {
        part(raw, format!("{place}/{number}"), blocks)?;
    }
    Ok(())
}

fn part<'a>(raw: &'a RawValue, pointer: String, blocks: &mut Vec<Block<'a>>) -> Result<(), Unreadable> {
    let mut part = Members::of(raw, pointer.clone())?;
    let cache = cache_mark(&mut part)?;
    let kind = part.need_text("type")?;
    let block = match kind.as_ref() {
        "text" => Block::Text { text: part.need_text("text")?, cache },
        "refusal" => Block::Refusal(part.need_text("refusal")?),
        "image_url" => {
            let (source, rest) = image(&mut part)?;
            blocks.extend(rest);
            Block::Media(Media { kind: MediaKind::Image, source, title: None, cache, pointer })
        }
        "input_audio" => audio(&mut part, cache, pointer)?,
        "file" => file(&mut part, cache, pointer)?,
        _ => {
            blocks.push(Block::Opaque(opaque(pointer, raw, Weight::Meaning)));
            return Ok(());
        }
    };
    blocks.push(block);
    for (pointer, _, raw) in part.rest() {
        blocks.push(Block::Opaque(opaque(pointer, raw, Weight::Hint)));
    }
    Ok(())
}

fn cache_mark(part: &mut Members<'_>) -> Result<Option<CacheMark>, Unreadable> {
    let Some(mut mark) = part.take_object("prompt_cache_breakpoint")? else { return Ok(None) };
    let long = mark.take_text("ttl")?.is_some_and(|ttl| ttl == "12h");
    Ok(Some(if long { CacheMark::Long } else { CacheMark::Short }))
}

/// An image and what else is said of it (`detail`).
fn image<'a>(part: &mut Members<'a>) -> Result<(Source<'a>, Vec<Block<'a>>), Unreadable> {
    let place = part.at("image_url");
    let Some(raw) = part.take("image_url") else { return Err(Unreadable::at(place, "is missing")) };
    // Several clients write the URL itself.
    if let Some(url) = json::text(raw.get().as_bytes()) {
        return Ok((source(url), Vec::new()));
    }
    let mut image = Members::of(raw, place)?;
    let url = image.need_text("url")?;
    let hints = image.rest().map(|(pointer, _, raw)| Block::Opaque(opaque(pointer, raw, Weight::Hint)));
    Ok((source(url), hints.collect()))
}

fn audio<'a>(
    part: &mut Members<'a>,
    cache: Option<CacheMark>,
    pointer: String,
) -> Result<Block<'a>, Unreadable> {
    let place = part.at("input_audio");
    let mut audio = part.take_object("input_audio")?.ok_or_else(|| Unreadable::at(place, "is missing"))?;
    let media_type = format!("audio/{}", audio.need_text("format")?);
    let source = Source::Data { media_type: Cow::Owned(media_type), base64: audio.need_text("data")? };
    Ok(Block::Media(Media { kind: MediaKind::Audio, source, title: None, cache, pointer }))
}

fn file<'a>(
    part: &mut Members<'a>,
    cache: Option<CacheMark>,
    pointer: String,
) -> Result<Block<'a>, Unreadable> {
    let place = part.at("file");
    let mut file = part.take_object("file")?.ok_or_else(|| Unreadable::at(place.clone(), "is missing"))?;
    let title = file.take_text("filename")?;
    let source = match (file.take_text("file_data")?, file.take_text("file_id")?) {
        (Some(data), _) => source(data),
        (None, Some(id)) => Source::File(id),
        (None, None) => return Err(Unreadable::at(place, "needs file_data or file_id")),
    };
    Ok(Block::Media(Media { kind: MediaKind::Document, source, title, cache, pointer }))
}

/// A `data:` URL (RFC 2397) as the bytes that it holds; any other URL as it is.
pub(crate) fn source(url: Text<'_>) -> Source<'_> {
    match url {
        Cow::Borrowed(url) => match split(url) {
            Some((media_type, base64)) => {
                Source::Data { media_type: Cow::Borrowed(media_type), base64: Cow::Borrowed(base64) }
            }
            None => Source::Url(Cow::Borrowed(url)),
        },
        Cow::Owned(url) => match split(&url) {
            Some((media_type, base64)) => Source::Data {
                media_type: Cow::Owned(media_type.to_owned()),
                base64: Cow::Owned(base64.to_owned()),
            },
            None => Source::Url(Cow::Owned(url)),
        },
    }
}

fn split(url: &str) -> Option<(&str, &str)> {
    let rest =
        url.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")).and_then(|_| url.get(5..))?;
    let (head, data) = rest.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    // Parameters of the type (`;charset=…`) say nothing of an image or a PDF.
    Some((head.split(';').next().unwrap_or(head), data))
}
