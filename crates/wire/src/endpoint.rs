//! What is asked for, beside the dialect in which it is asked.
//!
//! A conversation is [`Endpoint::Generation`] in whichever dialect. The other endpoints are OpenAI's (and Cohere's
//! `/rerank`): they have one form each, so that their requests and answers go through as they are, and their errors are
//! those of [`Dialect::Chat`].

mod answer;
mod events;
#[cfg(test)]
mod tests;

use bytes::BytesMut;

use crate::chat::{BadCompletion, CompletionFacts};
use crate::dialect::{self, Dialect, StreamTap};
use crate::sse::write_event;

pub use events::EventTap;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A conversation, in the dialect of the request.
    Generation,
    /// Text that goes on from a prompt: OpenAI's older Completions.
    Completions,
    /// Vectors of texts.
    Embeddings,
    /// Whether a content policy would refuse.
    Moderations,
    /// Documents in the order in which they fit a query.
    Rerank,
    /// Images from a description.
    ImageGenerations,
    /// Images that are changed by a description.
    ImageEdits,
    /// Images like another.
    ImageVariations,
    /// Speech of a text.
    Speech,
    /// The text of speech.
    Transcriptions,
    /// The text of speech, in English.
    Translations,
    /// How many tokens a request of Messages has (Anthropic, "Count tokens in a Message").
    CountTokens,
    /// How many tokens a request of Responses has (OpenAI, "Get input token counts").
    InputTokens,
    /// How many tokens a request of Gemini has (Google, "countTokens").
    GeminiCount,
}

/// How the answer of an endpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streams {
    /// It is never a stream.
    Never,
    /// As in Chat Completions: chunks without a name, and `[DONE]`.
    Chunks,
    /// Events with a type, of which the last says that it is one.
    Events,
}

impl Endpoint {
    /// All endpoints but the dialects' own.
    pub const OTHERS: [Self; 13] = [
        Self::Completions,
        Self::Embeddings,
        Self::Moderations,
        Self::Rerank,
        Self::ImageGenerations,
        Self::ImageEdits,
        Self::ImageVariations,
        Self::Speech,
        Self::Transcriptions,
        Self::Translations,
        Self::CountTokens,
        Self::InputTokens,
        Self::GeminiCount,
    ];

    /// Its name in the ledger and in explanations: its path below the version. `None` for a conversation, which is named
    /// by its dialect.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        if self == Self::GeminiCount {
            return Some("countTokens");
        }
        self.path()?.strip_prefix('/')
    }

    /// Whether a model writes its answer, token by token, as text.
    #[must_use]
    pub fn generates(self) -> bool {
        matches!(self, Self::Generation | Self::Completions)
    }

    /// Whether it tells how many tokens a request has. What it tells of one model is not true of another, and where nobody
    /// can be asked it can be estimated (see [`crate::tokens`]).
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, Self::CountTokens | Self::InputTokens | Self::GeminiCount)
    }

    /// The dialect that it is a part of; `None` where it has a form of its own.
    #[must_use]
    pub fn dialect(self) -> Option<Dialect> {
        match self {
            Self::CountTokens => Some(Dialect::Messages),
            Self::InputTokens => Some(Dialect::Responses),
            Self::GeminiCount => Some(Dialect::Gemini),
            _ => None,
        }
    }

    /// Its path below a base URL that has a version in it; a conversation's is its dialect's. `None` too where it holds the
    /// model.
    pub(crate) fn path(self) -> Option<&'static str> {
        Some(match self {
            Self::Generation | Self::GeminiCount => return None,
            Self::Completions => "/completions",
            Self::Embeddings => "/embeddings",
            Self::Moderations => "/moderations",
            Self::Rerank => "/rerank",
            Self::ImageGenerations => "/images/generations",
            Self::ImageEdits => "/images/edits",
            Self::ImageVariations => "/images/variations",
            Self::Speech => "/audio/speech",
            Self::Transcriptions => "/audio/transcriptions",
            Self::Translations => "/audio/translations",
            Self::CountTokens => "/messages/count_tokens",
            Self::InputTokens => "/responses/input_tokens",
        })
    }

    /// The endpoint, other than a conversation's, of a path below the version.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        Self::OTHERS.into_iter().find(|endpoint| endpoint.path().is_some_and(|own| own == path))
    }

    /// The endpoint of this [name](Self::name).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::OTHERS.into_iter().find(|endpoint| endpoint.name() == Some(name))
    }

    fn streams(self) -> Streams {
        match self {
            Self::Generation | Self::Completions => Streams::Chunks,
            Self::ImageGenerations | Self::ImageEdits | Self::Speech | Self::Transcriptions => {
                Streams::Events
            }
            Self::Embeddings
            | Self::Moderations
            | Self::Rerank
            | Self::ImageVariations
            | Self::Translations
            | Self::CountTokens
            | Self::InputTokens
            | Self::GeminiCount => Streams::Never,
        }
    }

    /// Whether its request may be a form (`multipart/form-data`).
    #[must_use]
    pub fn takes_form(self) -> bool {
        matches!(self, Self::ImageEdits | Self::ImageVariations | Self::Transcriptions | Self::Translations)
    }

    /// Whether its answer may be a stream of events.
    pub(crate) fn may_stream(self) -> bool {
        self.streams() != Streams::Never
    }

    /// Whether what different models answer must not be mixed: vectors of one say nothing beside those of another
    /// (OpenAI, "Vector embeddings": distances hold within one model).
    #[must_use]
    pub fn needs_one_model(self) -> bool {
        self == Self::Embeddings || self.counts()
    }

    /// Whether `stream_options.include_usage` is understood in a stream.
    #[must_use]
    pub fn takes_stream_options(self) -> bool {
        self.streams() == Streams::Chunks
    }

    /// The model that is meant where a request names none, if that is settled: OpenAI's documented default of
    /// `/moderations`, whose official SDKs' examples leave it out.
    pub(crate) fn default_model(self) -> Option<&'static str> {
        (self == Self::Moderations).then_some("omni-moderation-latest")
    }

    /// Checks the body of a plain answer with a success status.
    ///
    /// # Errors
    /// [`BadCompletion`] if it is no answer of this endpoint.
    pub fn check_answer(self, dialect: Dialect, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
        match self {
            Self::Generation => dialect::check_answer(dialect, body),
            other => answer::check(other, body),
        }
    }

    /// Checks an answer that is due as text for people.
    ///
    /// # Errors
    /// [`BadCompletion`] if it is none.
    pub fn check_text(body: &[u8]) -> Result<(), BadCompletion> {
        answer::check_text(body)
    }

    /// A tap for one stream of this endpoint.
    #[must_use]
    pub fn tap(self, dialect: Dialect) -> StreamTap {
        match self.streams() {
            Streams::Events => StreamTap::Typed(EventTap::new()),
            Streams::Chunks if self == Self::Completions => StreamTap::texts(),
            Streams::Chunks | Streams::Never => StreamTap::new(dialect),
        }
    }

    /// The end of a complete stream, if the provider's own end did not come. Typed events end by themselves.
    #[must_use]
    pub fn end_event(self, dialect: Dialect) -> &'static [u8] {
        match self.streams() {
            Streams::Events => b"",
            Streams::Chunks | Streams::Never => dialect.end_event(),
        }
    }

    /// Appends one event for the client with the provider's own data; typed events keep their name.
    pub fn write_event(self, dialect: Dialect, out: &mut BytesMut, name: Option<&[u8]>, data: &[u8]) {
        match self.streams() {
            Streams::Events => write_event(out, name, data),
            Streams::Chunks | Streams::Never => dialect.write_event(out, name, data),
        }
    }
}
