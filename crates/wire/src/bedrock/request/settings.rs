//! How the answer shall be: `inferenceConfig`, `outputConfig`, and what only one maker's models take.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use super::maker::Maker;
use super::tools::Choice;
use crate::dialect::Dialect;
use crate::ir::{CommonName, Effort, Format, Losses, Request, Untranslatable};
use crate::json;
use crate::messages::models::Family;
use crate::messages::schema::narrowed;
use crate::messages::thinking::{self, OutThinking};
use crate::translate::Destination;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inference<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'r Number>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'r [Cow<'r, str>],
}

impl Inference<'_> {
    pub(super) fn says_nothing(&self) -> bool {
        self.max_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputConfig<'r> {
    text_format: TextFormat<'r>,
}

#[derive(Serialize)]
struct TextFormat<'r> {
    #[serde(rename = "type")]
    kind: &'static str,
    structure: Structure<'r>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Structure<'r> {
    json_schema: JsonSchema<'r>,
}

#[derive(Serialize)]
struct JsonSchema<'r> {
    /// JSON in a text.
    schema: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'r str>,
}

#[derive(Serialize)]
pub(super) struct Tier {
    #[serde(rename = "type")]
    kind: &'static str,
}

/// See the module.
pub(super) struct Settings<'r> {
    pub(super) inference: Inference<'r>,
    pub(super) additional: Option<Value>,
    pub(super) output: Option<OutputConfig<'r>>,
    pub(super) tier: Option<Tier>,
    /// The model thinks, and may be handed what it thought before.
    pub(super) thinks: bool,
}

/// Writes the settings.
pub(super) fn write<'r>(
    request: &'r Request<'_>,
    to: &Destination<'_>,
    maker: Maker,
    choice: Choice,
    losses: &mut Losses,
) -> Result<Settings<'r>, Untranslatable> {
    if request.user.is_some() {
        losses.dropped(request.places.user, "Bedrock is not told who asks");
    }
    let mut additional = Map::new();
    let mut max_tokens = max_tokens(request, to, losses);
    let mut thinks = false;
    if let Some(family) = maker.claude() {
        let most = max_tokens.unwrap_or_else(|| to.max_output.unwrap_or(family.max_output));
        thinks = claude(request, to, family, (most, choice.forced), losses, &mut additional);
        // A budget counts against the limit, which must then be known.
        if additional.get("thinking").is_some_and(|thinking| thinking.get("budget_tokens").is_some()) {
            max_tokens = Some(most);
        }
    } else {
        effort(request, maker, losses, &mut additional);
    }
    additional.extend(choice.own.map(|own| ("tool_choice".to_owned(), own)));
    let sampling = maker.claude().is_none_or(|family| family.sampling && !thinks);
    top_k(request, maker, sampling, losses, &mut additional);
    let inference = Inference {
        max_tokens,
        temperature: temperature(request, sampling, losses),
        top_p: top_p(request, maker, sampling, losses),
        stop_sequences: &request.stop,
    };
    Ok(Settings {
        inference,
        additional: (!additional.is_empty()).then_some(Value::Object(additional)),
        output: output(request, maker, losses)?,
        tier: tier(request, losses),
        thinks,
    })
}

fn max_tokens(request: &Request<'_>, to: &Destination<'_>, losses: &mut Losses) -> Option<u64> {
    let asked = request.max_output?;
    match to.max_output.filter(|most| asked > *most) {
        Some(most) => {
            losses.changed(request.places.max_output, "the model gives out fewer tokens");
            Some(most)
        }
        None => Some(asked.max(1)),
    }
}

/// `thinking` and the effort of a Claude model; whether it thinks. `limits`: the most tokens, and whether a tool must be called.
fn claude(
    request: &Request<'_>,
    to: &Destination<'_>,
    family: Family,
    limits: (u64, bool),
    losses: &mut Losses,
    additional: &mut Map<String, Value>,
) -> bool {
    let (thinking, effort) = match thinking::asked(request, limits.0, family, limits.1, losses) {
        (Some(OutThinking::Enabled { .. }), _)
            if thinking::goes_on_without(request, Dialect::Bedrock, to.origin) =>
        {
            losses.changed(request.places.reasoning, "a turn whose thoughts are not there goes on without");
            (None, None)
        }
        asked => asked,
    };
    let thinks = matches!(thinking, Some(OutThinking::Enabled { .. } | OutThinking::Adaptive));
    let thinking = thinking.and_then(|thinking| serde_json::to_value(thinking).ok());
    additional.extend(thinking.map(|thinking| ("thinking".to_owned(), thinking)));
    additional.extend(effort.map(|effort| ("output_config".to_owned(), json!({ "effort": effort }))));
    thinks
}

/// How hard another maker's model shall think (Amazon Nova User Guide, "Extended thinking"; Amazon Bedrock User Guide, "OpenAI
/// models").
fn effort(request: &Request<'_>, maker: Maker, losses: &mut Losses, additional: &mut Map<String, Value>) {
    let Some(asked) = request.reasoning else { return };
    let effort = asked.effort.unwrap_or(Effort::Medium);
    let word = match effort {
        Effort::None => None,
        Effort::Minimal | Effort::Low => Some("low"),
        Effort::Medium => Some("medium"),
        Effort::High | Effort::XHigh | Effort::Max => Some("high"),
    };
    match (maker, word) {
        (Maker::OpenAi, word) => {
            additional.insert("reasoning_effort".to_owned(), json!(word.unwrap_or("low")));
        }
        (Maker::Amazon, Some(word)) => {
            let thinking = json!({ "type": "enabled", "maxReasoningEffort": word });
            additional.insert("reasoningConfig".to_owned(), thinking);
        }
        (_, None) => return,
        (_, Some(_)) => {
            losses.dropped(request.places.reasoning, "how hard this model thinks cannot be said here");
            return;
        }
    }
    if word != Some(effort.name()) && (maker, effort) != (Maker::Amazon, Effort::None) {
        losses.changed(request.places.reasoning, "this model knows low, medium and high");
    }
}

const NO_SAMPLING: &str = "this model takes no sampling parameters, or none while it thinks";

fn temperature(request: &Request<'_>, sampling: bool, losses: &mut Losses) -> Option<Number> {
    let asked = request.temperature.as_ref()?;
    if !sampling {
        losses.dropped(request.places.temperature, NO_SAMPLING);
        return None;
    }
    if asked.as_f64().is_some_and(|asked| asked > 1.0) {
        losses.changed(request.places.temperature, "Converse takes 1 at most");
        return Some(Number::from(1));
    }
    Some(asked.clone())
}

/// Newer Claude models take one of the two (Anthropic API: "`temperature` and `top_p` cannot both be specified").
fn top_p<'r>(
    request: &'r Request<'_>,
    maker: Maker,
    sampling: bool,
    losses: &mut Losses,
) -> Option<&'r Number> {
    let asked = request.top_p.as_ref()?;
    if !sampling {
        losses.dropped(request.places.top_p, NO_SAMPLING);
        return None;
    }
    if maker.claude().is_some() && request.temperature.is_some() {
        if asked.as_f64() != Some(1.0) {
            losses.dropped(request.places.top_p, "the model takes it or a temperature");
        }
        return None;
    }
    Some(asked)
}

fn top_k(
    request: &Request<'_>,
    maker: Maker,
    sampling: bool,
    losses: &mut Losses,
    additional: &mut Map<String, Value>,
) {
    let Some(asked) = &request.top_k else { return };
    match maker {
        Maker::Anthropic(_) if sampling => {
            additional.insert("top_k".to_owned(), json!(asked));
        }
        Maker::Amazon => {
            additional.insert("inferenceConfig".to_owned(), json!({ "topK": asked }));
        }
        Maker::Anthropic(_) => losses.dropped(request.places.top_k, NO_SAMPLING),
        Maker::OpenAi | Maker::Other => {
            losses.dropped(request.places.top_k, "Converse has no such parameter")
        }
    }
}

/// Schemas are kept to as Messages does (Amazon Bedrock User Guide, "Structured output").
fn output<'r>(
    request: &'r Request<'_>,
    maker: Maker,
    losses: &mut Losses,
) -> Result<Option<OutputConfig<'r>>, Untranslatable> {
    let place = request.places.format;
    if request.format.is_some() && maker.claude().is_some_and(|family| !family.formats) {
        return Err(Untranslatable::at(place, "this model keeps to no schema"));
    }
    let (name, description, schema) = match &request.format {
        None => return Ok(None),
        Some(Format::Json) => {
            return Err(Untranslatable::at(place, "Converse knows JSON by a schema only"));
        }
        Some(Format::Schema { name, description, schema, .. }) => (name, description, schema),
    };
    let schema = narrowed(schema).map_err(|note| Untranslatable::at(place, note))?;
    if schema.told {
        losses.changed(place, "what Converse does not keep to in a schema is told in its descriptions");
    }
    let json_schema = JsonSchema {
        schema: schema.schema.get().to_owned(),
        name: name.as_deref().filter(|name| !name.is_empty()),
        description: description.as_deref().filter(|text| !text.is_empty()),
    };
    let text_format = TextFormat { kind: "json_schema", structure: Structure { json_schema } };
    Ok(Some(OutputConfig { text_format }))
}

fn tier(request: &Request<'_>, losses: &mut Losses) -> Option<Tier> {
    let asked = request.common(CommonName::ServiceTier)?;
    let word = json::text(asked.get().as_bytes()).unwrap_or_default();
    let kind = match word.as_ref() {
        "auto" => return None,
        "default" => "default",
        "flex" => "flex",
        "priority" => "priority",
        _ => {
            losses.dropped("/service_tier", "Bedrock has no such tier");
            return None;
        }
    };
    Some(Tier { kind })
}
