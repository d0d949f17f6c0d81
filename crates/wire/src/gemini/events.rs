//! A stream of generateContent as its meaning.

mod write;

use serde_json::value::RawValue;

use super::finish::stop;
use super::usage::Counts;
use crate::chat::call_id;
use crate::ir::{Event, Opening, Piece, Stop};
use crate::json::{self, Members, lossy_word as word};

pub(crate) use write::EventWriter;

/// Reads the chunks of one stream.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    started: bool,
    /// The provider's id of the answer.
    id: String,
    blocks: usize,
    /// The open block, and whether it is reasoning.
    open: Option<(usize, bool)>,
    called: bool,
    stop: Option<Stop>,
    counts: Counts,
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
        if let Some(usage) = chunk.take("usageMetadata") {
            self.counts.take(usage.get());
        }
        let blocked = chunk.take_object("promptFeedback").ok().flatten();
        let blocked = blocked.and_then(|mut feedback| feedback.take("blockReason").and_then(word)).is_some();
        let candidates = chunk.take("candidates").and_then(json::list).unwrap_or_default();
        let first = candidates.into_iter().filter_map(|raw| Members::of(raw, "").ok()).find_map(first);
        if first.is_none() && !blocked {
            return;
        }
        self.start(&mut chunk, events);
        if let Some(mut candidate) = first {
            self.candidate(&mut candidate, events);
        }
        if blocked {
            self.stop.get_or_insert(Stop::Refusal);
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, events: &mut Vec<Event>) {
        if self.ended || !self.started {
            return;
        }
        self.ended = true;
        self.close(events);
        // Whether tools are called is known only now: the end may come before the last call.
        let ended = match self.stop.take() {
            None | Some(Stop::End) if self.called => Stop::ToolCalls,
            stop => stop.unwrap_or(Stop::End),
        };
        events.push(Event::Stop(ended));
        events.extend(self.counts.usage().map(Event::Usage));
        events.push(Event::End);
    }

    fn start(&mut self, chunk: &mut Members<'_>, events: &mut Vec<Event>) {
        if !self.started {
            self.started = true;
            let mut text = |name| chunk.take(name).and_then(word).unwrap_or_default();
            let (id, model) = (text("responseId"), text("modelVersion"));
            self.id.clone_from(&id);
            events.push(Event::Start { id, model });
        }
    }

    fn candidate(&mut self, candidate: &mut Members<'_>, events: &mut Vec<Event>) {
        if let Ok(Some(mut content)) = candidate.take_object("content") {
            let parts = content.take("parts").and_then(json::list).unwrap_or_default();
            for part in parts.into_iter().filter_map(|raw| Members::of(raw, "").ok()) {
                self.part(part, events);
            }
        }
        if let Some(reason) = candidate.take("finishReason").and_then(word)
            && self.stop.is_none()
        {
            self.stop = Some(stop(&reason, false));
        }
    }

    fn part(&mut self, mut part: Members<'_>, events: &mut Vec<Event>) {
        let seal = part.take("thoughtSignature").and_then(word);
        let thought = part.take("thought").is_some_and(|flag| flag.get() == "true");
        let text = part.take("text").and_then(word);
        if thought {
            if let Some(text) = text {
                self.say(true, text, events);
            }
            if let Some(seal) = seal {
                let index = self.running(true, events);
                events.push(Event::Delta { index, piece: Piece::Signature(seal) });
                self.close(events);
            }
            return;
        }
        if let Some(seal) = seal {
            self.close(events);
            let index = self.running(true, events);
            events.push(Event::Delta { index, piece: Piece::Signature(seal) });
            self.close(events);
        }
        if let Some(text) = text {
            self.say(false, text, events);
        }
        // Code that the provider ran and its own tools' calls have no place elsewhere.
        if let Ok(Some(call)) = part.take_object("functionCall") {
            self.call(call, events);
        }
    }

    fn say(&mut self, reasoning: bool, text: String, events: &mut Vec<Event>) {
        let index = self.running(reasoning, events);
        let piece = if reasoning { Piece::Reasoning(text) } else { Piece::Text(text) };
        events.push(Event::Delta { index, piece });
    }

    fn call(&mut self, mut call: Members<'_>, events: &mut Vec<Event>) {
        let Some(name) = call.take("name").and_then(word) else { return };
        self.close(events);
        self.called = true;
        let index = self.next();
        let id = call.take("id").and_then(word).unwrap_or_else(|| call_id(&self.id, index));
        events.push(Event::Open {
            index,
            opening: Opening::ToolCall { id, name, namespace: None, custom: false },
        });
        let arguments = call.take("args").map(RawValue::get).filter(|json| *json != "{}");
        let arguments = arguments.map(|json| Piece::Arguments(json.to_owned()));
        events.extend(arguments.map(|piece| Event::Delta { index, piece }));
        events.push(Event::Close { index });
    }

    /// The open block of text or reasoning, which is opened if it is not.
    fn running(&mut self, reasoning: bool, events: &mut Vec<Event>) -> usize {
        if let Some((index, kind)) = self.open
            && kind == reasoning
        {
            return index;
        }
        self.close(events);
        let index = self.next();
        let opening = if reasoning { Opening::Reasoning } else { Opening::Text };
        events.push(Event::Open { index, opening });
        self.open = Some((index, reasoning));
        index
    }

    fn next(&mut self) -> usize {
        let index = self.blocks;
        self.blocks += 1;
        index
    }

    fn close(&mut self, events: &mut Vec<Event>) {
        events.extend(self.open.take().map(|(index, _)| Event::Close { index }));
    }
}

/// Of several candidates the first is the answer.
fn first(mut candidate: Members<'_>) -> Option<Members<'_>> {
    let index = candidate.take("index").and_then(|raw| raw.get().parse::<u64>().ok()).unwrap_or(0);
    (index == 0).then_some(candidate)
}
