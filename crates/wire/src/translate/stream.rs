//! A stream on its way from a provider of one dialect to a client of another, event by event.

use bytes::BytesMut;

use super::Names;
use crate::chat::{EventReader as ChatReader, EventWriter as ChatWriter};
use crate::dialect::Dialect;
use crate::ir::{Event, Opening};
use crate::messages::{EventReader as MessagesReader, EventWriter as MessagesWriter};
use crate::sse::write_event;

/// What cannot be told yet may be so large, in bytes.
const MAX_HELD: usize = 8 * 1024 * 1024;

/// The provider mixes its tool calls so that more would have to be held back than is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more had to be held back in translation than is kept")]
pub struct TooMuchHeld;

#[derive(Debug)]
enum Reader {
    Chat(ChatReader),
    Messages(MessagesReader),
}

#[derive(Debug)]
enum Writer {
    Chat(ChatWriter),
    Messages(MessagesWriter),
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
    to: Dialect,
    names: Names,
    events: Vec<Event>,
    disclosure: Option<String>,
}

/// How a stream is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// The time of the answer in seconds since 1970, for dialects that tell it.
    pub created_s: u64,
    /// Whether the client asked to be told what the answer took, where that is asked for.
    pub include_usage: bool,
}

impl StreamTranslator {
    /// For one stream.
    #[must_use]
    pub fn new(from: Dialect, to: Dialect, names: Names, manner: Manner) -> Self {
        let reader = match from {
            Dialect::Chat => Reader::Chat(ChatReader::default()),
            Dialect::Messages => Reader::Messages(MessagesReader::default()),
        };
        let writer = match to {
            Dialect::Chat => Writer::Chat(ChatWriter::new(manner)),
            Dialect::Messages => Writer::Messages(MessagesWriter::default()),
        };
        Self { reader, writer, to, names, events: Vec::new(), disclosure: None }
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
        }
        self.write(out);
        let early = if let Reader::Chat(reader) = &self.reader { reader.held() } else { 0 };
        let waiting = if let Writer::Messages(writer) = &self.writer { writer.held() } else { 0 };
        if early + waiting > MAX_HELD { Err(TooMuchHeld) } else { Ok(()) }
    }

    /// The provider's stream has ended well: appends what is left to tell, and the end.
    pub fn end(&mut self, out: &mut BytesMut) {
        match &mut self.reader {
            Reader::Chat(reader) => reader.end(&mut self.events),
            Reader::Messages(reader) => reader.end(&mut self.events),
        }
        self.write(out);
    }

    fn write(&mut self, out: &mut BytesMut) {
        let mut sink = Sink { out, to: self.to, disclosure: &mut self.disclosure };
        for mut event in self.events.drain(..) {
            if let Event::Open { opening: Opening::ToolCall { name, .. }, .. } = &mut event {
                let original = self.names.original(name);
                if original != name {
                    *name = original.to_owned();
                }
            }
            match &mut self.writer {
                Writer::Chat(writer) => writer.write(&event, &mut sink),
                Writer::Messages(writer) => writer.write(event, &mut sink),
            }
        }
    }
}
