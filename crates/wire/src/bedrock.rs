//! The `bedrock` dialect: Amazon Bedrock's Converse and ConverseStream (Amazon Bedrock API Reference). Providers speak it,
//! and no client does.
//!
//! The model and whether the answer streams stand in the path of a call. A stream is no SSE but frames of AWS's event stream
//! ([`frames`]); each becomes one event whose name is that of the frame. An answer has neither an id nor the model's name.

mod answer;
mod events;
pub mod frames;
mod gather;
mod outgoing;
mod reply;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod usage;

pub use answer::check_converse;
pub(crate) use events::EventReader;
pub use gather::Gather;
pub(crate) use reply::decode as decode_answer;
pub(crate) use request::encode as encode_request;
pub use stream::StreamDecoder;

/// What stands behind the model in the path of a call whose answer comes whole.
pub(crate) const WHOLE: &str = "/converse";
/// And of one whose answer streams.
pub(crate) const STREAMED: &str = "/converse-stream";

/// Before the seal of thoughts that only the provider can read (`redactedContent`). A signature is base64, which has no dot.
const REDACTED: &str = "redacted.";

/// Ends by which the provider says that its model went wrong: a failure, not an end.
fn is_failure(reason: &str) -> bool {
    matches!(reason, "malformed_model_output" | "malformed_tool_use")
}
