//! Streams of Responses as servers other than OpenAI send them.

use serde_json::{Value, json};

use super::{Draft, put};
use crate::script::ResponsesShape;
use crate::speech::Event;

/// These events as a server of this shape sends them, with numbers from this one on.
pub(super) fn sent(shape: ResponsesShape, drafts: Vec<Draft>, from: usize) -> Vec<Event> {
    match shape {
        ResponsesShape::OpenAi => numbered(drafts.into_iter(), from),
        ResponsesShape::WholeItems => {
            numbered(drafts.into_iter().filter(|draft| is_of_whole_item(draft.name)), from)
        }
        ResponsesShape::LlamaCpp => drafts
            .into_iter()
            .filter_map(of_llama_cpp)
            .map(|draft| Event::typed(draft.name, &draft.fields))
            .collect(),
    }
}

fn numbered(drafts: impl Iterator<Item = Draft>, from: usize) -> Vec<Event> {
    let number = |(mut draft, number): (Draft, usize)| {
        put(&mut draft.fields, "sequence_number", json!(number));
        Event::typed(draft.name, &draft.fields)
    };
    drafts.zip(from..).map(number).collect()
}

/// Whether an event is about the response or a whole item, and not about what is within.
pub(super) fn is_of_whole_item(name: &str) -> bool {
    name.starts_with("response.output_item.") || name.matches('.').count() < 2
}

/// llama.cpp: no numbers and no indices, nothing of the parts of reasoning, no end of arguments.
fn of_llama_cpp(draft: Draft) -> Option<Draft> {
    let Draft { name, mut fields } = draft;
    let name = match name {
        "response.reasoning_summary_text.delta" => "response.reasoning_text.delta",
        "response.reasoning_summary_text.done"
        | "response.reasoning_summary_part.added"
        | "response.reasoning_summary_part.done"
        | "response.function_call_arguments.done"
        | "response.custom_tool_call_input.done" => return None,
        name => name,
    };
    if let Some(fields) = fields.as_object_mut() {
        const LEFT_OUT: [&str; 5] =
            ["output_index", "content_index", "summary_index", "logprobs", "obfuscation"];
        fields.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
    }
    if let Some(item) = fields.get_mut("item") {
        *item = item_of_llama_cpp(item.take());
    }
    if let Some(response) = fields.get_mut("response") {
        *response = object_of_llama_cpp(response.take());
    }
    let completed = fields.pointer("/response/status").is_some_and(|status| status == "completed");
    Some(Draft { name: if completed { "response.completed" } else { name }, fields })
}

/// The response object with no more than llama.cpp has in it; where the tokens end it says `completed` too.
pub(super) fn object_of_llama_cpp(mut response: Value) -> Value {
    let begun = response.get("status").is_some_and(|status| status == "in_progress");
    if let Some(items) = response.get_mut("output").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(|item| *item = item_of_llama_cpp(item.take()));
    }
    if let Some(fields) = response.as_object_mut() {
        let kept: &[&str] = if begun {
            &["id", "object", "status"]
        } else {
            &["id", "object", "created_at", "status", "model", "output", "usage", "error"]
        };
        fields.retain(|key, value| kept.contains(&key.as_str()) && (key != "error" || !value.is_null()));
    }
    if response.get("status").is_some_and(|status| status == "incomplete") {
        put(&mut response, "status", json!("completed"));
    }
    response
}

/// An item; reasoning has its text as content and no summary.
fn item_of_llama_cpp(mut item: Value) -> Value {
    if item.get("type").is_some_and(|kind| kind == "reasoning") {
        let text = item.pointer("/summary/0/text").cloned();
        let content: Vec<Value> =
            text.into_iter().map(|text| json!({"type": "reasoning_text", "text": text})).collect();
        put(&mut item, "summary", json!([]));
        put(&mut item, "content", json!(content));
        put(&mut item, "encrypted_content", json!(""));
    }
    if item.get("status").is_some_and(|status| status == "incomplete") {
        put(&mut item, "status", json!("completed"));
    }
    item
}
