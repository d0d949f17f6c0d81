//! A meaning as a request of Responses.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Number;
use serde_json::value::RawValue;

use super::COMMON;
use crate::chat::{data_url, effort_of, joined, may_be_strict};
use crate::dialect::Dialect;
use crate::ir::{
    Block, CommonName, Effort, Format, Losses, Media, MediaKind, Request, Role, Source, Text,
    Tool as Offered, ToolCall, ToolChoice, ToolKind, ToolResult, Turn, Untranslatable,
};
use crate::responses::item::{Item, Part};
use crate::translate::{Destination, Names, WRAPPED_SCHEMA, Written, wrap};

/// OpenAI API reference: function names "with a maximum length of 64".
const MAX_NAME: usize = 64;
/// OpenAI API: `max_output_tokens` below this is refused (`integer_below_min_value`).
const LEAST_OUTPUT: u64 = 16;

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Cow<'r, str>>,
    input: Vec<Item<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<&'r Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'r Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<OutText<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<OutReasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_identifier: Option<Cow<'r, str>>,
    #[serde(flatten)]
    common: BTreeMap<&'static str, &'r RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    store: bool,
    stream: bool,
}

#[derive(Serialize)]
struct OutText<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutFormat<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<&'r RawValue>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutFormat<'r> {
    JsonObject,
    JsonSchema {
        name: &'r str,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'r str>,
        schema: &'r RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

#[derive(Serialize)]
struct OutReasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'r> {
    Custom {
        name: Cow<'r, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'r str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        format: Option<&'r RawValue>,
    },
    Function {
        name: Cow<'r, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'r str>,
        parameters: Option<&'r RawValue>,
        /// Required; left out, the server would try to be strict.
        strict: bool,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'r> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        name: Cow<'r, str>,
    },
}

/// Writes a request for this destination.
///
/// # Errors
/// [`Untranslatable`] where the dialect cannot say what the request means.
pub(crate) fn encode(request: &Request<'_>, to: &Destination<'_>) -> Result<Written, Untranslatable> {
    let mut writer = Writer {
        losses: Losses::default(),
        names: Names::within(MAX_NAME).with_custom_tools(to.custom_tools),
        origin: to.origin,
        input: Vec::new(),
        instructions: Vec::new(),
        custom_calls: BTreeSet::new(),
    };
    let mut known = COMMON.map(|(_, name)| name).to_vec();
    known.push(CommonName::Verbosity);
    writer.losses.leave_out_of(request, &known)?;
    writer.names.learn(&request.tools);
    if !request.stop.is_empty() {
        return Err(Untranslatable::at(
            request.places.stop,
            "Responses has no texts at which an answer ends",
        ));
    }
    if request.top_k.is_some() {
        writer.losses.dropped(request.places.top_k, "Responses has no such parameter");
    }
    writer.turns(&request.turns)?;
    let (tool_choice, tools) = writer.tools(request)?;
    let reasoning = writer.reasoning(request, to);
    // OpenAI's models that reason refuse these unless they are told not to ("Using reasoning models").
    let effort = request.reasoning.and_then(|asked| asked.effort);
    let samples = !to.reasons || effort == Some(Effort::None);
    let verbosity = request.common(CommonName::Verbosity).map(|json| json.as_ref());
    let format = request.format.as_ref().map(format);
    let body = Body {
        model: to.model,
        instructions: (!writer.instructions.is_empty()).then(|| joined(&writer.instructions)),
        input: std::mem::take(&mut writer.input),
        parallel_tool_calls: request.parallel_tools.filter(|_| !tools.is_empty()),
        tools,
        tool_choice,
        max_output_tokens: writer.max_output(request),
        temperature: writer.sampling(request.places.temperature, request.temperature.as_ref(), samples),
        top_p: writer.sampling(request.places.top_p, request.top_p.as_ref(), samples),
        text: (format.is_some() || verbosity.is_some()).then_some(OutText { format, verbosity }),
        include: to.reasons.then_some(["reasoning.encrypted_content"]),
        reasoning,
        safety_identifier: request.user.as_deref().map(|user| writer.names.user(user)),
        common: COMMON
            .iter()
            .filter_map(|(word, name)| Some((*word, request.common(*name)?.as_ref())))
            .collect(),
        // What it would keep nobody could ask for: the client knows another id, or none.
        store: false,
        stream: to.stream,
    };
    let body = serde_json::to_vec(&body)
        .map_err(|_| Untranslatable::at("", "the request cannot be written as JSON"))?;
    Ok(Written { body: body.into(), losses: writer.losses, names: writer.names })
}

fn format<'r>(format: &'r Format<'_>) -> OutFormat<'r> {
    match format {
        Format::Json => OutFormat::JsonObject,
        Format::Schema { name, description, schema, strict } => OutFormat::JsonSchema {
            name: name.as_deref().unwrap_or("answer"),
            description: description.as_deref(),
            schema,
            strict: strict.or_else(|| may_be_strict(schema).then_some(true)),
        },
    }
}

struct Writer<'r> {
    losses: Losses,
    names: Names,
    origin: &'r str,
    input: Vec<Item<'r>>,
    /// The instructions before anything else was said.
    instructions: Vec<&'r str>,
    /// The ids of calls of custom tools: their results have a type of their own.
    custom_calls: BTreeSet<&'r str>,
}

impl<'r> Writer<'r> {
    fn turns(&mut self, turns: &'r [Turn<'_>]) -> Result<(), Untranslatable> {
        for turn in turns {
            match turn.role {
                Role::System => self.system(turn)?,
                Role::User => self.user(turn)?,
                Role::Assistant => self.assistant(turn)?,
            }
        }
        if self.input.is_empty() {
            return Err(Untranslatable::at("/messages", "Responses needs an input"));
        }
        Ok(())
    }

    fn system(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        let mut texts = Vec::new();
        for block in &turn.blocks {
            match block {
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &turn.pointer);
                    texts.push(text.as_ref());
                }
                other => self.losses.leave_block(other, &turn.pointer)?,
            }
        }
        if self.input.is_empty() {
            self.instructions.append(&mut texts);
        } else if !texts.is_empty() {
            let content = vec![Part::InputText { text: joined(&texts) }];
            self.input.push(Item::said("developer", content));
        }
        Ok(())
    }

    /// The results of tools come first: they belong to the turn before.
    fn user(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        for block in &turn.blocks {
            if let Block::ToolResult(result) = block {
                self.result(result)?;
            }
        }
        let mut content = Vec::new();
        for block in &turn.blocks {
            match block {
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &turn.pointer);
                    content.push(Part::InputText { text: Cow::Borrowed(text) });
                }
                Block::Media(media) => content.push(self.media(media)?),
                Block::ToolResult(_) => {}
                other => self.losses.leave_block(other, &turn.pointer)?,
            }
        }
        if !content.is_empty() {
            self.input.push(Item::said("user", content));
        }
        Ok(())
    }

    fn result(&mut self, result: &'r ToolResult<'_>) -> Result<(), Untranslatable> {
        self.losses.cache_mark(result.cache, &result.pointer);
        let mut parts = Vec::new();
        let mut texts = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text, .. } => {
                    texts.push(text.as_ref());
                    parts.push(Part::InputText { text: Cow::Borrowed(text) });
                }
                Block::Media(media) => parts.push(self.media(media)?),
                other => self.losses.leave_block(other, &result.pointer)?,
            }
        }
        if result.failed {
            self.losses
                .changed(format!("{}/is_error", result.pointer), "a failure is told in the result's text");
            parts.insert(0, Part::InputText { text: Cow::Borrowed("Error:") });
        }
        let custom = self.custom_calls.contains(result.call.as_ref());
        let call_id = self.names.id(&result.call);
        // A text is taken by every server, a list only by newer ones.
        self.input.push(if texts.len() == result.content.len() {
            let text = joined(&texts);
            let text = if result.failed { Cow::Owned(format!("Error: {text}")) } else { text };
            Item::output(custom, call_id, text)
        } else {
            Item::output_parts(custom, call_id, parts)
        });
        Ok(())
    }

    /// What is said and what is called are items of their own, in their order.
    fn assistant(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        let mut content = Vec::new();
        for block in &turn.blocks {
            match block {
                Block::Text { text, .. } | Block::Refusal(text) if text.is_empty() => {}
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &turn.pointer);
                    content.push(Part::output_text(Cow::Borrowed(text)));
                }
                Block::Refusal(refusal) => content.push(Part::Refusal { refusal: Cow::Borrowed(refusal) }),
                Block::ToolCall(call) => {
                    self.say(&mut content);
                    let item = self.call(call);
                    self.input.push(item);
                }
                Block::Reasoning { text, signature: Some(seal) }
                    if seal.is_of(Dialect::Responses, self.origin) =>
                {
                    self.say(&mut content);
                    self.input.extend(Item::thoughts_again(text, &seal.value));
                }
                other => self.losses.leave_block(other, &turn.pointer)?,
            }
        }
        self.say(&mut content);
        Ok(())
    }

    fn say(&mut self, content: &mut Vec<Part<'r>>) {
        if !content.is_empty() {
            self.input.push(Item::said("assistant", std::mem::take(content)));
        }
    }

    fn call(&mut self, call: &'r ToolCall<'_>) -> Item<'r> {
        self.losses.cache_mark(call.cache, &call.pointer);
        let (call_id, name) =
            (self.names.id(&call.id), self.names.sent(&call.name, call.namespace.as_deref()));
        if call.custom && !self.names.wraps(true) {
            self.custom_calls.insert(&call.id);
            return Item::custom_call(call_id, name, Cow::Borrowed(&call.arguments));
        }
        let arguments = match call.arguments.as_ref() {
            input if call.custom => Cow::Owned(wrap(input)),
            none if none.trim().is_empty() => Cow::Borrowed("{}"),
            some => Cow::Borrowed(some),
        };
        Item::call(call_id, name, arguments)
    }

    fn media(&mut self, media: &'r Media<'_>) -> Result<Part<'r>, Untranslatable> {
        self.losses.cache_mark(media.cache, &media.pointer);
        let title = media.title.as_deref();
        match (media.kind, &media.source) {
            (_, Source::File(_)) => Err(Untranslatable::at(
                media.pointer.clone(),
                "a stored file is known to the account only that holds it",
            )),
            (MediaKind::Image, Source::Data { media_type, base64 }) => {
                Ok(Part::image(Cow::Owned(data_url(media_type, base64))))
            }
            (MediaKind::Image, Source::Url(url)) => Ok(Part::image(Cow::Borrowed(url))),
            (MediaKind::Audio, Source::Data { media_type, base64 }) => {
                Ok(Part::audio(base64, media_type.strip_prefix("audio/").unwrap_or(media_type)))
            }
            (MediaKind::Document, Source::Data { media_type, base64 }) => {
                Ok(Part::file(title.unwrap_or("document.pdf"), data_url(media_type, base64)))
            }
            (MediaKind::Document, Source::Url(url)) => Ok(Part::file_at(title, url)),
            (_, Source::Plain(text)) => Ok(Part::InputText { text: titled(title, text) }),
            (MediaKind::Audio, Source::Url(_)) => Err(Untranslatable::at(
                media.pointer.clone(),
                "Responses takes sound only with its bytes, and the gateway fetches nothing",
            )),
        }
    }

    /// The tools, and which of them are to be called. A list of allowed ones narrows the list itself.
    #[allow(clippy::type_complexity)] // two halves of one thing, taken apart at once
    fn tools(
        &mut self,
        request: &'r Request<'_>,
    ) -> Result<(Option<Choice<'r>>, Vec<Tool<'r>>), Untranslatable> {
        let mut tools = Vec::new();
        for tool in request.offered()? {
            tools.push(self.tool(tool)?);
        }
        let choice = request.tool_choice.as_ref().filter(|_| !tools.is_empty());
        let choice = choice.map(|choice| match choice {
            ToolChoice::Any(mode) | ToolChoice::Among { mode, .. } => Choice::Word(mode.openai()),
            ToolChoice::Named(name) => self.named(name, request),
        });
        Ok((choice, tools))
    }

    fn named(&self, chosen: &'r Text<'_>, request: &'r Request<'_>) -> Choice<'r> {
        let is_custom =
            |tool: &&Offered<'_>| tool.name == *chosen && matches!(tool.kind, ToolKind::Custom { .. });
        let custom = request.tools.iter().any(|tool| is_custom(&tool)) && !self.names.wraps(true);
        let kind = if custom { "custom" } else { "function" };
        Choice::Named { kind, name: self.names.chosen(chosen, &request.tools) }
    }

    fn tool(&mut self, tool: &'r Offered<'_>) -> Result<Tool<'r>, Untranslatable> {
        self.losses.cache_mark(tool.cache, &tool.pointer);
        let name = self.names.sent(&tool.name, tool.namespace.as_deref());
        let description = tool.description.as_deref();
        match &tool.kind {
            ToolKind::Custom { format } if !self.names.wraps(true) => {
                Ok(Tool::Custom { name, description, format: format.as_deref() })
            }
            ToolKind::Custom { .. } => {
                self.losses.grammar(tool);
                let parameters = serde_json::from_str(WRAPPED_SCHEMA)
                    .map_err(|_| Untranslatable::at("/tools", "has no schema"))?;
                Ok(Tool::Function { name, description, parameters: Some(parameters), strict: false })
            }
            ToolKind::Function => Ok(Tool::Function {
                name,
                description,
                parameters: tool.schema.as_deref(),
                strict: tool.strict.unwrap_or(false),
            }),
        }
    }

    fn sampling<'n>(&mut self, place: &str, asked: Option<&'n Number>, takes: bool) -> Option<&'n Number> {
        let asked = asked?;
        if !takes {
            // 1 is what it is anyway.
            if asked.as_f64() != Some(1.0) {
                self.losses.dropped(place, "a model that reasons takes no sampling parameters");
            }
            return None;
        }
        Some(asked)
    }

    fn max_output(&mut self, request: &Request<'_>) -> Option<u64> {
        let asked = request.max_output?;
        if asked < LEAST_OUTPUT {
            self.losses.changed(request.places.max_output, "Responses takes no limit below 16 tokens");
        }
        Some(asked.max(LEAST_OUTPUT))
    }

    fn reasoning(&mut self, request: &Request<'_>, to: &Destination<'_>) -> Option<OutReasoning> {
        let asked = request.reasoning?;
        let effort = asked.effort.or_else(|| asked.budget.map(effort_of));
        if !to.reasons {
            if effort.is_some_and(|effort| effort > Effort::None) {
                self.losses.dropped(request.places.reasoning, "the model is not known to reason");
            }
            return None;
        }
        if asked.effort.is_none() && effort.is_some() {
            self.losses.changed(request.places.reasoning, "a budget becomes the effort nearest to it");
        }
        let hidden = effort == Some(Effort::None) || asked.visible == Some(false);
        let summary = (!hidden).then_some("auto");
        Some(OutReasoning { effort: effort.map(Effort::name), summary })
    }
}

fn titled<'r>(title: Option<&str>, text: &'r str) -> Cow<'r, str> {
    title.map_or(Cow::Borrowed(text), |title| Cow::Owned(format!("{title}\n\n{text}")))
}
