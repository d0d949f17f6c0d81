//! What a request is answered with: one [`Script`] per answer, plain data that is also JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod build;

/// Upper bound on generated tokens per answer, so that a script cannot make the process run out of memory.
pub(crate) const MAX_TOKENS: usize = 100_000;

/// How one request is answered. Built by constructors ([`Script::healthy`], [`Script::status`],
/// [`Script::cut_after`], …) and combinators ([`Script::tokens`], [`Script::delay_headers`], …).
///
/// As JSON every part may be left out; durations are milliseconds. `{}` is a healthy answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// What happens to the connection before any answer.
    pub connection: Connection,
    /// When things are sent.
    pub pace: Pace,
    /// A fixed status, headers and body in place of a generated answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<FixedReply>,
    /// Headers added to whatever is answered; they replace headers of the same name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Headers whose value is a moment, this many milliseconds after that of answering: an HTTP date, for headers
    /// that begin with `anthropic-` in RFC 3339.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub date_headers: Vec<(String, i64)>,
    /// What a generated answer says.
    pub answer: Answer,
    /// How a generated answer is spelled on the wire.
    pub wire: Wire,
    /// Where a generated answer breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Close the connection after a complete answer, without having announced it: the client's pooled connection
    /// is stale.
    pub close_afterwards: bool,
}

/// What happens to the connection before any answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// The request is read and answered.
    #[default]
    Serve,
    /// TCP reset as soon as the connection is accepted; on a connection that was already open, when the request
    /// was read.
    ResetOnAccept,
    /// TCP reset (`RST`) after the whole request was read, before any byte of an answer.
    ResetBeforeHeaders,
    /// Orderly close (`FIN`) after the whole request was read, before any byte of an answer.
    CloseAfterRead,
    /// The request is read; nothing is answered until the client leaves.
    Silence,
}

/// When the parts of an answer are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Between the request and the response headers.
    #[serde(rename = "headers_ms", with = "millis")]
    pub headers: Duration,
    /// Between the first event (the role) and the first output.
    #[serde(rename = "first_token_ms", with = "millis")]
    pub first_token: Duration,
    /// Between two output events.
    #[serde(rename = "between_tokens_ms", with = "millis")]
    pub between_tokens: Duration,
    /// While waiting, a comment (in Messages a `ping`, in Responses a `keepalive`) goes out this often (never, when
    /// zero).
    #[serde(rename = "heartbeat_ms", with = "millis")]
    pub heartbeat: Duration,
}

/// A fixed status, content type and body, as a provider's error or a foreign server would send it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedReply {
    /// HTTP status code.
    pub status: u16,
    /// Value of `content-type`; no header when empty.
    #[serde(default)]
    pub content_type: String,
    /// The body as it is sent.
    #[serde(default)]
    pub body: String,
}

/// What a generated answer says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// The text; when absent, one that names the simulator and the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Number of text tokens (words here): the text is cut or continued to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
    /// Reasoning sent before the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Tool calls, after the text; without an explicit text there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// A refusal in place of text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// `finish_reason`; when absent `stop`, or `tool_calls` if there are tool calls. Other dialects say what it means
    /// in their own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// The model named in the answer; when absent the one that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How token usage is reported.
    pub usage: UsageShape,
    /// Tokens that the provider says to have read from its cache, besides those of the request.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached: u64,
    /// Tokens that the provider says to have written to its cache, besides those of the request.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_written: u64,
    /// `choices` is empty in the whole answer; in Messages there is no message or no `content`, in Responses `output`
    /// is empty, in Gemini there are no candidates.
    pub no_choices: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Reasoning text and the vendor field that carries it (`reasoning_content`, `reasoning`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasoning {
    /// The text.
    pub text: String,
    /// The field of the delta and the message.
    pub field: String,
}

/// One tool call; streamed as an opening fragment with id and name, then pieces of the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Name of the function or the custom tool.
    pub name: String,
    /// Arguments, JSON in a string; of a custom tool its input, any text.
    pub arguments: String,
    /// A call of a custom tool, whose input is free text. Where a dialect has no such tools the text is the value
    /// `input` of the arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub custom: bool,
}

/// How token usage is reported; the shapes that providers are known to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageShape {
    /// OpenAI: if `stream_options.include_usage`, a last chunk with `choices: []`, and `usage: null` before it.
    #[default]
    Standard,
    /// On the chunk that carries `finish_reason`, asked for or not.
    OnFinishChunk,
    /// Groq: in `x_groq.usage` on the finish chunk.
    Groq,
    /// vLLM `continuous_usage_stats`: on every chunk with the count so far, and on a last chunk with `choices: []`.
    EveryChunk,
    /// DeepSeek: on the finish chunk, with `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`.
    DeepSeek,
    /// `usage: null` everywhere, even when asked for.
    Null,
    /// No `usage` key at all, even when asked for.
    Missing,
    /// Zeroes on every chunk, the true numbers on a last chunk with `choices: []`.
    WithZeroes,
}

/// How a generated answer is spelled on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent spellings, each on or off")]
pub struct Wire {
    /// Replaces the true `content-type`; no header when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Line terminator of the event stream.
    pub line_end: LineEnd,
    /// A UTF-8 byte order mark opens the stream.
    pub bom: bool,
    /// `data:{…}` in place of `data: {…}`.
    pub no_space_after_colon: bool,
    /// The JSON of an event is spread over several `data` lines.
    pub multi_line_data: bool,
    /// A comment goes before every event.
    pub comments: bool,
    /// The body goes out one byte per HTTP chunk and per write.
    pub split_every_byte: bool,
    /// What a stream of Responses consists of.
    pub responses: ResponsesShape,
    /// Azure: a first chunk with `choices: []`, empty id and model and `prompt_filter_results`.
    pub azure_preamble: bool,
    /// `data: [DONE]`, in Messages `message_stop`, in Responses `response.completed` (or `.incomplete`), in Gemini the
    /// chunk with `finishReason`, in Bedrock `metadata`, closes the stream.
    pub done: bool,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            content_type: None,
            line_end: LineEnd::default(),
            bom: false,
            no_space_after_colon: false,
            multi_line_data: false,
            comments: false,
            split_every_byte: false,
            responses: ResponsesShape::default(),
            azure_preamble: false,
            done: true,
        }
    }
}

/// What a stream of Responses consists of; servers other than OpenAI are known to leave much out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponsesShape {
    /// All that OpenAI documents.
    #[default]
    OpenAi,
    /// llama.cpp: no numbers and no indices, bare response objects, reasoning as content, no end of arguments;
    /// an answer that is cut off by its length is `completed` too.
    LlamaCpp,
    /// Items alone, whole when they are done: no parts and no deltas.
    WholeItems,
}

/// Line terminators that the event stream format allows (WHATWG HTML, server-sent events).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineEnd {
    /// `\n`
    #[default]
    Lf,
    /// `\r\n`
    Crlf,
    /// `\r`
    Cr,
}

/// Where and how a generated answer breaks. `after` counts output events: reasoning, text, refusal and tool-call
/// deltas; 0 is after the role and before any output. A non-streaming answer breaks in the middle of its body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The connection is closed (`FIN`) in the middle of an HTTP chunk.
    Cut {
        /// Complete output events before it.
        after: usize,
    },
    /// The connection is reset (`RST`) in the middle of an HTTP chunk; what the client has not read yet may be lost.
    Reset {
        /// Complete output events before it.
        after: usize,
    },
    /// The body ends in good HTTP order, without finish reason and `[DONE]`.
    End {
        /// Complete output events before it.
        after: usize,
    },
    /// Nothing more is sent until the client leaves; heartbeats go on if [`Pace::heartbeat`] is set.
    Stall {
        /// Complete output events before it.
        after: usize,
    },
    /// A pause, then the answer goes on.
    Pause {
        /// Complete output events before it.
        after: usize,
        /// Its length.
        #[serde(rename = "for_ms", with = "millis")]
        lasting: Duration,
    },
    /// One output event is not well-formed; the answer goes on after it.
    Malformed {
        /// Complete output events before it.
        after: usize,
        /// What is sent in its place.
        #[serde(default)]
        event: BrokenEvent,
    },
    /// An error event, then a clean end.
    Error {
        /// Complete output events before it.
        after: usize,
        /// The value of the event, usually `{"error": {…}}`. In Responses that becomes a `response.failed`; a value
        /// with a `type` of its own (`response.failed`, `error`) is sent as that event.
        event: Value,
        /// vLLM: `[DONE]` follows the error; in Responses `response.failed` does.
        #[serde(default)]
        done: bool,
        /// llama.cpp and others send a first error in place of the role event too.
        #[serde(default)]
        first: bool,
    },
    /// The whole output and the finish reason, then nothing until the client leaves: no usage, no `[DONE]`, no end of
    /// the body. (A non-streaming answer: all but its last byte.)
    Unended,
    /// Headers and the role event, then nothing until the client leaves.
    RoleOnly,
    /// Headers, then only comments (streaming) or empty lines (not streaming) until the client leaves.
    HeartbeatsOnly {
        /// Time between two.
        #[serde(rename = "every_ms", with = "millis")]
        every: Duration,
    },
}

impl Fault {
    /// Complete output events before the fault; `None` where it does not count them.
    pub(crate) const fn after(&self) -> Option<usize> {
        match self {
            Self::Cut { after }
            | Self::Reset { after }
            | Self::End { after }
            | Self::Stall { after }
            | Self::Pause { after, .. }
            | Self::Malformed { after, .. }
            | Self::Error { after, .. } => Some(*after),
            Self::Unended | Self::RoleOnly | Self::HeartbeatsOnly { .. } => None,
        }
    }
}

/// What stands in place of a well-formed event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokenEvent {
    /// The JSON breaks off in the middle.
    #[default]
    TruncatedJson,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// An event with an empty `data` line.
    Empty,
    /// A checksum that is not right, where events have one (Bedrock); elsewhere as `TruncatedJson`.
    Checksum,
}

/// Scripts that follow each other in time, for flapping targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Length of each phase and the script that holds in it.
    pub phases: Vec<Phase>,
    /// Begin again after the last phase; otherwise the last phase holds for ever.
    #[serde(default)]
    pub repeat: bool,
}

/// One phase of a [`Schedule`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long it holds.
    #[serde(rename = "for_ms", with = "millis")]
    pub lasting: Duration,
    /// What requests get in it.
    pub script: Script,
}

impl Schedule {
    /// These phases, again and again.
    pub fn repeating(phases: impl IntoIterator<Item = (Duration, Script)>) -> Self {
        Self { repeat: true, ..Self::once(phases) }
    }

    /// These phases once; the last one then holds for ever.
    pub fn once(phases: impl IntoIterator<Item = (Duration, Script)>) -> Self {
        let phases = phases.into_iter().map(|(lasting, script)| Phase { lasting, script }).collect();
        Self { phases, repeat: false }
    }

    /// The script that holds `elapsed` after the schedule began; `None` without phases.
    pub fn at(&self, elapsed: Duration) -> Option<&Script> {
        let total = self.phases.iter().fold(Duration::ZERO, |sum, phase| sum.saturating_add(phase.lasting));
        let mut left = match (self.repeat, total.as_nanos()) {
            (true, total @ 1..) => nanos(elapsed.as_nanos() % total),
            _ => elapsed,
        };
        for phase in &self.phases {
            match left.checked_sub(phase.lasting) {
                Some(rest) => left = rest,
                None => return Some(&phase.script),
            }
        }
        self.phases.last().map(|phase| &phase.script)
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests;
