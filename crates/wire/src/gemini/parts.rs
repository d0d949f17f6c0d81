//! The parts of a content, in a request and in an answer (Gemini API reference, "Part").

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::seals;
use crate::dialect::Dialect;
use crate::ir::{
    Block, Media, MediaKind, Opaque, Signature, Source, Text, ToolCall, ToolResult, Unreadable, Weight,
};
use crate::json::{self, Members};

/// A call that was made: its id, its name, and whether its result has been seen.
#[derive(Debug)]
struct Called<'a> {
    id: Text<'a>,
    name: Text<'a>,
    answered: bool,
}

/// Reads the parts of one conversation. Ids may be missing here: a result then belongs to the first call of its name that
/// has none yet.
#[derive(Debug, Default)]
pub(super) struct PartReader<'a> {
    called: Vec<Called<'a>>,
}

pub(super) fn opaque(pointer: String, raw: &RawValue, weight: Weight) -> Opaque<'_> {
    Opaque { dialect: Dialect::Gemini, pointer, json: Cow::Borrowed(raw), weight }
}

/// What is left of an object, none of which changes what the request means.
pub(super) fn hints<'a>(members: Members<'a>) -> impl Iterator<Item = Opaque<'a>> {
    members.rest().map(|(pointer, _, raw)| opaque(pointer, raw, Weight::Hint))
}

/// Takes an object whose members may be in either spelling.
pub(super) fn object<'a>(members: &mut Members<'a>, name: &str) -> Result<Option<Members<'a>>, Unreadable> {
    Ok(members.take_object(name)?.map(Members::camel))
}

/// Takes a list; Google's own examples write a single element without the brackets.
pub(super) fn list_or_one<'a>(
    members: &mut Members<'a>,
    name: &str,
) -> Result<Option<Vec<&'a RawValue>>, Unreadable> {
    let place = members.at(name);
    let Some(raw) = members.take(name) else { return Ok(None) };
    match json::list(raw) {
        Some(list) => Ok(Some(list)),
        None if raw.get().starts_with('{') => Ok(Some(vec![raw])),
        None => Err(Unreadable::at(place, "must be a list")),
    }
}

impl<'a> PartReader<'a> {
    /// Reads a part. `mint` makes an id for a call that has none.
    pub(super) fn part(
        &mut self,
        raw: &'a RawValue,
        pointer: String,
        mint: impl FnOnce() -> String,
        blocks: &mut Vec<Block<'a>>,
    ) -> Result<(), Unreadable> {
        let mut part = Members::of(raw, pointer.clone())?.camel();
        let seal = part.take_text("thoughtSignature")?.and_then(seals::of_client);
        let thought = part.take_as("thought", "must be true or false")?.unwrap_or(false);
        let text = part.take_text("text")?;
        if let Some(text) = text.as_ref().filter(|_| thought) {
            think(text.clone(), seal, blocks);
            blocks.extend(hints(part).map(Block::Opaque));
            return Ok(());
        }
        // The seal stands on whatever part follows it.
        blocks.extend(seal.map(|seal| Block::Reasoning { text: Cow::Borrowed(""), signature: Some(seal) }));
        if let Some(text) = text {
            // The last chunk of a stream has an empty one, which clients keep.
            if !text.is_empty() {
                blocks.push(Block::Text { text, cache: None });
            }
        } else if let Some(mut call) = object(&mut part, "functionCall")? {
            blocks.push(self.call(&mut call, pointer, mint)?);
            blocks.extend(hints(call).map(Block::Opaque));
        } else if let Some(mut result) = object(&mut part, "functionResponse")? {
            blocks.push(self.result(&mut result, pointer)?);
            blocks.extend(hints(result).map(Block::Opaque));
        } else if let Some(mut data) = object(&mut part, "inlineData")? {
            blocks.push(inline(&mut data, raw, pointer)?);
            blocks.extend(hints(data).map(Block::Opaque));
        } else if let Some(mut file) = object(&mut part, "fileData")? {
            blocks.push(stored(&mut file, raw, pointer)?);
            blocks.extend(hints(file).map(Block::Opaque));
        } else {
            // Code that the provider ran, calls of its own tools, what is not known yet.
            let weight = Weight::Meaning;
            blocks.extend(part.rest().map(|(pointer, _, raw)| Block::Opaque(opaque(pointer, raw, weight))));
            return Ok(());
        }
        blocks.extend(hints(part).map(Block::Opaque));
        Ok(())
    }

    fn call(
        &mut self,
        call: &mut Members<'a>,
        pointer: String,
        mint: impl FnOnce() -> String,
    ) -> Result<Block<'a>, Unreadable> {
        let name = call.need_text("name")?;
        let id = call.take_text("id")?.filter(|id| !id.is_empty()).unwrap_or_else(|| Cow::Owned(mint()));
        self.called.push(Called { id: id.clone(), name: name.clone(), answered: false });
        let arguments = call.take("args").map_or(Cow::Borrowed("{}"), |raw| Cow::Borrowed(raw.get()));
        let call = ToolCall { id, name, namespace: None, custom: false, arguments, cache: None, pointer };
        Ok(Block::ToolCall(call))
    }

    fn result(&mut self, result: &mut Members<'a>, pointer: String) -> Result<Block<'a>, Unreadable> {
        let name = result.need_text("name")?;
        let id = result.take_text("id")?.filter(|id| !id.is_empty());
        let known = |called: &&mut Called<'a>| id.as_ref().is_some_and(|id| called.id == *id);
        let found = match self.called.iter_mut().find(known) {
            Some(called) => Some(called),
            None => self.called.iter_mut().find(|called| !called.answered && called.name == name),
        };
        let Some(called) = found else {
            return Err(Unreadable::at(pointer, "answers no call that was made before it"));
        };
        called.answered = true;
        let call = called.id.clone();
        let (mut content, failed) = said(result)?;
        for (place, raw) in result.take_list("parts")?.unwrap_or_default().into_iter().enumerate() {
            let pointer = format!("{}/parts/{place}", result.pointer());
            let mut part = Members::of(raw, pointer.clone())?.camel();
            content.push(match object(&mut part, "inlineData")? {
                Some(mut data) => inline(&mut data, raw, pointer)?,
                None => Block::Opaque(opaque(pointer, raw, Weight::Meaning)),
            });
        }
        Ok(Block::ToolResult(ToolResult { call, content, failed, cache: None, pointer }))
    }
}

/// Adds a thought. A stream tells it in pieces, and its seal at the end: together they are one.
fn think<'a>(text: Text<'a>, seal: Option<Signature<'a>>, blocks: &mut Vec<Block<'a>>) {
    match blocks.last_mut() {
        Some(Block::Reasoning { text: whole, signature: signature @ None }) => {
            whole.to_mut().push_str(&text);
            *signature = seal;
        }
        _ => blocks.push(Block::Reasoning { text, signature: seal }),
    }
}

/// What a tool said: `output` and `error` are Google's own names for it; any other object is told as it is.
fn said<'a>(result: &mut Members<'a>) -> Result<(Vec<Block<'a>>, bool), Unreadable> {
    let Some(raw) = result.take("response") else { return Ok((Vec::new(), false)) };
    let mut response = Members::of(raw, result.at("response"))?;
    let (output, error) = (response.take("output"), response.take("error"));
    let alone = response.rest().next().is_none();
    let (raw, failed) = match (output, error) {
        (Some(output), None) if alone => (output, false),
        (None, Some(error)) if alone => (error, true),
        _ => (raw, error.is_some()),
    };
    let text = json::text(raw.get().as_bytes()).unwrap_or_else(|| Cow::Borrowed(raw.get()));
    Ok((vec![Block::Text { text, cache: None }], failed))
}

/// What a medium of this type is; `None` for one that only this dialect has.
fn kind(media_type: &str) -> Option<MediaKind> {
    match media_type.split('/').next() {
        Some("image") => Some(MediaKind::Image),
        Some("audio") => Some(MediaKind::Audio),
        Some("video") => None,
        _ => Some(MediaKind::Document),
    }
}

fn inline<'a>(data: &mut Members<'a>, whole: &'a RawValue, pointer: String) -> Result<Block<'a>, Unreadable> {
    let media_type = data.need_text("mimeType")?;
    let base64 = standard(data.need_text("data")?);
    let title = data.take_text("displayName")?;
    Ok(match kind(&media_type) {
        Some(kind) => {
            let source = Source::Data { media_type, base64 };
            Block::Media(Media { kind, source, title, cache: None, pointer })
        }
        None => Block::Opaque(opaque(pointer, whole, Weight::Meaning)),
    })
}

/// Bytes in the alphabet that the other dialects ask for: Google's SDKs write the one for addresses (RFC 4648, section 5),
/// and its API takes both.
fn standard(base64: Text<'_>) -> Text<'_> {
    let padding = match base64.len() % 4 {
        2 => "==",
        3 => "=",
        _ => "",
    };
    if padding.is_empty() && memchr::memchr2(b'-', b'_', base64.as_bytes()).is_none() {
        return base64;
    }
    Cow::Owned(base64.replace('-', "+").replace('_', "/") + padding)
}

/// Where Google's own stores are.
const STORES: [&str; 2] = ["https://generativelanguage.googleapis.com/", "gs://"];

fn stored<'a>(file: &mut Members<'a>, whole: &'a RawValue, pointer: String) -> Result<Block<'a>, Unreadable> {
    let uri = file.need_text("fileUri")?;
    let media_type = file.take_text("mimeType")?.unwrap_or(Cow::Borrowed("image/*"));
    let title = file.take_text("displayName")?;
    let store = !uri.starts_with("http") || STORES.iter().any(|store| uri.starts_with(store));
    Ok(match kind(&media_type) {
        Some(kind) => {
            let source = if store { Source::File(uri) } else { Source::Url(uri) };
            Block::Media(Media { kind, source, title, cache: None, pointer })
        }
        None => Block::Opaque(opaque(pointer, whole, Weight::Meaning)),
    })
}
