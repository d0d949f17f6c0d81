//! What is answered.

use super::{Block, Text};
use crate::chat::Usage;

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The model had no more to say.
    End,
    /// The model's window is full.
    ContextFull,
    /// The limit on output tokens.
    Length,
    /// The provider wants to be asked to go on (`pause_turn`).
    Paused,
    /// The model, or the provider's policy, refuses.
    Refusal,
    /// A text at which it shall end, where the provider says which.
    Sequence(Option<String>),
    /// Tools are called.
    ToolCalls,
}

impl Stop {
    /// Whether the model was broken off: what it said last may be half of it.
    pub(crate) fn breaks_off(&self) -> bool {
        match self {
            Self::ContextFull | Self::Length | Self::Refusal => true,
            Self::End | Self::Paused | Self::Sequence(_) | Self::ToolCalls => false,
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// The provider's id of it.
    pub id: Text<'a>,
    /// The model that answered, as the provider calls it.
    pub model: Text<'a>,
    /// What it says.
    pub blocks: Vec<Block<'a>>,
    /// Why it ended.
    pub stop: Stop,
    /// What it took.
    pub usage: Option<Usage>,
}
