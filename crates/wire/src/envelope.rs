//! The envelope of a request: what the gateway must know of it, and where it stands.
//!
//! One forward pass over the bytes. No value tree is built; the body stays with the caller, who gives it to
//! [`crate::passthrough::render`] together with the envelope. Keys are compared after unescaping, and a routed
//! key that comes twice is refused: whoever reads the first one and whoever reads the last one would disagree
//! about what was asked. So is a key that is a routed one in other letters (`Model`): servers written in Go take
//! it for the same.

mod error;
mod fields;
mod form;
mod gemini;
mod media;
mod preferences;
mod read;
#[cfg(test)]
mod tests;

pub use error::EnvelopeError;
pub use preferences::{DataCollection, MaxPrice, Preferences, Sort};

use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::json::Span;
pub(crate) use fields::Field;

/// What a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest body in bytes.
    pub max_bytes: usize,
    /// How many arrays and objects may stand inside each other, the request object itself included.
    pub max_depth: usize,
}

impl Default for Limits {
    /// 64 MiB and 128 levels.
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, max_depth: 128 }
    }
}

/// The form of output that a request asks for, in `response_format` or `output_config.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structured {
    /// `json_object`: any JSON.
    JsonObject,
    /// `json_schema`: JSON of a given schema.
    JsonSchema,
}

/// What a request needs of the target that serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Tools (or the deprecated functions) are declared.
    pub tools: bool,
    /// `parallel_tool_calls` as given; `Some(false)` for `tool_choice.disable_parallel_tool_use`.
    pub parallel_tools: Option<bool>,
    /// `tool_choice` names the tool that must be called.
    pub named_tool: bool,
    /// A message holds an image.
    pub images: bool,
    /// A message holds audio.
    pub audio: bool,
    /// A message holds a file or document.
    pub files: bool,
    /// A message holds a video (an extra of several servers).
    pub video: bool,
    /// Structured output.
    pub structured: Option<Structured>,
    /// Reasoning is asked for: `reasoning_effort` other than `none`, `thinking` other than `disabled`, or the extra
    /// `reasoning`.
    pub reasoning: bool,
    /// The last message is the assistant's: the model shall continue it.
    pub prefill: bool,
    /// How many choices; 1 when absent.
    pub n: u32,
    /// Token probabilities.
    pub logprobs: bool,
    /// Audio as output.
    pub audio_out: bool,
    /// `messages` (in Gemini `contents`) is not empty.
    pub has_messages: bool,
    /// A top-level field that neither the documented request nor a known vendor's extra has.
    pub unknown_fields: bool,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            tools: false,
            parallel_tools: None,
            named_tool: false,
            images: false,
            audio: false,
            files: false,
            video: false,
            structured: None,
            reasoning: false,
            prefill: false,
            n: 1,
            logprobs: false,
            audio_out: false,
            has_messages: false,
            unknown_fields: false,
        }
    }
}

/// Where a top-level member stands in the body.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) field: Field,
    /// Its place among all members.
    pub(crate) index: usize,
    /// From after the separator before it to the separator after it.
    pub(crate) whole: Span,
    pub(crate) key: Span,
    pub(crate) value: Span,
}

/// Where things stand inside a `stream_options` object.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamOptions {
    /// Just after its opening brace.
    pub(crate) inside: usize,
    pub(crate) empty: bool,
    /// The value of `include_usage`.
    pub(crate) include_usage: Option<Span>,
}

/// In which form an answer is due that is no stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// A JSON object.
    Json,
    /// Text for people: a transcript, subtitles.
    Text,
    /// Bytes of a medium, passed on as they come.
    Bytes,
}

/// What was read of one request. Holds offsets into the body, not the body.
#[derive(Debug, Clone)]
pub struct Envelope {
    endpoint: Endpoint,
    dialect: Dialect,
    /// Set where the request is a form.
    pub(crate) form: Option<form::Form>,
    pub(crate) members: Vec<Member>,
    pub(crate) member_count: usize,
    /// Just after the opening brace of the request.
    pub(crate) inside: usize,
    pub(crate) stream_options: Option<StreamOptions>,
    model: String,
    stream: bool,
    response_format: Option<String>,
    include_usage: bool,
    preferences: Preferences,
    needs: Needs,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    estimated_prompt_tokens: u64,
    affinity: [Option<String>; 3],
}

impl Envelope {
    /// Reads the envelope of a Chat Completions request.
    ///
    /// # Errors
    /// [`EnvelopeError`], which has a sentence, the field's name and the status for the client.
    pub fn read(body: &[u8], limits: &Limits) -> Result<Self, EnvelopeError> {
        Self::read_as(Dialect::Chat, body, limits)
    }

    /// Reads the envelope of a request in this dialect.
    ///
    /// # Errors
    /// [`EnvelopeError`], which has a sentence, the field's name and the status for the client.
    pub fn read_as(dialect: Dialect, body: &[u8], limits: &Limits) -> Result<Self, EnvelopeError> {
        read::read(Endpoint::Generation, dialect, body, limits)
    }

    /// Reads the envelope of a request for this endpoint. The dialect is that of a conversation; other endpoints are
    /// [`Dialect::Chat`].
    ///
    /// # Errors
    /// [`EnvelopeError`], which has a sentence, the field's name and the status for the client.
    pub fn read_for(
        endpoint: Endpoint,
        dialect: Dialect,
        body: &[u8],
        limits: &Limits,
    ) -> Result<Self, EnvelopeError> {
        let own = endpoint.dialect().unwrap_or(Dialect::Chat);
        let dialect = if endpoint == Endpoint::Generation { dialect } else { own };
        read::read(endpoint, dialect, body, limits)
    }

    /// Reads the envelope of a request that is a form, whose `content-type` this is.
    ///
    /// # Errors
    /// [`EnvelopeError`], which has a sentence, the field's name and the status for the client.
    pub fn read_form(
        endpoint: Endpoint,
        content_type: &str,
        body: &[u8],
        limits: &Limits,
    ) -> Result<Self, EnvelopeError> {
        form::read(endpoint, content_type, body, limits)
    }

    /// Whether the request is a form, and not JSON.
    #[must_use]
    pub fn is_form(&self) -> bool {
        self.form.is_some()
    }

    /// In which form the answer is due.
    #[must_use]
    pub fn wants(&self) -> Wants {
        match (self.endpoint, self.response_format.as_deref()) {
            (Endpoint::Speech, _) if !self.stream => Wants::Bytes,
            (Endpoint::Transcriptions | Endpoint::Translations, Some("text" | "srt" | "vtt")) => Wants::Text,
            _ => Wants::Json,
        }
    }

    /// What is asked for.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Reads the envelope of a Gemini request, whose path says the model and whether a stream is asked for.
    ///
    /// # Errors
    /// [`EnvelopeError`], which has a sentence, the field's name and the status for the client.
    pub fn read_gemini(
        body: &[u8],
        model: &str,
        stream: bool,
        limits: &Limits,
    ) -> Result<Self, EnvelopeError> {
        read::read_gemini(Endpoint::Generation, body, model, stream, limits)
    }

    /// Reads the envelope of a Gemini request to count its tokens ([`Endpoint::GeminiCount`]), whose path says the model.
    ///
    /// # Errors
    /// [`EnvelopeError`], which has a sentence, the field's name and the status for the client.
    pub fn read_gemini_count(body: &[u8], model: &str, limits: &Limits) -> Result<Self, EnvelopeError> {
        read::read_gemini(Endpoint::GeminiCount, body, model, false, limits)
    }

    /// The dialect that it was read in.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The requested model, unescaped. Never empty.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether a stream is asked for.
    #[must_use]
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// `stream_options.include_usage`: the client wants the usage chunk.
    #[must_use]
    pub fn include_usage(&self) -> bool {
        self.include_usage
    }

    /// The routing preferences in the fields `models` and `provider`.
    #[must_use]
    pub fn preferences(&self) -> &Preferences {
        &self.preferences
    }

    /// What the request needs.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// The limit on output tokens: `max_completion_tokens`, else `max_tokens`. A negative number (which several
    /// self-hosted servers take for "no limit") counts as none.
    #[must_use]
    pub fn max_output_tokens(&self) -> Option<u64> {
        self.max_completion_tokens.or(self.max_tokens)
    }

    /// An estimate of the prompt's tokens: a quarter of the bytes of `messages`, `system`, `tools` and
    /// `functions` as they stand in the body, and 800 for each image, audio, video or file part, whose own bytes do not count;
    /// of `input`, `prompt`, `query` and `documents` where no conversation is asked for.
    #[must_use]
    pub fn estimated_prompt_tokens(&self) -> u64 {
        self.estimated_prompt_tokens
    }

    /// What keeps the requests of one conversation or user together: `prompt_cache_key`, else
    /// `safety_identifier`, else `user`; in Messages `metadata.user_id`. It is the client's own text: hash it before it is kept anywhere.
    #[must_use]
    pub fn affinity(&self) -> Option<&str> {
        self.affinity.iter().flatten().map(String::as_str).next()
    }

    pub(crate) fn member(&self, field: Field) -> Option<&Member> {
        self.members.iter().find(|member| member.field == field)
    }
}
