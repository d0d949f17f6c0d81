//! A meaning as a stream of Chat Completions (OpenAI API reference, "The chat completion chunk object").

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::done_event;
use super::super::reply::{OutUsage, reason};
use crate::chat::Usage;
use crate::ir::{Event, Opening, Piece};
use crate::translate::{Manner, Sink};

/// Writes the events of one stream.
#[derive(Debug)]
pub(crate) struct EventWriter {
    manner: Manner,
    id: String,
    model: String,
    /// Of each block that calls a tool: its place among the calls, and whether it has arguments.
    calls: BTreeMap<usize, (usize, bool)>,
    usage: Option<Usage>,
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
    tool_calls: Option<[Call<'a>; 1]>,
}

#[derive(Serialize)]
struct Call<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: Function<'a>,
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
    pub(crate) fn new(manner: Manner) -> Self {
        Self { manner, id: String::new(), model: String::new(), calls: BTreeMap::new(), usage: None }
    }

    /// Appends what this event says.
    pub(crate) fn write(&mut self, event: &Event, out: &mut Sink<'_>) {
        match event {
            Event::Start { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                self.delta(Delta { role: Some("assistant"), content: Some(""), ..Delta::default() }, out);
            }
            Event::Open { index, opening: Opening::ToolCall { id, name } } => {
                let place = self.calls.len();
                self.calls.insert(*index, (place, false));
                let function = Function { name: Some(name), arguments: "" };
                self.call(Call { index: place, id: Some(id), kind: Some("function"), function }, out);
            }
            Event::Open { .. } => {}
            Event::Delta { index, piece } => self.piece(*index, piece, out),
            Event::Close { index } => self.close(*index, out),
            Event::Stop(stop) => self.chunk(Delta::default(), Some(reason(stop)), out),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::End => self.end(out),
        }
    }

    fn piece(&mut self, index: usize, piece: &Piece, out: &mut Sink<'_>) {
        match piece {
            Piece::Text(text) => self.delta(Delta { content: Some(text), ..Delta::default() }, out),
            Piece::Reasoning(text) => {
                self.delta(Delta { reasoning_content: Some(text), ..Delta::default() }, out);
            }
            // A seal is of use at its origin only, and this dialect has no place for it.
            Piece::Signature(_) => {}
            Piece::Arguments(arguments) => {
                let Some((place, begun)) = self.calls.get_mut(&index) else { return };
                *begun |= !arguments.trim().is_empty();
                let index = *place;
                let function = Function { name: None, arguments };
                self.call(Call { index, id: None, kind: None, function }, out);
            }
        }
    }

    /// A call without arguments has an empty object of them: clients parse what they got.
    fn close(&mut self, index: usize, out: &mut Sink<'_>) {
        if let Some((place, false)) = self.calls.get(&index).copied() {
            let function = Function { name: None, arguments: "{}" };
            self.call(Call { index: place, id: None, kind: None, function }, out);
        }
    }

    fn call(&self, call: Call<'_>, out: &mut Sink<'_>) {
        self.delta(Delta { tool_calls: Some([call]), ..Delta::default() }, out);
    }

    fn delta(&self, delta: Delta<'_>, out: &mut Sink<'_>) {
        self.chunk(delta, None, out);
    }

    fn chunk(&self, delta: Delta<'_>, finish_reason: Option<&'static str>, out: &mut Sink<'_>) {
        self.send(&[Choice { index: 0, delta, finish_reason }], None, out);
    }

    fn end(&self, out: &mut Sink<'_>) {
        if let Some(usage) = self.usage.filter(|_| self.manner.include_usage) {
            self.send(&[], Some(usage.into()), out);
        }
        out.out.extend_from_slice(done_event());
    }

    fn send(&self, choices: &[Choice<'_>], usage: Option<OutUsage>, out: &mut Sink<'_>) {
        let chunk = Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.manner.created_s,
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
