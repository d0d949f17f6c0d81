//! A meaning as a stream of Messages (Anthropic API, "Streaming messages").

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::super::reply::{OutUsage, message_id, reason};
use crate::chat::Usage;
use crate::ir::{Event, Opening, Piece, Stop};
use crate::translate::Sink;

/// Writes the events of one stream. Blocks come one after the other here: what belongs to a block while another is open waits
/// until that one is closed.
#[derive(Debug, Default)]
pub(crate) struct EventWriter {
    /// Of each block that was begun: its index in what is written.
    written: BTreeMap<usize, usize>,
    current: Option<usize>,
    waiting: VecDeque<Event>,
    /// How much text waits, in bytes.
    held: usize,
    stop: Option<Stop>,
    usage: Option<Usage>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Out<'a> {
    MessageStart { message: Message<'a> },
    ContentBlockStart { index: usize, content_block: Block<'a> },
    ContentBlockDelta { index: usize, delta: Delta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: End<'a>, usage: OutUsage },
    MessageStop,
}

impl Out<'_> {
    fn name(&self) -> &'static [u8] {
        match self {
            Self::MessageStart { .. } => b"message_start",
            Self::ContentBlockStart { .. } => b"content_block_start",
            Self::ContentBlockDelta { .. } => b"content_block_delta",
            Self::ContentBlockStop { .. } => b"content_block_stop",
            Self::MessageDelta { .. } => b"message_delta",
            Self::MessageStop => b"message_stop",
        }
    }
}

#[derive(Serialize)]
struct Message<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: [(); 0],
    stop_reason: Option<()>,
    stop_sequence: Option<()>,
    usage: OutUsage,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text { text: &'static str },
    Thinking { thinking: &'static str, signature: &'static str },
    ToolUse { id: &'a str, name: &'a str, input: Empty },
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'a> {
    #[serde(rename = "input_json_delta")]
    Input { partial_json: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
}

#[derive(Serialize)]
struct End<'a> {
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
}

impl EventWriter {
    /// Appends what this event says.
    pub(crate) fn write(&mut self, event: Event, out: &mut Sink<'_>) {
        if self.must_wait(&event) {
            self.held += size(&event);
            self.waiting.push_back(event);
            return;
        }
        self.tell(&event, out);
        if matches!(event, Event::Close { .. }) {
            // What waited may go on, until it too must wait.
            self.held = 0;
            for event in std::mem::take(&mut self.waiting) {
                self.write(event, out);
            }
        }
    }

    /// How much text waits, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    fn must_wait(&self, event: &Event) -> bool {
        let (Some(current), Event::Open { index, .. } | Event::Delta { index, .. } | Event::Close { index }) =
            (self.current, event)
        else {
            return false;
        };
        current != *index
    }

    fn tell(&mut self, event: &Event, out: &mut Sink<'_>) {
        match event {
            Event::Start { id, model } => send(
                &Out::MessageStart {
                    message: Message {
                        id: message_id(id),
                        kind: "message",
                        role: "assistant",
                        model,
                        content: [],
                        stop_reason: None,
                        stop_sequence: None,
                        usage: OutUsage::default(),
                    },
                },
                out,
            ),
            Event::Open { index, opening } => self.open(*index, opening, out),
            Event::Delta { index, piece } => self.delta(*index, piece, out),
            Event::Close { index } => {
                if let Some(index) = self.written.get(index).copied() {
                    send(&Out::ContentBlockStop { index }, out);
                }
                self.current = None;
            }
            Event::Stop(stop) => self.stop = Some(stop.clone()),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::End => self.end(out),
        }
    }

    fn open(&mut self, index: usize, opening: &Opening, out: &mut Sink<'_>) {
        let place = self.written.len();
        self.written.insert(index, place);
        self.current = Some(index);
        let content_block = match opening {
            Opening::Text | Opening::Refusal => Block::Text { text: "" },
            Opening::Reasoning => Block::Thinking { thinking: "", signature: "" },
            Opening::ToolCall { id, name, .. } => Block::ToolUse { id, name, input: Empty {} },
        };
        send(&Out::ContentBlockStart { index: place, content_block }, out);
    }

    fn delta(&self, index: usize, piece: &Piece, out: &mut Sink<'_>) {
        let Some(index) = self.written.get(&index).copied() else { return };
        let delta = match piece {
            Piece::Text(text) => Delta::Text { text },
            Piece::Reasoning(thinking) => Delta::Thinking { thinking },
            Piece::Arguments(partial_json) => Delta::Input { partial_json },
            Piece::Signature(signature) => Delta::Signature { signature },
        };
        send(&Out::ContentBlockDelta { index, delta }, out);
    }

    fn end(&mut self, out: &mut Sink<'_>) {
        let stop = self.stop.take().unwrap_or(Stop::End);
        let (stop_reason, stop_sequence) = reason(&stop);
        let usage = self.usage.map(OutUsage::from).unwrap_or_default();
        send(&Out::MessageDelta { delta: End { stop_reason, stop_sequence }, usage }, out);
        send(&Out::MessageStop, out);
    }
}

fn size(event: &Event) -> usize {
    let text = match event {
        Event::Delta {
            piece:
                Piece::Arguments(text) | Piece::Reasoning(text) | Piece::Signature(text) | Piece::Text(text),
            ..
        } => text.len(),
        _ => 0,
    };
    text + size_of::<Event>()
}

fn send(event: &Out<'_>, out: &mut Sink<'_>) {
    // Texts and numbers are always JSON.
    if let Ok(json) = serde_json::to_vec(event) {
        out.event(Some(event.name()), &json);
    }
}
