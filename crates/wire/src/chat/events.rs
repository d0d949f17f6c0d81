//! A stream of Chat Completions as its meaning.

mod complete;
mod write;

use serde_json::value::RawValue;

use super::Usage;
use super::reply::stop;
use crate::ir::{Event, Opening, Piece, Stop};
use crate::json::{self, Members, lossy_word as word};
use crate::translate::fingerprint;

use complete::Arguments;
pub(crate) use write::EventWriter;

/// No answer calls more tools than this.
const MAX_CALLS: usize = 256;

/// A tool call that is coming in. Fragments belong together by their index alone.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    /// It is of a tool that takes any text.
    custom: bool,
    /// Its block, once it is open: an id may come before the name.
    block: Option<usize>,
    /// What came before the block was open.
    early: String,
    arguments: Arguments,
    closed: bool,
}

/// What runs on from one event to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Running {
    Reasoning,
    Refusal,
    Text,
}

/// Reads the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    started: bool,
    /// The provider's id of the answer.
    id: String,
    blocks: usize,
    /// The open block of text, reasoning or refusal.
    open: Option<(usize, Running)>,
    calls: Vec<Call>,
    refused: bool,
    stopped: bool,
    usage: Option<Usage>,
    ended: bool,
}

impl EventReader {
    /// Reads the data of one event; what it cannot read says nothing.
    pub(crate) fn read(&mut self, data: &[u8], events: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        if data.trim_ascii() == b"[DONE]" {
            return self.end(events);
        }
        let Ok(mut chunk) = Members::of_body(data) else { return };
        let usage = chunk.take("usage").or_else(|| {
            let mut groq = chunk.take_object("x_groq").ok().flatten()?;
            groq.take("usage")
        });
        self.usage = usage.and_then(|usage| Usage::parse(usage.get())).or(self.usage);
        let choices = chunk.take("choices").and_then(json::list).unwrap_or_default();
        let first = choices.into_iter().filter_map(|raw| Members::of(raw, "").ok()).find_map(first);
        let Some(mut choice) = first else { return };
        self.start(&mut chunk, events);
        if let Ok(Some(mut delta)) = choice.take_object("delta") {
            self.delta(&mut delta, events);
        }
        if let Some(reason) = choice.take("finish_reason").and_then(word)
            && !self.stopped
        {
            self.stopped = true;
            self.close_all(events);
            events.push(Event::Stop(self.stop(&reason)));
        }
    }

    /// How much came of calls that have no name yet, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.calls.iter().map(|call| call.early.len()).sum()
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, events: &mut Vec<Event>) {
        if self.ended || !self.started {
            return;
        }
        self.ended = true;
        self.close_all(events);
        if !self.stopped {
            events.push(Event::Stop(self.stop("")));
        }
        events.extend(self.usage.map(Event::Usage));
        events.push(Event::End);
    }

    /// Why it ended. A call that never got a name was none.
    fn stop(&self, reason: &str) -> Stop {
        stop(reason, self.calls.iter().any(|call| call.block.is_some()), self.refused)
    }

    fn start(&mut self, chunk: &mut Members<'_>, events: &mut Vec<Event>) {
        if !self.started {
            self.started = true;
            let mut text = |name| chunk.take(name).and_then(word).unwrap_or_default();
            let (id, model) = (text("id"), text("model"));
            self.id.clone_from(&id);
            events.push(Event::Start { id, model });
        }
    }

    fn delta(&mut self, delta: &mut Members<'_>, events: &mut Vec<Event>) {
        let thoughts = delta.take("reasoning_content").or_else(|| delta.take("reasoning"));
        if let Some(text) = thoughts.and_then(word) {
            self.say(Running::Reasoning, text, events);
        }
        let refusal = delta.take("refusal").and_then(word);
        self.refused |= refusal.is_some();
        let mut said = Vec::new();
        if let Some(content) = delta.take("content") {
            texts(content, &mut said);
        }
        for (reasoning, text) in said {
            self.say(if reasoning { Running::Reasoning } else { Running::Text }, text, events);
        }
        if let Some(text) = refusal {
            self.say(Running::Refusal, text, events);
        }
        let calls = delta.take("tool_calls").and_then(json::list).unwrap_or_default();
        for call in calls.into_iter().filter_map(|raw| Members::of(raw, "").ok()) {
            self.call(call, events);
        }
    }

    /// Adds to the block of this kind, which is opened if it is not.
    fn say(&mut self, kind: Running, text: String, events: &mut Vec<Event>) {
        let index = match self.open {
            Some((index, open)) if open == kind => index,
            _ => {
                self.close_running(events);
                let opening = match kind {
                    Running::Reasoning => Opening::Reasoning,
                    Running::Refusal => Opening::Refusal,
                    Running::Text => Opening::Text,
                };
                let index = self.open_block(opening, events);
                self.open = Some((index, kind));
                index
            }
        };
        let piece = if kind == Running::Reasoning { Piece::Reasoning(text) } else { Piece::Text(text) };
        events.push(Event::Delta { index, piece });
    }

    fn open_block(&mut self, opening: Opening, events: &mut Vec<Event>) -> usize {
        let index = self.blocks;
        self.blocks += 1;
        events.push(Event::Open { index, opening });
        index
    }

    fn close_running(&mut self, events: &mut Vec<Event>) {
        events.extend(self.open.take().map(|(index, _)| Event::Close { index }));
    }

    fn call(&mut self, mut fragment: Members<'_>, events: &mut Vec<Event>) {
        let index = fragment.take("index").and_then(|raw| raw.get().parse().ok());
        let id = fragment.take("id").and_then(word);
        let custom = fragment.take_object("custom").ok().flatten();
        let is_custom = custom.is_some();
        let function = fragment.take_object("function").ok().flatten();
        let mut function = custom.or(function).unwrap_or_default();
        let name = function.take("name").and_then(word);
        let arguments = function.take("arguments").or_else(|| function.take("input")).map(|raw| {
            // Some servers write the object itself.
            json::text(raw.get().as_bytes())
                .map_or_else(|| raw.get().to_owned(), std::borrow::Cow::into_owned)
        });
        let Some(at) = self.place_of(index, id.as_deref(), name.as_deref()) else { return };
        self.close_running(events);
        self.close_complete_calls(at, events);
        let blocks = &mut self.blocks;
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.id.is_empty() {
            call.id = id.unwrap_or_default();
        }
        if call.name.is_empty() {
            call.name = name.unwrap_or_default();
        }
        call.custom |= is_custom;
        let arguments = arguments.unwrap_or_default();
        if !call.custom {
            call.arguments.push(&arguments);
        }
        call.early.push_str(&arguments);
        // What the answer ended without was no call, whatever is said of it afterwards.
        if call.block.is_none() && !call.name.is_empty() && !call.closed {
            let index = *blocks;
            *blocks += 1;
            let id = if call.id.is_empty() { call_id(&self.id, at) } else { call.id.clone() };
            let (name, custom) = (call.name.clone(), call.custom);
            let opening = Opening::ToolCall { id, name, namespace: None, custom };
            events.push(Event::Open { index, opening });
            call.block = Some(index);
        }
        if let Some(index) = call.block
            && !call.early.is_empty()
            && !call.closed
        {
            events.push(Event::Delta { index, piece: Piece::Arguments(std::mem::take(&mut call.early)) });
        }
    }

    /// Which call a fragment belongs to. By the specification only the index says so. Where it is missing, a new id or a further
    /// name begins a call; and another id with a name begins one even at an index that is taken, since some servers send all
    /// calls, whole, at the same one.
    fn place_of(&mut self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let known = match (index, id) {
            (Some(index), _) => self.calls.iter().rposition(|call| call.index == Some(index)),
            (None, Some(id)) => self.calls.iter().rposition(|call| call.id == id),
            (None, None) if name.is_none() => self.calls.len().checked_sub(1),
            (None, None) => None,
        };
        let another = |at: &usize| {
            self.calls.get(*at).is_some_and(|call| {
                let other_id = id.is_some_and(|id| !call.id.is_empty() && call.id != id);
                other_id && name.is_some() && !call.name.is_empty()
            })
        };
        if let Some(at) = known.filter(|at| !another(at)) {
            return Some(at);
        }
        if self.calls.len() >= MAX_CALLS {
            return None;
        }
        self.calls.push(Call { index, ..Call::default() });
        Some(self.calls.len() - 1)
    }

    /// Calls may come interleaved. One whose arguments are whole is over as soon as another goes on, so that whoever needs
    /// one block after the other need not wait for the end.
    fn close_complete_calls(&mut self, except: usize, events: &mut Vec<Event>) {
        for (place, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| !call.closed) {
            if place != except
                && call.arguments.are_whole()
                && let Some(index) = call.block
            {
                call.closed = true;
                events.push(Event::Close { index });
            }
        }
    }

    fn close_all(&mut self, events: &mut Vec<Event>) {
        self.close_running(events);
        for call in self.calls.iter_mut().filter(|call| !call.closed) {
            call.closed = true;
            events.extend(call.block.map(|index| Event::Close { index }));
        }
    }
}

/// Of several choices the first is the answer.
fn first(mut choice: Members<'_>) -> Option<Members<'_>> {
    let index = choice.take("index").and_then(|raw| raw.get().parse::<u64>().ok()).unwrap_or(0);
    (index == 0).then_some(choice)
}

/// The texts of a content, and whether each is reasoning: a text, or a list of parts (Mistral's `thinking` parts hold a list
/// of their own).
pub(super) fn texts(raw: &RawValue, said: &mut Vec<(bool, String)>) {
    if let Some(text) = word(raw) {
        said.push((false, text));
        return;
    }
    for mut part in
        json::list(raw).unwrap_or_default().into_iter().filter_map(|raw| Members::of(raw, "").ok())
    {
        said.extend(part.take("text").and_then(word).map(|text| (false, text)));
        if let Some(thoughts) = part.take("thinking") {
            let mut inside = Vec::new();
            texts_of_thoughts(thoughts, &mut inside);
            said.extend(inside.into_iter().map(|text| (true, text)));
        }
    }
}

fn texts_of_thoughts(raw: &RawValue, said: &mut Vec<String>) {
    said.extend(word(raw));
    let parts = json::list(raw).unwrap_or_default();
    let parts = parts.into_iter().filter_map(|raw| Members::of(raw, "").ok());
    said.extend(parts.filter_map(|mut part| part.take("text").and_then(word)));
}

/// An id for a call to which the provider gave none: of this answer and this place, since a conversation holds many.
pub(crate) fn call_id(answer: &str, place: usize) -> String {
    format!("call_{:016x}_{place}", fingerprint(answer))
}
