//! A stream of Responses as its meaning.

mod write;

use serde_json::value::RawValue;

use super::reply::{decode, stop};
use super::seal;
use crate::chat::Usage;
use crate::ir::{Block, Event, Opening, Piece};
use crate::json::{self, Members, lossy_word as word};

pub(crate) use write::EventWriter;

/// What runs in an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call { custom: bool },
    Reasoning,
    Refusal,
    Text,
}

/// A block that was begun.
#[derive(Debug)]
struct Open {
    /// The item that it belongs to, and the part of it.
    item: String,
    part: u64,
    kind: Kind,
    /// Its place in what is told.
    index: usize,
    /// It has content.
    told: bool,
    closed: bool,
}

/// No answer has more blocks than this.
const MAX_BLOCKS: usize = 4096;

/// Reads the events of one stream.
///
/// Items are told apart by their place in the output, and where a server leaves that out (llama.cpp) by their id; several
/// servers change the id from one event to the next.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    started: bool,
    blocks: Vec<Open>,
    called: bool,
    refused: bool,
    incomplete: Option<String>,
    usage: Option<Usage>,
    ended: bool,
}

impl EventReader {
    /// Reads the data of one event; what it cannot read says nothing.
    pub(crate) fn read(&mut self, name: Option<&[u8]>, data: &[u8], events: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        let Ok(mut event) = Members::of_body(data) else { return };
        let named = || std::str::from_utf8(name?).ok().map(str::to_owned);
        let Some(kind) = event.take("type").and_then(word).or_else(named) else { return };
        match kind.as_str() {
            "response.created" | "response.in_progress" => self.start(&mut event, events),
            "response.output_item.added" => self.added(&mut event, events),
            "response.output_item.done" => self.done(&mut event, events),
            "response.output_text.delta" => self.delta(&mut event, Kind::Text, events),
            "response.refusal.delta" => self.delta(&mut event, Kind::Refusal, events),
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                self.delta(&mut event, Kind::Reasoning, events);
            }
            "response.function_call_arguments.delta" => {
                self.delta(&mut event, Kind::Call { custom: false }, events);
            }
            "response.custom_tool_call_input.delta" => {
                self.delta(&mut event, Kind::Call { custom: true }, events);
            }
            "response.completed" => self.terminal(&mut event, false, events),
            "response.incomplete" => self.terminal(&mut event, true, events),
            // What runs at the provider, the ends of parts, and what is not known yet.
            _ => {}
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, events: &mut Vec<Event>) {
        if self.ended || !self.started {
            return;
        }
        self.ended = true;
        for open in self.blocks.iter_mut().filter(|open| !open.closed) {
            open.closed = true;
            events.push(Event::Close { index: open.index });
        }
        events.push(Event::Stop(stop(self.incomplete.as_deref(), self.called, self.refused)));
        events.extend(self.usage.map(Event::Usage));
        events.push(Event::End);
    }

    fn start(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let Ok(Some(mut response)) = event.take_object("response") else { return };
        let mut text = |name| response.take(name).and_then(word).unwrap_or_default();
        let (id, model) = (text("id"), text("model"));
        self.begin(id, model, events);
    }

    /// Some servers begin with the first item, or send nothing but the end.
    fn begin(&mut self, id: String, model: String, events: &mut Vec<Event>) {
        if !self.started {
            self.started = true;
            events.push(Event::Start { id, model });
        }
    }

    fn added(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let place = event.take("output_index").map(|raw| raw.get().to_owned());
        let Ok(Some(mut item)) = event.take_object("item") else { return };
        let key = place.or_else(|| item.take("id").and_then(word)).unwrap_or_default();
        let mut text = |name| item.take(name).and_then(word).unwrap_or_default();
        let custom = match text("type").as_str() {
            "function_call" => false,
            "custom_tool_call" => true,
            // Opened with their first content.
            _ => return,
        };
        let (id, name, namespace) = (text("call_id"), text("name"), text("namespace"));
        let first = text(if custom { "input" } else { "arguments" });
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        self.open(key, 0, Kind::Call { custom }, Opening::ToolCall { id, name, namespace, custom }, events);
        self.say(first, events);
    }

    /// Opens a block; the last one of the list is the one that speaks.
    fn open(&mut self, item: String, part: u64, kind: Kind, opening: Opening, events: &mut Vec<Event>) {
        if self.blocks.len() >= MAX_BLOCKS {
            return;
        }
        self.begin(String::new(), String::new(), events);
        // Parts of one item come one after the other.
        for before in self.blocks.iter_mut().filter(|open| open.item == item && !open.closed) {
            before.closed = true;
            events.push(Event::Close { index: before.index });
        }
        self.called |= matches!(kind, Kind::Call { .. });
        self.refused |= kind == Kind::Refusal;
        let index = self.blocks.len();
        self.blocks.push(Open { item, part, kind, index, told: false, closed: false });
        events.push(Event::Open { index, opening });
    }

    /// Adds to the block that was opened last.
    fn say(&mut self, text: String, events: &mut Vec<Event>) {
        if let Some(last) = self.blocks.last_mut() {
            say(last, text, events);
        }
    }

    fn delta(&mut self, event: &mut Members<'_>, kind: Kind, events: &mut Vec<Event>) {
        let Some(text) = event.take("delta").and_then(word) else { return };
        let (item, part) = (key(event), part(event));
        if let Some(open) = self.find(&item, part, kind) {
            let apart = kind == Kind::Reasoning && std::mem::replace(&mut open.part, part) != part;
            return say(open, if apart { format!("\n\n{text}") } else { text }, events);
        }
        let opening = match kind {
            // A call without its beginning has no name.
            Kind::Call { .. } => return,
            Kind::Reasoning => Opening::Reasoning,
            Kind::Refusal => Opening::Refusal,
            Kind::Text => Opening::Text,
        };
        self.open(item, part, kind, opening, events);
        self.say(text, events);
    }

    /// The open block of this part. Thoughts are one block for all their parts, with an empty line between them.
    fn find(&mut self, item: &str, part: u64, kind: Kind) -> Option<&mut Open> {
        self.blocks.iter_mut().find(|open| {
            open.item == item
                && !open.closed
                && match (open.kind, kind) {
                    (Kind::Call { .. }, Kind::Call { .. }) | (Kind::Reasoning, Kind::Reasoning) => true,
                    (one, other) => one == other && open.part == part,
                }
        })
    }

    /// An item is whole: what was not told piece by piece is told now.
    fn done(&mut self, event: &mut Members<'_>, events: &mut Vec<Event>) {
        let place = event.take("output_index").map(|raw| raw.get().to_owned());
        if let Some(raw) = event.take("item") {
            self.item(raw, place, events);
        }
    }

    fn item(&mut self, raw: &RawValue, place: Option<String>, events: &mut Vec<Event>) {
        let Ok(mut item) = Members::of(raw, "") else { return };
        let id = item.take("id").and_then(word).unwrap_or_default();
        let key = place.unwrap_or_else(|| id.clone());
        match item.take("type").and_then(word).as_deref() {
            Some("function_call") => self.call_done(&key, &mut item, false, events),
            Some("custom_tool_call") => self.call_done(&key, &mut item, true, events),
            Some("reasoning") => self.thoughts_done(&key, &id, &mut item, events),
            Some("message") if !self.blocks.iter().any(|open| open.item == key) => {
                self.whole(raw, &key, events);
            }
            _ => {}
        }
        for open in self.blocks.iter_mut().filter(|open| open.item == key && !open.closed) {
            open.closed = true;
            events.push(Event::Close { index: open.index });
        }
    }

    fn call_done(&mut self, key: &str, item: &mut Members<'_>, custom: bool, events: &mut Vec<Event>) {
        let mut text = |name| item.take(name).and_then(word).unwrap_or_default();
        let whole = text(if custom { "input" } else { "arguments" });
        let known = self.blocks.iter().any(|open| open.item == key);
        match self.find(key, 0, Kind::Call { custom }) {
            Some(open) if !open.told => say(open, whole, events),
            Some(_) => {}
            None if known => {}
            None => {
                let (id, name, namespace) = (text("call_id"), text("name"), text("namespace"));
                let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
                let opening = Opening::ToolCall { id, name, namespace, custom };
                self.open(key.to_owned(), 0, Kind::Call { custom }, opening, events);
                self.say(whole, events);
            }
        }
    }

    /// Thoughts have their seal at their end alone.
    fn thoughts_done(&mut self, key: &str, id: &str, item: &mut Members<'_>, events: &mut Vec<Event>) {
        let sealed = item.take("encrypted_content").and_then(word);
        if self.find(key, 0, Kind::Reasoning).is_none() {
            let mut whole = item.take("summary").and_then(json::list).unwrap_or_default();
            whole.extend(item.take("content").and_then(json::list).unwrap_or_default());
            let texts: Vec<String> = whole
                .into_iter()
                .filter_map(|raw| Members::of(raw, "").ok()?.take("text").and_then(word))
                .collect();
            if texts.is_empty() && sealed.is_none() {
                return;
            }
            self.open(key.to_owned(), 0, Kind::Reasoning, Opening::Reasoning, events);
            self.say(texts.join("\n\n"), events);
        }
        if let (Some(sealed), Some(open)) = (sealed, self.find(key, 0, Kind::Reasoning)) {
            let piece = Piece::Signature(seal::join(id, &sealed));
            events.push(Event::Delta { index: open.index, piece });
        }
    }

    /// A message of which no piece came.
    fn whole(&mut self, raw: &RawValue, key: &str, events: &mut Vec<Event>) {
        let body = format!("{{\"output\":[{}]}}", raw.get());
        let Ok(answer) = decode(body.as_bytes()) else { return };
        for (part, block) in (0..).zip(answer.blocks) {
            let (kind, opening, text) = match block {
                Block::Text { text, .. } => (Kind::Text, Opening::Text, text),
                Block::Refusal(text) => (Kind::Refusal, Opening::Refusal, text),
                _ => continue,
            };
            self.open(key.to_owned(), part, kind, opening, events);
            self.say(text.into_owned(), events);
        }
    }

    fn terminal(&mut self, event: &mut Members<'_>, incomplete: bool, events: &mut Vec<Event>) {
        let Ok(Some(mut response)) = event.take_object("response") else { return self.end(events) };
        self.usage = response.take("usage").and_then(|usage| Usage::parse(usage.get())).or(self.usage);
        let mut text = |name| response.take(name).and_then(word);
        let (id, model, status) = (text("id"), text("model"), text("status"));
        self.begin(id.unwrap_or_default(), model.unwrap_or_default(), events);
        if let Ok(Some(mut details)) = response.take_object("incomplete_details") {
            self.incomplete = details.take("reason").and_then(word);
        }
        if incomplete || status.as_deref() == Some("incomplete") {
            // Why is not said: it was cut off all the same.
            self.incomplete.get_or_insert_with(|| "max_output_tokens".to_owned());
        }
        if self.blocks.is_empty() {
            let output = response.take("output").and_then(json::list).unwrap_or_default();
            for (place, raw) in output.into_iter().enumerate() {
                self.item(raw, Some(place.to_string()), events);
            }
        }
        self.end(events);
    }
}

fn say(open: &mut Open, text: String, events: &mut Vec<Event>) {
    if text.is_empty() {
        return;
    }
    open.told = true;
    let piece = match open.kind {
        Kind::Call { .. } => Piece::Arguments(text),
        Kind::Reasoning => Piece::Reasoning(text),
        Kind::Refusal | Kind::Text => Piece::Text(text),
    };
    events.push(Event::Delta { index: open.index, piece });
}

/// What tells an item from others.
fn key(event: &mut Members<'_>) -> String {
    let place = event.take("output_index").map(|raw| raw.get().to_owned());
    place.or_else(|| event.take("item_id").and_then(word)).unwrap_or_default()
}

fn part(event: &mut Members<'_>) -> u64 {
    let place = event.take("content_index").or_else(|| event.take("summary_index"));
    place.and_then(|raw| raw.get().parse().ok()).unwrap_or(0)
}
