//! A stream on its way from a provider of one dialect to a client of another, event by event.

use std::collections::BTreeMap;

use bytes::BytesMut;

use super::unwrap::Unwrap;
use super::{Back, seal};
use crate::bedrock::EventReader as BedrockReader;
use crate::chat::{EventReader as ChatReader, EventWriter as ChatWriter};
use crate::dialect::{Dialect, StreamFrame};
use crate::gemini::{EventReader as GeminiReader, EventWriter as GeminiWriter};
use crate::ir::{Event, Opening, Piece};
use crate::messages::{EventReader as MessagesReader, EventWriter as MessagesWriter};
use crate::responses::{EventReader as ResponsesReader, EventWriter as ResponsesWriter};
use crate::sse::write_event;

/// What cannot be told yet may be so large, in bytes.
const MAX_HELD: usize = 8 * 1024 * 1024;

/// What the last event repeats may be so large, in bytes.
const MAX_KEPT: usize = 32 * 1024 * 1024;

/// The provider mixes its tool calls so that more would have to be held back than is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more had to be held back in translation than is kept")]
pub struct TooMuchHeld;

#[derive(Debug)]
enum Reader {
    Chat(ChatReader),
    Messages(MessagesReader),
    Responses(ResponsesReader),
    Gemini(GeminiReader),
    Bedrock(BedrockReader),
}

#[derive(Debug)]
enum Writer {
    Chat(ChatWriter),
    Messages(MessagesWriter),
    Responses(ResponsesWriter),
    Gemini(GeminiWriter),
}

/// Where a writer's events go.
#[derive(Debug)]
pub(crate) struct Sink<'s> {
    pub(crate) out: &'s mut BytesMut,
    to: Dialect,
    disclosure: &'s mut Option<String>,
}

impl Sink<'_> {
    /// Appends one event.
    pub(crate) fn event(&mut self, name: Option<&[u8]>, data: &[u8]) {
        let disclosed = self.disclosure.as_deref().and_then(|json| self.to.disclosed(data, json));
        if disclosed.is_some() {
            *self.disclosure = None;
        }
        write_event(self.out, name, disclosed.as_deref().unwrap_or(data));
    }
}

/// The state of one stream that is being translated.
///
/// It looks at events that the tap ([`crate::dialect::StreamTap`]) found good: errors, and what cannot be read, are the
/// tap's affair.
#[derive(Debug)]
pub struct StreamTranslator {
    reader: Reader,
    writer: Writer,
    from: Dialect,
    to: Dialect,
    back: Back,
    /// The open calls of custom tools that come as functions.
    wrapped: BTreeMap<usize, Unwrap>,
    /// The open block of reasoning, and whether it has its seal.
    thoughts: Option<(usize, bool)>,
    events: Vec<Event>,
    disclosure: Option<String>,
}

impl StreamTranslator {
    /// For one stream.
    #[must_use]
    pub fn new(from: Dialect, to: Dialect, back: Back) -> Self {
        let reader = match from {
            Dialect::Chat => Reader::Chat(ChatReader::default()),
            Dialect::Messages => Reader::Messages(MessagesReader::default()),
            Dialect::Responses => Reader::Responses(ResponsesReader::default()),
            Dialect::Gemini => Reader::Gemini(GeminiReader::default()),
            Dialect::Bedrock => Reader::Bedrock(BedrockReader::default()),
        };
        let writer = match to {
            // Nobody asks for the last one: no client speaks it.
            Dialect::Chat | Dialect::Bedrock => Writer::Chat(ChatWriter::new(&back)),
            Dialect::Messages => Writer::Messages(MessagesWriter::default()),
            Dialect::Responses => Writer::Responses(ResponsesWriter::new(&back)),
            Dialect::Gemini => Writer::Gemini(GeminiWriter::default()),
        };
        Self {
            reader,
            writer,
            from,
            to,
            back,
            wrapped: BTreeMap::new(),
            thoughts: None,
            events: Vec::new(),
            disclosure: None,
        }
    }

    /// Adds a `pointsman` object of this JSON to the first event that can carry one.
    pub fn disclose(&mut self, pointsman_json: Option<String>) {
        self.disclosure = pointsman_json;
    }

    /// Takes one event of the provider, its name and its data, and appends what the client is told.
    ///
    /// # Errors
    /// [`TooMuchHeld`]; the stream is then of no use.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8], out: &mut BytesMut) -> Result<(), TooMuchHeld> {
        match &mut self.reader {
            Reader::Chat(reader) => reader.read(data, &mut self.events),
            Reader::Messages(reader) => reader.read(name, data, &mut self.events),
            Reader::Responses(reader) => reader.read(name, data, &mut self.events),
            Reader::Gemini(reader) => reader.read(data, &mut self.events),
            Reader::Bedrock(reader) => reader.read(name, data, &mut self.events),
        }
        self.write(out);
        let (waiting, kept) = self.sizes();
        if waiting > MAX_HELD || kept > MAX_KEPT { Err(TooMuchHeld) } else { Ok(()) }
    }

    /// How much of the answer waits for its turn, and how much is kept to be repeated, in bytes.
    fn sizes(&self) -> (usize, usize) {
        let early = if let Reader::Chat(reader) = &self.reader { reader.held() } else { 0 };
        let (waiting, kept) = match &self.writer {
            Writer::Chat(_) => (0, 0),
            Writer::Messages(writer) => (writer.held(), 0),
            Writer::Gemini(writer) => (writer.held(), 0),
            Writer::Responses(writer) => (0, writer.kept()),
        };
        (early + waiting, kept)
    }

    /// How much memory this holds on to, of the request and of the answer, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        let (waiting, kept) = self.sizes();
        let repeated = if let Writer::Responses(writer) = &self.writer { writer.repeated() } else { 0 };
        waiting + kept + repeated
    }

    /// What an event that ends the client's stream with an error must repeat of it.
    #[must_use]
    pub fn frame(&self) -> Option<StreamFrame> {
        match &self.writer {
            Writer::Chat(_) | Writer::Messages(_) | Writer::Gemini(_) => None,
            Writer::Responses(writer) => Some(writer.frame()),
        }
    }

    /// The provider's stream has ended well: appends what is left to tell, and the end.
    pub fn end(&mut self, out: &mut BytesMut) {
        match &mut self.reader {
            Reader::Chat(reader) => reader.end(&mut self.events),
            Reader::Messages(reader) => reader.end(&mut self.events),
            Reader::Responses(reader) => reader.end(&mut self.events),
            Reader::Gemini(reader) => reader.end(&mut self.events),
            Reader::Bedrock(reader) => reader.end(&mut self.events),
        }
        self.write(out);
    }

    fn write(&mut self, out: &mut BytesMut) {
        for event in std::mem::take(&mut self.events) {
            self.tell(event, out);
        }
    }

    /// Tells an event in the client's terms: its tools by their names, seals as this target's.
    fn tell(&mut self, mut event: Event, out: &mut BytesMut) {
        match &mut event {
            Event::Start { id, model } => {
                if id.is_empty() {
                    id.clone_from(&self.back.id);
                }
                if model.is_empty() {
                    model.clone_from(&self.back.model);
                }
            }
            Event::Open { index, opening: Opening::Reasoning } => self.thoughts = Some((*index, false)),
            Event::Open { index, opening } => {
                let wrapped = self.back.names.restore_opening(opening);
                self.wrapped.extend(wrapped.then(|| (*index, Unwrap::default())));
            }
            Event::Delta { piece: Piece::Signature(value), index } => {
                *value = seal::pack(self.from, &self.back.origin, value);
                self.thoughts = Some((*index, true));
            }
            Event::Delta { index, piece: Piece::Arguments(text) } => {
                if let Some(unwrap) = self.wrapped.get_mut(index) {
                    *text = unwrap.push(text);
                    if text.is_empty() {
                        return;
                    }
                }
            }
            Event::Close { index } => self.before_close(*index, out),
            _ => {}
        }
        self.put(event, out);
    }

    fn before_close(&mut self, index: usize, out: &mut BytesMut) {
        let kept = self.wrapped.remove(&index).map(|mut unwrap| unwrap.end()).unwrap_or_default();
        if !kept.is_empty() {
            self.put(Event::Delta { index, piece: Piece::Arguments(kept) }, out);
        }
        if self.thoughts == Some((index, false)) {
            // Without a seal they are nobody's in particular, and must not be taken for the client's own provider's.
            let value = seal::pack(self.from, &self.back.origin, "");
            self.put(Event::Delta { index, piece: Piece::Signature(value) }, out);
        }
        self.thoughts = self.thoughts.filter(|(open, _)| *open != index);
    }

    fn put(&mut self, event: Event, out: &mut BytesMut) {
        let mut sink = Sink { out, to: self.to, disclosure: &mut self.disclosure };
        match &mut self.writer {
            Writer::Chat(writer) => writer.write(&event, &mut sink),
            Writer::Messages(writer) => writer.write(event, &mut sink),
            Writer::Responses(writer) => writer.write(&event, &mut sink),
            Writer::Gemini(writer) => writer.write(event, &mut sink),
        }
    }
}
