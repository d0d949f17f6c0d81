//! A meaning as a stream of Chat Completions (OpenAI API reference, "The chat completion chunk object").

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::done_event;
use super::super::reply::{OutUsage, reason};
use crate::chat::Usage;
use crate::ir::{Event, Opening, Piece};
use crate::translate::{Back, Sink};

/// Writes the events of one stream.
#[derive(Debug)]
pub(crate) struct EventWriter {
    created_s: u64,
    include_usage: bool,
    id: String,
    model: String,
    /// The blocks that call a tool.
    calls: BTreeMap<usize, Begun>,
    /// The block that was closed last: the reason for the stop may say that it was cut off, and then nothing is made up.
    silent: Option<usize>,
    /// The open block of refusal.
    refusal: Option<usize>,
    usage: Option<Usage>,
}

/// A call that was begun.
#[derive(Debug, Clone, Copy)]
struct Begun {
    /// Its place among the calls.
    place: usize,
    custom: bool,
    /// It has arguments.
    argued: bool,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<OutUsage>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u8,
    delta: Delta<'a>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize, Default)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[Call<'a>; 1]>,
}

#[derive(Serialize)]
struct Call<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<Function<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<Custom<'a>>,
}

#[derive(Serialize)]
struct Custom<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    input: &'a str,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

impl EventWriter {
    /// For one stream.
    #[must_use]
    pub(crate) fn new(back: &Back) -> Self {
        Self {
            created_s: back.created_s,
            include_usage: back.include_usage,
            id: String::new(),
            model: String::new(),
            calls: BTreeMap::new(),
            silent: None,
            refusal: None,
            usage: None,
        }
    }

    /// Appends what this event says.
    pub(crate) fn write(&mut self, event: &Event, out: &mut Sink<'_>) {
        let silent = self.silent.take();
        if let Some(index) = silent.filter(|_| !matches!(event, Event::Stop(stop) if stop.breaks_off())) {
            self.argue(index, out);
        }
        match event {
            Event::Start { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                self.delta(Delta { role: Some("assistant"), content: Some(""), ..Delta::default() }, out);
            }
            Event::Open { index, opening: Opening::ToolCall { id, name, custom, .. } } => {
                let begun = Begun { place: self.calls.len(), custom: *custom, argued: false };
                self.calls.insert(*index, begun);
                self.call(begun, Some((id, name)), "", out);
            }
            Event::Open { index, opening: Opening::Refusal } => self.refusal = Some(*index),
            Event::Open { .. } => {}
            Event::Delta { index, piece } => self.piece(*index, piece, out),
            Event::Close { index } => self.silent = Some(*index),
            Event::Stop(stop) => self.chunk(Delta::default(), Some(reason(stop)), out),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::End => self.end(out),
        }
    }

    fn piece(&mut self, index: usize, piece: &Piece, out: &mut Sink<'_>) {
        match piece {
            Piece::Text(text) if self.refusal == Some(index) => {
                self.delta(Delta { refusal: Some(text), ..Delta::default() }, out);
            }
            Piece::Text(text) => self.delta(Delta { content: Some(text), ..Delta::default() }, out),
            Piece::Reasoning(text) => {
                self.delta(Delta { reasoning_content: Some(text), ..Delta::default() }, out);
            }
            // A seal is of use at its origin only, and this dialect has no place for it.
            Piece::Signature(_) => {}
            Piece::Arguments(arguments) => {
                let Some(begun) = self.calls.get_mut(&index) else { return };
                begun.argued |= !arguments.trim().is_empty();
                let begun = *begun;
                self.call(begun, None, arguments, out);
            }
        }
    }

    /// A call without arguments has an empty object of them: clients parse what they got.
    fn argue(&mut self, index: usize, out: &mut Sink<'_>) {
        if let Some(begun) = self.calls.get(&index).copied().filter(|call| !call.argued && !call.custom) {
            self.call(begun, None, "{}", out);
        }
    }

    /// A fragment of a call; its first one has its id and name.
    fn call(&self, begun: Begun, first: Option<(&str, &str)>, arguments: &str, out: &mut Sink<'_>) {
        let (id, name) = first.unzip();
        let word = if begun.custom { "custom" } else { "function" };
        let call = Call {
            index: begun.place,
            id,
            kind: id.map(|_| word),
            function: (!begun.custom).then_some(Function { name, arguments }),
            custom: begun.custom.then_some(Custom { name, input: arguments }),
        };
        self.delta(Delta { tool_calls: Some([call]), ..Delta::default() }, out);
    }

    fn delta(&self, delta: Delta<'_>, out: &mut Sink<'_>) {
        self.chunk(delta, None, out);
    }

    fn chunk(&self, delta: Delta<'_>, finish_reason: Option<&'static str>, out: &mut Sink<'_>) {
        self.send(&[Choice { index: 0, delta, finish_reason }], None, out);
    }

    fn end(&self, out: &mut Sink<'_>) {
        if let Some(usage) = self.usage.filter(|_| self.include_usage) {
            self.send(&[], Some(usage.into()), out);
        }
        out.out.extend_from_slice(done_event());
    }

    fn send(&self, choices: &[Choice<'_>], usage: Option<OutUsage>, out: &mut Sink<'_>) {
        let chunk = Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created_s,
            model: &self.model,
            choices,
            usage,
        };
        // Texts and numbers are always JSON.
        if let Ok(json) = serde_json::to_vec(&chunk) {
            out.event(None, &json);
        }
    }
}
