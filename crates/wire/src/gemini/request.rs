//! A request of generateContent as its meaning (Gemini API reference, "generateContent").

mod encode;

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::parts::{PartReader, hints, list_or_one, object, opaque};
use super::schema;
use crate::ir::{
    Block, Common, CommonName, Effort, Format, Json, Mode, Places, Reasoning, Request, Role, Tool,
    ToolChoice, ToolKind, Turn, Unreadable, Weight,
};
use crate::json::{self, Members, is_falsy};

pub(crate) use encode::encode;

/// Fields that the gateway itself reads: the model stands in the path.
const NOT_CARRIED: [&str; 3] = ["model", "models", "provider"];

/// Fields without which an answer is another one: state that the provider keeps.
const MEANINGFUL: [&str; 2] = ["cachedContent", "continuationToken"];

/// The same among the settings of the generation.
const MEANINGFUL_SETTINGS: [&str; 4] =
    ["candidateCount", "logprobs", "responseLogprobs", "responseModalities"];

/// Settings that other dialects have too.
const COMMON: [(&str, CommonName); 3] = [
    ("frequencyPenalty", CommonName::FrequencyPenalty),
    ("presencePenalty", CommonName::PresencePenalty),
    ("seed", CommonName::Seed),
];

const PLACES: Places = Places {
    format: "/generationConfig/responseMimeType",
    format_name: "",
    max_output: "/generationConfig/maxOutputTokens",
    parallel: "/toolConfig",
    reasoning: "/generationConfig/thinkingConfig",
    stop: "/generationConfig/stopSequences",
    temperature: "/generationConfig/temperature",
    top_k: "/generationConfig/topK",
    top_p: "/generationConfig/topP",
    user: "/labels",
};

/// Reads a request.
///
/// # Errors
/// [`Unreadable`] with the place of the first part that is not what the dialect says.
pub(crate) fn decode(body: &[u8]) -> Result<Request<'_>, Unreadable> {
    let mut members = Members::of_body(body)?.camel();
    let mut request = Request { places: PLACES, ..Request::default() };
    let mut reader = PartReader::default();
    if let Some(raw) = members.take("systemInstruction") {
        request.turns.push(system(raw, &mut reader)?);
    }
    let contents =
        list_or_one(&mut members, "contents")?.ok_or_else(|| Unreadable::at("/contents", "is missing"))?;
    for (place, raw) in contents.into_iter().enumerate() {
        request.turns.push(content(raw, place, &mut reader)?);
    }
    for (place, raw) in list_or_one(&mut members, "tools")?.unwrap_or_default().into_iter().enumerate() {
        tools(raw, format!("/tools/{place}"), &mut request)?;
    }
    tool_config(&mut members, &mut request)?;
    if let Some(settings) = object(&mut members, "generationConfig")? {
        generation(settings, &mut request)?;
    }
    for (pointer, name, raw) in members.rest() {
        if !NOT_CARRIED.contains(&name.as_str()) && !is_falsy(raw.get()) {
            let weight = if MEANINGFUL.contains(&name.as_str()) { Weight::Meaning } else { Weight::Hint };
            request.opaque.push(opaque(pointer, raw, weight));
        }
    }
    Ok(request)
}

/// The instructions: a content, or by the habit of some libraries a text.
fn system<'a>(raw: &'a RawValue, reader: &mut PartReader<'a>) -> Result<Turn<'a>, Unreadable> {
    let pointer = "/systemInstruction".to_owned();
    let mut turn = Turn { role: Role::System, blocks: Vec::new(), pointer: pointer.clone() };
    if let Some(text) = json::text(raw.get().as_bytes()) {
        turn.blocks.push(Block::Text { text, cache: None });
        return Ok(turn);
    }
    let mut members = Members::of(raw, pointer)?.camel();
    for (place, raw) in list_or_one(&mut members, "parts")?.unwrap_or_default().into_iter().enumerate() {
        let pointer = format!("/systemInstruction/parts/{place}");
        reader.part(raw, pointer, String::new, &mut turn.blocks)?;
    }
    Ok(turn)
}

fn content<'a>(
    raw: &'a RawValue,
    number: usize,
    reader: &mut PartReader<'a>,
) -> Result<Turn<'a>, Unreadable> {
    let pointer = format!("/contents/{number}");
    let mut content = Members::of(raw, pointer.clone())?.camel();
    let role = match content.take_text("role")?.as_deref() {
        None | Some("" | "user" | "function") => Role::User,
        Some("model") => Role::Assistant,
        _ => return Err(Unreadable::at(content.at("role"), "must be user or model")),
    };
    let mut turn = Turn { role, blocks: Vec::new(), pointer: pointer.clone() };
    for (place, raw) in list_or_one(&mut content, "parts")?.unwrap_or_default().into_iter().enumerate() {
        // The same each time: a conversation only grows, and providers that cache prompts see the same bytes.
        let mint = || format!("call_{number}_{place}");
        reader.part(raw, format!("{pointer}/parts/{place}"), mint, &mut turn.blocks)?;
    }
    turn.blocks.extend(hints(content).map(Block::Opaque));
    Ok(turn)
}

fn tools<'a>(raw: &'a RawValue, pointer: String, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let mut tools = Members::of(raw, pointer)?.camel();
    let place = tools.at("functionDeclarations");
    let declared = list_or_one(&mut tools, "functionDeclarations")?.unwrap_or_default();
    for (number, raw) in declared.into_iter().enumerate() {
        let pointer = format!("{place}/{number}");
        let mut function = Members::of(raw, pointer.clone())?.camel();
        let tool = Tool {
            name: function.need_text("name")?,
            namespace: None,
            kind: ToolKind::Function,
            description: function.take_text("description")?,
            schema: schema_of(&mut function, "parametersJsonSchema", "parameters")?,
            strict: None,
            cache: None,
            pointer,
        };
        request.tools.push(tool);
        request.opaque.extend(hints(function));
    }
    // Each other member is a tool that the provider runs.
    request.opaque.extend(tools.rest().map(|(pointer, _, raw)| opaque(pointer, raw, Weight::Meaning)));
    Ok(())
}

/// A schema in one of its two forms.
fn schema_of<'a>(members: &mut Members<'a>, json: &str, own: &str) -> Result<Option<Json<'a>>, Unreadable> {
    let whole = members.take(json).filter(|raw| schema::says_something(raw));
    let place = members.at(own);
    let part = members.take(own).filter(|raw| schema::says_something(raw));
    match (whole, part) {
        (Some(raw), _) => Ok(Some(Cow::Borrowed(raw))),
        (None, Some(raw)) => schema::json_schema(raw, &place).map(Some),
        (None, None) => Ok(None),
    }
}

fn tool_config<'a>(members: &mut Members<'a>, request: &mut Request<'a>) -> Result<(), Unreadable> {
    let Some(mut config) = object(members, "toolConfig")? else { return Ok(()) };
    if let Some(mut calling) = object(&mut config, "functionCallingConfig")? {
        let place = calling.at("mode");
        let mode = match calling.take_text("mode")?.as_deref() {
            None | Some("MODE_UNSPECIFIED") => None,
            Some("AUTO" | "VALIDATED") => Some(Mode::Auto),
            Some("ANY") => Some(Mode::Required),
            Some("NONE") => Some(Mode::Never),
            Some(_) => return Err(Unreadable::at(place, "must be AUTO, ANY, NONE or VALIDATED")),
        };
        let place = calling.at("allowedFunctionNames");
        let allowed = calling.take_list("allowedFunctionNames")?.unwrap_or_default();
        let names = allowed.into_iter().map(|raw| json::text(raw.get().as_bytes()));
        let mut names: Vec<_> =
            names.collect::<Option<_>>().ok_or_else(|| Unreadable::at(place, "must be a list of texts"))?;
        request.tool_choice = match (mode, names.len()) {
            (None, _) => None,
            (Some(mode), 0) => Some(ToolChoice::Any(mode)),
            (Some(Mode::Required), 1) => names.pop().map(ToolChoice::Named),
            (Some(mode), _) => Some(ToolChoice::Among { mode, names }),
        };
        request.opaque.extend(hints(calling));
    }
    request.opaque.extend(hints(config));
    Ok(())
}

fn generation<'a>(mut settings: Members<'a>, request: &mut Request<'a>) -> Result<(), Unreadable> {
    request.max_output = settings.take_as("maxOutputTokens", "must be a number of tokens")?;
    request.temperature = settings.take_as("temperature", "must be a number")?;
    request.top_p = settings.take_as("topP", "must be a number")?;
    request.top_k = settings.take_as("topK", "must be a number")?;
    let place = settings.at("stopSequences");
    let stops = settings.take_list("stopSequences")?.unwrap_or_default();
    let stops = stops.into_iter().map(|raw| json::text(raw.get().as_bytes()));
    request.stop =
        stops.collect::<Option<_>>().ok_or_else(|| Unreadable::at(place, "must be a list of texts"))?;
    request.format = format(&mut settings)?;
    request.reasoning = thinking(&mut settings, request)?;
    for (pointer, name, raw) in settings.rest() {
        if says_nothing(&name, raw) {
            continue;
        }
        if let Some((_, common)) = COMMON.iter().find(|(known, _)| *known == name) {
            request.common.push(Common { name: *common, pointer, json: Cow::Borrowed(raw) });
            continue;
        }
        let meant = MEANINGFUL_SETTINGS.contains(&name.as_str());
        request.opaque.push(opaque(pointer, raw, if meant { Weight::Meaning } else { Weight::Hint }));
    }
    Ok(())
}

/// A value that is the default, so that its absence says the same.
fn says_nothing(name: &str, raw: &RawValue) -> bool {
    match name {
        "candidateCount" => raw.get() == "1",
        "responseModalities" => {
            let words: String = raw.get().split_whitespace().collect();
            words.eq_ignore_ascii_case("[\"text\"]") || words == "[]"
        }
        "responseLogprobs" | "logprobs" | "presencePenalty" | "frequencyPenalty" => {
            matches!(raw.get(), "false" | "0" | "0.0")
        }
        _ => false,
    }
}

fn format<'a>(settings: &mut Members<'a>) -> Result<Option<Format<'a>>, Unreadable> {
    let schema = schema_of(settings, "responseJsonSchema", "responseSchema")?;
    let place = settings.at("responseMimeType");
    match (settings.take_text("responseMimeType")?.as_deref(), schema) {
        (None | Some("" | "text/plain"), None) => Ok(None),
        (Some("application/json"), None) => Ok(Some(Format::Json)),
        (None | Some("application/json"), Some(schema)) => {
            Ok(Some(Format::Schema { name: None, description: None, schema, strict: None }))
        }
        _ => Err(Unreadable::at(place, "must be text/plain, or application/json where there is a schema")),
    }
}

fn thinking<'a>(
    settings: &mut Members<'a>,
    request: &mut Request<'a>,
) -> Result<Option<Reasoning>, Unreadable> {
    let Some(mut thinking) = object(settings, "thinkingConfig")? else { return Ok(None) };
    let visible = thinking.take_as("includeThoughts", "must be true or false")?;
    let place = thinking.at("thinkingLevel");
    let effort = match thinking.take_text("thinkingLevel")? {
        Some(word) if word == "THINKING_LEVEL_UNSPECIFIED" => None,
        Some(word) => {
            let rule = "must be MINIMAL, LOW, MEDIUM, HIGH or XHIGH";
            Some(Effort::named(&word.to_ascii_lowercase()).ok_or_else(|| Unreadable::at(place, rule))?)
        }
        None => None,
    };
    // Nothing turns it off; less than nothing leaves it to the model.
    let budget: Option<i64> = thinking.take_as("thinkingBudget", "must be a number of tokens")?;
    let off = budget == Some(0);
    request.opaque.extend(hints(thinking));
    Ok(Some(Reasoning {
        effort: if off { Some(Effort::None) } else { effort },
        budget: budget.and_then(|tokens| u64::try_from(tokens).ok()).filter(|_| !off),
        visible,
    }))
}
