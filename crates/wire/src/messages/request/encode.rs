//! A meaning as a request of Messages.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Number;
use serde_json::value::RawValue;

use super::super::models::{Family, family};
use super::super::outgoing::{Cache, OutBlock, OutSource};
use super::super::schema::narrowed;
use super::thinking::{self, OutThinking};
use crate::dialect::Dialect;
use crate::ir::{
    Block, CacheMark, Format, Losses, Media, MediaKind, Mode, Request, Role, Source, ToolCall, ToolChoice,
    ToolKind, ToolResult, Turn, Untranslatable,
};
use crate::translate::{Destination, Names, WRAPPED_SCHEMA, Written, wrap};

/// Anthropic API reference: tool names match `^[a-zA-Z0-9_-]{1,128}$`.
const MAX_NAME: usize = 128;

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<OutBlock<'r>>,
    messages: Vec<Message<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'r Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<&'r Number>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'r [Cow<'r, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<OutThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'r>>,
    stream: bool,
}

#[derive(Serialize)]
struct Message<'r> {
    role: &'static str,
    content: Vec<OutBlock<'r>>,
    /// How many results of tools it begins with.
    #[serde(skip)]
    results: usize,
}

#[derive(Serialize)]
struct Tool<'r> {
    name: Cow<'r, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'r str>,
    input_schema: Cow<'r, RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

#[derive(Serialize)]
struct Choice<'r> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Serialize, Default)]
struct OutputConfig<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutFormat<'r>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutFormat<'r> {
    JsonSchema { schema: Cow<'r, RawValue> },
}

#[derive(Serialize)]
struct Metadata<'r> {
    user_id: &'r str,
}

/// Writes a request for this destination.
///
/// # Errors
/// [`Untranslatable`] where the dialect, or a model of this family, cannot say what the request means.
pub(crate) fn encode(request: &Request<'_>, to: &Destination<'_>) -> Result<Written, Untranslatable> {
    let family = family(to.model);
    let mut writer = Writer {
        losses: Losses::default(),
        names: Names::within(MAX_NAME),
        own_thoughts: None,
        system: Vec::new(),
        messages: Vec::new(),
    };
    writer.losses.leave_out_of(request, &[])?;
    writer.names.learn(&request.tools);
    let (choice, tools) = writer.tools(request, family)?;
    let max_tokens = writer.max_tokens(request, to, family);
    let (thinking, effort) =
        match thinking::asked(request, max_tokens, family, is_forced(choice.as_ref()), &mut writer.losses) {
            // Such a model wants the thoughts of the calls whose results it gets (Anthropic documentation, "Extended
            // thinking with tool use"), and no other dialect's client has them unless we sealed them.
            (Some(OutThinking::Enabled { .. }), _)
                if thinking::goes_on_without(request, Dialect::Messages, to.origin) =>
            {
                writer
                    .losses
                    .changed(request.places.reasoning, "a turn whose thoughts are not there goes on without");
                (None, None)
            }
            thinks => thinks,
        };
    let format = writer.format(request, family)?;
    let thinks = matches!(thinking, Some(OutThinking::Enabled { .. } | OutThinking::Adaptive));
    writer.own_thoughts = thinks.then_some(to.origin);
    writer.turns(&request.turns)?;
    writer.trim_prefill();
    let sampling = family.sampling && !thinks;
    let output_config = (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format });
    let body = Body {
        model: to.model,
        max_tokens,
        top_p: writer.top_p(request, sampling),
        temperature: writer.temperature(request, sampling),
        top_k: writer.sampling(request.places.top_k, request.top_k.as_ref(), sampling),
        system: std::mem::take(&mut writer.system),
        messages: std::mem::take(&mut writer.messages),
        tools,
        tool_choice: choice,
        stop_sequences: &request.stop,
        thinking,
        output_config,
        metadata: request.user.as_deref().map(|user_id| Metadata { user_id }),
        stream: to.stream,
    };
    let body = serde_json::to_vec(&body)
        .map_err(|_| Untranslatable::at("", "the request cannot be written as JSON"))?;
    Ok(Written { body: body.into(), losses: writer.losses, names: writer.names })
}

struct Writer<'r> {
    losses: Losses,
    names: Names,
    /// The target, where it may be handed the thoughts that it sealed itself.
    own_thoughts: Option<&'r str>,
    system: Vec<OutBlock<'r>>,
    messages: Vec<Message<'r>>,
}

/// The tools, and which of them are to be called.
type Tools<'r> = (Option<Choice<'r>>, Vec<Tool<'r>>);

impl<'r> Writer<'r> {
    fn turns(&mut self, turns: &'r [Turn<'_>]) -> Result<(), Untranslatable> {
        for turn in turns {
            match turn.role {
                Role::System if self.messages.is_empty() => {
                    let mut blocks = Vec::new();
                    self.blocks(turn, &mut blocks)?;
                    self.system.append(&mut blocks);
                }
                Role::System => self.late_system(turn)?,
                Role::User => {
                    let mut blocks = Vec::new();
                    self.blocks(turn, &mut blocks)?;
                    self.say("user", blocks);
                }
                Role::Assistant => {
                    if self.messages.is_empty() {
                        self.losses.changed(turn.pointer.clone(), "a conversation begins with the user here");
                        self.say("user", vec![OutBlock::text("(The conversation goes on.)", None)]);
                    }
                    let mut blocks = Vec::new();
                    self.blocks(turn, &mut blocks)?;
                    self.say("assistant", blocks);
                }
            }
        }
        if self.messages.is_empty() {
            return Err(Untranslatable::at("/messages", "Messages needs a message of the user"));
        }
        Ok(())
    }

    /// Instructions in mid-conversation: not each model takes them as a role of their own, so they are marked in the user's.
    fn late_system(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        let mut blocks = Vec::new();
        self.blocks(turn, &mut blocks)?;
        self.losses
            .changed(turn.pointer.clone(), "instructions in mid-conversation are told in the user's turn");
        for block in &mut blocks {
            if let OutBlock::Text { text, .. } = block {
                *text = Cow::Owned(format!("<system>\n{text}\n</system>"));
            }
        }
        self.say("user", blocks);
        Ok(())
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
        let is_result = |block: &OutBlock<'_>| matches!(block, OutBlock::ToolResult { .. });
        if !blocks.iter().any(is_result) {
            last.content.extend(blocks);
            return;
        }
        let (results, rest): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_result);
        let at = last.results.min(last.content.len());
        last.results += results.len();
        last.content.splice(at..at, results);
        last.content.extend(rest);
    }

    fn blocks(&mut self, turn: &'r Turn<'_>, out: &mut Vec<OutBlock<'r>>) -> Result<(), Untranslatable> {
        for block in &turn.blocks {
            match block {
                // Empty texts are refused.
                Block::Text { text, .. } | Block::Refusal(text) if text.trim().is_empty() => {}
                Block::Text { text, cache } => out.push(OutBlock::text(text.as_ref(), *cache)),
                Block::Refusal(text) => out.push(OutBlock::text(text.as_ref(), None)),
                Block::Media(media) => out.push(self.media(media)?),
                Block::ToolCall(call) => out.push(self.call(call)),
                Block::ToolResult(result) => {
                    let block = self.result(result)?;
                    out.push(block);
                }
                Block::Reasoning { text, signature: Some(seal) }
                    if self.own_thoughts.is_some_and(|origin| seal.is_of(Dialect::Messages, origin)) =>
                {
                    let signature = Cow::Borrowed(seal.value.as_ref());
                    out.push(OutBlock::Thinking { thinking: Cow::Borrowed(text), signature });
                }
                Block::Reasoning { .. } => {
                    self.losses.thoughts(&turn.pointer);
                }
                Block::Opaque(opaque) => self.losses.leave_out(opaque)?,
            }
        }
        Ok(())
    }

    /// What the model shall go on from may not end in white space (Anthropic API: "final assistant content cannot end with
    /// trailing whitespace").
    fn trim_prefill(&mut self) {
        let last = self.messages.last_mut().filter(|last| last.role == "assistant");
        if let Some(OutBlock::Text { text, .. }) = last.and_then(|last| last.content.last_mut()) {
            let kept = text.trim_end().len();
            match text {
                Cow::Borrowed(text) => *text = text.get(..kept).unwrap_or_default(),
                Cow::Owned(text) => text.truncate(kept),
            }
        }
    }

    fn call(&mut self, call: &'r ToolCall<'_>) -> OutBlock<'r> {
        OutBlock::ToolUse {
            id: self.names.id(&call.id),
            name: self.names.sent(&call.name, call.namespace.as_deref()),
            input: self.input(call),
            cache_control: call.cache.map(Cache::from),
        }
    }

    /// Arguments must be an object here. What a model wrote that is none is handed on as a text, so that it can see its slip.
    fn input(&mut self, call: &'r ToolCall<'_>) -> Cow<'r, RawValue> {
        if call.custom {
            return RawValue::from_string(wrap(&call.arguments)).map_or_else(|_| empty_object(), Cow::Owned);
        }
        let text = call.arguments.trim();
        if text.is_empty() {
            return empty_object();
        }
        if text.starts_with('{')
            && let Ok(raw) = serde_json::from_str::<&RawValue>(text)
        {
            return Cow::Borrowed(raw);
        }
        self.losses.changed(call.pointer.clone(), "arguments that are no JSON object are told as a text");
        let wrapped = serde_json::json!({ "_raw": text }).to_string();
        RawValue::from_string(wrapped).map_or_else(|_| empty_object(), Cow::Owned)
    }

    fn result(&mut self, result: &'r ToolResult<'_>) -> Result<OutBlock<'r>, Untranslatable> {
        let mut content = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text, .. } if text.trim().is_empty() => {}
                Block::Text { text, cache } => content.push(OutBlock::text(text.as_ref(), *cache)),
                Block::Media(media) => content.push(self.media(media)?),
                Block::Opaque(opaque) => self.losses.leave_out(opaque)?,
                _ => {
                    return Err(Untranslatable::at(
                        result.pointer.clone(),
                        "a tool's result holds text, images and documents here",
                    ));
                }
            }
        }
        Ok(OutBlock::ToolResult {
            tool_use_id: self.names.id(&result.call),
            content,
            is_error: result.failed.then_some(true),
            cache_control: result.cache.map(Cache::from),
        })
    }

    fn media(&mut self, media: &'r Media<'_>) -> Result<OutBlock<'r>, Untranslatable> {
        let refuse = |note| Err(Untranslatable::at(media.pointer.clone(), note));
        let source = match &media.source {
            Source::Data { media_type, .. } if !fits(media.kind, media_type) => {
                return refuse("Messages does not take data of this type");
            }
            Source::Data { media_type, base64 } => OutSource::Base64 { media_type, data: base64 },
            Source::Plain(text) => OutSource::Text { media_type: "text/plain", data: text },
            Source::Url(url) if url.starts_with("https://") || url.starts_with("http://") => {
                OutSource::Url { url }
            }
            Source::Url(_) => return refuse("it is neither data nor a web address"),
            Source::File(_) => return refuse("a stored file is known to the account only that holds it"),
        };
        let cache_control = media.cache.map(Cache::from);
        match media.kind {
            MediaKind::Image => Ok(OutBlock::Image { source, cache_control }),
            MediaKind::Document => {
                Ok(OutBlock::Document { source, title: media.title.as_deref(), cache_control })
            }
            MediaKind::Audio => refuse("Messages does not take audio"),
        }
    }

    fn tools(&mut self, request: &'r Request<'_>, family: Family) -> Result<Tools<'r>, Untranslatable> {
        let mut tools = Vec::new();
        for tool in request.offered()? {
            if tool.strict == Some(true) {
                self.losses
                    .dropped(format!("{}/strict", tool.pointer), "schemas are kept to in another way here");
            }
            self.losses.grammar(tool);
            let schema = tool.schema.as_deref().filter(|schema| schema.get().trim_start().starts_with('{'));
            let input_schema = match schema {
                _ if matches!(tool.kind, ToolKind::Custom { .. }) => raw(WRAPPED_SCHEMA),
                Some(schema) if schema.get().trim() != "{}" => Cow::Borrowed(schema),
                _ => no_parameters(),
            };
            tools.push(Tool {
                name: self.names.sent(&tool.name, tool.namespace.as_deref()),
                description: tool.description.as_deref().filter(|text| !text.is_empty()),
                input_schema,
                cache_control: tool.cache.map(Cache::from),
            });
        }
        let parallel = request.parallel_tools == Some(false);
        let (kind, name) = match request.tool_choice.as_ref() {
            _ if tools.is_empty() => return Ok((None, tools)),
            None if parallel => ("auto", None),
            None => return Ok((None, tools)),
            Some(ToolChoice::Any(mode) | ToolChoice::Among { mode, .. }) => (word(*mode), None),
            Some(ToolChoice::Named(name)) => ("tool", Some(self.names.chosen(name, &request.tools))),
        };
        if matches!(kind, "any" | "tool") && !family.forced_tools {
            return Err(Untranslatable::at("/tool_choice", "this model cannot be made to call a tool"));
        }
        let disable_parallel_tool_use = (parallel && kind != "none").then_some(true);
        Ok((Some(Choice { kind, name, disable_parallel_tool_use }), tools))
    }

    /// Messages needs a limit: the client's, else all that the model gives out.
    fn max_tokens(&mut self, request: &Request<'_>, to: &Destination<'_>, family: Family) -> u64 {
        let most = to.max_output.unwrap_or(family.max_output);
        match request.max_output {
            Some(asked) if asked > most && to.max_output.is_some() => {
                self.losses.changed(request.places.max_output, "the model gives out fewer tokens");
                most
            }
            Some(asked) => asked.max(1),
            None => {
                if to.max_output.is_none() && !family.is_known() {
                    self.losses
                        .changed(request.places.max_output, "how much the model gives out is not known");
                }
                most
            }
        }
    }

    /// Newer models take one of the two (Anthropic API: "`temperature` and `top_p` cannot both be specified").
    fn top_p<'n>(&mut self, request: &'n Request<'_>, sampling: bool) -> Option<&'n Number> {
        let asked = request.top_p.as_ref()?;
        if sampling && request.temperature.is_some() {
            if asked.as_f64() != Some(1.0) {
                self.losses.dropped(request.places.top_p, "Messages takes it or a temperature");
            }
            return None;
        }
        self.sampling(request.places.top_p, Some(asked), sampling)
    }

    fn temperature(&mut self, request: &Request<'_>, sampling: bool) -> Option<Number> {
        let asked = self.sampling(request.places.temperature, request.temperature.as_ref(), sampling)?;
        if asked.as_f64().is_some_and(|asked| asked > 1.0) {
            self.losses.changed(request.places.temperature, "Messages takes 1 at most");
            return Some(Number::from(1));
        }
        Some(asked.clone())
    }

    fn sampling<'n>(&mut self, place: &str, asked: Option<&'n Number>, takes: bool) -> Option<&'n Number> {
        let asked = asked?;
        if !takes {
            self.losses.dropped(place, "this model takes no sampling parameters, or none while it thinks");
            return None;
        }
        Some(asked)
    }

    fn format(
        &mut self,
        request: &'r Request<'_>,
        family: Family,
    ) -> Result<Option<OutFormat<'r>>, Untranslatable> {
        let place = request.places.format;
        match &request.format {
            None => Ok(None),
            Some(_) if !family.formats => Err(Untranslatable::at(place, "this model keeps to no schema")),
            Some(Format::Json) => Err(Untranslatable::at(place, "Messages knows JSON by a schema only")),
            Some(Format::Schema { name, description, schema, .. }) => {
                let schema = narrowed(schema).map_err(|note| Untranslatable::at(place, note))?;
                if schema.told {
                    let note = "what Messages does not keep to in a schema is told in its descriptions";
                    self.losses.changed(place, note);
                }
                if name.is_some() || description.is_some() {
                    self.losses.dropped(request.places.format_name, "a schema has no name here");
                }
                Ok(Some(OutFormat::JsonSchema { schema: schema.schema }))
            }
        }
    }
}

fn is_forced(choice: Option<&Choice<'_>>) -> bool {
    choice.is_some_and(|choice| matches!(choice.kind, "any" | "tool"))
}

fn fits(kind: MediaKind, media_type: &str) -> bool {
    match kind {
        MediaKind::Image => {
            matches!(media_type, "image/jpeg" | "image/jpg" | "image/png" | "image/gif" | "image/webp")
        }
        MediaKind::Document => media_type == "application/pdf",
        MediaKind::Audio => false,
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "auto",
        Mode::Never => "none",
        Mode::Required => "any",
    }
}

fn empty_object<'r>() -> Cow<'r, RawValue> {
    raw("{}")
}

fn no_parameters<'r>() -> Cow<'r, RawValue> {
    raw("{\"type\":\"object\",\"properties\":{}}")
}

fn raw<'r>(json: &'static str) -> Cow<'r, RawValue> {
    serde_json::from_str::<&RawValue>(json).map_or_else(|_| Cow::Owned(Box::default()), Cow::Borrowed)
}

impl From<CacheMark> for Cache {
    fn from(mark: CacheMark) -> Self {
        Self { kind: "ephemeral", ttl: (mark == CacheMark::Long).then_some("1h") }
    }
}
