//! A plain answer gathered from a provider's stream, in any dialect.

use bytes::Bytes;

use super::Dialect;
use crate::chat::{self, GatherError, Usage};
use crate::{bedrock, gemini, messages, responses};

/// Collects a stream into the plain answer of its dialect.
#[derive(Debug)]
pub enum Gather {
    /// Into a `chat.completion`.
    Chat(chat::Gather),
    /// Into a `message`.
    Messages(messages::Gather),
    /// Into a `response`.
    Responses(responses::Gather),
    /// Into an answer of generateContent.
    Gemini(gemini::Gather),
    /// Into an answer of Converse.
    Bedrock(bedrock::Gather),
}

impl Gather {
    /// Collects at most about `max_bytes` of answer.
    #[must_use]
    pub fn new(dialect: Dialect, max_bytes: usize) -> Self {
        match dialect {
            Dialect::Chat => Self::Chat(chat::Gather::new(max_bytes)),
            Dialect::Messages => Self::Messages(messages::Gather::new(max_bytes)),
            Dialect::Responses => Self::Responses(responses::Gather::new(max_bytes)),
            Dialect::Gemini => Self::Gemini(gemini::Gather::new(max_bytes)),
            Dialect::Bedrock => Self::Bedrock(bedrock::Gather::new(max_bytes)),
        }
    }

    /// The last token counts seen.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        match self {
            Self::Chat(gather) => gather.usage(),
            Self::Messages(gather) => gather.usage(),
            Self::Responses(gather) => gather.usage(),
            Self::Gemini(gather) => gather.usage(),
            Self::Bedrock(gather) => gather.usage(),
        }
    }

    /// Takes one event in: the name that stood in its `event:` field, and its data.
    ///
    /// # Errors
    /// [`GatherError`]; the stream is then of no use.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<(), GatherError> {
        match self {
            Self::Chat(gather) => gather.event(data),
            Self::Messages(gather) => gather.event(name, data),
            Self::Responses(gather) => gather.event(name, data),
            Self::Gemini(gather) => gather.event(data),
            Self::Bedrock(gather) => gather.event(name, data),
        }
    }

    /// The answer as JSON.
    ///
    /// # Errors
    /// [`GatherError`] if the stream was no complete answer.
    pub fn finish(self) -> Result<Bytes, GatherError> {
        match self {
            Self::Chat(gather) => gather.finish(),
            Self::Messages(gather) => gather.finish(),
            Self::Responses(gather) => gather.finish(),
            Self::Gemini(gather) => gather.finish(),
            Self::Bedrock(gather) => gather.finish(),
        }
    }
}
