//! The intermediate representation: what a request, an answer and a stream mean, whatever dialect they are written in.
//!
//! Only what is translated passes through it; the same dialect goes by [`crate::passthrough`]. It is built of blocks
//! (text, reasoning, a tool call, …), since blocks are easily flattened and what is flat is not easily put into blocks.
//! What only one dialect has is carried as [`Opaque`]; an encoder of another dialect makes a [`Loss`] of it, or refuses with
//! [`Untranslatable`] where the request would mean something else without it. Nothing of it is ever stored, so it may change
//! any day.

mod answer;
mod request;
mod stream;

use std::borrow::Cow;

use serde_json::value::RawValue;

pub use answer::{Answer, Stop};
pub use request::{
    Block, CacheMark, Common, CommonName, Effort, Format, Media, MediaKind, Mode, Places, Reasoning, Request,
    Role, Signature, Source, Tool, ToolCall, ToolChoice, ToolKind, ToolResult, Turn,
};
pub use stream::{Event, Opening, Piece};

use crate::dialect::Dialect;

/// A text, borrowed from the body that it was read from where it stands there without escapes.
pub type Text<'a> = Cow<'a, str>;

/// A piece of JSON as it was written: key order and the spelling of numbers survive.
pub type Json<'a> = Cow<'a, RawValue>;

/// How much a request changes without something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// It still means the same: a hint on caching, speed or bookkeeping.
    Hint,
    /// It would mean something else: sent without it, the answer would be to another question.
    Meaning,
}

/// What only one dialect has.
#[derive(Debug, Clone)]
pub struct Opaque<'a> {
    /// Where it comes from, and the only one to which it may go.
    pub dialect: Dialect,
    /// Its place in the client's request, as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// The thing itself.
    pub json: Json<'a>,
    /// What it means that it is left out.
    pub weight: Weight,
}

/// What became of something that could not be said as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossKind {
    /// Something near it was said instead.
    Changed,
    /// It was left out.
    Dropped,
}

impl LossKind {
    /// Its name in headers and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Dropped => "dropped",
        }
    }
}

/// A step of translation that lost something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What was lost, by its place in the client's request or the provider's answer (RFC 6901). Never what stood there.
    pub pointer: String,
    /// How.
    pub kind: LossKind,
    /// Why, in words.
    pub note: &'static str,
}

/// The losses of one translation, each place once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses(Vec<Loss>);

/// More losses than this are not told apart.
const MAX_LOSSES: usize = 64;

impl Losses {
    /// Notes that something was left out.
    pub(crate) fn dropped(&mut self, pointer: impl Into<String>, note: &'static str) {
        self.note(Loss { pointer: pointer.into(), kind: LossKind::Dropped, note });
    }

    /// Notes that something near it was said instead.
    pub(crate) fn changed(&mut self, pointer: impl Into<String>, note: &'static str) {
        self.note(Loss { pointer: pointer.into(), kind: LossKind::Changed, note });
    }

    /// Leaves out what only another dialect has, and notes it.
    ///
    /// # Errors
    /// [`Untranslatable`] if the request would mean something else without it.
    pub(crate) fn leave_out(&mut self, opaque: &Opaque<'_>) -> Result<(), Untranslatable> {
        let note = "only the client's dialect has it";
        match opaque.weight {
            Weight::Hint => {
                self.dropped(opaque.pointer.clone(), note);
                Ok(())
            }
            Weight::Meaning => Err(Untranslatable::at(opaque.pointer.clone(), note)),
        }
    }

    /// Leaves out what a request says beside its turns and tools, and which the dialect written has no name for:
    /// what only another one has, and the parameters that are not among `known`.
    ///
    /// # Errors
    /// [`Untranslatable`] if the request would mean something else without it.
    pub(crate) fn leave_out_of(
        &mut self,
        request: &Request<'_>,
        known: &[CommonName],
    ) -> Result<(), Untranslatable> {
        for common in request.common.iter().filter(|common| !known.contains(&common.name)) {
            self.dropped(common.pointer.clone(), "the provider's dialect has no such parameter");
        }
        request.opaque.iter().try_for_each(|opaque| self.leave_out(opaque))
    }

    /// Leaves out a block that has no place where it stands: thoughts, and what only another dialect has.
    ///
    /// # Errors
    /// [`Untranslatable`] for everything else, and if the request would mean something else without it.
    pub(crate) fn leave_block(&mut self, block: &Block<'_>, place: &str) -> Result<(), Untranslatable> {
        match block {
            Block::Opaque(opaque) => self.leave_out(opaque),
            Block::Reasoning { .. } => {
                self.thoughts(place);
                Ok(())
            }
            _ => Err(Untranslatable::at(place, "it has no place in this role's message")),
        }
    }

    /// Notes thoughts that are left out.
    pub(crate) fn thoughts(&mut self, place: &str) {
        self.dropped(place, "what a model thought is of use to itself only");
    }

    /// Notes a mark for the cache that is left out, where there was one.
    pub(crate) fn cache_mark(&mut self, mark: Option<CacheMark>, place: &str) {
        if mark.is_some() {
            self.dropped(format!("{place}/cache_control"), "prompts are cached here without marks");
        }
    }

    /// Notes the grammar of a tool that takes any text, where it had one and is sent as a function.
    pub(crate) fn grammar(&mut self, tool: &Tool<'_>) {
        if let ToolKind::Custom { format: Some(_) } = tool.kind {
            let place = format!("{}/format", tool.pointer);
            self.dropped(place, "the tool is sent as a function, which has no grammar");
        }
    }

    /// Notes what was lost before.
    pub(crate) fn extend(&mut self, before: Self) {
        before.0.into_iter().for_each(|loss| self.note(loss));
    }

    /// What was lost, in the order in which it was met.
    #[must_use]
    pub fn as_slice(&self) -> &[Loss] {
        &self.0
    }

    /// Whether nothing was lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn note(&mut self, loss: Loss) {
        if self.0.len() < MAX_LOSSES && !self.0.contains(&loss) {
            self.0.push(loss);
        }
    }
}

/// A request that the other dialect cannot say without changing what it means.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}` cannot be translated: {note}")]
pub struct Untranslatable {
    /// The place in the client's request.
    pub pointer: String,
    /// Why, in words.
    pub note: &'static str,
}

impl Untranslatable {
    pub(crate) fn at(pointer: impl Into<String>, note: &'static str) -> Self {
        Self { pointer: pointer.into(), note }
    }
}

/// A request or answer whose parts are not what its dialect says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}` {rule}")]
pub struct Unreadable {
    /// Where.
    pub pointer: String,
    /// What should have been, in words: "must be a text".
    pub rule: &'static str,
}

impl Unreadable {
    pub(crate) fn at(pointer: impl Into<String>, rule: &'static str) -> Self {
        Self { pointer: pointer.into(), rule }
    }
}
