//! How much a Claude model shall think (Anthropic documentation, "Extended thinking" and "Adaptive thinking").

use serde::Serialize;

use super::super::models::{Family, Thinking};
use crate::dialect::Dialect;
use crate::ir::{Block, Effort, Losses, Request, Role, Turn};

/// Anthropic documentation, "Extended thinking": the least budget.
const LEAST_BUDGET: u64 = 1_024;

/// `thinking`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum OutThinking {
    Adaptive,
    Disabled,
    Enabled { budget_tokens: u64 },
}

/// What of `thinking` and of `output_config.effort` says what is asked for. `forced`: a tool must be called.
pub(crate) fn asked(
    request: &Request<'_>,
    max_tokens: u64,
    family: Family,
    forced: bool,
    losses: &mut Losses,
) -> (Option<OutThinking>, Option<&'static str>) {
    let Some(asked) = request.reasoning else { return (None, None) };
    let effort = asked.effort.unwrap_or(Effort::Medium);
    let place = request.places.reasoning;
    match family.thinking {
        Thinking::Never => {
            if effort > Effort::None {
                losses.dropped(place, "this model does not reason");
            }
            (None, None)
        }
        _ if effort == Effort::None && family.may_not_think => (Some(OutThinking::Disabled), None),
        // It refuses a forced choice while it thinks.
        _ if forced => {
            losses.dropped(place, "this model does not think where it must call a tool");
            (None, None)
        }
        Thinking::Adaptive => {
            let effort = match effort {
                Effort::None | Effort::Minimal => {
                    losses.changed(place, "the least effort of this model is low");
                    Effort::Low
                }
                Effort::XHigh if !family.xhigh => Effort::High,
                effort => effort,
            };
            (Some(OutThinking::Adaptive), Some(effort.name()))
        }
        // A budget must leave room for the answer.
        Thinking::Budget if max_tokens <= LEAST_BUDGET => {
            losses.dropped(place, "the limit on tokens leaves no room to think");
            (None, None)
        }
        Thinking::Budget => {
            let budget_tokens = asked.budget.unwrap_or_else(|| budget_of(effort)).max(LEAST_BUDGET);
            (Some(OutThinking::Enabled { budget_tokens: budget_tokens.min(max_tokens - 1) }), None)
        }
    }
}

/// Whether the model is in the middle of a round of calls, and the thoughts that led to them are not there.
pub(crate) fn goes_on_without(request: &Request<'_>, dialect: Dialect, origin: &str) -> bool {
    let has = |turn: &Turn<'_>, what: &dyn Fn(&Block<'_>) -> bool| turn.blocks.iter().any(what);
    let not_spoken = |turn: &&Turn<'_>| turn.role != Role::Assistant;
    let results = |block: &Block<'_>| matches!(block, Block::ToolResult(_));
    let sealed = |block: &Block<'_>| matches!(block, Block::Reasoning { signature: Some(seal), .. } if seal.is_of(dialect, origin));
    let in_round = request.turns.iter().rev().take_while(not_spoken).any(|turn| has(turn, &results));
    let spoken = request.turns.iter().rev().skip_while(not_spoken);
    let mut round = spoken.take_while(|turn| turn.role == Role::Assistant);
    in_round && !round.any(|turn| has(turn, &sealed))
}

/// Tokens to think with, by effort.
fn budget_of(effort: Effort) -> u64 {
    match effort {
        Effort::None | Effort::Minimal | Effort::Low => 1_024,
        Effort::Medium => 2_048,
        Effort::High => 4_096,
        Effort::XHigh => 8_192,
        Effort::Max => 16_384,
    }
}
