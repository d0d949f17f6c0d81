//! A meaning as a stream of generateContent (Gemini API reference, "streamGenerateContent").

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::outgoing::{OutCall, OutPart};
use super::super::reply::{Candidate, Generated, args};
use super::super::seals::{self, NO_SEAL};
use crate::chat::Usage;
use crate::ir::{Event, Opening, Piece, Stop};
use crate::json::arguments;
use crate::translate::Sink;

/// A call that is coming in: it is told when it is whole.
#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    whole: bool,
}

/// Writes the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct EventWriter {
    id: String,
    model: String,
    calls: BTreeMap<usize, Call>,
    /// A call has been told.
    called: bool,
    /// Calls that are over and are no object: what ended the answer decides what becomes of them.
    odd: Vec<Call>,
    /// How much of calls is kept, in bytes.
    held: usize,
    stop: Option<Stop>,
    usage: Option<Usage>,
}

impl EventWriter {
    /// Appends what this event says.
    pub(crate) fn write(&mut self, event: Event, out: &mut Sink<'_>) {
        match event {
            Event::Start { id, model } => {
                self.id = id;
                self.model = model;
            }
            Event::Open { index, opening: Opening::ToolCall { id, name, .. } } => {
                self.held += id.len() + name.len();
                self.calls.insert(index, Call { id, name, arguments: String::new(), whole: false });
            }
            Event::Open { .. } => {}
            Event::Delta { index, piece } => self.piece(index, piece, out),
            Event::Close { index } => self.close(index, out),
            Event::Stop(stop) => self.stop = Some(stop),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::End => self.end(out),
        }
    }

    /// How much is kept of calls that are not told yet, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    fn piece(&mut self, index: usize, piece: Piece, out: &mut Sink<'_>) {
        match piece {
            Piece::Text(text) => self.part(OutPart::text(text), out),
            Piece::Reasoning(text) => self.part(OutPart::thought(text), out),
            Piece::Signature(seal) => {
                if let Some(seal) = seals::for_client(&seal) {
                    let thought_signature = Some(Cow::Owned(seal));
                    self.part(OutPart { thought_signature, ..OutPart::thought("") }, out);
                }
            }
            Piece::Arguments(text) => {
                if let Some(call) = self.calls.get_mut(&index) {
                    self.held += text.len();
                    call.arguments.push_str(&text);
                }
            }
        }
    }

    /// Calls are told in the order in which they began.
    fn close(&mut self, index: usize, out: &mut Sink<'_>) {
        if let Some(call) = self.calls.get_mut(&index) {
            call.whole = true;
        }
        while let Some(call) = self.calls.first_entry().filter(|call| call.get().whole) {
            let call = call.remove();
            self.call(call, out);
        }
    }

    fn call(&mut self, call: Call, out: &mut Sink<'_>) {
        let Some(args) = arguments(&call.arguments) else { return self.odd.push(call) };
        self.held = self.held.saturating_sub(call.id.len() + call.name.len() + call.arguments.len());
        let (id, name) = (Cow::Borrowed(call.id.as_str()), Cow::Borrowed(call.name.as_str()));
        // Google refuses a conversation whose first call of a turn has no seal.
        let first = !std::mem::replace(&mut self.called, true);
        let thought_signature = first.then_some(Cow::Borrowed(NO_SEAL));
        self.part(OutPart { thought_signature, ..OutPart::call(OutCall { id, name, args }) }, out);
    }

    fn end(&mut self, out: &mut Sink<'_>) {
        let stop = self.stop.take().unwrap_or(Stop::End);
        let odd = std::mem::take(&mut self.odd);
        let parts = odd.iter().filter_map(|call| {
            let (id, name) = (Cow::Borrowed(call.id.as_str()), Cow::Borrowed(call.name.as_str()));
            Some(OutPart::call(OutCall { id, name, args: args(&call.arguments, &stop)? }))
        });
        self.send(Candidate::of(parts.collect(), Some(&stop)), out);
    }

    fn part(&self, part: OutPart<'_>, out: &mut Sink<'_>) {
        self.send(Candidate::of(vec![part], None), out);
    }

    fn send(&self, candidate: Candidate<'_>, out: &mut Sink<'_>) {
        let chunk = Generated {
            candidates: [candidate],
            usage_metadata: self.usage.map(Into::into),
            model_version: &self.model,
            response_id: &self.id,
        };
        // Texts and numbers are always JSON.
        if let Ok(json) = serde_json::to_vec(&chunk) {
            out.event(None, &json);
        }
    }
}
