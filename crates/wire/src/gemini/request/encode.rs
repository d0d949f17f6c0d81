//! A meaning as a request of generateContent.

mod settings;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use self::settings::Settings;
use super::super::models::{Family, family};
use super::super::outgoing::{Blob, OutCall, OutContent, OutPart, OutResult, Response};
use super::super::seals::NO_SEAL;
use super::COMMON;
use crate::dialect::Dialect;
use crate::ir::{
    Block, Losses, Media, MediaKind, Mode, Request, Role, Signature, Source, ToolCall, ToolChoice, ToolKind,
    ToolResult, Turn, Untranslatable,
};
use crate::json::{arguments, wrapped};
use crate::translate::{Destination, Names, WRAPPED_SCHEMA, Written, wrap};

/// Gemini API reference, "FunctionDeclaration": the older limit of 64, which every model takes.
const MAX_NAME: usize = 64;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<OutContent<'r>>,
    contents: Vec<OutContent<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'r>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Settings<'r>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'r> {
    function_declarations: Vec<Function<'r>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'r> {
    name: Cow<'r, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'r RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'r> {
    function_calling_config: Calling<'r>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Calling<'r> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_function_names: Vec<Cow<'r, str>>,
}

/// Writes a request for this destination.
///
/// # Errors
/// [`Untranslatable`] where the dialect, or a model of this family, cannot say what the request means.
pub(crate) fn encode(request: &Request<'_>, to: &Destination<'_>) -> Result<Written, Untranslatable> {
    let mut writer = Writer {
        losses: Losses::default(),
        names: Names::within(MAX_NAME).lettered(),
        family: family(to.model),
        origin: to.origin,
        system: Vec::new(),
        contents: Vec::new(),
        calls: Vec::new(),
    };
    writer.losses.leave_out_of(request, &COMMON.map(|(_, name)| name))?;
    writer.names.learn(&request.tools);
    writer.turns(&request.turns)?;
    let (tool_config, tools) = writer.tools(request)?;
    let generation_config = settings::write(request, to, writer.family, &mut writer.losses)?;
    let system = std::mem::take(&mut writer.system);
    let body = Body {
        system_instruction: (!system.is_empty()).then_some(OutContent { role: None, parts: system }),
        contents: std::mem::take(&mut writer.contents).into_iter().map(Content::done).collect(),
        tools: (!tools.is_empty()).then_some([Tools { function_declarations: tools }]),
        tool_config,
        generation_config,
    };
    let body = serde_json::to_vec(&body)
        .map_err(|_| Untranslatable::at("", "the request cannot be written as JSON"))?;
    Ok(Written { body: body.into(), losses: writer.losses, names: writer.names })
}

/// What one of them says, each part with its place in the order of the calls that it answers.
struct Content<'r> {
    role: &'static str,
    parts: Vec<(usize, OutPart<'r>)>,
}

impl<'r> Content<'r> {
    /// The results of calls come first, in the order of the calls.
    fn done(mut self) -> OutContent<'r> {
        self.parts.sort_by_key(|(place, _)| *place);
        OutContent { role: Some(self.role), parts: self.parts.into_iter().map(|(_, part)| part).collect() }
    }
}

/// The place of what answers no call.
const LAST: usize = usize::MAX;

struct Writer<'r> {
    losses: Losses,
    names: Names,
    family: Family,
    /// The target: what it sealed before goes to it again.
    origin: &'r str,
    system: Vec<OutPart<'r>>,
    contents: Vec<Content<'r>>,
    /// The calls so far: id, and name as it is sent.
    calls: Vec<(&'r str, Cow<'r, str>)>,
}

impl<'r> Writer<'r> {
    fn turns(&mut self, turns: &'r [Turn<'_>]) -> Result<(), Untranslatable> {
        for turn in turns {
            match turn.role {
                Role::System if self.contents.is_empty() => {
                    let parts = self.user(turn)?;
                    self.system.extend(parts.into_iter().map(|(_, part)| part));
                }
                Role::System => self.late_system(turn)?,
                Role::User => {
                    let parts = self.user(turn)?;
                    self.say("user", parts);
                }
                Role::Assistant => {
                    if self.contents.is_empty() {
                        self.losses.changed(turn.pointer.clone(), "a conversation begins with the user here");
                        self.say("user", vec![(LAST, OutPart::text("(The conversation goes on.)"))]);
                    }
                    let parts = self.model(turn)?;
                    self.say("model", parts);
                }
            }
        }
        if self.contents.is_empty() {
            return Err(Untranslatable::at("/messages", "Gemini needs a message of the user"));
        }
        Ok(())
    }

    /// There is one place for instructions, before the conversation: later ones are marked in the user's turn.
    fn late_system(&mut self, turn: &'r Turn<'_>) -> Result<(), Untranslatable> {
        let mut parts = self.user(turn)?;
        self.losses
            .changed(turn.pointer.clone(), "instructions in mid-conversation are told in the user's turn");
        for (_, part) in &mut parts {
            part.text = part.text.take().map(|text| Cow::Owned(format!("<system>\n{text}\n</system>")));
        }
        self.say("user", parts);
        Ok(())
    }

    /// Adds to the conversation; turns of one role are one.
    fn say(&mut self, role: &'static str, parts: Vec<(usize, OutPart<'r>)>) {
        if parts.is_empty() {
            return;
        }
        match self.contents.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => self.contents.push(Content { role, parts }),
        }
    }

    fn user(&mut self, turn: &'r Turn<'_>) -> Result<Vec<(usize, OutPart<'r>)>, Untranslatable> {
        let mut parts = Vec::new();
        for block in &turn.blocks {
            match block {
                // Empty texts are refused.
                Block::Text { text, .. } | Block::Refusal(text) if text.trim().is_empty() => {}
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &turn.pointer);
                    parts.push((LAST, OutPart::text(text.as_ref())));
                }
                Block::Refusal(text) => parts.push((LAST, OutPart::text(text.as_ref()))),
                Block::Media(media) => parts.push((LAST, self.media(media)?)),
                Block::ToolResult(result) => parts.push(self.result(result)?),
                Block::Opaque(opaque) => self.losses.leave_out(opaque)?,
                Block::Reasoning { .. } | Block::ToolCall(_) => {
                    return Err(Untranslatable::at(
                        turn.pointer.clone(),
                        "only the model thinks and calls here",
                    ));
                }
            }
        }
        Ok(parts)
    }

    /// What the model said. Its seals stand on the parts that they were made for.
    fn model(&mut self, turn: &'r Turn<'_>) -> Result<Vec<(usize, OutPart<'r>)>, Untranslatable> {
        let mut parts = Vec::new();
        let mut seal: Option<&str> = None;
        let mut called = false;
        for block in &turn.blocks {
            let mut part = match block {
                Block::Text { text, .. } | Block::Refusal(text) if text.trim().is_empty() => continue,
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &turn.pointer);
                    OutPart::text(text.as_ref())
                }
                Block::Refusal(text) => OutPart::text(text.as_ref()),
                Block::Media(media) => self.media(media)?,
                Block::ToolCall(call) => self.call(call),
                Block::Reasoning { text, signature } => {
                    let own = |signature: &&Signature<'_>| signature.is_of(Dialect::Gemini, self.origin);
                    match signature.as_ref().filter(own) {
                        Some(own) if text.is_empty() => seal = Some(&own.value),
                        Some(own) => parts.push((
                            LAST,
                            OutPart {
                                thought_signature: Some(Cow::Borrowed(&own.value)),
                                ..OutPart::thought(text.as_ref())
                            },
                        )),
                        None => self.losses.thoughts(&turn.pointer),
                    }
                    continue;
                }
                Block::Opaque(opaque) => {
                    self.losses.leave_out(opaque)?;
                    continue;
                }
                Block::ToolResult(result) => {
                    return Err(Untranslatable::at(result.pointer.clone(), "the user tells results here"));
                }
            };
            let first_call = part.function_call.is_some() && !std::mem::replace(&mut called, true);
            let own = seal.take();
            // Of calls made at once the first alone carries a seal.
            let missing = (first_call && self.family.seals_calls).then_some(NO_SEAL);
            part.thought_signature = own.or(missing).map(Cow::Borrowed);
            parts.push((LAST, part));
        }
        if let Some(seal) = seal {
            parts.push((LAST, OutPart { thought_signature: Some(Cow::Borrowed(seal)), ..OutPart::text("") }));
        }
        Ok(parts)
    }

    fn call(&mut self, call: &'r ToolCall<'_>) -> OutPart<'r> {
        self.losses.cache_mark(call.cache, &call.pointer);
        let name = self.names.sent(&call.name, call.namespace.as_deref());
        let name = Cow::<'r, str>::Owned(name.into_owned());
        self.calls.push((&call.id, name.clone()));
        if call.custom {
            let args = Cow::Owned(RawValue::from_string(wrap(&call.arguments)).unwrap_or_default());
            return OutPart::call(OutCall { id: self.names.id(&call.id), name, args });
        }
        let args = arguments(&call.arguments).unwrap_or_else(|| {
            self.losses.changed(call.pointer.clone(), "arguments that are no JSON object are told as a text");
            wrapped(&call.arguments)
        });
        OutPart::call(OutCall { id: self.names.id(&call.id), name, args })
    }

    /// A result names its function, and so its call must be known.
    fn result(&mut self, result: &'r ToolResult<'_>) -> Result<(usize, OutPart<'r>), Untranslatable> {
        self.losses.cache_mark(result.cache, &result.pointer);
        // The last one of an id: a client may count its calls anew in each turn.
        let place = self.calls.iter().rposition(|(id, _)| *id == result.call);
        let called = place.and_then(|place| Some((place, self.calls.get(place)?.1.clone())));
        let Some((place, name)) = called else {
            return Err(Untranslatable::at(result.pointer.clone(), "its call is not in the conversation"));
        };
        let mut texts: Vec<&str> = Vec::new();
        let mut parts = Vec::new();
        for block in &result.content {
            match block {
                Block::Text { text, cache } => {
                    self.losses.cache_mark(*cache, &result.pointer);
                    texts.push(text);
                }
                Block::Media(media) => parts.push(self.media(media)?),
                Block::Opaque(opaque) => self.losses.leave_out(opaque)?,
                _ => {
                    let note = "a tool's result holds text, images and documents here";
                    return Err(Untranslatable::at(result.pointer.clone(), note));
                }
            }
        }
        let text = match texts.as_slice() {
            [one] => Cow::Borrowed(*one),
            several => Cow::Owned(several.join("\n\n")),
        };
        let response = if result.failed { Response::Error(text) } else { Response::Output(text) };
        let id = self.names.id(&result.call);
        let result = OutResult { id, name, response, parts };
        Ok((place, OutPart { function_response: Some(result), ..OutPart::default() }))
    }

    fn media(&mut self, media: &'r Media<'_>) -> Result<OutPart<'r>, Untranslatable> {
        self.losses.cache_mark(media.cache, &media.pointer);
        let refuse = |note| Err(Untranslatable::at(media.pointer.clone(), note));
        match &media.source {
            Source::Data { media_type, base64 } => {
                let Some(mime_type) = accepted(media.kind, media_type) else {
                    return refuse("Gemini does not take data of this type");
                };
                let blob = Blob { mime_type, data: base64 };
                Ok(OutPart { inline_data: Some(blob), ..OutPart::default() })
            }
            Source::Plain(text) => Ok(OutPart::text(match &media.title {
                Some(title) => Cow::Owned(format!("{title}\n\n{text}")),
                None => Cow::Borrowed(text.as_ref()),
            })),
            Source::File(_) => refuse("a stored file is known to the account only that holds it"),
            Source::Url(_) => {
                refuse("Gemini takes a medium only with its bytes, and the gateway fetches nothing")
            }
        }
    }

    /// The tools, and which of them are to be called.
    fn tools(&mut self, request: &'r Request<'_>) -> Result<Offer<'r>, Untranslatable> {
        // Names can be allowed where one must be called; else the list itself is narrowed.
        let mut offered = request.offered()?;
        if matches!(&request.tool_choice, Some(ToolChoice::Among { mode: Mode::Required, .. })) {
            offered = request.tools.iter().collect();
        }
        let mut tools = Vec::new();
        for tool in offered {
            self.losses.cache_mark(tool.cache, &tool.pointer);
            if tool.strict == Some(true) {
                self.losses
                    .dropped(format!("{}/strict", tool.pointer), "schemas are kept to in another way here");
            }
            self.losses.grammar(tool);
            let schema = match tool.kind {
                ToolKind::Custom { .. } => serde_json::from_str(WRAPPED_SCHEMA).ok(),
                ToolKind::Function => tool.schema.as_deref().filter(|schema| is_object(schema)),
            };
            tools.push(Function {
                name: self.names.sent(&tool.name, tool.namespace.as_deref()),
                description: tool.description.as_deref().filter(|text| !text.is_empty()),
                parameters_json_schema: schema,
            });
        }
        if tools.is_empty() {
            return Ok((None, tools));
        }
        if request.parallel_tools == Some(false) {
            self.losses.dropped(request.places.parallel, "Gemini cannot be told to call one tool at a time");
        }
        let (mode, allowed) = match &request.tool_choice {
            None => return Ok((None, tools)),
            Some(ToolChoice::Any(mode)) => (*mode, &[][..]),
            Some(ToolChoice::Named(name)) => (Mode::Required, std::slice::from_ref(name)),
            Some(ToolChoice::Among { mode: Mode::Required, names }) => (Mode::Required, names.as_slice()),
            Some(ToolChoice::Among { mode, .. }) => (*mode, &[][..]),
        };
        let allowed_function_names =
            allowed.iter().map(|name| self.names.chosen(name, &request.tools)).collect();
        let calling = Calling { mode: word(mode), allowed_function_names };
        Ok((Some(ToolConfig { function_calling_config: calling }), tools))
    }
}

/// The tools, and which of them are to be called.
type Offer<'r> = (Option<ToolConfig<'r>>, Vec<Function<'r>>);

/// Whether a schema says something: a function without arguments has none here.
fn is_object(schema: &RawValue) -> bool {
    let text = schema.get().trim();
    text.starts_with('{') && text != "{}"
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "AUTO",
        Mode::Never => "NONE",
        Mode::Required => "ANY",
    }
}

/// The type as Gemini calls it, if it takes it (Gemini API documentation, "Image understanding" and its neighbours).
fn accepted(kind: MediaKind, media_type: &str) -> Option<&str> {
    let media_type = match media_type {
        "image/jpg" => "image/jpeg",
        "audio/mpeg" | "audio/mpga" => "audio/mp3",
        "audio/x-wav" => "audio/wav",
        other => other,
    };
    let known = match kind {
        MediaKind::Image => {
            matches!(media_type, "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif")
        }
        MediaKind::Audio => matches!(
            media_type,
            "audio/wav" | "audio/mp3" | "audio/aiff" | "audio/aac" | "audio/ogg" | "audio/flac"
        ),
        MediaKind::Document => media_type == "application/pdf" || media_type.starts_with("text/"),
    };
    known.then_some(media_type)
}
