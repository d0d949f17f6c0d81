//! A stream of Messages as its meaning.

mod write;

use serde_json::value::RawValue;

use super::reply::stop;
use super::usage::Counts;
use crate::chat::call_id;
use crate::ir::{Event, Opening, Piece, Stop};
use crate::json::{Members, lossy_word as word};

pub(crate) use write::EventWriter;

/// Reads the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    started: bool,
    /// The provider's id of the message.
    id: String,
    called: bool,
    counts: Counts,
    /// The open blocks: their index in the stream, and in what is told of it. Blocks that cannot be told have none.
    open: Vec<(u64, Option<usize>)>,
    blocks: usize,
    stopped: bool,
    ended: bool,
}

/// No more blocks than this are open at a time; by the specification it is one.
const MAX_OPEN: usize = 64;

impl EventReader {
    /// Reads the data of one event; what it cannot read says nothing.
    pub(crate) fn read(&mut self, name: Option<&[u8]>, data: &[u8], events: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        let Ok(mut event) = Members::of_body(data) else { return };
        // Some servers leave the type to the event's name.
        let named = || std::str::from_utf8(name?).ok().map(str::to_owned);
        let kind = event.take("type").and_then(word).or_else(named);
        // Without its start nothing of a message can be read.
        if !self.started && kind.as_deref() != Some("message_start") {
            return;
        }
        match kind.as_deref() {
            Some("message_start") => self.start(&mut event, events),
            Some("content_block_start") => self.open(&mut event, events),
            Some("content_block_delta") => self.delta(&mut event, events),
            Some("content_block_stop") => self.close(&mut event, events),
            Some("message_delta") => self.message_delta(&mut event, events),
            Some("message_stop") => self.end(events),
            // A ping, or what is not known yet.
            _ => {}
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, events: &mut Vec<Event>) {
        if self.ended || !self.started {
            return;
        }
        self.ended = true;
        self.close_all(events);
        if !self.stopped {
            events.push(Event::Stop(if self.called { Stop::ToolCalls } else { Stop::End }));
        }
        events.extend(self.counts.usage().map(Event::Usage));
        events.push(Event::End);
    }

    fn start(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let Ok(Some(mut message)) = event.take_object("message") else { return };
        if self.started {
            return;
        }
        self.started = true;
        self.count(&mut message);
        let mut text = |name| message.take(name).and_then(word).unwrap_or_default();
        let (id, model) = (text("id"), text("model"));
        self.id.clone_from(&id);
        events.push(Event::Start { id, model });
    }

    fn open(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let key = index(event);
        let Ok(Some(mut block)) = event.take_object("content_block") else { return };
        if self.open.len() >= MAX_OPEN {
            return;
        }
        let mut text = |name| block.take(name).and_then(word).unwrap_or_default();
        let (opening, first) = match text("type").as_str() {
            "text" => (Opening::Text, some(text("text"), Piece::Text)),
            "thinking" => (Opening::Reasoning, some(text("thinking"), Piece::Reasoning)),
            "tool_use" => {
                let (id, name) = (text("id"), text("name"));
                let id = if id.is_empty() { call_id(&self.id, self.blocks) } else { id };
                let input = block.take("input").map(RawValue::get).filter(|json| *json != "{}");
                (
                    Opening::ToolCall { id, name, namespace: None, custom: false },
                    input.map(|json| Piece::Arguments(json.to_owned())),
                )
            }
            // Tools of the provider and their results, thoughts that only it can read.
            _ => return self.open.push((key, None)),
        };
        self.called |= matches!(opening, Opening::ToolCall { .. });
        let place = self.blocks;
        self.blocks += 1;
        self.open.push((key, Some(place)));
        events.push(Event::Open { index: place, opening });
        events.extend(first.map(|piece| Event::Delta { index: place, piece }));
    }

    fn delta(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let key = index(event);
        let Some(index) = self.open.iter().find(|(open, _)| *open == key).and_then(|(_, place)| *place)
        else {
            return;
        };
        let Ok(Some(mut delta)) = event.take_object("delta") else { return };
        let mut text = |name| delta.take(name).and_then(word).unwrap_or_default();
        let piece = match text("type").as_str() {
            "text_delta" => some(text("text"), Piece::Text),
            "thinking_delta" => some(text("thinking"), Piece::Reasoning),
            "input_json_delta" => some(text("partial_json"), Piece::Arguments),
            "signature_delta" => some(text("signature"), Piece::Signature),
            // Citations say where a text comes from; the text stays what it is.
            _ => None,
        };
        events.extend(piece.map(|piece| Event::Delta { index, piece }));
    }

    fn close(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let key = index(event);
        if let Some(at) = self.open.iter().position(|(open, _)| *open == key) {
            let (_, place) = self.open.remove(at);
            events.extend(place.map(|index| Event::Close { index }));
        }
    }

    fn message_delta(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        self.count(event);
        let Ok(Some(mut delta)) = event.take_object("delta") else { return };
        let mut text = |name| delta.take(name).and_then(word);
        if let Some(reason) = text("stop_reason")
            && !self.stopped
        {
            self.stopped = true;
            let sequence = text("stop_sequence");
            self.close_all(events);
            events.push(Event::Stop(stop(&reason, sequence)));
        }
    }

    fn close_all(&mut self, events: &mut Vec<Event>) {
        events.extend(self.open.drain(..).filter_map(|(_, place)| Some(Event::Close { index: place? })));
    }

    fn count(&mut self, of: &mut Members<'_>) {
        if let Some(usage) = of.take("usage") {
            self.counts.take(usage.get());
        }
    }
}

fn index(event: &mut Members<'_>) -> u64 {
    event.take("index").and_then(|raw| raw.get().parse().ok()).unwrap_or(0)
}

fn some(text: String, piece: fn(String) -> Piece) -> Option<Piece> {
    (!text.is_empty()).then(|| piece(text))
}
