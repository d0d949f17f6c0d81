//! What differs between the dialects, so that everything else can be one path.
//!
//! A dialect is chosen by the path of a request and holds for its answer too. What reads and writes the bodies
//! is [`crate::chat`], [`crate::messages`], [`crate::responses`], [`crate::gemini`] and [`crate::bedrock`]; here one value
//! selects between them. The last one is spoken by providers alone: what only a client's dialect needs is for it that of Chat.

mod answer;
mod fault;
mod gather;
mod tap;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{self, ErrorView};
use crate::sse::write_event;
use crate::{bedrock, chat, gemini, messages, responses};

pub use answer::check_answer;
pub use fault::{Fault, Said};
pub use gather::Gather;
pub use tap::{ChunkFacts, ChunkKind, StreamTap};

/// The language of a request and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// Google's generateContent.
    Gemini,
    /// Amazon Bedrock's Converse, which no client speaks.
    Bedrock,
}

/// What a client has been told of a stream, as far as an event that ends it with an error must repeat it.
#[derive(Debug, Clone, Default)]
pub struct StreamFrame {
    /// The answer's id.
    pub id: String,
    /// The model, as the provider calls it.
    pub model: String,
    /// The answer's time, in seconds since 1970.
    pub created_s: u64,
    /// The number of the next event.
    pub sequence: u64,
    /// The output so far as JSON, where it was kept.
    pub output: Option<Box<RawValue>>,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 5] = [Self::Chat, Self::Messages, Self::Responses, Self::Gemini, Self::Bedrock];

    /// Those that clients speak.
    pub const CLIENTS: [Self; 4] = [Self::Chat, Self::Messages, Self::Responses, Self::Gemini];

    /// Its name in records, metrics and `explain`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
        }
    }

    /// A sign of life that every official SDK's parser takes. `started`: the client has got `message_start`
    /// already; before it an event would be the first of the stream, which must be `message_start`.
    #[must_use]
    pub fn heartbeat(self, started: bool) -> &'static [u8] {
        match (self, started) {
            (Self::Messages, true) => b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
            // Google's SDKs read each line that is no data as a piece of JSON, but pass over empty ones.
            (Self::Gemini, _) => b"\n\n",
            _ => b": ping\n\n",
        }
    }

    /// The end of a complete stream, if the provider's own end did not come: `[DONE]`, or `message_stop`. Nothing in
    /// Responses, where the event that finishes is the last one, nor in Gemini, whose streams just end.
    #[must_use]
    pub fn end_event(self) -> &'static [u8] {
        match self {
            Self::Chat => chat::done_event(),
            Self::Messages => b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            Self::Responses | Self::Gemini | Self::Bedrock => b"",
        }
    }

    /// Appends one event for the client with the provider's own data. The SDKs for Messages skip events without
    /// a name, and in Responses each has one, so there the name is that of the data's `type`, else the one that the provider gave.
    pub fn write_event(self, out: &mut BytesMut, name: Option<&[u8]>, data: &[u8]) {
        match self {
            Self::Chat | Self::Gemini => write_event(out, None, data),
            Self::Bedrock => write_event(out, name, data),
            Self::Messages | Self::Responses => {
                let kind = messages::event_kind(data);
                write_event(out, kind.as_deref().map(str::as_bytes).or(name), data);
            }
        }
    }

    /// The event with a `pointsman` object of this JSON added, or `None` if this event cannot carry it: for
    /// Chat, Responses and Gemini any JSON object can, for Messages `message_start` alone, inside its `message`. Its other bytes stay.
    #[must_use]
    pub fn disclosed(self, data: &[u8], pointsman_json: &str) -> Option<Bytes> {
        match self {
            Self::Chat | Self::Responses | Self::Gemini | Self::Bedrock => {
                data.trim_ascii().starts_with(b"{").then(|| chat::add_disclosure(data, pointsman_json))
            }
            Self::Messages => messages::add_disclosure(data, pointsman_json),
        }
    }

    /// The body of an error answer.
    #[must_use]
    pub fn error_body(
        self,
        view: &ErrorView<'_>,
        request_id: Option<&str>,
        pointsman: Option<&Value>,
    ) -> Vec<u8> {
        match self {
            Self::Chat | Self::Responses | Self::Bedrock => error::chat_error_body(view, pointsman),
            Self::Messages => error::messages_error_body(view, request_id, pointsman),
            Self::Gemini => error::gemini_error_body(view, request_id, pointsman),
        }
    }

    /// The same as the last event of a stream. Nothing may follow it. `frame`: what the client was told of the stream
    /// before, if anything.
    #[must_use]
    pub fn error_event(
        self,
        view: &ErrorView<'_>,
        request_id: Option<&str>,
        pointsman: Option<&Value>,
        frame: Option<&StreamFrame>,
    ) -> Bytes {
        match self {
            Self::Chat | Self::Bedrock => error::chat_error_event(view, pointsman),
            Self::Responses => responses::failed(view, pointsman, frame, request_id),
            Self::Messages | Self::Gemini => {
                let name: Option<&[u8]> = (self == Self::Messages).then_some(b"error");
                let mut out = BytesMut::new();
                write_event(&mut out, name, &self.error_body(view, request_id, pointsman));
                out.freeze()
            }
        }
    }

    /// The `type` of an error that a provider reported with this status, for the client. Chat keeps the
    /// provider's word. Messages and Gemini have closed sets (Anthropic API, "Errors"; google.rpc.Code); SDKs choose
    /// classes by them, so a word from outside of it becomes the one for the status.
    #[must_use]
    pub fn error_kind(self, provider: Option<&str>, status: u16) -> Option<Cow<'_, str>> {
        match self {
            Self::Chat | Self::Responses | Self::Bedrock => provider.map(|kind| Cow::Owned(kind.to_owned())),
            Self::Messages => Some(Cow::Borrowed(messages::error_kind(provider, status))),
            Self::Gemini => Some(Cow::Borrowed(gemini::status_word(provider, status))),
        }
    }

    /// What a fault of this kind is called: status, type and code.
    #[must_use]
    pub fn says(self, fault: Fault) -> Said {
        fault::said(self, fault)
    }

    /// The request headers of a client that reach a provider unchanged, lower-case. Values of a list may come in
    /// several headers; all are meant.
    #[must_use]
    pub fn forwarded_headers(self) -> &'static [&'static str] {
        match self {
            Self::Chat | Self::Responses => &["openai-beta"],
            Self::Messages => &["anthropic-version", "anthropic-beta"],
            Self::Gemini | Self::Bedrock => &[],
        }
    }

    /// Whether a response header of the answering provider, by its lower-case name, reaches the client: what it
    /// says about its rate limits.
    #[must_use]
    pub fn copies_header(self, name: &str) -> bool {
        ["x-ratelimit-", "anthropic-ratelimit-"].iter().any(|prefix| name.starts_with(prefix))
    }

    /// The response headers in which a provider names the call, lower-case, the likeliest first.
    #[must_use]
    pub fn upstream_request_ids(self) -> &'static [&'static str] {
        match self {
            Self::Chat | Self::Responses => &["x-request-id", "apim-request-id"],
            Self::Messages => &["request-id", "x-request-id"],
            Self::Gemini => &["x-goog-request-id", "x-request-id"],
            Self::Bedrock => &["x-amzn-requestid"],
        }
    }

    /// The response headers in which a client's SDK looks for the request id, lower-case.
    #[must_use]
    pub fn client_request_ids(self) -> &'static [&'static str] {
        match self {
            Self::Chat | Self::Responses | Self::Gemini | Self::Bedrock => &["x-request-id"],
            Self::Messages => &["x-request-id", "request-id"],
        }
    }

    /// The path and query of the same call with a stream as its answer. Gemini and Bedrock say so here, others in the body.
    #[must_use]
    pub fn stream_path(self, path: String) -> String {
        let (whole, streamed, query) = match self {
            Self::Gemini => (gemini::WHOLE, gemini::STREAMED, "?alt=sse"),
            Self::Bedrock => (bedrock::WHOLE, bedrock::STREAMED, ""),
            Self::Chat | Self::Messages | Self::Responses => return path,
        };
        match path.strip_suffix(whole) {
            Some(model) => format!("{model}{streamed}{query}"),
            None => path,
        }
    }

    /// What the body of a stream is (`accept`).
    #[must_use]
    pub fn stream_type(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages | Self::Responses | Self::Gemini => "text/event-stream",
            Self::Bedrock => "application/vnd.amazon.eventstream",
        }
    }

    /// The path of a call below a base URL that has a version in it; `None` where it holds the model.
    pub(crate) fn path(self) -> Option<&'static str> {
        match self {
            Self::Chat => Some("/chat/completions"),
            Self::Messages => Some("/messages"),
            Self::Responses => Some("/responses"),
            Self::Gemini | Self::Bedrock => None,
        }
    }
}
