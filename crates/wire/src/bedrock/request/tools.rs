//! `toolConfig`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::outgoing::CachePoint;
use super::Writer;
use crate::ir::{Block, Json, Mode, Request, Tool, ToolChoice, ToolKind, Untranslatable};
use crate::json::Members;
use crate::translate::WRAPPED_SCHEMA;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'r> {
    tools: Vec<OutTool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<OutChoice>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum OutTool<'r> {
    CachePoint(CachePoint),
    ToolSpec(Spec<'r>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'r> {
    name: Cow<'r, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'r str>,
    input_schema: Schema<'r>,
}

#[derive(Serialize)]
struct Schema<'r> {
    json: Cow<'r, RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum OutChoice {
    Any {},
    Tool { name: String },
}

/// Which tools are to be called, as far as it matters to the rest of the request.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// One must be.
    pub(super) forced: bool,
    /// What only the model itself takes: Claude's own `tool_choice`.
    pub(super) own: Option<serde_json::Value>,
}

impl<'r> Writer<'r> {
    /// The tools, and which of them are to be called. Converse has no word for none and none for one at a time; Claude's own
    /// has, and is carried along ("additionalModelRequestFields").
    pub(super) fn tools(
        &mut self,
        request: &'r Request<'_>,
    ) -> Result<(Option<ToolConfig<'r>>, Choice), Untranslatable> {
        let mut tools = Vec::new();
        for tool in request.offered()? {
            let spec = self.spec(tool)?;
            tools.push(OutTool::ToolSpec(spec));
            tools.extend(self.cache_point(tool.cache, &tool.pointer).map(OutTool::CachePoint));
        }
        let called = self.called(request);
        let mode = match &request.tool_choice {
            Some(ToolChoice::Any(mode) | ToolChoice::Among { mode, .. }) => Some(*mode),
            Some(ToolChoice::Named(_)) => Some(Mode::Required),
            None => None,
        };
        let never = mode == Some(Mode::Never);
        if tools.is_empty() || (never && called.is_empty()) {
            // A conversation that holds calls must say of which tools.
            let specs = called.into_iter().map(|name| OutTool::ToolSpec(unknown(name)));
            tools = specs.collect();
            if tools.is_empty() {
                return Ok((None, Choice::default()));
            }
            self.losses
                .changed("/tools", "tools that were called before must be told, and may be called again");
            return Ok((Some(ToolConfig { tools, tool_choice: None }), self.never()));
        }
        if never {
            let choice = self.never();
            if choice.own.is_none() {
                let note = "this model cannot be kept from calling a tool that was called before";
                return Err(Untranslatable::at("/tool_choice", note));
            }
            return Ok((Some(ToolConfig { tools, tool_choice: None }), choice));
        }
        let forced = mode == Some(Mode::Required);
        if forced && self.maker.claude().is_some_and(|family| !family.forced_tools) {
            return Err(Untranslatable::at("/tool_choice", "this model cannot be made to call a tool"));
        }
        let name = match &request.tool_choice {
            Some(ToolChoice::Named(name)) => Some(self.names.chosen(name, &request.tools).into_owned()),
            _ => None,
        };
        if request.parallel_tools == Some(false) {
            if self.maker.claude().is_some() {
                let own = one_at_a_time(forced, name.as_deref());
                return Ok((
                    Some(ToolConfig { tools, tool_choice: None }),
                    Choice { forced, own: Some(own) },
                ));
            }
            self.losses.dropped(request.places.parallel, "this model cannot be kept to one call at a time");
        }
        let tool_choice = match name {
            Some(name) => Some(OutChoice::Tool { name }),
            None => forced.then_some(OutChoice::Any {}),
        };
        Ok((Some(ToolConfig { tools, tool_choice }), Choice { forced, own: None }))
    }

    fn spec(&mut self, tool: &'r Tool<'_>) -> Result<Spec<'r>, Untranslatable> {
        if tool.strict == Some(true) {
            self.losses
                .dropped(format!("{}/strict", tool.pointer), "schemas are kept to in another way here");
        }
        self.losses.grammar(tool);
        let json = match (&tool.kind, &tool.schema) {
            (ToolKind::Custom { .. }, _) => raw(WRAPPED_SCHEMA),
            (ToolKind::Function, Some(schema)) => of_object(schema)
                .ok_or_else(|| Untranslatable::at(tool.pointer.clone(), "a tool takes an object here"))?,
            (ToolKind::Function, None) => raw(NO_PARAMETERS),
        };
        Ok(Spec {
            name: Cow::Owned(self.names.sent(&tool.name, tool.namespace.as_deref()).into_owned()),
            description: tool.description.as_deref().filter(|text| !text.trim().is_empty()),
            input_schema: Schema { json },
        })
    }

    fn never(&self) -> Choice {
        let own = self.maker.claude().map(|_| serde_json::json!({ "type": "none" }));
        Choice { forced: false, own }
    }

    /// The names of the tools that were called, as they are sent.
    fn called(&self, request: &Request<'_>) -> BTreeSet<String> {
        let blocks = request.turns.iter().flat_map(|turn| &turn.blocks);
        let names = blocks.filter_map(|block| match block {
            Block::ToolCall(call) => {
                Some(self.names.sent(&call.name, call.namespace.as_deref()).into_owned())
            }
            _ => None,
        });
        names.collect()
    }
}

/// Claude's own words for one call at a time (Anthropic API reference, "tool_choice").
fn one_at_a_time(forced: bool, name: Option<&str>) -> serde_json::Value {
    match (name, forced) {
        (Some(name), _) => {
            serde_json::json!({ "type": "tool", "name": name, "disable_parallel_tool_use": true })
        }
        (None, true) => serde_json::json!({ "type": "any", "disable_parallel_tool_use": true }),
        (None, false) => serde_json::json!({ "type": "auto", "disable_parallel_tool_use": true }),
    }
}

fn unknown<'r>(name: String) -> Spec<'r> {
    let input_schema = Schema { json: raw(NO_PARAMETERS) };
    Spec { name: Cow::Owned(name), description: None, input_schema }
}

const NO_PARAMETERS: &str = "{\"type\":\"object\",\"properties\":{}}";

/// The schema with the type that Converse asks for; `None` if it is another's.
fn of_object<'r>(schema: &'r Json<'_>) -> Option<Cow<'r, RawValue>> {
    let mut members = Members::of(schema, "").ok()?;
    match members.take_text("type").ok()?.as_deref() {
        Some("object") => return Some(Cow::Borrowed(schema.as_ref())),
        Some(_) => return None,
        None => {}
    }
    let mut rest = members.iter().peekable();
    if rest.peek().is_none() {
        return Some(raw(NO_PARAMETERS));
    }
    let rest = rest.map(|(name, value)| format!(",{}:{}", serde_json::Value::from(name), value.get()));
    RawValue::from_string(format!("{{\"type\":\"object\"{}}}", rest.collect::<String>())).ok().map(Cow::Owned)
}

fn raw<'r>(json: &'static str) -> Cow<'r, RawValue> {
    serde_json::from_str::<&RawValue>(json).map_or_else(|_| Cow::Owned(Box::default()), Cow::Borrowed)
}
