//! Requests: a bounded HTTP/1.1 request parser, and what a simulator remembers of each request.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::services::Service;

/// Request line and headers together, in bytes.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// Request body, in bytes.
pub(crate) const MAX_BODY: usize = 64 * 1024 * 1024;

/// One request as it arrived at a simulator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received {
    /// Request method.
    pub method: String,
    /// Path and query as sent.
    pub path: String,
    /// Headers in the order of arrival, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its HTTP framing.
    pub body: Bytes,
    /// When the request had arrived completely.
    pub at: Instant,
    /// The model that was asked for: from the body, else from an Azure deployment path.
    pub model: Option<String>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Number of the connection that carried it, counted from 1: equal numbers are a reused connection.
    pub connection: u64,
}

impl Received {
    /// Value of the first header of this name (any case).
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The body as JSON; `None` if it is something else.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Request line and headers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    http_1_0: bool,
}

/// How the body is delimited (RFC 9112, section 6).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// Why a request was not understood: the status to answer and a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: &'static str,
}

pub(crate) const fn refuse(status: u16, message: &'static str) -> Refusal {
    Refusal { status, message }
}

impl Head {
    /// Parses everything before the empty line (RFC 9112, sections 3 and 5).
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let text = str::from_utf8(bytes).map_err(|_| refuse(400, "Request head is not UTF-8"))?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(refuse(400, "Request line needs a method, a target and a version"));
        };
        let http_1_0 = match version {
            "HTTP/1.1" => false,
            "HTTP/1.0" => true,
            _ => return Err(refuse(505, "Only HTTP/1.1 is spoken here")),
        };
        let headers = lines.filter(|line| !line.is_empty()).map(header_line).collect::<Result<_, _>>()?;
        Ok(Self { method: method.to_owned(), target: target.to_owned(), headers, http_1_0 })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// How the body is delimited, and that it is not too long as far as the head tells.
    pub(crate) fn framing(&self) -> Result<Framing, Refusal> {
        if let Some(coding) = self.header("transfer-encoding") {
            let chunked = coding.trim().eq_ignore_ascii_case("chunked");
            return if chunked { Ok(Framing::Chunked) } else { Err(refuse(501, "Unknown transfer coding")) };
        }
        let length = self.header("content-length").unwrap_or("0").trim();
        match length.parse::<usize>() {
            Ok(length) if length <= MAX_BODY => Ok(Framing::Length(length)),
            Ok(_) => Err(refuse(413, "Request body is over 64 MiB")),
            Err(_) => Err(refuse(400, "Content-Length is not a number")),
        }
    }

    pub(crate) fn expects_continue(&self) -> bool {
        self.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    /// Whether the client keeps the connection after the response (RFC 9112, section 9.3).
    pub(crate) fn keep_alive(&self) -> bool {
        let options = self.header("connection").unwrap_or_default();
        let has = |option: &str| options.split(',').any(|o| o.trim().eq_ignore_ascii_case(option));
        if self.http_1_0 { has("keep-alive") } else { !has("close") }
    }
}

fn header_line(line: &str) -> Result<(String, String), Refusal> {
    match line.split_once(':') {
        Some((name, value)) if !name.is_empty() && !name.contains([' ', '\t']) => {
            Ok((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()))
        }
        _ => Err(refuse(400, "A header line is malformed")),
    }
}

/// Length in the size line of a chunk, without extensions (RFC 9112, section 7.1).
pub(crate) fn chunk_size(line: &[u8]) -> Result<usize, Refusal> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    str::from_utf8(digits)
        .ok()
        .and_then(|digits| usize::from_str_radix(digits.trim(), 16).ok())
        .ok_or(refuse(400, "A chunk size is malformed"))
}

/// Whose API a request speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// OpenAI's Chat Completions.
    #[default]
    Chat,
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's `generateContent` and `streamGenerateContent`.
    Gemini(Carried),
    /// Amazon Bedrock's Converse and ConverseStream.
    Bedrock {
        /// Whether it is ConverseStream.
        stream: bool,
    },
    /// No conversation; its errors are those of Chat Completions.
    Service(Service),
}

/// How an answer of Gemini is carried; the path and the query say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// One response.
    Whole,
    /// A stream of events (`alt=sse`).
    Events,
    /// A stream that is one JSON array.
    Array,
}

/// What of a request an answer depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) form: Form,
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// An estimate from the length of the messages, the same for the same body.
    pub(crate) prompt_tokens: u64,
    /// The whole request, where it is checked or an answer depends on it; in Chat Completions and Messages `null`.
    pub(crate) request: Value,
}

/// The parts of a request body that matter; the messages are only measured.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    model: Value,
    #[serde(default)]
    stream: Value,
    #[serde(default)]
    stream_format: Value,
    #[serde(default)]
    stream_options: Value,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
}

impl Ask {
    /// Reads a request body; `None` if it is not a JSON object.
    pub(crate) fn read(form: Form, bytes: &[u8]) -> Option<Self> {
        let body: Body<'_> = serde_json::from_slice(bytes).ok()?;
        let (said, stream, checked) = match form {
            Form::Chat | Form::Messages => (body.messages, body.stream.as_bool(), false),
            Form::Responses => (body.input, body.stream.as_bool(), true),
            Form::Service(_) => {
                let stream = body.stream.as_bool().unwrap_or(false) || body.stream_format == "sse";
                (None, Some(stream), true)
            }
            Form::Gemini(carried) => (body.contents, Some(carried != Carried::Whole), true),
            Form::Bedrock { stream } => (body.messages, Some(stream), true),
        };
        let characters = said.map_or(0, |said| said.get().len());
        let request = if checked { serde_json::from_slice(bytes).ok()? } else { Value::Null };
        Some(Self {
            form,
            model: body.model.as_str().map(str::to_owned),
            stream: stream.unwrap_or(false),
            include_usage: body.stream_options.get("include_usage").and_then(Value::as_bool).unwrap_or(false),
            prompt_tokens: u64::try_from(characters / 4).unwrap_or(0) + 3,
            request,
        })
    }
}

#[cfg(test)]
mod tests;
