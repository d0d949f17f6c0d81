//! A meaning as a request of Chat Completions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Number;
use serde_json::value::RawValue;

use super::COMMON;
use super::strict::may_be_strict;
use crate::ir::{
    Block, Effort, Format, Losses, Media, MediaKind, Request, Role, Source, Tool as Offered, ToolCall,
    ToolChoice, ToolKind, ToolResult, Turn, Untranslatable,
};
use crate::passthrough::MaxTokensName;
use crate::translate::{Destination, Names, WRAPPED_SCHEMA, Written, wrap};

/// OpenAI API reference: "up to 4 sequences".
const MAX_STOPS: usize = 4;
/// OpenAI API reference: function names "with a maximum length of 64".
const MAX_NAME: usize = 64;

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    messages: Vec<Message<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<&'r Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'r Number>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'r [Cow<'r, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'r, str>>,
    #[serde(flatten)]
    common: BTreeMap<&'static str, &'r RawValue>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize, Default)]
struct Message<'r> {
    role: &'static str,
    content: Option<Content<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'r, str>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'r> {
    Text(Cow<'r, str>),
    Parts(Vec<Part<'r>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'r> {
    Text { text: Cow<'r, str> },
    ImageUrl { image_url: ImageUrl },
    InputAudio { input_audio: InputAudio<'r> },
    File { file: File<'r> },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct InputAudio<'r> {
    data: &'r str,
    format: &'r str,
}

#[derive(Serialize)]
struct File<'r> {
    file_data: String,
    filename: &'r str,
}

#[derive(Serialize)]
struct Call<'r> {
    id: Cow<'r, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<Called<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<CalledCustom<'r>>,
}

#[derive(Serialize)]
struct Called<'r> {
    name: Cow<'r, str>,
    arguments: Cow<'r, str>,
}

#[derive(Serialize)]
struct CalledCustom<'r> {
    name: Cow<'r, str>,
    input: &'r str,
}

#[derive(Serialize)]
struct Tool<'r> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<Function<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<Custom<'r>>,
}

#[derive(Serialize)]
struct Custom<'r> {
    name: Cow<'r, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'r RawValue>,
}

#[derive(Serialize)]
struct Function<'r> {
    name: Cow<'r, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'r RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'r> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Name<'r>,
    },
    NamedCustom {
        #[serde(rename = "type")]
        kind: &'static str,
        custom: Name<'r>,
    },
}

#[derive(Serialize)]
struct Name<'r> {
    name: Cow<'r, str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'r> {
    JsonObject,
    JsonSchema { json_schema: Schema<'r> },
}

#[derive(Serialize)]
struct Schema<'r> {
    name: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'r str>,
    schema: &'r RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// Writes a request for this destination.
///
/// # Errors
/// [`Untranslatable`] where the dialect cannot say what the request means.
pub(crate) fn encode(request: &Request<'_>, to: &Destination<'_>) -> Result<Written, Untranslatable> {
    let mut writer = Writer {
        losses: Losses::default(),
        names: Names::within(MAX_NAME).with_custom_tools(to.custom_tools),
        messages: Vec::new(),
        parts: Vec::new(),
    };
    writer.losses.leave_out_of(request, &COMMON.map(|(_, name)| name))?;
    writer.names.learn(&request.tools);
    writer.turns(&request.turns)?;
    if request.stop.len() > MAX_STOPS {
        return Err(Untranslatable::at(
            request.places.stop,
            "there are more than the four that Chat Completions takes",
        ));
    }
    if request.top_k.is_some() {
        writer.losses.dropped(request.places.top_k, "Chat Completions has no such parameter");
    }
    let allowed = writer.tools(request);
    let (choice, tools) = allowed?;
    let offers = !tools.is_empty();
    let newer = to.max_tokens_name != Some(MaxTokensName::MaxTokens);
    let body = Body {
        model: to.model,
        messages: std::mem::take(&mut writer.messages),
        tools,
        tool_choice: choice,
        parallel_tool_calls: request.parallel_tools.filter(|_| offers),
        max_tokens: request.max_output.filter(|_| !newer),
        max_completion_tokens: request.max_output.filter(|_| newer),
        temperature: request.temperature.as_ref(),
        top_p: request.top_p.as_ref(),
        stop: &request.stop,
        response_format: request.format.as_ref().map(response_format),
        reasoning_effort: writer.effort(request, to),
        user: request.user.as_deref().map(|user| writer.names.user(user)),
        common: COMMON
            .iter()
            .filter_map(|(word, name)| Some((*word, request.common(*name)?.as_ref())))
            .collect(),
        stream: to.stream,
        stream_options: (to.stream && to.include_usage).then_some(StreamOptions { include_usage: true }),
    };
    let body = serde_json::to_vec(&body)
        .map_err(|_| Untranslatable::at("", "the request cannot be written as JSON"))?;
    Ok(Written { body: body.into(), losses: writer.losses, names: writer.names })
}

fn response_format<'r>(format: &'r Format<'_>) -> ResponseFormat<'r> {
    match format {
        Format::Json => ResponseFormat::JsonObject,
        Format::Schema { name, description, schema, strict } => ResponseFormat::JsonSchema {
            json_schema: Schema {
                name: name.as_deref().unwrap_or("answer"),
                description: description.as_deref(),
                schema,
                strict: strict.or_else(|| may_be_strict(schema).then_some(true)),
            },
        },
    }
}

struct Writer<'r> {
    losses: Losses,
    names: Names,
    messages: Vec<Message<'r>>,
    /// What the user says, until it is known that no result of a tool follows.
    parts: Vec<Part<'r>>,
}

impl<'r> Writer<'r> {
    fn turns(&mut self, turns: &'r [Turn<'_>]) -> Result<(), Untranslatable> {
        for turn in turns {
            if turn.role != Role::User {
                self.end_user();
            }
            match turn.role {
                Role::System => self.system(turn)?,
                Role::User => self.user(turn)?,
                Role::Assistant => self.assistant(turn)?,
            }
        }
        self.end_user();
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
        if !texts.is_empty() {
            let content = Some(Content::Text(joined(&texts)));
            self.messages.push(Message { role: "system", content, ..Message::default() });
        }
        Ok(())
    }

    /// The results of tools come first, each as a message of its own, since they belong to the turn before. What else the
    /// user says waits until all of them are there.
    fn user(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        for block in &turn.blocks {
            if let Block::ToolResult(result) = block {
                self.result(result)?;
            }
        }
        for block in &turn.blocks {
            match block {
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &turn.pointer);
                    self.parts.push(Part::Text { text: Cow::Borrowed(text) });
                }
                Block::Media(media) => {
                    let part = self.media(media)?;
                    self.parts.push(part);
                }
                Block::ToolResult(_) => {}
                other => self.losses.leave_block(other, &turn.pointer)?,
            }
        }
        Ok(())
    }

    /// Writes what the user said.
    fn end_user(&mut self) {
        if let Some(content) = content(std::mem::take(&mut self.parts)) {
            self.messages.push(Message { role: "user", content: Some(content), ..Message::default() });
        }
    }

    /// A message of a tool holds text only: its images follow with the user's next words.
    fn result(&mut self, result: &'r ToolResult<'_>) -> Result<(), Untranslatable> {
        self.losses.cache_mark(result.cache, &result.pointer);
        let mut texts = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text, .. } => texts.push(text.as_ref()),
                Block::Media(media) => {
                    texts.push("(see the attachment in the next message)");
                    self.losses.changed(
                        media.pointer.clone(),
                        "a tool's result holds only text here; it follows as the user's",
                    );
                    let part = self.media(media)?;
                    self.parts.push(part);
                }
                other => self.losses.leave_block(other, &result.pointer)?,
            }
        }
        let mut text = joined(&texts);
        if result.failed {
            self.losses
                .changed(format!("{}/is_error", result.pointer), "a failure is told in the result's text");
            text = Cow::Owned(format!("Error: {text}"));
        }
        self.messages.push(Message {
            role: "tool",
            content: Some(Content::Text(text)),
            tool_call_id: Some(self.names.id(&result.call)),
            ..Message::default()
        });
        Ok(())
    }

    fn assistant(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        let mut texts = Vec::new();
        let mut tool_calls = Vec::new();
        for block in &turn.blocks {
            match block {
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &turn.pointer);
                    texts.push(text.as_ref());
                }
                Block::Refusal(text) => texts.push(text.as_ref()),
                Block::ToolCall(call) => tool_calls.push(self.call(call)),
                other => self.losses.leave_block(other, &turn.pointer)?,
            }
        }
        if texts.is_empty() && tool_calls.is_empty() {
            return Ok(());
        }
        let said = (!texts.is_empty()).then(|| texts.concat());
        // Turns of one role are one message: the results of all its calls must follow directly.
        if let Some(last) = self.messages.last_mut().filter(|last| last.role == "assistant") {
            last.tool_calls.append(&mut tool_calls);
            let before = match last.content.take() {
                Some(Content::Text(text)) => text.into_owned(),
                _ => String::new(),
            };
            let whole = before + said.as_deref().unwrap_or_default();
            last.content = (!whole.is_empty()).then_some(Content::Text(Cow::Owned(whole)));
            return Ok(());
        }
        let content = said.map(|text| Content::Text(Cow::Owned(text)));
        self.messages.push(Message { role: "assistant", content, tool_calls, ..Message::default() });
        Ok(())
    }

    fn call(&mut self, call: &'r ToolCall<'_>) -> Call<'r> {
        self.losses.cache_mark(call.cache, &call.pointer);
        let (id, name) = (self.names.id(&call.id), self.names.sent(&call.name, call.namespace.as_deref()));
        if call.custom && !self.names.wraps(true) {
            let custom = Some(CalledCustom { name, input: &call.arguments });
            return Call { id, kind: "custom", function: None, custom };
        }
        let arguments = match call.arguments.as_ref() {
            input if call.custom => Cow::Owned(wrap(input)),
            none if none.trim().is_empty() => Cow::Borrowed("{}"),
            some => Cow::Borrowed(some),
        };
        Call { id, kind: "function", function: Some(Called { name, arguments }), custom: None }
    }

    fn media(&mut self, media: &'r Media<'_>) -> Result<Part<'r>, Untranslatable> {
        self.losses.cache_mark(media.cache, &media.pointer);
        let refuse = |note| Err(Untranslatable::at(media.pointer.clone(), note));
        match (media.kind, &media.source) {
            (_, Source::File(_)) => refuse("a stored file is known to the account only that holds it"),
            (MediaKind::Image, Source::Data { media_type, base64 }) => {
                Ok(Part::ImageUrl { image_url: ImageUrl { url: data_url(media_type, base64) } })
            }
            (MediaKind::Image, Source::Url(url)) => {
                Ok(Part::ImageUrl { image_url: ImageUrl { url: url.clone().into_owned() } })
            }
            (MediaKind::Audio, Source::Data { media_type, base64 }) => {
                let format = media_type.strip_prefix("audio/").unwrap_or(media_type);
                Ok(Part::InputAudio { input_audio: InputAudio { data: base64, format } })
            }
            (MediaKind::Document, Source::Data { media_type, base64 }) => Ok(Part::File {
                file: File {
                    file_data: data_url(media_type, base64),
                    filename: media.title.as_deref().unwrap_or("document.pdf"),
                },
            }),
            (_, Source::Plain(text)) => Ok(Part::Text {
                text: match &media.title {
                    Some(title) => Cow::Owned(format!("{title}\n\n{text}")),
                    None => Cow::Borrowed(text),
                },
            }),
            (MediaKind::Audio | MediaKind::Document, Source::Url(_)) => {
                refuse("Chat Completions takes it only with its bytes, and the gateway fetches nothing")
            }
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
            self.losses.cache_mark(tool.cache, &tool.pointer);
            tools.push(self.tool(tool)?);
        }
        // Without tools the choice is refused.
        let choice = request.tool_choice.as_ref().filter(|_| !tools.is_empty()).map(|choice| match choice {
            ToolChoice::Any(mode) | ToolChoice::Among { mode, .. } => Choice::Word(mode.openai()),
            ToolChoice::Named(chosen) => {
                let name = Name { name: self.names.chosen(chosen, &request.tools) };
                let custom = request
                    .tools
                    .iter()
                    .any(|tool| tool.name == *chosen && matches!(tool.kind, ToolKind::Custom { .. }));
                if custom && !self.names.wraps(true) {
                    Choice::NamedCustom { kind: "custom", custom: name }
                } else {
                    Choice::Named { kind: "function", function: name }
                }
            }
        });
        Ok((choice, tools))
    }

    fn tool(&mut self, tool: &'r Offered<'_>) -> Result<Tool<'r>, Untranslatable> {
        let name = self.names.sent(&tool.name, tool.namespace.as_deref());
        let description = tool.description.as_deref();
        match &tool.kind {
            ToolKind::Custom { format } if !self.names.wraps(true) => {
                let custom = Custom { name, description, format: format.as_deref() };
                Ok(Tool { kind: "custom", function: None, custom: Some(custom) })
            }
            ToolKind::Custom { .. } => {
                self.losses.grammar(tool);
                let parameters = Some(wrapped_schema()?);
                let function = Function { name, description, parameters, strict: None };
                Ok(Tool { kind: "function", function: Some(function), custom: None })
            }
            ToolKind::Function => {
                let parameters = tool.schema.as_deref();
                let function = Function { name, description, parameters, strict: tool.strict };
                Ok(Tool { kind: "function", function: Some(function), custom: None })
            }
        }
    }

    fn effort(&mut self, request: &Request<'_>, to: &Destination<'_>) -> Option<&'static str> {
        let reasoning = request.reasoning?;
        let effort = reasoning.effort.or_else(|| reasoning.budget.map(effort_of))?;
        if !to.reasons {
            if effort > Effort::None {
                self.losses.dropped(request.places.reasoning, "the model is not known to reason");
            }
            return None;
        }
        if reasoning.effort.is_none() {
            self.losses.changed(request.places.reasoning, "a budget becomes the effort nearest to it");
        }
        Some(effort.name())
    }
}

fn wrapped_schema<'r>() -> Result<&'r RawValue, Untranslatable> {
    serde_json::from_str(WRAPPED_SCHEMA).map_err(|_| Untranslatable::at("/tools", "has no schema"))
}

/// The effort nearest to a budget of tokens.
pub(crate) fn effort_of(budget: u64) -> Effort {
    match budget {
        0 => Effort::None,
        1..=1_024 => Effort::Low,
        1_025..=4_096 => Effort::Medium,
        4_097..=16_384 => Effort::High,
        _ => Effort::XHigh,
    }
}

pub(crate) fn data_url(media_type: &str, base64: &str) -> String {
    format!("data:{media_type};base64,{base64}")
}

/// Texts that stood apart stay so.
pub(crate) fn joined<'r>(texts: &[&'r str]) -> Cow<'r, str> {
    match texts {
        [one] => Cow::Borrowed(one),
        several => Cow::Owned(several.join("\n\n")),
    }
}

/// One text is written as such: several servers take no list.
fn content(mut parts: Vec<Part<'_>>) -> Option<Content<'_>> {
    match (parts.pop(), parts.is_empty()) {
        (None, _) => None,
        (Some(Part::Text { text }), true) => Some(Content::Text(text)),
        (Some(last), _) => {
            parts.push(last);
            Some(Content::Parts(parts))
        }
    }
}
