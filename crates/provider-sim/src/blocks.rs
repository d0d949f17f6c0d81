//! Output as content blocks, for the dialects that have them: reasoning, a text and each tool call are one each.

use serde_json::{Map, Value};

use crate::answer::Delta;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    Tool(usize),
}

/// Numbers the blocks: a new one begins where the kind changes, and with each tool call.
pub(crate) fn blocks(deltas: &[Delta]) -> Vec<usize> {
    let kind = |delta: &Delta| match delta {
        Delta::Reasoning { .. } => Kind::Thinking,
        Delta::Text(_) | Delta::Refusal(_) => Kind::Text,
        Delta::ToolOpen { index, .. } | Delta::ToolArguments { index, .. } => Kind::Tool(*index),
    };
    let mut block = 0;
    let mut before = None;
    deltas
        .iter()
        .map(|delta| {
            let own = kind(delta);
            block += usize::from(before.is_some_and(|before| before != own));
            before = Some(own);
            block
        })
        .collect()
}

/// A block as it is at its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    Thinking(String),
    Text(String),
    /// With the number of the call.
    Tool {
        index: usize,
        name: String,
        input: Value,
    },
}

/// All blocks, whole. Arguments that are no JSON are an empty object.
pub(crate) fn gathered(deltas: &[Delta]) -> Vec<Block> {
    let mut gathered = Vec::new();
    let mut rest = deltas.iter().zip(blocks(deltas)).peekable();
    while let Some((first, block)) = rest.next() {
        let mut text = text_of(first).to_owned();
        while let Some((delta, _)) = rest.next_if(|(_, own)| *own == block) {
            text.push_str(text_of(delta));
        }
        gathered.push(match first {
            Delta::Reasoning { .. } => Block::Thinking(text),
            Delta::Text(_) | Delta::Refusal(_) => Block::Text(text),
            Delta::ToolOpen { index, .. } | Delta::ToolArguments { index, .. } => Block::Tool {
                index: *index,
                name: if let Delta::ToolOpen { name, .. } = first { name.clone() } else { String::new() },
                input: serde_json::from_str(&text).unwrap_or_else(|_| Value::Object(Map::new())),
            },
        });
    }
    gathered
}

fn text_of(delta: &Delta) -> &str {
    match delta {
        Delta::Reasoning { text, .. }
        | Delta::Text(text)
        | Delta::Refusal(text)
        | Delta::ToolArguments { text, .. } => text,
        Delta::ToolOpen { .. } => "",
    }
}
