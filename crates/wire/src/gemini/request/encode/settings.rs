//! `generationConfig`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Number;
use serde_json::value::RawValue;

use super::super::super::models::{Family, Thinking};
use super::super::COMMON;
use crate::ir::{CommonName, Effort, Format, Losses, Reasoning, Request, Untranslatable};
use crate::translate::Destination;

/// Gemini API reference, "GenerationConfig": "up to 5" stop sequences.
const MAX_STOPS: usize = 5;
/// Gemini API documentation, "Thinking": the most that every model with a budget takes.
const MOST_BUDGET: u64 = 24_576;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<&'r Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'r Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<&'r Number>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'r [Cow<'r, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'r RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<OutThinking>,
    #[serde(flatten)]
    common: BTreeMap<&'static str, &'r RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutThinking {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

impl Settings<'_> {
    fn says_nothing(&self) -> bool {
        self.max_output_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.top_k.is_none()
            && self.stop_sequences.is_empty()
            && self.response_mime_type.is_none()
            && self.thinking_config.is_none()
            && self.common.is_empty()
    }
}

/// Writes the settings, if there are any.
pub(super) fn write<'r>(
    request: &'r Request<'_>,
    to: &Destination<'_>,
    family: Family,
    losses: &mut Losses,
) -> Result<Option<Settings<'r>>, Untranslatable> {
    if request.stop.len() > MAX_STOPS {
        return Err(Untranslatable::at(
            request.places.stop,
            "there are more than the five that Gemini takes",
        ));
    }
    if request.user.is_some() {
        losses.dropped(request.places.user, "Gemini is not told who asks");
    }
    if request.format.is_some() && !request.tools.is_empty() && !family.tools_with_form {
        let note = "this model takes either tools or a form of the answer";
        return Err(Untranslatable::at(request.places.format, note));
    }
    let settings = Settings {
        max_output_tokens: max_tokens(request, to, losses),
        temperature: request.temperature.as_ref(),
        top_p: request.top_p.as_ref(),
        top_k: request.top_k.as_ref(),
        stop_sequences: &request.stop,
        response_mime_type: request.format.as_ref().map(|_| "application/json"),
        response_json_schema: schema(request, losses),
        thinking_config: request.reasoning.and_then(|asked| thinking(request, asked, family, losses)),
        common: common(request, losses),
    };
    Ok((!settings.says_nothing()).then_some(settings))
}

/// What is the same here; a seed has 32 bits.
fn common<'r>(request: &'r Request<'_>, losses: &mut Losses) -> BTreeMap<&'static str, &'r RawValue> {
    let mut common = BTreeMap::new();
    for asked in &request.common {
        let Some((word, _)) = COMMON.iter().find(|(_, name)| *name == asked.name) else { continue };
        if asked.name == CommonName::Seed && asked.json.get().parse::<i32>().is_err() {
            losses.dropped(asked.pointer.clone(), "a seed has 32 bits here");
            continue;
        }
        common.insert(*word, asked.json.as_ref());
    }
    common
}

fn max_tokens(request: &Request<'_>, to: &Destination<'_>, losses: &mut Losses) -> Option<u64> {
    match (request.max_output, to.max_output) {
        (Some(asked), Some(most)) if asked > most => {
            losses.changed(request.places.max_output, "the model gives out fewer tokens");
            Some(most)
        }
        (asked, _) => asked,
    }
}

fn schema<'r>(request: &'r Request<'_>, losses: &mut Losses) -> Option<&'r RawValue> {
    let Some(Format::Schema { name, description, schema, .. }) = &request.format else { return None };
    if name.is_some() || description.is_some() {
        losses.dropped(request.places.format_name, "a schema has no name here");
    }
    Some(schema)
}

fn thinking(
    request: &Request<'_>,
    asked: Reasoning,
    family: Family,
    losses: &mut Losses,
) -> Option<OutThinking> {
    let place = request.places.reasoning;
    let effort = asked.effort.or_else(|| asked.budget.map(effort_of));
    let seen = asked.visible.or_else(|| effort.map(|effort| effort > Effort::None));
    let config = |thinking_budget, thinking_level| OutThinking {
        include_thoughts: seen.filter(|seen| *seen),
        thinking_budget,
        thinking_level,
    };
    match family.thinking {
        Thinking::None => {
            if effort != Some(Effort::None) {
                losses.dropped(place, "this model does not think");
            }
            None
        }
        Thinking::Level => {
            if effort == Some(Effort::None) {
                losses.changed(place, "this model always thinks; it is told to do the least");
            } else if asked.effort.is_none() && asked.budget.is_some() {
                losses.changed(place, "a budget becomes the level nearest to it");
            }
            Some(config(None, effort.map(level)))
        }
        Thinking::Budget { off } => {
            let wanted =
                asked.budget.filter(|_| asked.effort != Some(Effort::None)).or_else(|| effort.map(budget_of));
            let budget = match wanted {
                Some(0) if !off => {
                    losses.changed(place, "this model always thinks; it is told to do the least");
                    Some(budget_of(Effort::Minimal))
                }
                Some(tokens) if tokens > MOST_BUDGET => {
                    losses.changed(place, "the model takes a smaller budget");
                    Some(MOST_BUDGET)
                }
                wanted => wanted,
            };
            Some(config(budget, None))
        }
    }
}

fn level(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High => "HIGH",
        Effort::XHigh | Effort::Max => "XHIGH",
    }
}

/// Tokens to think with, by effort.
fn budget_of(effort: Effort) -> u64 {
    match effort {
        Effort::None => 0,
        Effort::Minimal | Effort::Low => 1_024,
        Effort::Medium => 2_048,
        Effort::High => 4_096,
        Effort::XHigh => 8_192,
        Effort::Max => 16_384,
    }
}

/// The effort nearest to a budget of tokens.
fn effort_of(budget: u64) -> Effort {
    match budget {
        0 => Effort::None,
        1..=1_024 => Effort::Low,
        1_025..=4_096 => Effort::Medium,
        4_097..=16_384 => Effort::High,
        _ => Effort::XHigh,
    }
}
