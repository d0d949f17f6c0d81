//! The events of a stream, however it frames them: as server-sent events, or as frames of AWS's event stream.

use bytes::Bytes;

use crate::bedrock::frames::{FrameDecoder, FrameError};
use crate::dialect::Dialect;
use crate::sse::{SseDecoder, SseError, SseEvent};

/// Why a stream cannot be decoded any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// Of server-sent events.
    #[error(transparent)]
    Sse(#[from] SseError),
    /// Of frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// An incremental decoder: push chunks as they come, take events until there are none.
#[derive(Debug)]
pub enum EventDecoder {
    /// Of server-sent events.
    Sse(SseDecoder),
    /// Of frames.
    Frames(FrameDecoder),
}

impl EventDecoder {
    /// A decoder for a stream in this dialect that refuses an event of more than `max_event_bytes`.
    #[must_use]
    pub fn of(dialect: Dialect, max_event_bytes: usize) -> Self {
        match dialect {
            Dialect::Bedrock => Self::Frames(FrameDecoder::new(max_event_bytes)),
            Dialect::Chat | Dialect::Messages | Dialect::Responses | Dialect::Gemini => {
                Self::Sse(SseDecoder::new(max_event_bytes))
            }
        }
    }

    /// Adds bytes of the stream. Take the events out before the next push, to keep memory at one event.
    pub fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Sse(decoder) => decoder.push(chunk),
            Self::Frames(decoder) => decoder.push(chunk),
        }
    }

    /// The next complete event; `None` means that more bytes are needed.
    ///
    /// # Errors
    /// [`FramingError`], now and at every later call.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, FramingError> {
        Ok(match self {
            Self::Sse(decoder) => decoder.next_event()?,
            Self::Frames(decoder) => decoder.next_event()?,
        })
    }

    /// End of input: the last server-sent event is delivered even without its blank line; half a frame is none.
    ///
    /// # Errors
    /// [`FramingError`].
    pub fn finish(&mut self) -> Result<Option<SseEvent>, FramingError> {
        Ok(match self {
            Self::Sse(decoder) => decoder.finish()?,
            Self::Frames(decoder) => decoder.next_event()?,
        })
    }

    /// Whether any byte was pushed at all: tells an empty stream from one without events.
    #[must_use]
    pub fn saw_bytes(&self) -> bool {
        match self {
            Self::Sse(decoder) => decoder.saw_bytes(),
            Self::Frames(decoder) => decoder.saw_bytes(),
        }
    }

    /// Whether the beginning of an event is here and its end is not: bytes that are more than a comment.
    #[must_use]
    pub fn in_event(&self) -> bool {
        match self {
            Self::Sse(decoder) => decoder.in_event(),
            Self::Frames(decoder) => decoder.in_event(),
        }
    }
}
