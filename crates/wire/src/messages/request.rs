//! A request of Messages as its meaning (Anthropic API reference, "Create a Message").

mod blocks;
mod encode;
pub(crate) mod thinking;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::dialect::Dialect;
use crate::ir::{
    Block, Effort, Format, Mode, Opaque, Places, Reasoning, Request, Role, Tool, ToolChoice, ToolKind, Turn,
    Unreadable, Weight,
};
use crate::json::{self, Members};

pub(crate) use blocks::block;
pub(crate) use encode::encode;

/// Fields that the gateway itself reads, or that mean nothing once the attempt says whether it streams.
const NOT_CARRIED: [&str; 4] = ["model", "models", "provider", "stream"];

/// Fields without which an answer is another one: state that the provider keeps, tools that it runs, where data may go.
const MEANINGFUL: [&str; 7] =
    ["compaction", "container", "context_management", "fallbacks", "inference_geo", "mcp_servers", "thread"];

/// What Claude Code puts first into its instructions: a line for the provider's books, which changes with each request.
const BILLING: &str = "x-anthropic-billing-header:";

const PLACES: Places = Places {
    format: "/output_config/format",
    format_name: "",
    max_output: "/max_tokens",
    parallel: "/tool_choice/disable_parallel_tool_use",
    reasoning: "/thinking",
    stop: "/stop_sequences",
    temperature: "/temperature",
    top_k: "/top_k",
    top_p: "/top_p",
    user: "/metadata/user_id",
};

/// Reads a request.
///
/// # Errors
/// [`Unreadable`] with the place of the first part that is not what the dialect says.
pub(crate) fn decode(body: &[u8]) -> Result<Request<'_>, Unreadable> {
    let mut members = Members::of_body(body)?;
    let mut request = Request { places: PLACES, ..Request::default() };
    if let Some(raw) = members.take("system") {
        let mut blocks = Vec::new();
        blocks::content(raw, "/system", &mut blocks)?;
        blocks.iter_mut().for_each(set_billing_apart);
        request.turns.push(Turn { role: Role::System, blocks, pointer: "/system".to_owned() });
    }
    let messages = members.take_list("messages")?.ok_or_else(|| Unreadable::at("/messages", "is missing"))?;
    for (place, raw) in messages.into_iter().enumerate() {
        request.turns.push(turn(raw, format!("/messages/{place}"))?);
    }
    for (place, raw) in members.take_list("tools")?.unwrap_or_default().into_iter().enumerate() {
        tool(raw, format!("/tools/{place}"), &mut request)?;
    }
    tool_choice(&mut members, &mut request)?;
    request.max_output = members.take_as("max_tokens", "must be a number of tokens")?;
    request.temperature = members.take_as("temperature", "must be a number")?;
    request.top_p = members.take_as("top_p", "must be a number")?;
    request.top_k = members.take_as("top_k", "must be a number")?;
    request.stop = stops(&mut members)?;
    output_config(&mut members, &mut request)?;
    thinking(&mut members, &mut request)?;
    if let Some(mut metadata) = members.take_object("metadata")? {
        request.user = metadata.take_text("user_id")?;
        request.opaque.extend(hints(metadata));
    }
    for (pointer, name, raw) in members.rest() {
        if !NOT_CARRIED.contains(&name.as_str()) {
            let meaningful = MEANINGFUL.contains(&name.as_str()) && !only_clears(&name, raw);
            let weight = if meaningful { Weight::Meaning } else { Weight::Hint };
            request.opaque.push(opaque(pointer, raw, weight));
        }
    }
    Ok(request)
}

/// Context management that only clears away what is old (`clear_thinking_…`, `clear_tool_uses_…`), as Claude Code always
/// asks for: a model that sees it still is asked the same. A summary in its place (`compact_…`) would be an answer's part.
fn only_clears(name: &str, raw: &RawValue) -> bool {
    let clears = |edit: &RawValue| {
        let kind = Members::of(edit, "").and_then(|mut edit| edit.need_text("type"));
        kind.is_ok_and(|kind| kind.starts_with("clear_"))
    };
    let edits = || Members::of(raw, "").and_then(|mut members| members.take_list("edits"));
    name == "context_management"
        && edits().is_ok_and(|edits| edits.is_some_and(|edits| edits.into_iter().all(clears)))
}

pub(super) fn opaque(pointer: String, raw: &RawValue, weight: Weight) -> Opaque<'_> {
    Opaque { dialect: Dialect::Messages, pointer, json: Cow::Borrowed(raw), weight }
}

/// What is left of an object, none of which changes what the request means.
pub(super) fn hints<'a>(members: Members<'a>) -> impl Iterator<Item = Opaque<'a>> {
    members.rest().map(|(pointer, _, raw)| opaque(pointer, raw, Weight::Hint))
}

fn set_billing_apart(block: &mut Block<'_>) {
    if let Block::Text { text, .. } = block
        && text.starts_with(BILLING)
    {
        // In front of a proxy that joins the blocks, it is the first line only.
        if let Some((_, rest)) = text.split_once('\n').filter(|(_, rest)| !rest.trim().is_empty()) {
            *text = Cow::Owned(rest.to_owned());
            return;
        }
        let json = RawValue::from_string("true".to_owned()).unwrap_or_default();
        *block = Block::Opaque(Opaque {
            dialect: Dialect::Messages,
            pointer: "/system/0".to_owned(),
            json: Cow::Owned(json),
            weight: Weight::Hint,
        });
    }
}

fn turn(raw: &RawValue, pointer: String) -> Result<Turn<'_>, Unreadable> {
    let mut message = Members::of(raw, pointer.clone())?;
    let role = match message.need_text("role")?.as_ref() {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "user" => Role::User,
        _ => return Err(Unreadable::at(message.at("role"), "must be user, assistant or system")),
    };
    let mut blocks = Vec::new();
    let place = message.at("content");
    let raw = message.take("content").ok_or_else(|| Unreadable::at(place.clone(), "is missing"))?;
    blocks::content(raw, &place, &mut blocks)?;
    blocks.extend(hints(message).map(Block::Opaque));
    Ok(Turn { role, blocks, pointer })
}

fn tool<'a>(raw: &'a RawValue, pointer: String, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let mut tool = Members::of(raw, pointer.clone())?;
    // A tool with a type of its own runs at the provider, or is one that only its models know.
    if tool.take_text("type")?.is_some_and(|kind| kind != "custom") {
        request.opaque.push(opaque(pointer, raw, Weight::Meaning));
        return Ok(());
    }
    request.tools.push(Tool {
        name: tool.need_text("name")?,
        namespace: None,
        kind: ToolKind::Function,
        description: tool.take_text("description")?,
        schema: tool.take("input_schema").map(Cow::Borrowed),
        strict: tool.take_as("strict", "must be true or false")?,
        cache: blocks::cache_mark(&mut tool)?,
        pointer,
    });
    request.opaque.extend(hints(tool));
    Ok(())
}

fn tool_choice<'a>(members: &mut Members<'a>, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let Some(mut choice) = members.take_object("tool_choice")? else { return Ok(()) };
    request.tool_choice = Some(match choice.need_text("type")?.as_ref() {
        "auto" => ToolChoice::Any(Mode::Auto),
        "any" => ToolChoice::Any(Mode::Required),
        "none" => ToolChoice::Any(Mode::Never),
        "tool" => ToolChoice::Named(choice.need_text("name")?),
        _ => return Err(Unreadable::at("/tool_choice/type", "must be auto, any, tool or none")),
    });
    let disabled: Option<bool> = choice.take_as("disable_parallel_tool_use", "must be true or false")?;
    request.parallel_tools = disabled.map(|disabled| !disabled);
    Ok(())
}

fn stops<'a>(members: &mut Members<'a>) -> Result<Vec<Cow<'a, str>>, Unreadable> {
    let stops = members.take_list("stop_sequences")?.unwrap_or_default();
    let rule = "must be a list of texts";
    let read = |raw: &'a RawValue| {
        json::text(raw.get().as_bytes()).ok_or_else(|| Unreadable::at("/stop_sequences", rule))
    };
    stops.into_iter().map(read).collect()
}

fn output_config<'a>(members: &mut Members<'a>, request: &mut Request<'a>) -> Result<(), Unreadable> {
    // `output_format` is where the form stood before it moved into `output_config`.
    let older = members.take_object("output_format")?;
    let mut config = members.take_object("output_config")?.unwrap_or_default();
    if let Some(word) = config.take_text("effort")? {
        let rule = "must be low, medium, high, xhigh or max";
        let effort = Effort::named(&word).ok_or_else(|| Unreadable::at("/output_config/effort", rule))?;
        request.reasoning.get_or_insert_default().effort = Some(effort);
    }
    if let Some(mut format) = config.take_object("format")?.or(older) {
        let place = format.at("schema");
        let schema = format.take("schema").ok_or_else(|| Unreadable::at(place, "is missing"))?;
        request.format = Some(Format::Schema {
            name: None,
            description: None,
            schema: Cow::Borrowed(schema),
            strict: None,
        });
    }
    request.opaque.extend(hints(config));
    Ok(())
}

fn thinking<'a>(members: &mut Members<'a>, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let Some(mut thinking) = members.take_object("thinking")? else { return Ok(()) };
    let reasoning: &mut Reasoning = request.reasoning.get_or_insert_default();
    match thinking.need_text("type")?.as_ref() {
        "enabled" => {
            reasoning.budget = thinking.take_as("budget_tokens", "must be a number of tokens")?;
        }
        "disabled" => reasoning.effort = Some(Effort::None),
        // It decides itself how much, as it does by an effort.
        "adaptive" | "between_tools" => {
            reasoning.effort.get_or_insert(Effort::High);
        }
        _ => {
            let rule = "must be adaptive, enabled, disabled or between_tools";
            return Err(Unreadable::at("/thinking/type", rule));
        }
    }
    reasoning.visible = thinking.take_text("display")?.map(|display| display != "omitted");
    request.opaque.extend(hints(thinking));
    Ok(())
}
