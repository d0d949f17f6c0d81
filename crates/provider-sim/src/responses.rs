//! The JSON of a Responses answer (OpenAI API, "Responses" and "Streaming events"): its output as deltas in items,
//! its events, and the whole response object.

use serde_json::{Value, json};

use crate::answer::{Delta, Voice, deltas};
use crate::request::Ask;
use crate::script::{ResponsesShape, Script};
use crate::speech::Event;

mod check;
mod object;
mod others;

pub(crate) use check::check;
use object::{Frame, Spent, Status};

/// A complete answer, before it is spelled as a stream or as one body.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    deltas: Vec<Delta>,
    /// For each delta, where it belongs.
    places: Vec<Place>,
    /// For each delta the number of the first event that is sent for it, and at the end that of the event after all.
    numbers: Vec<usize>,
    /// The place of the only item of an answer without any output.
    blank: Option<Place>,
    ending: Ending,
    frame: Frame,
    voice: Voice,
    /// Delta events are padded, so that their lengths do not tell the words.
    padded: bool,
    shape: ResponsesShape,
    /// The namespaces that the request put its tools in: tool, namespace.
    namespaces: Vec<(String, String)>,
}

/// Where a delta belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    item: usize,
    /// The content part within its item.
    part: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Text,
    Refusal,
    Function(usize),
    Custom(usize),
}

impl Kind {
    fn in_message(self) -> bool {
        matches!(self, Self::Text | Self::Refusal)
    }
}

/// How the answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    Completed,
    Incomplete(String),
    Failed,
}

/// An event whose number is not known yet.
struct Draft {
    name: &'static str,
    fields: Value,
}

fn draft(name: &'static str, fields: Value) -> Draft {
    Draft { name, fields }
}

/// `response.created` and `response.in_progress`.
const OPENING: usize = 2;

impl Response {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        let answer = &script.answer;
        let asked = ask.model.clone().unwrap_or_default();
        let deltas = if answer.no_choices { Vec::new() } else { deltas(script, &asked, voice, true) };
        let ending = match answer.finish.as_deref() {
            None | Some("stop" | "tool_calls" | "completed") => Ending::Completed,
            Some("length") => Ending::Incomplete("max_output_tokens".to_owned()),
            Some("failed") => Ending::Failed,
            Some(reason) => Ending::Incomplete(reason.to_owned()),
        };
        let padding = ask.request.pointer("/stream_options/include_obfuscation");
        let blank = deltas.is_empty() && !answer.no_choices;
        let places = places(&deltas);
        Self {
            numbers: numbers(&deltas, &places, script.wire.responses),
            places,
            deltas,
            blank: blank.then_some(Place { item: 0, part: 0, kind: Kind::Text }),
            ending,
            frame: Frame::new(script, ask, voice),
            voice: voice.clone(),
            shape: script.wire.responses,
            padded: padding.and_then(Value::as_bool) != Some(false),
            namespaces: namespaces(&ask.request),
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.deltas.len()
    }

    pub(crate) fn opening(&self) -> Vec<Event> {
        let object = || self.frame.object(Status::InProgress, Vec::new(), Value::Null, Spent::default());
        let drafts = ["response.created", "response.in_progress"]
            .map(|name| draft(name, json!({ "response": object() })));
        self.sent(drafts.into(), 0)
    }

    /// The delta with this index, after the end of what came before it and the start of its own part and item. The
    /// start of a tool call counts as an output, as its opening fragment does in Chat Completions.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        let (Some(delta), Some(place)) = (self.deltas.get(index), self.places.get(index)) else {
            return Vec::new();
        };
        let before = index.checked_sub(1).and_then(|before| self.places.get(before));
        let mut drafts = Vec::new();
        if before != Some(place) {
            if let Some(before) = before {
                drafts.extend(self.close(*before, before.item != place.item, "completed"));
            }
            drafts.extend(self.open(*place, before.is_none_or(|before| before.item != place.item)));
        }
        drafts.extend(self.delta(delta, *place, index));
        self.sent(drafts, self.number(index))
    }

    /// What closes the last item.
    pub(crate) fn finish(&self) -> Vec<Event> {
        let status = if matches!(self.ending, Ending::Incomplete(_)) { "incomplete" } else { "completed" };
        let mut drafts = Vec::new();
        if let Some(blank) = self.blank {
            drafts.extend(self.open(blank, true));
        }
        if let Some(last) = self.places.last().copied().or(self.blank) {
            drafts.extend(self.close(last, true, status));
        }
        self.sent(drafts, self.number(self.outputs()))
    }

    /// The event that ends the stream, with the whole response object.
    pub(crate) fn done(&self) -> Event {
        let name = match self.ending {
            Ending::Completed => "response.completed",
            Ending::Incomplete(_) => "response.incomplete",
            Ending::Failed => "response.failed",
        };
        let number = self.number(self.outputs()) + self.finish().len();
        let drafts = vec![draft(name, json!({ "response": self.object() }))];
        self.sent(drafts, number).pop().unwrap_or_else(|| Event::plain("{}".to_owned()))
    }

    pub(crate) fn whole(&self) -> String {
        match self.shape {
            ResponsesShape::LlamaCpp => others::object_of_llama_cpp(self.object()).to_string(),
            ResponsesShape::OpenAi | ResponsesShape::WholeItems => self.object().to_string(),
        }
    }

    /// An event that OpenAI sends while nothing else goes out, after so many outputs.
    pub(crate) fn keepalive(&self, outputs: usize) -> Event {
        Event::typed("keepalive", &json!({"sequence_number": self.number(outputs)}))
    }

    /// The events of an error. One that has a type of its own is sent as that event; any other is what OpenAI sends
    /// when it fails: `response.failed`, as the first event of all `error`, and both if the end is to be marked.
    pub(crate) fn failure(&self, error: &Value, after: Option<usize>, done: bool) -> Vec<Event> {
        let number = after.map_or(0, |after| self.number(after));
        let problem = match error.get("type").and_then(Value::as_str) {
            Some("response.failed") => error.pointer("/response/error").unwrap_or(error),
            Some(_) => {
                let mut fields = error.as_object().cloned().unwrap_or_default();
                fields.remove("type");
                return self.sent(vec![draft("error", fields.into())], number);
            }
            None => error.get("error").unwrap_or(error),
        };
        if self.shape == ResponsesShape::LlamaCpp {
            let error = json!({"code": 500, "message": problem.get("message"), "type": "server_error"});
            return vec![Event::plain(json!({ "error": error }).to_string())];
        }
        let nested = draft("error", json!({ "error": problem }));
        let failed = draft("response.failed", json!({ "response": self.failed(problem) }));
        let drafts = match (after, done) {
            _ if error.get("type").is_some() => vec![failed],
            (None, _) => vec![nested],
            (Some(_), true) => vec![nested, failed],
            (Some(_), false) => vec![failed],
        };
        self.sent(drafts, number)
    }

    /// The error as the body of an answer that is not streamed: a response object that failed.
    pub(crate) fn failed_whole(&self, error: &Value) -> String {
        let nested = error.pointer("/response/error").or_else(|| error.get("error"));
        self.failed(nested.unwrap_or(error)).to_string()
    }

    /// A response object that failed; OpenAI leaves the output so far out of it.
    fn failed(&self, problem: &Value) -> Value {
        let word = |key: &str| problem.get(key).and_then(Value::as_str);
        let code = word("code").unwrap_or_else(|| match word("type") {
            Some("rate_limit_error" | "requests" | "tokens") => "rate_limit_exceeded",
            Some("insufficient_quota") => "insufficient_quota",
            Some("overloaded_error" | "service_unavailable_error") => "server_is_overloaded",
            _ => "server_error",
        });
        let error = json!({"code": code, "message": word("message").unwrap_or("The response failed.")});
        self.frame.object(Status::Failed, Vec::new(), error, Spent::default())
    }

    /// The response object of the whole answer.
    fn object(&self) -> Value {
        let reasoning = self.deltas.iter().filter(|delta| matches!(delta, Delta::Reasoning { .. })).count();
        let spent = Spent { output: self.outputs(), reasoning };
        let (status, error) = match &self.ending {
            Ending::Completed => (Status::Completed, Value::Null),
            Ending::Incomplete(reason) => (Status::Incomplete(reason), Value::Null),
            Ending::Failed => {
                (Status::Failed, json!({"code": "server_error", "message": "The response failed."}))
            }
        };
        let last = self.places.last().copied().or(self.blank);
        let items = last.map_or(0, |last| last.item + 1);
        let output = (0..items).filter_map(|item| {
            let cut = matches!(status, Status::Incomplete(_)) && item + 1 == items;
            let kind = self.places.iter().find(|place| place.item == item).or(self.blank.as_ref())?.kind;
            Some(self.item(item, kind, if cut { "incomplete" } else { "completed" }))
        });
        self.frame.object(status, output.collect(), error, spent)
    }

    fn sent(&self, drafts: Vec<Draft>, from: usize) -> Vec<Event> {
        others::sent(self.shape, drafts, from)
    }

    /// The number of the event that comes next after so many outputs.
    fn number(&self, outputs: usize) -> usize {
        self.numbers.get(outputs).or_else(|| self.numbers.last()).copied().unwrap_or(OPENING)
    }

    /// The start of a part, and of its item if that is new.
    fn open(&self, place: Place, new_item: bool) -> Vec<Draft> {
        let Place { item, part, kind } = place;
        let added = || {
            let fields = json!({"output_index": item, "item": self.begun(item, kind)});
            draft("response.output_item.added", fields)
        };
        let id = self.item_id(item, kind);
        let begins = match kind {
            Kind::Reasoning => Some(draft(
                "response.reasoning_summary_part.added",
                json!({"item_id": id, "output_index": item, "summary_index": 0, "part": part_json(kind, "")}),
            )),
            Kind::Text | Kind::Refusal => Some(draft(
                "response.content_part.added",
                json!({"item_id": id, "output_index": item, "content_index": part, "part": part_json(kind, "")}),
            )),
            Kind::Function(_) | Kind::Custom(_) => None,
        };
        new_item.then(added).into_iter().chain(begins).collect()
    }

    fn delta(&self, delta: &Delta, place: Place, index: usize) -> Option<Draft> {
        let id = self.item_id(place.item, place.kind);
        let (name, text) = match delta {
            Delta::Reasoning { text, .. } => ("response.reasoning_summary_text.delta", text),
            Delta::Text(text) => ("response.output_text.delta", text),
            Delta::Refusal(text) => ("response.refusal.delta", text),
            Delta::ToolOpen { .. } => return None,
            Delta::ToolArguments { text, custom: false, .. } => {
                ("response.function_call_arguments.delta", text)
            }
            Delta::ToolArguments { text, custom: true, .. } => {
                ("response.custom_tool_call_input.delta", text)
            }
        };
        let mut fields = json!({"item_id": id, "output_index": place.item, "delta": text});
        match place.kind {
            Kind::Reasoning => put(&mut fields, "summary_index", json!(0)),
            Kind::Text | Kind::Refusal => put(&mut fields, "content_index", json!(place.part)),
            Kind::Function(_) | Kind::Custom(_) => {}
        }
        if place.kind == Kind::Text {
            put(&mut fields, "logprobs", json!([]));
        }
        if self.padded {
            put(&mut fields, "obfuscation", json!(padding(index)));
        }
        Some(draft(name, fields))
    }

    /// The end of a part, and of its item if nothing more belongs to it.
    fn close(&self, place: Place, ends_item: bool, status: &str) -> Vec<Draft> {
        let Place { item, part, kind } = place;
        let id = self.item_id(item, kind);
        let text = self.text(item, kind);
        let within = |more: Value| {
            let mut fields = json!({"item_id": id, "output_index": item});
            for (key, value) in more.as_object().into_iter().flatten() {
                put(&mut fields, key, value.clone());
            }
            fields
        };
        let whole = part_json(kind, &text);
        let mut drafts = match kind {
            Kind::Reasoning => vec![
                draft(
                    "response.reasoning_summary_text.done",
                    within(json!({"summary_index": 0, "text": text})),
                ),
                draft(
                    "response.reasoning_summary_part.done",
                    within(json!({"summary_index": 0, "part": whole})),
                ),
            ],
            Kind::Text => vec![
                draft(
                    "response.output_text.done",
                    within(json!({"content_index": part, "text": text, "logprobs": []})),
                ),
                draft("response.content_part.done", within(json!({"content_index": part, "part": whole}))),
            ],
            Kind::Refusal => vec![
                draft("response.refusal.done", within(json!({"content_index": part, "refusal": text}))),
                draft("response.content_part.done", within(json!({"content_index": part, "part": whole}))),
            ],
            Kind::Function(_) => {
                vec![draft("response.function_call_arguments.done", within(json!({ "arguments": text })))]
            }
            Kind::Custom(_) => {
                vec![draft("response.custom_tool_call_input.done", within(json!({ "input": text })))]
            }
        };
        if ends_item {
            let fields = json!({"output_index": item, "item": self.item(item, kind, status)});
            drafts.push(draft("response.output_item.done", fields));
        }
        drafts
    }

    /// All text of this kind in an item.
    fn text(&self, item: usize, kind: Kind) -> String {
        let own = |place: &Place| place.item == item && place.kind == kind;
        let deltas = self.places.iter().zip(&self.deltas).filter(|(place, _)| own(place));
        deltas
            .map(|(_, delta)| match delta {
                Delta::Reasoning { text, .. }
                | Delta::Text(text)
                | Delta::Refusal(text)
                | Delta::ToolArguments { text, .. } => text.as_str(),
                Delta::ToolOpen { .. } => "",
            })
            .collect()
    }

    fn item_id(&self, item: usize, kind: Kind) -> String {
        let prefix = match kind {
            Kind::Reasoning => "rs",
            Kind::Text | Kind::Refusal => "msg",
            Kind::Function(_) => "fc",
            Kind::Custom(_) => "ctc",
        };
        format!("{prefix}_sim_{}_{item}", self.voice.call)
    }

    /// An item as it is when it begins.
    fn begun(&self, item: usize, kind: Kind) -> Value {
        let id = self.item_id(item, kind);
        match kind {
            // OpenAI sends encrypted content here too, and other than at the end: only the latter can be replayed.
            Kind::Reasoning => json!({
                "id": id, "type": "reasoning", "summary": [], "encrypted_content": "gAAAAAunfinished",
            }),
            Kind::Text | Kind::Refusal => json!({
                "id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": [],
            }),
            Kind::Function(call) => self.called(&id, call, "function_call", "arguments", "", "in_progress"),
            Kind::Custom(call) => self.called(&id, call, "custom_tool_call", "input", "", "in_progress"),
        }
    }

    /// An item as it is at its end.
    fn item(&self, item: usize, kind: Kind, status: &str) -> Value {
        let id = self.item_id(item, kind);
        match kind {
            Kind::Reasoning => json!({
                "id": id, "type": "reasoning",
                "summary": [part_json(kind, &self.text(item, kind))],
                "encrypted_content": check::minted(&self.voice.name, self.voice.call, item),
            }),
            Kind::Text | Kind::Refusal => {
                let mut content: Vec<Value> = [Kind::Text, Kind::Refusal]
                    .into_iter()
                    .filter(|kind| self.places.contains(&self.place_in(item, *kind)))
                    .map(|kind| part_json(kind, &self.text(item, kind)))
                    .collect();
                if content.is_empty() {
                    content.push(part_json(kind, ""));
                }
                json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
            }
            Kind::Function(call) => {
                self.called(&id, call, "function_call", "arguments", &self.text(item, kind), status)
            }
            Kind::Custom(call) => {
                self.called(&id, call, "custom_tool_call", "input", &self.text(item, kind), status)
            }
        }
    }

    /// The place of this kind of content in a message: a refusal after a text is its second part.
    fn place_in(&self, item: usize, kind: Kind) -> Place {
        let text = Place { item, part: 0, kind: Kind::Text };
        let second = kind == Kind::Refusal && self.places.contains(&text);
        Place { item, part: usize::from(second), kind }
    }

    fn called(&self, id: &str, call: usize, item: &str, key: &str, text: &str, status: &str) -> Value {
        let own = self.deltas.iter().find_map(|delta| match delta {
            Delta::ToolOpen { index, id, name, .. } if *index == call => Some((id, name)),
            _ => None,
        });
        let (call_id, name) = own.map_or(("", ""), |(id, name)| (id.as_str(), name.as_str()));
        let mut called =
            json!({"id": id, "type": item, "status": status, "call_id": call_id, "name": name, key: text});
        if let Some((_, namespace)) = self.namespaces.iter().find(|(tool, _)| tool == name) {
            put(&mut called, "namespace", json!(namespace));
        }
        called
    }
}

/// A new item begins with each tool call and where reasoning or a message does; text and refusal are parts of one
/// message.
fn places(deltas: &[Delta]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(deltas.len());
    for delta in deltas {
        let kind = match delta {
            Delta::Reasoning { .. } => Kind::Reasoning,
            Delta::Text(_) => Kind::Text,
            Delta::Refusal(_) => Kind::Refusal,
            Delta::ToolOpen { index, custom: false, .. }
            | Delta::ToolArguments { index, custom: false, .. } => Kind::Function(*index),
            Delta::ToolOpen { index, custom: true, .. }
            | Delta::ToolArguments { index, custom: true, .. } => Kind::Custom(*index),
        };
        places.push(match places.last() {
            None => Place { item: 0, part: 0, kind },
            Some(before) if before.kind == kind => *before,
            Some(before) if before.kind.in_message() && kind.in_message() => {
                Place { item: before.item, part: before.part + 1, kind }
            }
            Some(before) => Place { item: before.item + 1, part: 0, kind },
        });
    }
    places
}

/// The number of the first event for each delta, and of the first after all of them.
fn numbers(deltas: &[Delta], places: &[Place], shape: ResponsesShape) -> Vec<usize> {
    // Whole items have nothing within.
    let within = if shape == ResponsesShape::WholeItems { 0 } else { 1 };
    let mut next = OPENING;
    let mut numbers = vec![next];
    let mut before: Option<Place> = None;
    for (delta, place) in deltas.iter().zip(places) {
        if before != Some(*place) {
            let new_item = before.is_none_or(|before| before.item != place.item);
            let tool = matches!(place.kind, Kind::Function(_) | Kind::Custom(_));
            let closing = before.map_or(0, |before| match before.kind {
                Kind::Function(_) | Kind::Custom(_) => 1,
                Kind::Reasoning | Kind::Text | Kind::Refusal => 2,
            });
            next += closing * within + usize::from(before.is_some() && new_item);
            next += usize::from(new_item) + usize::from(!tool) * within;
        }
        next += usize::from(!matches!(delta, Delta::ToolOpen { .. })) * within;
        numbers.push(next);
        before = Some(*place);
    }
    numbers
}

fn part_json(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Reasoning => json!({"type": "summary_text", "text": text}),
        Kind::Refusal => json!({"type": "refusal", "refusal": text}),
        _ => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
    }
}

/// Of each tool that is in a namespace, its name and the namespace's.
fn namespaces(request: &Value) -> Vec<(String, String)> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let later = list(request.get("input"));
    let later = later.iter().filter(|item| item.get("type").is_some_and(|kind| kind == "additional_tools"));
    let tools = [request].into_iter().chain(later).flat_map(|holder| list(holder.get("tools")));
    let word = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let groups = tools.filter(|tool| tool.get("type").is_some_and(|kind| kind == "namespace"));
    groups
        .filter_map(|group| Some((word(&group)?, list(group.get("tools")))))
        .flat_map(|(name, tools)| {
            let tools: Vec<String> = tools.iter().filter_map(word).collect();
            tools.into_iter().map(move |tool| (tool, name.clone()))
        })
        .collect()
}

/// Padding of changing length, the same in each run.
fn padding(index: usize) -> &'static str {
    const PADDING: &str = "kq7XbT2mZp0LrVdA";
    PADDING.get(..1 + index * 7 % PADDING.len()).unwrap_or_default()
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
