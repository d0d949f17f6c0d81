//! The `chat` dialect: OpenAI Chat Completions and everything that calls itself compatible.

mod completion;
mod events;
mod gather;
mod reply;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod usage;

use bytes::{BufMut, Bytes, BytesMut};

pub use crate::dialect::{ChunkFacts, ChunkKind};
pub(crate) use completion::check_texts;
pub(crate) use completion::checked;
pub use completion::{BadCompletion, CompletionFacts, check_completion};
pub(crate) use events::{EventReader, EventWriter, call_id};
pub use gather::{Gather, GatherError};
pub use stream::StreamDecoder;
pub use usage::Usage;

pub(crate) use reply::{decode as decode_answer, encode as encode_answer};
pub(crate) use request::{
    data_url, decode as decode_request, effort_of, encode as encode_request, joined, may_be_strict, source,
};

/// A sign of life that every official SDK's parser takes: a comment.
#[must_use]
pub fn heartbeat() -> &'static [u8] {
    b": ping\n\n"
}

/// The end of a complete stream.
#[must_use]
pub fn done_event() -> &'static [u8] {
    b"data: [DONE]\n\n"
}

/// Adds a top-level `pointsman` member with the value `pointsman_json` to a chunk, at its end; the chunk's own
/// bytes stay. Data that is no JSON object comes back as it is.
#[must_use]
pub fn add_disclosure(data: &[u8], pointsman_json: &str) -> Bytes {
    let trimmed = data.trim_ascii();
    let Some(inner) = trimmed.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")) else {
        return Bytes::copy_from_slice(data);
    };
    let mut out = BytesMut::with_capacity(trimmed.len() + pointsman_json.len() + 16);
    out.put_u8(b'{');
    out.put_slice(inner);
    if !inner.trim_ascii().is_empty() {
        out.put_u8(b',');
    }
    out.put_slice(b"\"pointsman\":");
    out.put_slice(pointsman_json.as_bytes());
    out.put_u8(b'}');
    out.freeze()
}

/// Finish reasons by which providers say that they broke off: a failure, not an end. OpenRouter and vLLM say
/// `error`, vLLM and SGLang also `abort`, DeepSeek says `insufficient_system_resource`.
pub(crate) fn is_failure(finish_reason: &str) -> bool {
    matches!(finish_reason, "error" | "abort" | "insufficient_system_resource")
}
