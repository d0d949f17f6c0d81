//! The form that an answer must have, and what of an answer must have it.

use serde_json::Value;

use super::{read, read_answer};
use crate::dialect::Dialect;
use crate::ir::{Block, Format, Stop, Unreadable};

/// The form that a request asks of its answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// Any JSON.
    Json,
    /// JSON that fits this JSON Schema.
    Schema(Value),
}

/// The form that a request asks for, if it asks for any.
///
/// # Errors
/// [`Unreadable`] if it is no request of its dialect.
pub fn form(body: &[u8], dialect: Dialect) -> Result<Option<Form>, Unreadable> {
    Ok(match read(body, dialect)?.format {
        None => None,
        Some(Format::Json) => Some(Form::Json),
        Some(Format::Schema { schema, .. }) => {
            let schema = serde_json::from_str(schema.get());
            Some(Form::Schema(schema.map_err(|_| Unreadable::at("", "has a schema that is no JSON"))?))
        }
    })
}

/// The text of a whole answer that must have the form. `None` where none is due: the model calls tools, refuses, or was broken
/// off.
///
/// # Errors
/// [`Unreadable`] if it is no answer of its dialect.
pub fn formed(body: &[u8], dialect: Dialect) -> Result<Option<String>, Unreadable> {
    let answer = read_answer(body, dialect)?;
    let other = |block: &Block<'_>| matches!(block, Block::ToolCall(_) | Block::Refusal(_));
    let due = match answer.stop {
        Stop::End | Stop::Sequence(_) => !answer.blocks.iter().any(other),
        Stop::ContextFull | Stop::Length | Stop::Paused | Stop::Refusal | Stop::ToolCalls => false,
    };
    let texts = answer.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_ref()),
        _ => None,
    });
    Ok(due.then(|| texts.collect()))
}
