//! A stream of Converse as its meaning.

use super::REDACTED;
use super::reply::stop;
use super::usage::usage;
use crate::chat::{Usage, call_id};
use crate::ir::{Event, Opening, Piece, Stop};
use crate::json::{Members, lossy_word as word};

/// Reads the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    started: bool,
    called: bool,
    usage: Option<Usage>,
    /// The open blocks: their index in the stream, and in what is told of it.
    open: Vec<(u64, usize)>,
    blocks: usize,
    stop: Option<Stop>,
    ended: bool,
}

/// No more blocks than this are open at a time; in practice it is one.
const MAX_OPEN: usize = 64;

impl EventReader {
    /// Reads one event; what it cannot read says nothing.
    pub(crate) fn read(&mut self, name: Option<&[u8]>, data: &[u8], events: &mut Vec<Event>) {
        let Ok(mut event) = Members::of_body(data) else { return };
        if self.ended {
            return;
        }
        // Without its start nothing of a message can be read.
        match name {
            Some(b"messageStart") if !self.started => {
                self.started = true;
                events.push(Event::Start { id: String::new(), model: String::new() });
            }
            _ if !self.started => {}
            Some(b"contentBlockStart") => self.start(&mut event, events),
            Some(b"contentBlockDelta") => self.delta(&mut event, events),
            Some(b"contentBlockStop") => {
                let key = index(&mut event);
                if let Some(at) = self.open.iter().position(|(open, _)| *open == key) {
                    let (_, index) = self.open.remove(at);
                    events.push(Event::Close { index });
                }
            }
            Some(b"messageStop") if self.stop.is_none() => {
                let reason = event.take("stopReason").and_then(word).unwrap_or_default();
                self.stop = Some(stop(&reason));
            }
            // It is the last one.
            Some(b"metadata") => {
                self.usage = event.take("usage").and_then(|json| usage(json.get())).or(self.usage);
                if self.stop.is_some() {
                    self.end(events);
                }
            }
            _ => {}
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, events: &mut Vec<Event>) {
        if self.ended || !self.started {
            return;
        }
        self.ended = true;
        events.extend(self.open.drain(..).map(|(_, index)| Event::Close { index }));
        let called = if self.called { Stop::ToolCalls } else { Stop::End };
        events.push(Event::Stop(self.stop.take().unwrap_or(called)));
        events.extend(self.usage.map(Event::Usage));
        events.push(Event::End);
    }

    /// Only calls have a start that says something.
    fn start(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let key = index(event);
        let Ok(Some(mut start)) = event.take_object("start") else { return };
        let Ok(Some(mut call)) = start.take_object("toolUse") else { return };
        let mut text = |name| call.take(name).and_then(word);
        let id = text("toolUseId").unwrap_or_else(|| call_id("", self.blocks));
        let name = text("name").unwrap_or_default();
        self.called = true;
        let opening = Opening::ToolCall { id, name, namespace: None, custom: false };
        self.open(key, opening, events);
    }

    fn delta(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let key = index(event);
        let Ok(Some(mut delta)) = event.take_object("delta") else { return };
        let text = delta.take("text").and_then(word).map(Piece::Text);
        self.say(key, Some(&Opening::Text), text, events);
        if let Ok(Some(mut thoughts)) = delta.take_object("reasoningContent") {
            let mut text = |name| thoughts.take(name).and_then(word);
            let thought = text("text").map(Piece::Reasoning);
            let redacted = text("redactedContent").map(|data| format!("{REDACTED}{data}"));
            let seal = text("signature").or(redacted).map(Piece::Signature);
            for piece in [thought, seal] {
                self.say(key, Some(&Opening::Reasoning), piece, events);
            }
        }
        if let Ok(Some(mut call)) = delta.take_object("toolUse") {
            let input = call.take("input").and_then(word).map(Piece::Arguments);
            self.say(key, None, input, events);
        }
    }

    /// A block of text or thoughts begins with its first piece.
    fn say(&mut self, key: u64, opening: Option<&Opening>, piece: Option<Piece>, events: &mut Vec<Event>) {
        let Some(piece) = piece else { return };
        let open = self.open.iter().find(|(open, _)| *open == key).map(|(_, index)| *index);
        let index = open.or_else(|| self.open(key, opening?.clone(), events));
        events.extend(index.map(|index| Event::Delta { index, piece }));
    }

    fn open(&mut self, key: u64, opening: Opening, events: &mut Vec<Event>) -> Option<usize> {
        if self.open.len() >= MAX_OPEN || self.open.iter().any(|(open, _)| *open == key) {
            return None;
        }
        let index = self.blocks;
        self.blocks += 1;
        self.open.push((key, index));
        events.push(Event::Open { index, opening });
        Some(index)
    }
}

fn index(event: &mut Members<'_>) -> u64 {
    event.take("contentBlockIndex").and_then(|raw| raw.get().parse().ok()).unwrap_or(0)
}
