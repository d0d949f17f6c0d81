//! A meaning as a stream of Responses (OpenAI API reference, "Streaming events").
//!
//! Each block is an item. What official accumulators ask for holds: `response.created` first; an item's `added` before its
//! deltas; the text of a `done` is that of its deltas; the last event repeats every item. So the whole output is kept.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::value::RawValue;

use super::super::item::{Item, Part, owned_summary};
use super::super::object::{Echo, Items, Object, Status, item_id, response_id};
use super::super::reply::status;
use super::super::usage::OutUsage;
use crate::chat::Usage;
use crate::dialect::StreamFrame;
use crate::ir::{Event, Opening, Piece, Stop};
use crate::translate::{Back, Sink};

/// About what an item takes beside its text, in bytes.
const BLOCK_COST: usize = 1024;

/// What an open block has come to.
#[derive(Debug)]
enum Grown {
    Call { call_id: String, name: String, namespace: Option<String>, custom: bool, arguments: String },
    Reasoning { text: String, seal: Option<String> },
    Refusal { text: String },
    Text { text: String },
}

#[derive(Debug)]
struct Open {
    /// Its place in the output.
    place: usize,
    id: String,
    grown: Grown,
}

/// Writes the events of one stream.
#[derive(Debug)]
pub(crate) struct EventWriter {
    created_s: u64,
    echo: Echo,
    id: String,
    model: String,
    sequence: u64,
    open: BTreeMap<usize, Open>,
    /// Blocks that are over, but whose end is not told yet: the reason for the stop may say that they were cut off.
    closing: Vec<usize>,
    /// The items that are whole, by their place.
    output: BTreeMap<usize, Item<'static>>,
    places: usize,
    refused: bool,
    /// The output so far, in bytes.
    kept: usize,
    stop: Option<Stop>,
    usage: Option<Usage>,
}

/// The members of an event beside its type and number.
type Member<'a> = (&'static str, Value<'a>);

/// The value of a member.
#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Item(&'a Item<'a>),
    List([(); 0]),
    Number(usize),
    Object(&'a Object<'a>),
    Part(&'a Part<'a>),
    Text(&'a str),
}

struct Out<'a> {
    kind: &'static str,
    sequence: u64,
    members: &'a [Member<'a>],
}

impl Serialize for Out<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind)?;
        map.serialize_entry("sequence_number", &self.sequence)?;
        for (name, value) in self.members {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl EventWriter {
    /// For one stream.
    pub(crate) fn new(back: &Back) -> Self {
        Self {
            created_s: back.created_s,
            echo: back.echo.clone(),
            id: String::new(),
            model: String::new(),
            sequence: 0,
            open: BTreeMap::new(),
            closing: Vec::new(),
            output: BTreeMap::new(),
            places: 0,
            refused: false,
            kept: 0,
            stop: None,
            usage: None,
        }
    }

    /// How much output is kept, in bytes.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// How much of the request is kept, to be repeated, in bytes.
    pub(crate) fn repeated(&self) -> usize {
        self.echo.size()
    }

    /// Appends what this event says.
    pub(crate) fn write(&mut self, event: &Event, out: &mut Sink<'_>) {
        if !matches!(event, Event::Close { .. } | Event::Stop(_)) {
            self.tell_closed("completed", out);
        }
        match event {
            Event::Start { id, model } => {
                self.id = response_id(id);
                self.model.clone_from(model);
                self.lifecycle("response.created", Status::InProgress, out);
                self.lifecycle("response.in_progress", Status::InProgress, out);
            }
            Event::Open { index, opening } => self.open(*index, opening, out),
            Event::Delta { index, piece } => self.delta(*index, piece, out),
            Event::Close { index } => self.closing.push(*index),
            Event::Stop(stop) => {
                // Only what came last can have been cut off.
                let last = self.closing.pop();
                self.tell_closed("completed", out);
                self.closing.extend(last);
                let call = last.and_then(|index| self.open.get(&index));
                let call = call.is_some_and(|open| matches!(open.grown, Grown::Call { .. }));
                // Words of refusal are whole; a call that a filter broke off is none, and must not be made.
                let cut = stop.breaks_off() && (call || *stop != Stop::Refusal);
                self.tell_closed(if cut { "incomplete" } else { "completed" }, out);
                self.stop = Some(stop.clone());
            }
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::End => {
                let status = status(&self.stop.take().unwrap_or(Stop::End), self.refused);
                let name = match status {
                    Status::Incomplete(_) => "response.incomplete",
                    _ => "response.completed",
                };
                self.lifecycle(name, status, out);
            }
        }
    }

    /// What the client has been told so far, for an event that ends the stream with an error.
    pub(crate) fn frame(&self) -> StreamFrame {
        let mut items: BTreeMap<usize, Item<'_>> =
            self.output.iter().map(|(place, item)| (*place, item.clone())).collect();
        items.extend(self.open.values().map(|open| (open.place, open.item("incomplete"))));
        let output = serde_json::to_string(&items.into_values().collect::<Vec<_>>());
        StreamFrame {
            id: self.id.clone(),
            model: self.model.clone(),
            created_s: self.created_s,
            sequence: self.sequence,
            output: output.ok().and_then(|json| RawValue::from_string(json).ok()),
        }
    }

    fn open(&mut self, index: usize, opening: &Opening, out: &mut Sink<'_>) {
        let place = self.places;
        self.places += 1;
        self.kept += BLOCK_COST;
        let (prefix, grown) = match opening {
            Opening::Reasoning => ("rs", Grown::Reasoning { text: String::new(), seal: None }),
            Opening::Refusal => ("msg", Grown::Refusal { text: String::new() }),
            Opening::Text => ("msg", Grown::Text { text: String::new() }),
            Opening::ToolCall { id, name, namespace, custom } => (
                if *custom { "ctc" } else { "fc" },
                Grown::Call {
                    call_id: id.clone(),
                    name: name.clone(),
                    namespace: namespace.clone(),
                    custom: *custom,
                    arguments: String::new(),
                },
            ),
        };
        self.refused |= matches!(grown, Grown::Refusal { .. });
        let open = Open { place, id: item_id(prefix, &self.id, place), grown };
        let item = open.begun();
        let place = ("output_index", Value::Number(place));
        self.send("response.output_item.added", &[place, ("item", Value::Item(&item))], out);
        if let Some(part) = open.part(true) {
            self.part("response.content_part.added", &open, "content_index", &part, out);
        }
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: usize, piece: &Piece, out: &mut Sink<'_>) {
        let Some(mut open) = self.open.remove(&index) else { return };
        let (Piece::Arguments(delta)
        | Piece::Reasoning(delta)
        | Piece::Signature(delta)
        | Piece::Text(delta)) = piece;
        self.kept += delta.len();
        match (&mut open.grown, piece) {
            (Grown::Text { text }, Piece::Text(delta)) => {
                text.push_str(delta);
                let members = [("delta", Value::Text(delta)), ("logprobs", Value::List([]))];
                self.of("response.output_text.delta", &open, Some("content_index"), members, out);
            }
            (Grown::Refusal { text }, Piece::Text(delta)) => {
                text.push_str(delta);
                let members = [("delta", Value::Text(delta))];
                self.of("response.refusal.delta", &open, Some("content_index"), members, out);
            }
            (Grown::Reasoning { text, .. }, Piece::Reasoning(delta)) => {
                let first = text.is_empty();
                text.push_str(delta);
                if first {
                    let part = Part::SummaryText { text: Cow::Borrowed("") };
                    let name = "response.reasoning_summary_part.added";
                    self.part(name, &open, "summary_index", &part, out);
                }
                let members = [("delta", Value::Text(delta))];
                self.of("response.reasoning_summary_text.delta", &open, Some("summary_index"), members, out);
            }
            (Grown::Reasoning { seal, .. }, Piece::Signature(value)) => *seal = Some(value.clone()),
            (Grown::Call { custom, arguments, .. }, Piece::Arguments(delta)) => {
                arguments.push_str(delta);
                let name = if *custom {
                    "response.custom_tool_call_input.delta"
                } else {
                    "response.function_call_arguments.delta"
                };
                self.of(name, &open, None, [("delta", Value::Text(delta))], out);
            }
            _ => {}
        }
        self.open.insert(index, open);
    }

    fn tell_closed(&mut self, status: &'static str, out: &mut Sink<'_>) {
        for index in std::mem::take(&mut self.closing) {
            if let Some(open) = self.open.remove(&index) {
                self.close(open, status, out);
            }
        }
    }

    fn close(&mut self, mut open: Open, status: &'static str, out: &mut Sink<'_>) {
        // A call without arguments has an empty object of them: clients parse what they got.
        if let Grown::Call { custom: false, arguments, .. } = &mut open.grown
            && arguments.trim().is_empty()
            && status == "completed"
        {
            "{}".clone_into(arguments);
            let delta = [("delta", Value::Text("{}"))];
            self.of("response.function_call_arguments.delta", &open, None, delta, out);
        }
        match &open.grown {
            Grown::Text { text } => {
                let members = [("text", Value::Text(text)), ("logprobs", Value::List([]))];
                self.of("response.output_text.done", &open, Some("content_index"), members, out);
            }
            Grown::Refusal { text } => {
                let members = [("refusal", Value::Text(text))];
                self.of("response.refusal.done", &open, Some("content_index"), members, out);
            }
            Grown::Reasoning { text, .. } if !text.is_empty() => {
                let name = "response.reasoning_summary_text.done";
                self.of(name, &open, Some("summary_index"), [("text", Value::Text(text))], out);
                let part = Part::SummaryText { text: Cow::Borrowed(text) };
                self.part("response.reasoning_summary_part.done", &open, "summary_index", &part, out);
            }
            Grown::Reasoning { .. } => {}
            Grown::Call { custom: true, arguments, .. } => {
                let members = [("input", Value::Text(arguments))];
                self.of("response.custom_tool_call_input.done", &open, None, members, out);
            }
            Grown::Call { arguments, name, .. } => {
                let members = [("name", Value::Text(name)), ("arguments", Value::Text(arguments))];
                self.of("response.function_call_arguments.done", &open, None, members, out);
            }
        }
        if let Some(part) = open.part(false) {
            self.part("response.content_part.done", &open, "content_index", &part, out);
        }
        let place = open.place;
        let item = open.item(status);
        let members = [("output_index", Value::Number(place)), ("item", Value::Item(&item))];
        self.send("response.output_item.done", &members, out);
        self.output.insert(place, item);
    }

    /// An event of an open block: with its item's id and place, and the index of its part where it has one.
    fn of<'a, const N: usize>(
        &mut self,
        kind: &'static str,
        open: &'a Open,
        part: Option<&'static str>,
        members: [Member<'a>; N],
        out: &mut Sink<'_>,
    ) {
        let mut all = Vec::with_capacity(N + 3);
        all.push(("item_id", Value::Text(&open.id)));
        all.push(("output_index", Value::Number(open.place)));
        all.extend(part.map(|name| (name, Value::Number(0))));
        all.extend(members);
        self.send(kind, &all, out);
    }

    fn part(
        &mut self,
        kind: &'static str,
        open: &Open,
        index: &'static str,
        part: &Part<'_>,
        out: &mut Sink<'_>,
    ) {
        self.of(kind, open, Some(index), [("part", Value::Part(part))], out);
    }

    /// An event that holds the whole response.
    fn lifecycle(&mut self, kind: &'static str, status: Status, out: &mut Sink<'_>) {
        let output: Vec<Item<'static>> = match status {
            Status::InProgress => Vec::new(),
            _ => std::mem::take(&mut self.output).into_values().collect(),
        };
        let (id, model, echo) =
            (std::mem::take(&mut self.id), std::mem::take(&mut self.model), std::mem::take(&mut self.echo));
        let response = Object {
            id: &id,
            created_s: self.created_s,
            model: &model,
            status,
            error: None,
            output: Items::Of(&output),
            usage: self.usage.filter(|_| status != Status::InProgress).map(OutUsage::from),
            echo: &echo,
        };
        self.send(kind, &[("response", Value::Object(&response))], out);
        (self.id, self.model, self.echo) = (id, model, echo);
    }

    fn send(&mut self, kind: &'static str, members: &[Member<'_>], out: &mut Sink<'_>) {
        // Texts and numbers are always JSON.
        if let Ok(json) = serde_json::to_vec(&Out { kind, sequence: self.sequence, members }) {
            self.sequence += 1;
            out.event(Some(kind.as_bytes()), &json);
        }
    }
}

impl Open {
    /// The item as it begins.
    fn begun(&self) -> Item<'static> {
        match &self.grown {
            Grown::Text { .. } | Grown::Refusal { .. } => Item::Message {
                id: Some(Cow::Owned(self.id.clone())),
                role: "assistant",
                content: Vec::new(),
                status: Some("in_progress"),
            },
            _ => self.item("in_progress"),
        }
    }

    /// The item as it is now.
    fn item(&self, status: &'static str) -> Item<'static> {
        let id = Cow::Owned(self.id.clone());
        match &self.grown {
            Grown::Text { .. } | Grown::Refusal { .. } => Item::Message {
                id: Some(id),
                role: "assistant",
                content: self.part(false).into_iter().collect(),
                status: Some(status),
            },
            Grown::Reasoning { text, seal } => Item::Reasoning {
                id,
                summary: owned_summary(text),
                encrypted_content: seal.clone().map(Cow::Owned),
            },
            Grown::Call { call_id, name, namespace, custom, arguments } => {
                let (call_id, name) = (Cow::Owned(call_id.clone()), Cow::Owned(name.clone()));
                let namespace = namespace.clone().map(Cow::Owned);
                let (id, status, text) = (Some(id), Some(status), Cow::Owned(arguments.clone()));
                if *custom {
                    Item::CustomToolCall { id, call_id, name, namespace, input: text, status }
                } else {
                    Item::FunctionCall { id, call_id, name, namespace, arguments: text, status }
                }
            }
        }
    }

    /// The part of its message, empty or as it is now; `None` for what is no message.
    fn part(&self, empty: bool) -> Option<Part<'static>> {
        let now = |text: &str| Cow::Owned(if empty { String::new() } else { text.to_owned() });
        match &self.grown {
            Grown::Text { text } => Some(Part::output_text(now(text))),
            Grown::Refusal { text } => Some(Part::Refusal { refusal: now(text) }),
            Grown::Call { .. } | Grown::Reasoning { .. } => None,
        }
    }
}
