//! A request of Chat Completions as its meaning (OpenAI API reference, "Create chat completion").

mod encode;
mod parts;
mod strict;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::dialect::Dialect;
use crate::ir::{
    Block, Common, CommonName, Effort, Format, Mode, Opaque, Places, Reasoning, Request, Role, Text, Tool,
    ToolCall, ToolChoice, ToolKind, ToolResult, Turn, Unreadable, Weight,
};
use crate::json::{self, Members};

pub(crate) use encode::{data_url, effort_of, encode, joined};
pub(crate) use parts::source;
pub(crate) use strict::may_be_strict;

/// Fields that the gateway itself reads, or that mean nothing once the attempt says whether it streams.
const NOT_CARRIED: [&str; 5] = ["model", "models", "stream", "stream_options", "provider"];

/// Fields without which an answer is another one. What is in no list is taken for a hint: unknown extras of servers.
const MEANINGFUL: [&str; 10] = [
    "audio",
    "functions",
    "function_call",
    "logit_bias",
    "logprobs",
    "modalities",
    "moderation",
    "n",
    "prediction",
    "web_search_options",
];

/// Parameters that other dialects have too.
pub(super) const COMMON: [(&str, CommonName); 8] = [
    ("frequency_penalty", CommonName::FrequencyPenalty),
    ("metadata", CommonName::Metadata),
    ("presence_penalty", CommonName::PresencePenalty),
    ("prompt_cache_key", CommonName::CacheKey),
    ("prompt_cache_options", CommonName::CacheOptions),
    ("seed", CommonName::Seed),
    ("service_tier", CommonName::ServiceTier),
    ("verbosity", CommonName::Verbosity),
];

const PLACES: Places = Places {
    format: "/response_format",
    format_name: "/response_format/json_schema/name",
    max_output: "/max_completion_tokens",
    parallel: "/parallel_tool_calls",
    reasoning: "/reasoning_effort",
    stop: "/stop",
    temperature: "/temperature",
    top_k: "/top_k",
    top_p: "/top_p",
    user: "/user",
};

/// Reads a request.
///
/// # Errors
/// [`Unreadable`] with the place of the first part that is not what the dialect says.
pub(crate) fn decode(body: &[u8]) -> Result<Request<'_>, Unreadable> {
    let mut members = Members::of_body(body)?;
    let mut request = Request { turns: turns(&mut members)?, places: PLACES, ..Request::default() };
    for (place, raw) in members.take_list("tools")?.unwrap_or_default().into_iter().enumerate() {
        tool(raw, format!("/tools/{place}"), &mut request)?;
    }
    request.tool_choice = members.take("tool_choice").map(tool_choice).transpose()?;
    request.parallel_tools = members.take_as("parallel_tool_calls", "must be true or false")?;
    let newer = members.take_as("max_completion_tokens", "must be a number of tokens")?;
    let older = members.take_as::<i64>("max_tokens", "must be a number of tokens")?;
    // Several servers take a negative number for "no limit".
    request.max_output = newer.or_else(|| u64::try_from(older?).ok());
    request.temperature = members.take_as("temperature", "must be a number")?;
    request.top_p = members.take_as("top_p", "must be a number")?;
    request.top_k = members.take_as("top_k", "must be a number")?;
    request.stop = stop(members.take("stop"))?;
    request.format = format(members.take_object("response_format")?)?;
    request.reasoning = reasoning(&mut members)?;
    let safety = members.take_text("safety_identifier")?;
    request.user = members.take_text("user")?.or(safety);
    rest(members, &mut request);
    Ok(request)
}

fn rest<'a>(members: Members<'a>, request: &mut Request<'a>) {
    for (pointer, name, raw) in members.rest() {
        if NOT_CARRIED.contains(&name.as_str()) || says_nothing(&name, raw) {
            continue;
        }
        if let Some((_, common)) = COMMON.iter().find(|(known, _)| *known == name) {
            request.common.push(Common { name: *common, pointer, json: Cow::Borrowed(raw) });
            continue;
        }
        let weight = if MEANINGFUL.contains(&name.as_str()) { Weight::Meaning } else { Weight::Hint };
        request.opaque.push(opaque(pointer, raw, weight));
    }
}

/// A value that is the default, so that its absence says the same.
fn says_nothing(name: &str, raw: &RawValue) -> bool {
    match name {
        "n" => raw.get() == "1",
        "logprobs" | "store" => raw.get() == "false",
        "top_logprobs" | "frequency_penalty" | "presence_penalty" => matches!(raw.get(), "0" | "0.0"),
        "logit_bias" => raw.get() == "{}",
        "modalities" => raw.get().split_whitespace().collect::<String>() == "[\"text\"]",
        "functions" => raw.get() == "[]",
        _ => false,
    }
}

pub(super) fn opaque(pointer: String, raw: &RawValue, weight: Weight) -> Opaque<'_> {
    Opaque { dialect: Dialect::Chat, pointer, json: Cow::Borrowed(raw), weight }
}

fn turns<'a>(members: &mut Members<'a>) -> Result<Vec<Turn<'a>>, Unreadable> {
    let messages = members.take_list("messages")?.ok_or_else(|| Unreadable::at("/messages", "is missing"))?;
    messages.into_iter().enumerate().map(|(place, raw)| turn(raw, format!("/messages/{place}"))).collect()
}

fn turn(raw: &RawValue, pointer: String) -> Result<Turn<'_>, Unreadable> {
    let mut message = Members::of(raw, pointer.clone())?;
    let role = message.need_text("role")?;
    let mut blocks = Vec::new();
    let role = match role.as_ref() {
        "system" | "developer" => {
            parts::content(&mut message, &mut blocks)?;
            Role::System
        }
        "user" => {
            parts::content(&mut message, &mut blocks)?;
            Role::User
        }
        "assistant" => {
            assistant(&mut message, &mut blocks)?;
            Role::Assistant
        }
        "tool" => {
            let call = message.need_text("tool_call_id")?;
            let mut content = Vec::new();
            parts::content(&mut message, &mut content)?;
            blocks.push(Block::ToolResult(ToolResult {
                call,
                content,
                failed: false,
                cache: None,
                pointer: pointer.clone(),
            }));
            Role::User
        }
        "function" => {
            return Err(Unreadable::at(
                pointer,
                "has the role `function`, which is not translated; use `tool`",
            ));
        }
        _ => {
            return Err(Unreadable::at(
                message.at("role"),
                "must be system, developer, user, assistant or tool",
            ));
        }
    };
    // `name` and what is unknown: another dialect has no place for them.
    for (pointer, _, raw) in message.rest() {
        blocks.push(Block::Opaque(opaque(pointer, raw, Weight::Hint)));
    }
    Ok(Turn { role, blocks, pointer })
}

fn assistant<'a>(message: &mut Members<'a>, blocks: &mut Vec<Block<'a>>) -> Result<(), Unreadable> {
    let newer = message.take_text("reasoning_content")?;
    let older = message.take("reasoning").and_then(|raw| json::text(raw.get().as_bytes()));
    if let Some(text) = newer.or(older).filter(|text| !text.is_empty()) {
        blocks.push(Block::Reasoning { text, signature: None });
    }
    parts::content(message, blocks)?;
    if let Some(refusal) = message.take_text("refusal")?.filter(|text| !text.is_empty()) {
        blocks.push(Block::Refusal(refusal));
    }
    if let Some(audio) = message.take("audio") {
        blocks.push(Block::Opaque(opaque(message.at("audio"), audio, Weight::Meaning)));
    }
    for (place, raw) in message.take_list("tool_calls")?.unwrap_or_default().into_iter().enumerate() {
        let pointer = format!("{}/tool_calls/{place}", message.pointer());
        blocks.push(tool_call(raw, pointer)?);
    }
    Ok(())
}

/// A call of a tool.
pub(super) fn tool_call(raw: &RawValue, pointer: String) -> Result<Block<'_>, Unreadable> {
    let mut call = Members::of(raw, pointer.clone())?;
    let custom = call.take_text("type")?.is_some_and(|kind| kind == "custom");
    let id = call.take_text("id")?.unwrap_or_default();
    if custom {
        let mut of =
            call.take_object("custom")?.ok_or_else(|| Unreadable::at(call.at("custom"), "is missing"))?;
        let (name, arguments) = (of.need_text("name")?, of.take_text("input")?.unwrap_or_default());
        let call = ToolCall { id, name, namespace: None, custom, arguments, cache: None, pointer };
        return Ok(Block::ToolCall(call));
    }
    let mut function =
        call.take_object("function")?.ok_or_else(|| Unreadable::at(call.at("function"), "is missing"))?;
    let name = function.need_text("name")?;
    let arguments = match function.take("arguments") {
        None => Cow::Borrowed(""),
        // Some servers write the object itself.
        Some(raw) => json::text(raw.get().as_bytes()).unwrap_or_else(|| Cow::Borrowed(raw.get())),
    };
    let call = ToolCall { id, name, namespace: None, custom, arguments, cache: None, pointer };
    Ok(Block::ToolCall(call))
}

fn tool<'a>(raw: &'a RawValue, pointer: String, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let mut tool = Members::of(raw, pointer.clone())?;
    let word = tool.take_text("type")?.unwrap_or(Cow::Borrowed("function"));
    if !matches!(word.as_ref(), "function" | "custom") {
        request.opaque.push(opaque(pointer, raw, Weight::Meaning));
        return Ok(());
    }
    let mut function =
        tool.take_object(&word)?.ok_or_else(|| Unreadable::at(tool.at(&word), "is missing"))?;
    let kind = match word.as_ref() {
        "custom" => ToolKind::Custom { format: function.take("format").map(Cow::Borrowed) },
        _ => ToolKind::Function,
    };
    request.tools.push(Tool {
        name: function.need_text("name")?,
        namespace: None,
        kind,
        description: function.take_text("description")?,
        schema: function.take("parameters").map(Cow::Borrowed),
        strict: function.take_as("strict", "must be true or false")?,
        cache: None,
        pointer,
    });
    for (pointer, _, raw) in function.rest().chain(tool.rest()) {
        request.opaque.push(opaque(pointer, raw, Weight::Hint));
    }
    Ok(())
}

fn tool_choice(raw: &RawValue) -> Result<ToolChoice<'_>, Unreadable> {
    let rule = "must be none, auto, required or an object";
    if let Some(word) = json::text(raw.get().as_bytes()) {
        return mode(&word).map(ToolChoice::Any).ok_or_else(|| Unreadable::at("/tool_choice", rule));
    }
    let mut choice = Members::of(raw, "/tool_choice")?;
    let kind = choice.need_text("type")?;
    match kind.as_ref() {
        "function" | "custom" => {
            let mut of =
                choice.take_object(&kind)?.ok_or_else(|| Unreadable::at(choice.at(&kind), "is missing"))?;
            Ok(ToolChoice::Named(of.need_text("name")?))
        }
        "allowed_tools" => among(choice.take_object("allowed_tools")?.unwrap_or(choice)),
        _ => Err(Unreadable::at("/tool_choice/type", "must be function, custom or allowed_tools")),
    }
}

fn among(mut allowed: Members<'_>) -> Result<ToolChoice<'_>, Unreadable> {
    let word = allowed.need_text("mode")?;
    let mode = mode(&word).ok_or_else(|| Unreadable::at(allowed.at("mode"), "must be auto or required"))?;
    let mut names = Vec::new();
    let place = allowed.at("tools");
    for (number, raw) in allowed.take_list("tools")?.unwrap_or_default().into_iter().enumerate() {
        let mut tool = Members::of(raw, format!("{place}/{number}"))?;
        let of = match tool.take_object("function")? {
            Some(of) => Some(of),
            None => tool.take_object("custom")?,
        };
        let mut of = of.unwrap_or(tool);
        names.push(of.need_text("name")?);
    }
    Ok(ToolChoice::Among { mode, names })
}

fn mode(word: &str) -> Option<Mode> {
    match word {
        "auto" => Some(Mode::Auto),
        "none" => Some(Mode::Never),
        "required" | "any" => Some(Mode::Required),
        _ => None,
    }
}

fn stop(raw: Option<&RawValue>) -> Result<Vec<Text<'_>>, Unreadable> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let texts = match json::text(raw.get().as_bytes()) {
        Some(one) => Some(vec![one]),
        None => json::list(raw)
            .and_then(|several| several.into_iter().map(|raw| json::text(raw.get().as_bytes())).collect()),
    };
    texts.ok_or_else(|| Unreadable::at("/stop", "must be a text or a list of texts"))
}

fn format(format: Option<Members<'_>>) -> Result<Option<Format<'_>>, Unreadable> {
    let Some(mut format) = format else { return Ok(None) };
    match format.need_text("type")?.as_ref() {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::Json)),
        "json_schema" => {
            let place = format.at("json_schema");
            let mut schema =
                format.take_object("json_schema")?.ok_or_else(|| Unreadable::at(place, "is missing"))?;
            Ok(Some(Format::Schema {
                name: schema.take_text("name")?,
                description: schema.take_text("description")?,
                schema: schema
                    .take("schema")
                    .map(Cow::Borrowed)
                    .ok_or_else(|| Unreadable::at(schema.at("schema"), "is missing"))?,
                strict: schema.take_as("strict", "must be true or false")?,
            }))
        }
        _ => Err(Unreadable::at(format.at("type"), "must be text, json_object or json_schema")),
    }
}

fn reasoning(members: &mut Members<'_>) -> Result<Option<Reasoning>, Unreadable> {
    let Some(word) = members.take_text("reasoning_effort")? else { return Ok(None) };
    let rule = "must be none, minimal, low, medium, high, xhigh or max";
    let effort = Effort::named(&word).ok_or_else(|| Unreadable::at("/reasoning_effort", rule))?;
    Ok(Some(Reasoning { effort: Some(effort), ..Reasoning::default() }))
}
