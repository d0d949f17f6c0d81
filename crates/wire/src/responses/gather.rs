//! A plain answer gathered from a provider's stream: its last event holds it whole.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::check_response;
use super::stream::StreamDecoder;
use crate::chat::{BadCompletion, GatherError, Usage};
use crate::dialect::ChunkKind;

/// Waits for the whole response.
#[derive(Debug)]
pub struct Gather {
    limit: usize,
    tap: StreamDecoder,
    response: Option<Bytes>,
}

#[derive(Deserialize)]
struct Terminal<'a> {
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

impl Gather {
    /// Takes an answer of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { limit: max_bytes, tap: StreamDecoder::new(), response: None }
    }

    /// The token counts, once they came.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        self.tap.usage()
    }

    /// Takes one event in: its name, if it has one, and its data.
    ///
    /// # Errors
    /// [`GatherError`]; the stream is then of no use.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<(), GatherError> {
        match self.tap.event(name, data).kind {
            ChunkKind::Error(error) => return Err(GatherError::Upstream(error)),
            ChunkKind::Malformed => return Err(GatherError::Malformed),
            ChunkKind::Finish => {}
            ChunkKind::Done | ChunkKind::Output | ChunkKind::Preamble => return Ok(()),
        }
        let terminal: Terminal<'_> = serde_json::from_slice(data).map_err(|_| GatherError::Malformed)?;
        let response = terminal.response.ok_or(GatherError::Malformed)?.get();
        if response.len() > self.limit {
            return Err(GatherError::TooLarge { limit: self.limit });
        }
        match check_response(response.as_bytes()) {
            // Some servers stream an answer and leave it out of their last event: half of it is none.
            Ok(facts) if !facts.has_output && self.tap.output_chars() > 0 => {
                return Err(GatherError::Malformed);
            }
            Ok(_) => self.response = Some(Bytes::copy_from_slice(response.as_bytes())),
            Err(BadCompletion::ErrorObject(error)) => return Err(GatherError::Upstream(error)),
            Err(_) => return Err(GatherError::Malformed),
        }
        Ok(())
    }

    /// The answer as JSON.
    ///
    /// # Errors
    /// [`GatherError::NoMessage`] or [`GatherError::Unfinished`].
    pub fn finish(self) -> Result<Bytes, GatherError> {
        match self.response {
            Some(response) => Ok(response),
            None if self.tap.output_chars() == 0 => Err(GatherError::NoMessage),
            None => Err(GatherError::Unfinished),
        }
    }
}
