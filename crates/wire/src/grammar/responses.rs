//! What a Responses stream must look like to a client: the rules that the official accumulators enforce (OpenAI API reference,
//! "Streaming events"; openai-python `_responses.py`, openai-node `ResponseStream.ts`).
//!
//! `response.created` first, with an empty output · numbers from 0 · an item is added at its place, in order, before its parts
//! and deltas, and is done once, as the same item · parts are added in order · a `done` has the text of its deltas · the last
//! event repeats every item, all of them done · `response.failed` or `error` at any time, and then it is the last event.

use serde_json::Value;

use super::{Ending, Violation};

#[derive(Debug, Clone)]
struct Item {
    id: String,
    call_id: Option<String>,
    kind: String,
    parts: Vec<String>,
    summary: Vec<String>,
    arguments: String,
    done: bool,
}

/// The automaton over one stream.
#[derive(Debug, Clone, Default)]
pub struct ResponsesGrammar {
    id: Option<String>,
    items: Vec<Item>,
    at: usize,
    ending: Option<Ending>,
}

type Step<T = ()> = Result<T, String>;

impl ResponsesGrammar {
    /// Before the first event.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks the next event: the name in its `event:` field and its data.
    ///
    /// # Errors
    /// [`Violation`] with the first rule that is broken.
    pub fn event(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<(), Violation> {
        self.next(name, data).map_err(|rule| Violation { at: self.at, rule })?;
        self.at += 1;
        Ok(())
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    /// [`Violation`] if no terminal event came last.
    pub fn end(&self) -> Result<Ending, Violation> {
        let rule = || "the stream ends without a terminal event".to_owned();
        self.ending.ok_or_else(|| Violation { at: self.at, rule: rule() })
    }

    fn next(&mut self, name: Option<&[u8]>, data: &[u8]) -> Step {
        if self.ending.is_some() {
            return Err("nothing may follow the last event".to_owned());
        }
        let data: Value = serde_json::from_slice(data).map_err(|_| "the data is no JSON".to_owned())?;
        let kind = text(&data, "/type")?;
        if name != Some(kind.as_bytes()) {
            return Err(format!("the event's name is not its type '{kind}'"));
        }
        if kind == "error" {
            self.ending = Some(Ending::Error);
            return text(&data, "/message").map(drop);
        }
        if number(&data, "/sequence_number")? != self.at {
            return Err(format!("the number is not {}", self.at));
        }
        if self.id.is_none() && kind != "response.created" {
            return Err(format!("{kind} comes before response.created"));
        }
        match kind.as_str() {
            "response.created" => self.created(&data),
            "response.in_progress" | "response.queued" => self.same_response(&data),
            "response.completed" | "response.incomplete" => self.terminal(&data, &kind),
            "response.failed" => {
                self.same_response(&data)?;
                text(&data, "/response/error/message")?;
                self.ending = Some(Ending::Error);
                Ok(())
            }
            "response.output_item.added" => self.added(&data),
            "response.output_item.done" => self.done(&data),
            _ => self.within(&data, &kind),
        }
    }

    fn created(&mut self, data: &Value) -> Step {
        if self.id.is_some() {
            return Err("response.created comes twice".to_owned());
        }
        if data.pointer("/response/output").and_then(Value::as_array).is_none_or(|list| !list.is_empty()) {
            return Err("the output of response.created is no empty list".to_owned());
        }
        self.id = Some(text(data, "/response/id")?);
        text(data, "/response/object").map(drop)
    }

    fn same_response(&self, data: &Value) -> Step {
        let id = text(data, "/response/id")?;
        if self.id.as_ref() == Some(&id) { Ok(()) } else { Err("the response's id has changed".to_owned()) }
    }

    fn terminal(&mut self, data: &Value, kind: &str) -> Step {
        self.same_response(data)?;
        if text(data, "/response/status")? != kind.trim_start_matches("response.") {
            return Err("the response's status is not that of its event".to_owned());
        }
        let output = data.pointer("/response/output").and_then(Value::as_array);
        let output = output.ok_or("the response has no list of output")?;
        if output.len() != self.items.len() {
            return Err(format!("the output has {} items, not {}", output.len(), self.items.len()));
        }
        for (item, last) in self.items.iter().zip(output) {
            if !item.done || last.get("id").and_then(Value::as_str) != Some(&item.id) {
                return Err(format!("the item {} is not finished as what it began", item.id));
            }
        }
        self.ending = Some(Ending::Complete);
        Ok(())
    }

    fn added(&mut self, data: &Value) -> Step {
        if number(data, "/output_index")? != self.items.len() {
            return Err(format!("the item's place is not {}", self.items.len()));
        }
        self.items.push(Item {
            id: text(data, "/item/id")?,
            call_id: text(data, "/item/call_id").ok(),
            kind: text(data, "/item/type")?,
            parts: Vec::new(),
            summary: Vec::new(),
            arguments: String::new(),
            done: false,
        });
        Ok(())
    }

    fn done(&mut self, data: &Value) -> Step {
        let place = number(data, "/output_index")?;
        let item = self.items.get_mut(place).filter(|item| !item.done).ok_or("no such item is open")?;
        if text(data, "/item/id")? != item.id || text(data, "/item/call_id").ok() != item.call_id {
            return Err("the item is done as another one".to_owned());
        }
        match item.kind.as_str() {
            "function_call" if text(data, "/item/arguments")? != item.arguments => {
                return Err("the arguments are not those of the deltas".to_owned());
            }
            "custom_tool_call" if text(data, "/item/input")? != item.arguments => {
                return Err("the input is not that of the deltas".to_owned());
            }
            _ => {}
        }
        item.done = true;
        Ok(())
    }

    /// An event of an open item.
    fn within(&mut self, data: &Value, kind: &str) -> Step {
        let Ok(place) = number(data, "/output_index") else { return Ok(()) };
        let item = self.items.get_mut(place).filter(|item| !item.done);
        let item = item.ok_or_else(|| format!("{kind} belongs to no open item"))?;
        if text(data, "/item_id")? != item.id {
            return Err(format!("{kind} names another item"));
        }
        match kind {
            "response.content_part.added" => begin(&mut item.parts, number(data, "/content_index")?),
            "response.reasoning_summary_part.added" => {
                begin(&mut item.summary, number(data, "/summary_index")?)
            }
            "response.output_text.delta" | "response.refusal.delta" | "response.reasoning_text.delta" => {
                grow(&mut item.parts, number(data, "/content_index")?, &text(data, "/delta")?)
            }
            "response.reasoning_summary_text.delta" => {
                grow(&mut item.summary, number(data, "/summary_index")?, &text(data, "/delta")?)
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                item.arguments.push_str(&text(data, "/delta")?);
                Ok(())
            }
            "response.output_text.done" => {
                whole(&item.parts, number(data, "/content_index")?, &text(data, "/text")?)
            }
            "response.refusal.done" => {
                whole(&item.parts, number(data, "/content_index")?, &text(data, "/refusal")?)
            }
            "response.reasoning_summary_text.done" => {
                whole(&item.summary, number(data, "/summary_index")?, &text(data, "/text")?)
            }
            "response.function_call_arguments.done" if text(data, "/arguments")? != item.arguments => {
                Err("the arguments are not those of the deltas".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn begin(parts: &mut Vec<String>, place: usize) -> Step {
    if place != parts.len() {
        return Err(format!("the part's place is not {}", parts.len()));
    }
    parts.push(String::new());
    Ok(())
}

fn grow(parts: &mut [String], place: usize, delta: &str) -> Step {
    parts.get_mut(place).ok_or("a delta of a part that was not added")?.push_str(delta);
    Ok(())
}

fn whole(parts: &[String], place: usize, text: &str) -> Step {
    match parts.get(place) {
        Some(part) if part == text => Ok(()),
        _ => Err("the whole text is not that of its deltas".to_owned()),
    }
}

fn text(data: &Value, path: &str) -> Step<String> {
    data.pointer(path).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("{path} is no text"))
}

fn number(data: &Value, path: &str) -> Step<usize> {
    let number = data.pointer(path).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("{path} is no number"))
}
