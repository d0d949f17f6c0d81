//! A plain answer of generateContent as its meaning, and back (Gemini API reference, "GenerateContentResponse").

use std::borrow::Cow;

use serde::Serialize;

use super::finish::{reason, stop};
use super::outgoing::{OutCall, OutContent, OutPart};
use super::parts::{PartReader, object};
use super::seals::{self, NO_SEAL};
use super::usage::{Counts, OutUsage};
use crate::chat::call_id;
use crate::ir::{Answer, Block, Stop, Unreadable};
use crate::json::{Members, arguments, wrapped};

/// Reads an answer. Of several candidates the first is the answer; a blocked prompt is a refusal without words.
///
/// # Errors
/// [`Unreadable`] if it is none.
pub(crate) fn decode(body: &[u8]) -> Result<Answer<'_>, Unreadable> {
    let mut members = Members::of_body(body)?;
    let id = members.take_text("responseId")?.unwrap_or_default();
    let mut blocks = Vec::new();
    let candidates = members.take_list("candidates")?.unwrap_or_default();
    let stop = match candidates.first() {
        Some(first) => {
            let mut candidate = Members::of(first, "/candidates/0")?;
            let mut reader = PartReader::default();
            let mut content = object(&mut candidate, "content")?.unwrap_or_default();
            for (place, raw) in content.take_list("parts")?.unwrap_or_default().into_iter().enumerate() {
                let pointer = format!("/candidates/0/content/parts/{place}");
                reader.part(raw, pointer, || call_id(&id, place), &mut blocks)?;
            }
            let called = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
            stop(&candidate.take_text("finishReason")?.unwrap_or_default(), called)
        }
        None if members.take("promptFeedback").is_some() => Stop::Refusal,
        None => return Err(Unreadable::at("/candidates", "is empty")),
    };
    let mut counts = Counts::default();
    if let Some(usage) = members.take("usageMetadata") {
        counts.take(usage.get());
    }
    let model = members.take_text("modelVersion")?.unwrap_or_default();
    Ok(Answer { id, model, blocks, stop, usage: counts.usage() })
}

/// An answer, or a chunk of one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Generated<'a> {
    pub(super) candidates: [Candidate<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_metadata: Option<OutUsage>,
    pub(super) model_version: &'a str,
    pub(super) response_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) content: OutContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<&'static str>,
    pub(super) index: u8,
}

impl<'a> Candidate<'a> {
    /// Nobody reads a content without parts: where there is nothing to say, an empty text says it, as Google's own last
    /// chunks do.
    pub(super) fn of(mut parts: Vec<OutPart<'a>>, stop: Option<&Stop>) -> Self {
        if parts.is_empty() {
            parts.push(OutPart::text(""));
        }
        let content = OutContent { role: Some("model"), parts };
        Self { content, finish_reason: stop.map(reason), index: 0 }
    }
}

/// Writes an answer.
///
/// # Errors
/// If it cannot be written as JSON.
pub(crate) fn encode(answer: &Answer<'_>) -> serde_json::Result<Vec<u8>> {
    let mut parts: Vec<_> = answer.blocks.iter().filter_map(|block| outgoing(block, &answer.stop)).collect();
    if let Some(call) = parts.iter_mut().find(|part| part.function_call.is_some()) {
        call.thought_signature = Some(Cow::Borrowed(NO_SEAL));
    }
    serde_json::to_vec(&Generated {
        candidates: [Candidate::of(parts, Some(&answer.stop))],
        usage_metadata: answer.usage.map(OutUsage::from),
        model_version: &answer.model,
        response_id: &answer.id,
    })
}

fn outgoing<'a>(block: &'a Block<'_>, stop: &Stop) -> Option<OutPart<'a>> {
    match block {
        Block::Text { text, .. } | Block::Refusal(text) => Some(OutPart::text(text.as_ref())),
        Block::Reasoning { text, signature } => {
            let seal = signature.as_ref().and_then(|signature| seals::for_client(&signature.value));
            let says = !text.is_empty() || seal.is_some();
            let thought_signature = seal.map(Cow::Owned);
            says.then(|| OutPart { thought_signature, ..OutPart::thought(text.as_ref()) })
        }
        Block::ToolCall(call) => {
            let args = args(&call.arguments, stop)?;
            let (id, name) = (Cow::Borrowed(call.id.as_ref()), Cow::Borrowed(call.name.as_ref()));
            Some(OutPart::call(OutCall { id, name, args }))
        }
        _ => None,
    }
}

/// Arguments of a call, which are an object here. A call that was cut off is none; what else a model wrote is handed on as a
/// text.
pub(super) fn args<'a>(text: &'a str, stop: &Stop) -> Option<Cow<'a, serde_json::value::RawValue>> {
    let cut = matches!(stop, Stop::ContextFull | Stop::Length | Stop::Refusal);
    arguments(text).or_else(|| (!cut).then(|| wrapped(text)))
}
