//! What a client saw.

use std::time::Duration;

use serde_json::Value;

use crate::client::Answer;

/// The most of an answer's text that is shown.
const SHOWN: usize = 40;

/// A whole answer, plain or streamed, as a client reads it.
#[derive(Debug)]
pub(crate) struct Seen {
    answer: Answer,
    took: Duration,
    streamed: bool,
    /// The events of a stream, `[DONE]` left out.
    events: Vec<Value>,
    done: usize,
}

impl Seen {
    /// Reads an answer.
    pub(crate) fn new(answer: Answer, took: Duration) -> Self {
        let streamed = answer.header("content-type").starts_with("text/event-stream");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let data = || text.lines().filter(|_| streamed).filter_map(|line| line.strip_prefix("data: "));
        let events = data().filter_map(|data| serde_json::from_str(data).ok()).collect();
        let done = data().filter(|data| *data == "[DONE]").count();
        Self { answer, took, streamed, events, done }
    }

    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.answer.status.as_u16()
    }

    /// A header of the gateway, without its prefix; empty if it is absent.
    pub(crate) fn says(&self, name: &str) -> &str {
        self.answer.header(&format!("x-pointsman-{name}"))
    }

    /// Any header; empty if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.answer.header(name)
    }

    /// The text of the answer.
    pub(crate) fn text(&self) -> String {
        let of = |value: &Value, at: &str| value.pointer(at).and_then(Value::as_str).map(str::to_owned);
        match self.streamed {
            true => self.events.iter().filter_map(|event| of(event, "/choices/0/delta/content")).collect(),
            false => of(&self.answer.json(), "/choices/0/message/content").unwrap_or_default(),
        }
    }

    /// The errors in the answer: of a stream its error events, of a plain answer the one in its body.
    pub(crate) fn errors(&self) -> Vec<Value> {
        let bodies = match self.streamed {
            true => self.events.clone(),
            false => vec![self.answer.json()],
        };
        bodies.into_iter().filter(|body| body.get("error").is_some_and(Value::is_object)).collect()
    }

    /// A field of the one error, such as `/error/code`; empty if there is none.
    pub(crate) fn error(&self, at: &str) -> String {
        let errors = self.errors();
        let found = errors.first().and_then(|error| error.pointer(at)).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    }

    /// Whether the last event of the stream is an error.
    pub(crate) fn ends_with_error(&self) -> bool {
        self.events.last().is_some_and(|event| event.get("error").is_some_and(Value::is_object))
    }

    /// How often the stream said that it is complete.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Whether the text is from this simulated provider and no other: each names itself in its first words.
    pub(crate) fn is_from(&self, provider: &str) -> bool {
        let text = self.text();
        text.starts_with(&format!("This is {provider}:")) && text.matches("This is ").count() == 1
    }

    /// One line: status, time, text.
    pub(crate) fn line(&self) -> String {
        let ms = self.took.as_secs_f64() * 1e3;
        let what = match self.errors().is_empty() {
            true => format!("\"{}\"", shortened(&self.text())),
            false if self.text().is_empty() => shortened_to(&self.error("/error/message"), 2 * SHOWN),
            false => format!("\"{}\" then an error", shortened(&self.text())),
        };
        let form = if self.streamed { "stream" } else { "answer" };
        format!("{} {form} in {ms:.0} ms: {what}", self.status())
    }

    /// The gateway's own headers, as a client sees them.
    pub(crate) fn headers(&self) -> String {
        let names = ["target", "model", "action", "attempts", "reason", "substituted"];
        let told = names.iter().filter(|name| !self.says(name).is_empty());
        let told: Vec<String> = told.map(|name| format!("{name}: {}", self.says(name))).collect();
        if told.is_empty() { String::new() } else { format!("x-pointsman-{{{}}}", told.join(", ")) }
    }
}

fn shortened(text: &str) -> String {
    shortened_to(text, SHOWN)
}

fn shortened_to(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
