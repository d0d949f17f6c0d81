//! A meaning as a request of Converse (Amazon Bedrock API Reference, "Converse").

mod maker;
mod media;
mod settings;
mod tools;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use self::maker::Maker;
use self::settings::{Inference, OutputConfig, Tier};
use self::tools::ToolConfig;
use super::REDACTED;
use super::outgoing::{CachePoint, OutBlock, OutCall, OutResult, OutThoughts};
use crate::dialect::Dialect;
use crate::ir::{
    Block, CacheMark, CommonName, Losses, Request, Role, Signature, ToolCall, ToolResult, Turn,
    Untranslatable,
};
use crate::json::{arguments, wrapped};
use crate::translate::{Destination, Names, Written, wrap};

/// Amazon Bedrock API Reference, "ToolSpecification".
const MAX_NAME: usize = 64;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'r> {
    messages: Vec<Message<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<OutBlock<'r>>,
    #[serde(skip_serializing_if = "Inference::says_nothing")]
    inference_config: Inference<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<Tier>,
}

#[derive(Serialize)]
struct Message<'r> {
    role: &'static str,
    content: Vec<OutBlock<'r>>,
    /// How many results of tools it begins with.
    #[serde(skip)]
    results: usize,
}

/// Writes a request for this destination.
///
/// # Errors
/// [`Untranslatable`] where the dialect, or a model of this maker, cannot say what the request means.
pub(crate) fn encode(request: &Request<'_>, to: &Destination<'_>) -> Result<Written, Untranslatable> {
    let mut writer = Writer {
        losses: Losses::default(),
        names: Names::within(MAX_NAME),
        maker: Maker::of(to.model),
        own_thoughts: None,
        documents: BTreeSet::new(),
        system: Vec::new(),
        messages: Vec::new(),
    };
    writer.losses.leave_out_of(request, &[CommonName::ServiceTier])?;
    writer.names.learn(&request.tools);
    let (tool_config, choice) = writer.tools(request)?;
    let settings = settings::write(request, to, writer.maker, choice, &mut writer.losses)?;
    writer.own_thoughts = settings.thinks.then_some(to.origin);
    writer.turns(&request.turns)?;
    writer.trim_prefill();
    let body = Body {
        messages: std::mem::take(&mut writer.messages),
        system: std::mem::take(&mut writer.system),
        inference_config: settings.inference,
        tool_config,
        additional_model_request_fields: settings.additional,
        output_config: settings.output,
        service_tier: settings.tier,
    };
    let body = serde_json::to_vec(&body)
        .map_err(|_| Untranslatable::at("", "the request cannot be written as JSON"))?;
    Ok(Written { body: body.into(), losses: writer.losses, names: writer.names })
}

struct Writer<'r> {
    losses: Losses,
    names: Names,
    maker: Maker,
    /// The target, where it may be handed the thoughts that it sealed itself.
    own_thoughts: Option<&'r str>,
    /// The names of the documents so far.
    documents: BTreeSet<String>,
    system: Vec<OutBlock<'r>>,
    messages: Vec<Message<'r>>,
}

impl<'r> Writer<'r> {
    fn turns(&mut self, turns: &'r [Turn<'_>]) -> Result<(), Untranslatable> {
        for turn in turns {
            match turn.role {
                Role::System if self.messages.is_empty() => {
                    let blocks = self.blocks(turn)?;
                    if blocks.iter().any(|b| !matches!(b, OutBlock::Text(_) | OutBlock::CachePoint(_))) {
                        let note = "instructions are texts here";
                        return Err(Untranslatable::at(turn.pointer.clone(), note));
                    }
                    self.system.extend(blocks);
                }
                Role::System => self.late_system(turn)?,
                Role::User => {
                    let mut blocks = self.blocks(turn)?;
                    self.introduce_documents(turn, &mut blocks);
                    self.say("user", blocks);
                }
                Role::Assistant => {
                    if self.messages.is_empty() {
                        self.losses.changed(turn.pointer.clone(), "a conversation begins with the user here");
                        self.say("user", vec![OutBlock::text("(The conversation goes on.)")]);
                    }
                    let blocks = self.blocks(turn)?;
                    self.say("assistant", blocks);
                }
            }
        }
        if self.messages.is_empty() {
            return Err(Untranslatable::at("/messages", "Converse needs a message of the user"));
        }
        Ok(())
    }

    /// Not each model takes instructions in mid-conversation as a role of their own, so they are marked in the user's.
    fn late_system(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        let mut blocks = self.blocks(turn)?;
        self.losses
            .changed(turn.pointer.clone(), "instructions in mid-conversation are told in the user's turn");
        for block in &mut blocks {
            if let OutBlock::Text(text) = block {
                *text = Cow::Owned(format!("<system>\n{text}\n</system>"));
            }
        }
        self.say("user", blocks);
        Ok(())
    }

    /// "If you include a document, you must also include a text" (Amazon Bedrock API Reference, "Message").
    fn introduce_documents(&mut self, turn: &Turn<'_>, blocks: &mut Vec<OutBlock<'r>>) {
        let text = |block: &OutBlock<'_>| matches!(block, OutBlock::Text(_));
        if blocks.iter().any(|b| matches!(b, OutBlock::Document(_))) && !blocks.iter().any(text) {
            self.losses.changed(turn.pointer.clone(), "a document needs a text beside it here");
            blocks.push(OutBlock::text("(See the document.)"));
        }
    }

    /// Adds to the conversation. Turns of one role are one message, and the results of tools come first in it: they must
    /// follow the calls directly.
    fn say(&mut self, role: &'static str, blocks: Vec<OutBlock<'r>>) {
        if blocks.is_empty() {
            return;
        }
        let same = self.messages.last().is_some_and(|last| last.role == role);
        if !same {
            self.messages.push(Message { role, content: Vec::new(), results: 0 });
        }
        let Some(last) = self.messages.last_mut() else { return };
        let is_result = |block: &OutBlock<'_>| matches!(block, OutBlock::ToolResult(_));
        let (results, rest): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_result);
        let at = last.results.min(last.content.len());
        last.results += results.len();
        last.content.splice(at..at, results);
        last.content.extend(rest);
    }

    fn blocks(&mut self, turn: &'r Turn<'_>) -> Result<Vec<OutBlock<'r>>, Untranslatable> {
        let mut out = Vec::new();
        for block in &turn.blocks {
            let (written, cache) = match block {
                // Empty texts are refused.
                Block::Text { text, .. } | Block::Refusal(text) if text.trim().is_empty() => continue,
                Block::Text { text, cache } => (OutBlock::text(text.as_ref()), *cache),
                Block::Refusal(text) => (OutBlock::text(text.as_ref()), None),
                Block::Media(media) => (self.media(media)?, media.cache),
                Block::ToolCall(call) => (self.call(call), call.cache),
                Block::ToolResult(result) => (self.result(result)?, result.cache),
                Block::Reasoning { text, signature } => {
                    match signature.as_ref().and_then(|seal| self.thoughts(text, seal)) {
                        Some(thoughts) => (OutBlock::ReasoningContent(thoughts), None),
                        None => {
                            self.losses.thoughts(&turn.pointer);
                            continue;
                        }
                    }
                }
                Block::Opaque(opaque) => {
                    self.losses.leave_out(opaque)?;
                    continue;
                }
            };
            out.push(written);
            out.extend(self.cache_point(cache, &turn.pointer).map(OutBlock::CachePoint));
        }
        Ok(out)
    }

    fn thoughts<'b>(&self, text: &'b str, seal: &'b Signature<'_>) -> Option<OutThoughts<'b>> {
        self.own_thoughts.filter(|origin| seal.is_of(Dialect::Bedrock, origin))?;
        Some(match seal.value.strip_prefix(REDACTED) {
            Some(data) => OutThoughts::RedactedContent(data),
            None => OutThoughts::ReasoningText { text, signature: &seal.value },
        })
    }

    /// What the model shall go on from may not end in white space (Claude's rule: "final assistant content cannot end with
    /// trailing whitespace").
    fn trim_prefill(&mut self) {
        let last = self.messages.last_mut().filter(|last| last.role == "assistant");
        if let Some(OutBlock::Text(text)) = last.and_then(|last| last.content.last_mut()) {
            let kept = text.trim_end().len();
            match text {
                Cow::Borrowed(text) => *text = text.get(..kept).unwrap_or_default(),
                Cow::Owned(text) => text.truncate(kept),
            }
        }
    }

    fn call(&mut self, call: &'r ToolCall<'_>) -> OutBlock<'r> {
        let input = match arguments(&call.arguments).filter(|_| !call.custom) {
            Some(input) => input,
            None if call.custom => Cow::Owned(
                serde_json::value::RawValue::from_string(wrap(&call.arguments)).unwrap_or_default(),
            ),
            None => {
                let note = "arguments that are no JSON object are told as a text";
                self.losses.changed(call.pointer.clone(), note);
                wrapped(&call.arguments)
            }
        };
        OutBlock::ToolUse(OutCall {
            tool_use_id: self.names.id(&call.id),
            name: self.names.sent(&call.name, call.namespace.as_deref()),
            input,
        })
    }

    fn result(&mut self, result: &'r ToolResult<'_>) -> Result<OutBlock<'r>, Untranslatable> {
        let mut content = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text, .. } if text.trim().is_empty() => {}
                Block::Text { text, cache } => {
                    self.no_cache_point(*cache, &result.pointer);
                    content.push(OutBlock::text(text.as_ref()));
                }
                Block::Media(media) => {
                    self.no_cache_point(media.cache, &media.pointer);
                    content.push(self.media(media)?);
                }
                Block::Opaque(opaque) => self.losses.leave_out(opaque)?,
                _ => {
                    let note = "a tool's result holds text, images and documents here";
                    return Err(Untranslatable::at(result.pointer.clone(), note));
                }
            }
            if matches!(content.last(), Some(OutBlock::Audio(_))) {
                let note = "a tool's result holds no audio here";
                return Err(Untranslatable::at(result.pointer.clone(), note));
            }
        }
        // An empty list is refused.
        if content.is_empty() {
            content.push(OutBlock::text("(no output)"));
        }
        Ok(OutBlock::ToolResult(OutResult {
            tool_use_id: self.names.id(&result.call),
            content,
            status: result.failed.then_some("error"),
        }))
    }

    /// The mark behind a block, for models that take marks.
    fn cache_point(&mut self, mark: Option<CacheMark>, place: &str) -> Option<CachePoint> {
        if !self.maker.takes_cache_points() {
            self.losses.cache_mark(mark, place);
            return None;
        }
        let long = mark? == CacheMark::Long;
        if long && !self.maker.caches_long() {
            self.losses
                .changed(format!("{place}/cache_control"), "this model keeps prompts for five minutes");
        }
        let ttl = (long && self.maker.caches_long()).then_some("1h");
        Some(CachePoint { kind: "default", ttl })
    }

    fn no_cache_point(&mut self, mark: Option<CacheMark>, place: &str) {
        if mark.is_some() {
            self.losses.dropped(format!("{place}/cache_control"), "a mark stands behind a whole result here");
        }
    }
}
