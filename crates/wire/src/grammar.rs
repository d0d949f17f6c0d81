//! What a Messages stream must look like to a client (Anthropic API, "Streaming messages"): an automaton that
//! checks one stream event by event. For tests; the gateway itself is lenient with what providers send. [`GeminiGrammar`] does
//! the same for a stream of generateContent.
//!
//! `message_start` once and first · content blocks one after the other, with indices from 0: a start, deltas of
//! its kind, a stop · `message_delta` · `message_stop` last. `ping`, and an event of a type that is not known yet, may
//! come anywhere after `message_start`, an `error` at any time, and then it is the last event. Each event carries its type as its name.

mod gemini;
mod responses;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use gemini::GeminiGrammar;
pub use responses::ResponsesGrammar;

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With `message_stop`, `response.completed` or `response.incomplete`; in Gemini with a finish reason.
    Complete,
    /// With `error` or `response.failed`.
    Error,
}

/// The first rule that a stream broke, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {at}: {rule}")]
pub struct Violation {
    /// The event, counted from 0.
    pub at: usize,
    /// What should have been, in words.
    pub rule: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Nothing,
    /// Between blocks.
    Between,
    /// In a block of this kind.
    InBlock(String),
    /// After `message_delta`; whether it gave a stop reason.
    Closing {
        stopped: bool,
    },
    Ended(Ending),
}

/// The automaton over one stream.
#[derive(Debug, Clone)]
pub struct MessagesGrammar {
    state: State,
    blocks: u64,
    at: usize,
}

impl Default for MessagesGrammar {
    fn default() -> Self {
        Self::new()
    }
}

impl MessagesGrammar {
    /// Before the first event.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Nothing, blocks: 0, at: 0 }
    }

    /// Checks the next event: the name in its `event:` field and its data.
    ///
    /// # Errors
    /// [`Violation`] with the first rule that is broken.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<(), Violation> {
        let next = self.next(name, data).map_err(|rule| Violation { at: self.at, rule })?;
        self.state = next;
        self.at += 1;
        Ok(())
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    /// [`Violation`] if neither `message_stop` nor `error` came last.
    pub fn end(&self) -> Result<Ending, Violation> {
        match self.state {
            State::Ended(ending) => Ok(ending),
            _ => Err(Violation {
                at: self.at,
                rule: "the stream ends without message_stop or error".to_owned(),
            }),
        }
    }

    fn next(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<State, String> {
        if matches!(self.state, State::Ended(_)) {
            return Err("nothing may follow the last event".to_owned());
        }
        let data: Value = serde_json::from_slice(data).map_err(|_| "the data is no JSON".to_owned())?;
        let kind = data.get("type").and_then(Value::as_str).ok_or("the data has no type")?;
        if name != Some(kind.as_bytes()) {
            return Err(format!("the event's name is not its type '{kind}'"));
        }
        match (kind, &self.state) {
            ("error", _) => {
                text(&data, "/error/type")?;
                text(&data, "/error/message")?;
                Ok(State::Ended(Ending::Error))
            }
            ("message_start", State::Nothing) => start(&data),
            (_, State::Nothing) => Err(format!("{kind} comes before message_start")),
            ("message_start", _) => Err("message_start comes twice".to_owned()),
            (kind, state) if !ORDERED.contains(&kind) => Ok(state.clone()),
            ("content_block_start", State::Between) => self.block_start(&data),
            ("content_block_delta", State::InBlock(block)) => {
                self.is_current(&data)?;
                fits(&data, block)?;
                Ok(self.state.clone())
            }
            ("content_block_stop", State::InBlock(_)) => {
                self.is_current(&data)?;
                self.blocks += 1;
                Ok(State::Between)
            }
            ("message_delta", State::Between | State::Closing { .. }) => self.message_delta(&data),
            ("message_stop", State::Closing { stopped: true }) => Ok(State::Ended(Ending::Complete)),
            (_, state) => Err(format!("{kind} has no place {}", place(state))),
        }
    }

    fn block_start(&self, data: &Value) -> Result<State, String> {
        self.is_current(data)?;
        Ok(State::InBlock(text(data, "/content_block/type")?))
    }

    fn message_delta(&self, data: &Value) -> Result<State, String> {
        let usage = data.pointer("/usage/output_tokens").and_then(Value::as_u64);
        usage.ok_or("message_delta has no usage.output_tokens")?;
        let before = matches!(self.state, State::Closing { stopped: true });
        Ok(State::Closing { stopped: before || text(data, "/delta/stop_reason").is_ok() })
    }

    fn is_current(&self, data: &Value) -> Result<(), String> {
        let index = data.get("index").and_then(Value::as_u64);
        if index == Some(self.blocks) {
            return Ok(());
        }
        Err(format!("the block's index is {index:?}, not {}", self.blocks))
    }
}

/// The events that have a place in the order.
const ORDERED: [&str; 6] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
];

fn start(data: &Value) -> Result<State, String> {
    text(data, "/message/id")?;
    text(data, "/message/model")?;
    let is = |path: &str, wanted: &str| data.pointer(path).is_some_and(|value| value == wanted);
    if !is("/message/type", "message") || !is("/message/role", "assistant") {
        return Err("message_start holds no message of the assistant".to_owned());
    }
    if !data.pointer("/message/content").is_some_and(Value::is_array) {
        return Err("the message of message_start has no list of content".to_owned());
    }
    let usage = data.pointer("/message/usage/input_tokens").and_then(Value::as_u64);
    usage.map(|_| State::Between).ok_or_else(|| "message_start has no usage.input_tokens".to_owned())
}

/// Which deltas a block takes; a kind of block or delta that is not known yet takes any.
fn fits(data: &Value, block: &str) -> Result<(), String> {
    let delta = text(data, "/delta/type")?;
    let wanted: &[&str] = match block {
        "text" => &["text_delta", "citations_delta"],
        "thinking" => &["thinking_delta", "signature_delta"],
        "tool_use" | "server_tool_use" | "mcp_tool_use" => &["input_json_delta"],
        _ => return Ok(()),
    };
    if wanted.contains(&delta.as_str()) {
        return Ok(());
    }
    Err(format!("{delta} has no place in a block of type {block}"))
}

fn text(data: &Value, path: &str) -> Result<String, String> {
    data.pointer(path).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("{path} is no text"))
}

fn place(state: &State) -> &'static str {
    match state {
        State::Nothing => "before message_start",
        State::Between => "between blocks",
        State::InBlock(_) => "inside a block",
        State::Closing { .. } => "after message_delta",
        State::Ended(_) => "after the end",
    }
}
