//! The tap over a stream, in any dialect.

use bytes::Bytes;

use crate::chat::{self, Usage};
use crate::endpoint::EventTap;
use crate::error::UpstreamError;
use crate::{bedrock, gemini, messages, responses};

use super::{Dialect, StreamFrame};

/// What an event of a stream is.
#[derive(Debug, Clone, PartialEq)]
pub enum ChunkKind {
    /// Nothing that a reader would see: a role, an empty delta, a ping, no choices, usage, filter results.
    Preamble,
    /// Text, reasoning, a refusal, a tool call, audio: the attempt commits with it.
    Output,
    /// A finish reason and no output. (With output the kind is `Output` and [`ChunkFacts::finish`] is set.)
    Finish,
    /// The end of the stream: `[DONE]`, `message_stop`.
    Done,
    /// The provider reports an error.
    Error(UpstreamError),
    /// No JSON object, or one whose structure is not a chunk's.
    Malformed,
}

/// What one event told.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkFacts {
    /// What the event is.
    pub kind: ChunkKind,
    /// It carries a finish reason.
    pub finish: bool,
    /// Token counts, if it carries them. The last ones of a stream hold.
    pub usage: Option<Usage>,
    /// It carries usage and no choice: a client that did not ask for usage must not get it. Never so in Messages and Gemini.
    pub usage_only: bool,
    /// The provider's model name, in the first event that has one.
    pub model: Option<String>,
    /// An estimate of the output tokens in this event.
    pub output_tokens_estimate: u32,
    /// It is malformed, and the rest of the answer is worth having without it: it stood in the middle of plain
    /// text, not in a tool call, signed thinking or the frame of the stream.
    pub expendable: bool,
    /// The data as a strict client needs it, where the provider's own would confuse it: a name of the stream that
    /// changed within it, or tool calls that end with `stop`.
    pub amended: Option<Bytes>,
}

impl ChunkFacts {
    pub(crate) fn of(kind: ChunkKind) -> Self {
        Self {
            kind,
            finish: false,
            usage: None,
            usage_only: false,
            model: None,
            output_tokens_estimate: 0,
            expendable: false,
            amended: None,
        }
    }
}

/// The state of one stream that is being watched while its bytes pass by.
#[derive(Debug)]
pub enum StreamTap {
    /// A Chat Completions stream.
    Chat(chat::StreamDecoder),
    /// A Messages stream.
    Messages(messages::StreamDecoder),
    /// A stream of generateContent.
    Gemini(gemini::StreamDecoder),
    /// A stream of Converse.
    Bedrock(bedrock::StreamDecoder),
    /// A stream of typed events, of another endpoint than a conversation's.
    Typed(EventTap),
    /// A Responses stream.
    Responses(responses::StreamDecoder),
}

macro_rules! of_any {
    ($self:ident, $tap:ident => $value:expr) => {
        match $self {
            Self::Chat($tap) => $value,
            Self::Messages($tap) => $value,
            Self::Gemini($tap) => $value,
            Self::Bedrock($tap) => $value,
            Self::Typed($tap) => $value,
            Self::Responses($tap) => $value,
        }
    };
}

impl StreamTap {
    /// A tap for one stream.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Chat => Self::Chat(chat::StreamDecoder::new()),
            Dialect::Messages => Self::Messages(messages::StreamDecoder::new()),
            Dialect::Responses => Self::Responses(responses::StreamDecoder::new()),
            Dialect::Gemini => Self::Gemini(gemini::StreamDecoder::new()),
            Dialect::Bedrock => Self::Bedrock(bedrock::StreamDecoder::new()),
        }
    }

    /// A tap for one stream of texts (Completions).
    pub(crate) fn texts() -> Self {
        Self::Chat(chat::StreamDecoder::of_texts())
    }

    /// The client chose a tool by its name: that a call of it ends with `stop` is no news to it.
    #[must_use]
    pub fn with_named_tool(self, named: bool) -> Self {
        match self {
            Self::Chat(tap) => Self::Chat(tap.with_named_tool(named)),
            other => other,
        }
    }

    /// The stream's dialect.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Chat(_) | Self::Typed(_) => Dialect::Chat,
            Self::Messages(_) => Dialect::Messages,
            Self::Responses(_) => Dialect::Responses,
            Self::Gemini(_) => Dialect::Gemini,
            Self::Bedrock(_) => Dialect::Bedrock,
        }
    }

    /// Looks at one event: the name that stood in its `event:` field, and its data.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> ChunkFacts {
        match self {
            Self::Chat(tap) => tap.event(data),
            Self::Messages(tap) => tap.event(name, data),
            Self::Gemini(tap) => tap.event(data),
            Self::Bedrock(tap) => tap.event(name, data),
            Self::Typed(tap) => tap.event(data),
            Self::Responses(tap) => tap.event(name, data),
        }
    }

    /// What an event that ends the stream with an error must repeat of it.
    #[must_use]
    pub fn frame(&self) -> Option<StreamFrame> {
        match self {
            Self::Chat(_) | Self::Messages(_) | Self::Gemini(_) | Self::Bedrock(_) | Self::Typed(_) => None,
            Self::Responses(tap) => Some(tap.frame()),
        }
    }

    /// The answer has its finish reason (Chat, Gemini: each choice that was seen has); only the end and usage may follow.
    #[must_use]
    pub fn finished(&self) -> bool {
        of_any!(self, tap => tap.finished())
    }

    /// The end of the stream was seen.
    #[must_use]
    pub fn done(&self) -> bool {
        of_any!(self, tap => tap.done())
    }

    /// A tool call has begun and is not complete.
    #[must_use]
    pub fn tool_call_open(&self) -> bool {
        match self {
            Self::Chat(tap) => tap.tool_call_open(),
            Self::Messages(tap) => tap.tool_call_open(),
            Self::Responses(tap) => tap.tool_call_open(),
            Self::Gemini(tap) => tap.tool_call_open(),
            Self::Bedrock(tap) => tap.tool_call_open(),
            Self::Typed(_) => false,
        }
    }

    /// A tool call was seen.
    #[must_use]
    pub fn tool_calls_seen(&self) -> bool {
        match self {
            Self::Chat(tap) => tap.tool_calls_seen(),
            Self::Messages(tap) => tap.tool_calls_seen(),
            Self::Responses(tap) => tap.tool_calls_seen(),
            Self::Gemini(tap) => tap.tool_calls_seen(),
            Self::Bedrock(tap) => tap.tool_calls_seen(),
            Self::Typed(_) => false,
        }
    }

    /// The last token counts seen.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        of_any!(self, tap => tap.usage())
    }

    /// The provider's model name.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Chat(tap) => tap.model(),
            Self::Messages(tap) => tap.model(),
            Self::Responses(tap) => tap.model(),
            Self::Gemini(tap) => tap.model(),
            Self::Bedrock(_) | Self::Typed(_) => None,
        }
    }

    /// How many events were malformed.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        of_any!(self, tap => tap.malformed())
    }

    /// How much output there was, in bytes as they stand in the JSON.
    #[must_use]
    pub fn output_chars(&self) -> u64 {
        of_any!(self, tap => tap.output_chars())
    }
}
