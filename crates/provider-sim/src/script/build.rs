//! Constructors and combinators of [`Script`].

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::catalogue;

use super::{
    BrokenEvent, Connection, Fault, FixedReply, LineEnd, Reasoning, ResponsesShape, Script, ToolCall,
    UsageShape,
};

/// Whole answers.
impl Script {
    /// A complete answer whose text names the simulator.
    pub fn healthy() -> Self {
        Self::default()
    }

    /// A complete answer with this text.
    pub fn answer(text: impl Into<String>) -> Self {
        let mut script = Self::default();
        script.answer.text = Some(text.into());
        script
    }

    /// An answer with this status and a small JSON error body; see [`Script::header`] and [`Script::body`].
    pub fn status(status: u16) -> Self {
        let kind = match status {
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let body = format!(
            r#"{{"error":{{"message":"Simulated status {status}","type":"{kind}","param":null,"code":null}}}}"#
        );
        Self::fixed(status, "application/json", body)
    }

    /// An answer with this status, content type and body, streaming or not.
    pub fn fixed(status: u16, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        let reply = FixedReply { status, content_type: content_type.into(), body: body.into() };
        Self { reply: Some(reply), ..Self::default() }
    }
}

/// Faults of the connection.
impl Script {
    /// TCP reset as soon as the connection is accepted (no request is read or counted). On a connection that is
    /// already open, and when a rule for a model says so: as [`Script::reset_before_headers`].
    pub fn reset_on_accept() -> Self {
        Self { connection: Connection::ResetOnAccept, ..Self::default() }
    }

    /// TCP reset after the whole request was read.
    pub fn reset_before_headers() -> Self {
        Self { connection: Connection::ResetBeforeHeaders, ..Self::default() }
    }

    /// Orderly close after the whole request was read, without an answer.
    pub fn close_after_read() -> Self {
        Self { connection: Connection::CloseAfterRead, ..Self::default() }
    }

    /// Reads the request and answers nothing until the client leaves.
    pub fn silence() -> Self {
        Self { connection: Connection::Silence, ..Self::default() }
    }

    /// A healthy answer whose headers come late.
    pub fn slow_headers(delay: Duration) -> Self {
        Self::healthy().delay_headers(delay)
    }
}

/// Faults within an answer. `n` counts complete output events before the fault.
impl Script {
    /// Headers and role event, then nothing until the client leaves.
    pub fn role_only_then_silence() -> Self {
        Self::healthy().fault(Fault::RoleOnly)
    }

    /// Headers, then only heartbeats until the client leaves.
    pub fn heartbeats_only(every: Duration) -> Self {
        Self::healthy().fault(Fault::HeartbeatsOnly { every })
    }

    /// The connection is closed inside an HTTP chunk.
    pub fn cut_after(n: usize) -> Self {
        Self::healthy().fault(Fault::Cut { after: n })
    }

    /// The connection is reset inside an HTTP chunk; a client may lose output that it had not read yet.
    pub fn reset_after(n: usize) -> Self {
        Self::healthy().fault(Fault::Reset { after: n })
    }

    /// The body ends in good HTTP order, without finish reason and `[DONE]`.
    pub fn end_after(n: usize) -> Self {
        Self::healthy().fault(Fault::End { after: n })
    }

    /// Nothing more until the client leaves.
    pub fn stall_after(n: usize) -> Self {
        Self::healthy().fault(Fault::Stall { after: n })
    }

    /// A pause of this length, then the answer goes on.
    pub fn pause_after(n: usize, lasting: Duration) -> Self {
        Self::healthy().fault(Fault::Pause { after: n, lasting })
    }

    /// One event's JSON breaks off in the middle; the rest follows.
    pub fn malformed_event_at(n: usize) -> Self {
        Self::healthy().fault(Fault::Malformed { after: n, event: BrokenEvent::default() })
    }

    /// All output and the finish reason, then nothing until the client leaves.
    pub fn unended() -> Self {
        Self::healthy().fault(Fault::Unended)
    }

    /// The first and only event is this error (`{"error": {…}}`, or the inner object alone).
    pub fn error_event_first(error: Value) -> Self {
        Self::healthy().fault(Fault::Error { after: 0, event: wrap_error(error), done: false, first: true })
    }

    /// This error follows `n` output events (and, with 0, the role event); then a clean end.
    pub fn error_event_after(n: usize, error: Value) -> Self {
        Self::healthy().fault(Fault::Error { after: n, event: wrap_error(error), done: false, first: false })
    }

    /// As [`Script::error_event_after`], and `[DONE]` follows the error, as vLLM sends it; in Responses
    /// `response.failed` follows.
    pub fn error_then_done(n: usize, error: Value) -> Self {
        Self::healthy().fault(Fault::Error { after: n, event: wrap_error(error), done: true, first: false })
    }

    /// After `n` output events `response.failed` with this code, in other dialects an error event that says the same.
    pub fn response_failed_after(n: usize, code: &str) -> Self {
        let event = json!({"type": "response.failed", "response": {"error": in_stream(code)}});
        Self::healthy().fault(Fault::Error { after: n, event, done: false, first: false })
    }

    /// After `n` output events the event `error` as OpenAI documents it, with its fields beside its type; in other
    /// dialects an error event that says the same.
    pub fn flat_error_after(n: usize, code: &str) -> Self {
        let mut event = in_stream(code);
        event.insert("type".to_owned(), json!("error"));
        Self::healthy().fault(Fault::Error { after: n, event: event.into(), done: false, first: false })
    }

    /// After `n` output events the event `error` as OpenAI is seen to send it, with an object `error`; in other
    /// dialects an error event that says the same.
    pub fn nested_error_after(n: usize, code: &str) -> Self {
        let event = json!({"type": "error", "error": in_stream(code)});
        Self::healthy().fault(Fault::Error { after: n, event, done: false, first: false })
    }

    /// Replaces the fault within the answer.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }
}

/// What OpenAI says of a failure in the middle of a stream.
fn in_stream(code: &str) -> Map<String, Value> {
    let message = match code {
        "rate_limit_exceeded" => {
            "Rate limit reached for sim-model in organization org-sim. Please try again in 2s."
        }
        "insufficient_quota" => {
            "You exceeded your current quota, please check your plan and billing details."
        }
        "server_is_overloaded" => "Our servers are currently overloaded. Please try again later.",
        "context_length_exceeded" => catalogue::INPUT_TOO_LONG,
        "invalid_prompt" => {
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
        }
        _ => "An error occurred while processing your request. You can retry your request.",
    };
    let fields = [("code", json!(code)), ("message", json!(message)), ("param", Value::Null)];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn wrap_error(error: Value) -> Value {
    if error.get("error").is_some() { error } else { json!({ "error": error }) }
}

/// Pace and content.
impl Script {
    /// Time before the response headers.
    pub fn delay_headers(mut self, delay: Duration) -> Self {
        self.pace.headers = delay;
        self
    }

    /// Time between the role event and the first output.
    pub fn delay_first_token(mut self, delay: Duration) -> Self {
        self.pace.first_token = delay;
        self
    }

    /// Time between two output events.
    pub fn between_tokens(mut self, delay: Duration) -> Self {
        self.pace.between_tokens = delay;
        self
    }

    /// A comment goes out this often while the answer waits.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.pace.heartbeat = every;
        self
    }

    /// Number of text tokens (words); at most 100,000.
    pub fn tokens(mut self, n: usize) -> Self {
        self.answer.tokens = Some(n);
        self
    }

    /// Adds a tool call; `arguments` is JSON in a string.
    pub fn tool_call(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        let (name, arguments) = (name.into(), arguments.into());
        self.answer.tool_calls.push(ToolCall { name, arguments, custom: false });
        self
    }

    /// Adds a call of a custom tool; its input is any text.
    pub fn custom_tool_call(mut self, name: impl Into<String>, input: impl Into<String>) -> Self {
        let (name, arguments) = (name.into(), input.into());
        self.answer.tool_calls.push(ToolCall { name, arguments, custom: true });
        self
    }

    /// Reasoning before the text, in this field (`reasoning_content`, `reasoning`).
    pub fn reasoning(mut self, text: impl Into<String>, field: impl Into<String>) -> Self {
        self.answer.reasoning = Some(Reasoning { text: text.into(), field: field.into() });
        self
    }

    /// How usage is reported.
    pub fn usage(mut self, shape: UsageShape) -> Self {
        self.answer.usage = shape;
        self
    }

    /// Tokens of the prompt that are said to have come from a cache and to have been written to it. They are added to
    /// those of the request, and each dialect counts them as its provider does.
    pub fn cached(mut self, read: u64, written: u64) -> Self {
        self.answer.cached = read;
        self.answer.cache_written = written;
        self
    }

    /// A refusal in place of text.
    pub fn refusal(mut self, text: impl Into<String>) -> Self {
        self.answer.refusal = Some(text.into());
        self
    }

    /// The finish reason.
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.answer.finish = Some(reason.into());
        self
    }

    /// The model that the answer names.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.answer.model = Some(model.into());
        self
    }

    /// Role and finish reason, no content at all.
    pub fn empty_content_finish(mut self) -> Self {
        self.answer.text = Some(String::new());
        self
    }

    /// `choices` is empty in the whole answer.
    pub fn choices_empty(mut self) -> Self {
        self.answer.no_choices = true;
        self
    }
}

/// Spelling on the wire.
impl Script {
    /// The stream ends in good HTTP order after the finish event, without `[DONE]`.
    pub fn no_done(mut self) -> Self {
        self.wire.done = false;
        self
    }

    /// A wrong `content-type` (none at all when empty).
    pub fn content_type(mut self, value: impl Into<String>) -> Self {
        self.wire.content_type = Some(value.into());
        self
    }

    /// Status 200 and an HTML page, as a proxy or a captive portal sends it.
    pub fn html(self) -> Self {
        let body =
            "<!DOCTYPE html>\n<html><head><title>Service</title></head><body>Please wait.</body></html>\n";
        self.replied(200, "text/html; charset=utf-8", body)
    }

    /// Status 200 and no body.
    pub fn empty_body(self) -> Self {
        self.replied(200, "", "")
    }

    fn replied(mut self, status: u16, content_type: &str, body: &str) -> Self {
        self.reply =
            Some(FixedReply { status, content_type: content_type.to_owned(), body: body.to_owned() });
        self
    }

    /// CRLF line ends.
    pub fn crlf(mut self) -> Self {
        self.wire.line_end = LineEnd::Crlf;
        self
    }

    /// CR line ends.
    pub fn cr(mut self) -> Self {
        self.wire.line_end = LineEnd::Cr;
        self
    }

    /// A byte order mark opens the stream.
    pub fn bom(mut self) -> Self {
        self.wire.bom = true;
        self
    }

    /// One byte per HTTP chunk and per write.
    pub fn split_every_byte(mut self) -> Self {
        self.wire.split_every_byte = true;
        self
    }

    /// `data:{…}` without a space.
    pub fn no_space_after_colon(mut self) -> Self {
        self.wire.no_space_after_colon = true;
        self
    }

    /// The JSON of each event on several `data` lines.
    pub fn multi_line_data(mut self) -> Self {
        self.wire.multi_line_data = true;
        self
    }

    /// Azure's first chunk with `prompt_filter_results`, and `content_filter_results` in the choices.
    pub fn azure_preamble(mut self) -> Self {
        self.wire.azure_preamble = true;
        self
    }

    /// What a stream of Responses consists of.
    pub fn responses(mut self, shape: ResponsesShape) -> Self {
        self.wire.responses = shape;
        self
    }

    /// A comment before each event.
    pub fn comments(mut self) -> Self {
        self.wire.comments = true;
        self
    }

    /// Adds a response header; it replaces a header of that name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a response header whose value is the date this many seconds after the moment of answering; see
    /// [`Script::date_headers`].
    pub fn header_date(mut self, name: impl Into<String>, seconds: i64) -> Self {
        self.date_headers.push((name.into(), seconds.saturating_mul(1000)));
        self
    }

    /// The body of a fixed reply; a script that generated its answer now replies with status 200 and this body.
    pub fn body(mut self, body: impl Into<String>) -> Self {
        let body = body.into();
        match &mut self.reply {
            Some(reply) => reply.body = body,
            None => {
                self.reply =
                    Some(FixedReply { status: 200, content_type: "application/json".to_owned(), body })
            }
        }
        self
    }

    /// Closes the connection after the complete answer without having said so: the client keeps a stale one.
    pub fn close_afterwards(mut self) -> Self {
        self.close_afterwards = true;
        self
    }
}
