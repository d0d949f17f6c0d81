//! Calls of tools and their results, in the order that every provider asks for.
//!
//! Clients send results in any order, between instructions, or not at all where a person broke in. Providers refuse a
//! conversation in which a call has no result right behind it (Anthropic: "tool_use ids were found without tool_result
//! blocks"; OpenAI: "must be followed by tool messages").

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::ir::{Block, Losses, Request, Role, Text, ToolResult, Turn, Untranslatable};

/// What stands for a result that never came.
const NO_RESULT: &str = "(no result: the call was interrupted)";

/// Puts each result right behind the turn that calls for it, and something in the place of those that are missing.
///
/// # Errors
/// [`Untranslatable`] for a result of a call that was not made, and for two results of one call.
pub(super) fn mend(request: &mut Request<'_>) -> Result<Losses, Untranslatable> {
    let mut losses = Losses::default();
    drop_last_thoughts(request, &mut losses);
    if !request.turns.iter().flat_map(|turn| &turn.blocks).any(is_paired) {
        return Ok(losses);
    }
    let mut mended: Vec<Turn<'_>> = Vec::with_capacity(request.turns.len());
    let mut open = Open::default();
    for mut turn in std::mem::take(&mut request.turns) {
        if turn.role == Role::Assistant {
            // What the model says after its calls were answered, or after the user broke in, begins another round.
            let broken_in = mended.last().is_some_and(|last| last.role == Role::User);
            if open.is_answered() || broken_in {
                open.close(&mut mended, &mut losses);
            }
            open.calls(&turn);
            // A turn that went on calling belongs in front of the results.
            open.before(&mut mended, turn);
            continue;
        }
        open.take_results(&mut turn)?;
        if !turn.blocks.is_empty() {
            mended.push(turn);
        }
    }
    open.close(&mut mended, &mut losses);
    request.turns = mended;
    Ok(losses)
}

fn is_paired(block: &Block<'_>) -> bool {
    matches!(block, Block::ToolCall(_) | Block::ToolResult(_))
}

/// Thoughts with nothing behind them are half a turn, which no provider takes back.
fn drop_last_thoughts(request: &mut Request<'_>, losses: &mut Losses) {
    while let Some(last) = request.turns.pop_if(|turn| {
        turn.role == Role::Assistant
            && !turn.blocks.is_empty()
            && turn.blocks.iter().all(|block| matches!(block, Block::Reasoning { .. }))
    }) {
        losses.dropped(last.pointer, "thoughts with nothing behind them");
    }
}

/// The calls that wait for their results.
#[derive(Default)]
struct Open<'a> {
    /// Id and place of each, in their order.
    calls: Vec<(Text<'a>, String)>,
    /// Of each id, how many calls have no result yet. Some servers count their calls from 0 in each round, and some have no
    /// ids at all.
    waiting: BTreeMap<Text<'a>, usize>,
    /// The results that came, in their order.
    results: Vec<Block<'a>>,
    /// Where the results go: right behind the last turn that calls.
    behind: usize,
}

impl<'a> Open<'a> {
    fn is_answered(&self) -> bool {
        !self.calls.is_empty() && self.calls.len() == self.results.len()
    }

    fn calls(&mut self, turn: &Turn<'a>) {
        for block in &turn.blocks {
            if let Block::ToolCall(call) = block {
                self.calls.push((call.id.clone(), call.pointer.clone()));
                *self.waiting.entry(call.id.clone()).or_default() += 1;
            }
        }
    }

    fn before(&mut self, mended: &mut Vec<Turn<'a>>, turn: Turn<'a>) {
        let calls = turn.blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        mended.push(turn);
        if calls {
            self.behind = mended.len();
        }
    }

    fn take_results(&mut self, turn: &mut Turn<'a>) -> Result<(), Untranslatable> {
        let mut rest = Vec::with_capacity(turn.blocks.len());
        for block in std::mem::take(&mut turn.blocks) {
            let Block::ToolResult(result) = &block else {
                rest.push(block);
                continue;
            };
            match self.waiting.get_mut(&result.call) {
                None => {
                    let note = "it answers no call of the turn before it";
                    return Err(Untranslatable::at(result.pointer.clone(), note));
                }
                Some(0) => {
                    return Err(Untranslatable::at(result.pointer.clone(), "the call has a result already"));
                }
                Some(waiting) => *waiting -= 1,
            }
            self.results.push(block);
        }
        turn.blocks = rest;
        Ok(())
    }

    /// Writes the results of the round as they came, and behind them what stands for those that did not.
    fn close(&mut self, mended: &mut Vec<Turn<'a>>, losses: &mut Losses) {
        let Some((_, place)) = self.calls.first().cloned() else { return };
        let mut blocks = std::mem::take(&mut self.results);
        // Of several calls of one id, the first ones have the results.
        for (call, pointer) in self.calls.drain(..).rev() {
            let Some(waiting) = self.waiting.get_mut(&call).filter(|waiting| **waiting > 0) else { continue };
            *waiting -= 1;
            losses.changed(pointer.clone(), "the call has no result; that it has none stands there instead");
            let content = vec![Block::Text { text: Cow::Borrowed(NO_RESULT), cache: None }];
            blocks.push(Block::ToolResult(ToolResult { call, content, failed: true, cache: None, pointer }));
        }
        self.waiting.clear();
        let at = self.behind.min(mended.len());
        mended.insert(at, Turn { role: Role::User, blocks, pointer: place });
    }
}
