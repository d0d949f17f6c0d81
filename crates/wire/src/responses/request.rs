//! A request of Responses as its meaning (OpenAI API reference, "Create a model response").

mod encode;
mod items;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::dialect::Dialect;
use crate::ir::{
    Common, CommonName, Effort, Format, Mode, Opaque, Places, Reasoning, Request, Role, Text, Tool,
    ToolChoice, ToolKind, Turn, Unreadable, Weight,
};
use crate::json::{self, Members};

pub(crate) use encode::encode;
pub(super) use items::{call, thoughts};

/// Fields that the gateway itself reads, or that mean nothing once the attempt says whether it streams. What is answered in
/// another dialect is never kept, whatever `store` says: the answer says so.
const NOT_CARRIED: [&str; 6] = ["model", "models", "provider", "store", "stream", "stream_options"];

/// Fields without which an answer is another one: what the provider keeps, and what it does in the background. What is in no
/// list is taken for a hint.
const MEANINGFUL: [&str; 7] = [
    "access_programs",
    "background",
    "conversation",
    "moderation",
    "previous_response_id",
    "prompt",
    "top_logprobs",
];

/// Tools with which a model looks for more: on the web, or for tools that were not told to it yet.
const SEARCHES: [&str; 4] = ["tool_search", "web_search", "web_search_2025_08_26", "web_search_preview"];

/// Parameters that other dialects have too. (`verbosity` stands in `text`.)
pub(super) const COMMON: [(&str, CommonName); 4] = [
    ("metadata", CommonName::Metadata),
    ("prompt_cache_key", CommonName::CacheKey),
    ("prompt_cache_options", CommonName::CacheOptions),
    ("service_tier", CommonName::ServiceTier),
];

const PLACES: Places = Places {
    format: "/text/format",
    format_name: "/text/format/name",
    max_output: "/max_output_tokens",
    parallel: "/parallel_tool_calls",
    reasoning: "/reasoning",
    // It has none.
    stop: "",
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
    let mut request = Request { places: PLACES, ..Request::default() };
    if let Some(text) = members.take_text("instructions")? {
        let blocks = vec![crate::ir::Block::Text { text, cache: None }];
        request.turns.push(Turn { role: Role::System, blocks, pointer: "/instructions".to_owned() });
    }
    let input = members.take("input").ok_or_else(|| Unreadable::at("/input", "is missing"))?;
    items::input(input, &mut request)?;
    for (place, raw) in members.take_list("tools")?.unwrap_or_default().into_iter().enumerate() {
        tool(raw, format!("/tools/{place}"), None, &mut request)?;
    }
    request.tool_choice = members.take("tool_choice").map(tool_choice).transpose()?;
    free_searches(&mut request);
    request.parallel_tools = members.take_as("parallel_tool_calls", "must be true or false")?;
    request.max_output = members.take_as("max_output_tokens", "must be a number of tokens")?;
    request.temperature = members.take_as("temperature", "must be a number")?;
    request.top_p = members.take_as("top_p", "must be a number")?;
    text(&mut members, &mut request)?;
    reasoning(&mut members, &mut request)?;
    let safety = members.take_text("safety_identifier")?;
    request.user = members.take_text("user")?.or(safety);
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
    Ok(request)
}

pub(super) fn opaque(pointer: String, raw: &RawValue, weight: Weight) -> Opaque<'_> {
    Opaque { dialect: Dialect::Responses, pointer, json: Cow::Borrowed(raw), weight }
}

/// A value that is the default, so that its absence says the same; or one that asks for what is given anyway.
fn says_nothing(name: &str, raw: &RawValue) -> bool {
    match name {
        "background" => raw.get() == "false",
        "top_logprobs" => raw.get() == "0",
        "truncation" => raw.get() == "\"disabled\"",
        "include" => json::list(raw)
            .is_some_and(|list| list.iter().all(|asked| asked.get() == "\"reasoning.encrypted_content\"")),
        _ => false,
    }
}

/// Reads a tool; a group of tools by its members.
pub(super) fn tool<'a>(
    raw: &'a RawValue,
    pointer: String,
    namespace: Option<&Text<'a>>,
    request: &mut Request<'a>,
) -> Result<(), Unreadable> {
    let mut tool = Members::of(raw, pointer.clone())?;
    let kind = match tool.need_text("type")?.as_ref() {
        "function" => ToolKind::Function,
        "custom" => ToolKind::Custom { format: tool.take("format").map(Cow::Borrowed) },
        "namespace" if namespace.is_none() => {
            let name = tool.need_text("name")?;
            let place = tool.at("tools");
            for (number, raw) in tool.take_list("tools")?.unwrap_or_default().into_iter().enumerate() {
                self::tool(raw, format!("{place}/{number}"), Some(&name), request)?;
            }
            // Its description: each tool in it has one of its own.
            request.opaque.extend(tool.rest().map(|(place, _, raw)| opaque(place, raw, Weight::Hint)));
            return Ok(());
        }
        // It runs at the provider, or only its models know it.
        _ => {
            request.opaque.push(opaque(pointer, raw, Weight::Meaning));
            return Ok(());
        }
    };
    request.tools.push(Tool {
        name: tool.need_text("name")?,
        namespace: namespace.cloned(),
        kind,
        description: tool.take_text("description")?,
        schema: tool.take("parameters").map(Cow::Borrowed),
        strict: tool.take_as("strict", "must be true or false")?,
        cache: None,
        pointer,
    });
    request.opaque.extend(tool.rest().map(|(place, _, raw)| opaque(place, raw, Weight::Hint)));
    Ok(())
}

/// A search of the provider's that is offered next to the client's own tools, as Codex always does, is one way among
/// others: a model without it takes those. Alone, or where a tool must be called, it is what the request is about.
fn free_searches(request: &mut Request<'_>) {
    let free = matches!(request.tool_choice, None | Some(ToolChoice::Any(Mode::Auto | Mode::Never)));
    if !free || request.tools.is_empty() {
        return;
    }
    for opaque in request.opaque.iter_mut().filter(|opaque| opaque.weight == Weight::Meaning) {
        let kind = Members::of(&opaque.json, "").and_then(|mut tool| tool.need_text("type"));
        if kind.is_ok_and(|kind| SEARCHES.contains(&kind.as_ref())) {
            opaque.weight = Weight::Hint;
        }
    }
}

fn tool_choice(raw: &RawValue) -> Result<ToolChoice<'_>, Unreadable> {
    let rule = "must be none, auto, required or an object";
    if let Some(word) = json::text(raw.get().as_bytes()) {
        return mode(&word).map(ToolChoice::Any).ok_or_else(|| Unreadable::at("/tool_choice", rule));
    }
    let mut choice = Members::of(raw, "/tool_choice")?;
    match choice.need_text("type")?.as_ref() {
        "function" | "custom" => Ok(ToolChoice::Named(choice.need_text("name")?)),
        "allowed_tools" => {
            let word = choice.need_text("mode")?;
            let mode =
                mode(&word).ok_or_else(|| Unreadable::at("/tool_choice/mode", "must be auto or required"))?;
            let mut names = Vec::new();
            for (number, raw) in choice.take_list("tools")?.unwrap_or_default().into_iter().enumerate() {
                names.push(Members::of(raw, format!("/tool_choice/tools/{number}"))?.need_text("name")?);
            }
            Ok(ToolChoice::Among { mode, names })
        }
        _ => {
            let rule = "names a tool that runs at the provider, which is not translated";
            Err(Unreadable::at("/tool_choice/type", rule))
        }
    }
}

fn mode(word: &str) -> Option<Mode> {
    match word {
        "auto" => Some(Mode::Auto),
        "none" => Some(Mode::Never),
        "required" => Some(Mode::Required),
        _ => None,
    }
}

fn text<'a>(members: &mut Members<'a>, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let Some(mut text) = members.take_object("text")? else { return Ok(()) };
    if let Some(raw) = text.take("verbosity") {
        let pointer = text.at("verbosity");
        request.common.push(Common { name: CommonName::Verbosity, pointer, json: Cow::Borrowed(raw) });
    }
    if let Some(mut format) = text.take_object("format")? {
        request.format = match format.need_text("type")?.as_ref() {
            "text" => None,
            "json_object" => Some(Format::Json),
            "json_schema" => Some(Format::Schema {
                name: format.take_text("name")?,
                description: format.take_text("description")?,
                schema: format
                    .take("schema")
                    .map(Cow::Borrowed)
                    .ok_or_else(|| Unreadable::at(format.at("schema"), "is missing"))?,
                strict: format.take_as("strict", "must be true or false")?,
            }),
            _ => return Err(Unreadable::at(format.at("type"), "must be text, json_object or json_schema")),
        };
    }
    request.opaque.extend(text.rest().map(|(place, _, raw)| opaque(place, raw, Weight::Hint)));
    Ok(())
}

fn reasoning<'a>(members: &mut Members<'a>, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let Some(mut asked) = members.take_object("reasoning")? else { return Ok(()) };
    let effort = match asked.take_text("effort")? {
        Some(word) => {
            let rule = "must be none, minimal, low, medium, high, xhigh or max";
            Some(Effort::named(&word).ok_or_else(|| Unreadable::at("/reasoning/effort", rule))?)
        }
        None => None,
    };
    let older = asked.take_text("generate_summary")?;
    let visible = asked.take_text("summary")?.or(older).map(|_| true);
    if effort.is_some() || visible.is_some() {
        request.reasoning = Some(Reasoning { effort, visible, ..Reasoning::default() });
    }
    request.opaque.extend(asked.rest().map(|(place, _, raw)| opaque(place, raw, Weight::Hint)));
    Ok(())
}
