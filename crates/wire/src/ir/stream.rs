//! What is answered, piece by piece.

use super::Stop;
use crate::chat::Usage;

/// What a block that opens is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// The model thinks.
    Reasoning,
    /// It refuses, in words.
    Refusal,
    /// It speaks.
    Text,
    /// It calls a tool.
    ToolCall {
        /// What the result refers to.
        id: String,
        /// Which tool.
        name: String,
        /// The group of tools that it belongs to, where the client has such.
        namespace: Option<String>,
        /// What is handed to it is any text, and not JSON.
        custom: bool,
    },
}

/// A piece of an open block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Of a tool call's arguments: JSON text, or the text that a custom tool takes.
    Arguments(String),
    /// Of thoughts.
    Reasoning(String),
    /// The seal on them, whole.
    Signature(String),
    /// Of text, or of the words of a refusal.
    Text(String),
}

/// One step of a stream.
///
/// [`Event::Start`] comes first and once. Blocks have indexes from 0 in the order in which they open; several may be open at
/// a time, and each is closed before [`Event::Stop`]. [`Event::End`] comes last, after usage if there was any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A block is complete.
    Close {
        /// Which.
        index: usize,
    },
    /// The answer is complete and nothing follows.
    End,
    /// A block begins.
    Open {
        /// Which.
        index: usize,
        /// What it is.
        opening: Opening,
    },
    /// More of an open block.
    Delta {
        /// Which.
        index: usize,
        /// What.
        piece: Piece,
    },
    /// The answer begins.
    Start {
        /// The provider's id of it.
        id: String,
        /// The model, as the provider calls it.
        model: String,
    },
    /// Why it ended.
    Stop(Stop),
    /// What it took, all in all.
    Usage(Usage),
}
