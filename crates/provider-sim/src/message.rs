//! The JSON of a Messages answer (Anthropic API, "Messages" and "Streaming messages"): its output as deltas in
//! content blocks, its events, and the whole message.

use serde_json::{Value, json};

use crate::answer::{Delta, Voice, deltas};
use crate::blocks::{Block, blocks, gathered};
use crate::prompt::Prompt;
use crate::request::Ask;
use crate::script::{Script, UsageShape};
use crate::speech::Event;

/// A complete message, before it is spelled as a stream or as one body.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    deltas: Vec<Delta>,
    /// For each delta, the block that it belongs to.
    blocks: Vec<usize>,
    call: u64,
    model: String,
    stop_reason: String,
    usage: UsageShape,
    prompt: Prompt,
    no_content: bool,
}

impl Message {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        let answer = &script.answer;
        let asked = ask.model.clone().unwrap_or_default();
        let deltas = if answer.no_choices { Vec::new() } else { deltas(script, &asked, voice, false) };
        let stop_reason = match (answer.finish.as_deref(), &answer.refusal) {
            (Some("stop"), _) => "end_turn",
            (Some("length"), _) => "max_tokens",
            (Some("tool_calls"), _) => "tool_use",
            (Some("content_filter"), _) => "refusal",
            (Some(own), _) => own,
            (None, Some(_)) => "refusal",
            (None, None) if answer.tool_calls.is_empty() => "end_turn",
            (None, None) => "tool_use",
        };
        Self {
            blocks: blocks(&deltas),
            deltas,
            call: voice.call,
            model: answer.model.clone().unwrap_or(asked),
            stop_reason: stop_reason.to_owned(),
            usage: answer.usage,
            prompt: Prompt::new(answer, ask),
            no_content: answer.no_choices,
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.deltas.len()
    }

    /// `message_start` and a ping.
    pub(crate) fn opening(&self) -> Vec<Event> {
        let ping = Event::typed("ping", &json!({}));
        if self.no_content {
            return vec![ping];
        }
        let zeroes = self.usage == UsageShape::WithZeroes;
        let prompt = if zeroes { Prompt::default() } else { self.prompt };
        let usage = usage(prompt, usize::from(!zeroes));
        let message = self.frame(Vec::new(), &Value::Null, Some(usage));
        vec![Event::typed("message_start", &json!({ "message": message })), ping]
    }

    /// The delta with this index, after the end of the block before it and the start of its own. The start of a
    /// tool call counts as an output, as its opening fragment does in Chat Completions.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        let (Some(delta), Some(block)) = (self.deltas.get(index), self.blocks.get(index)) else {
            return Vec::new();
        };
        let before = index.checked_sub(1).and_then(|before| self.blocks.get(before));
        let mut events = Vec::new();
        if before != Some(block) {
            if let Some(before) = before {
                events.extend(self.close(*before, index - 1));
            }
            events.push(Event::typed(
                "content_block_start",
                &json!({"index": block, "content_block": self.start(delta)}),
            ));
        }
        if let Some(delta) = delta_json(delta) {
            events.push(Event::typed("content_block_delta", &json!({"index": block, "delta": delta})));
        }
        events
    }

    /// The end of the last block, and `message_delta`.
    pub(crate) fn finish(&self) -> Vec<Event> {
        let last = self.deltas.len().checked_sub(1);
        let open = last.and_then(|last| self.blocks.get(last).map(|block| (*block, last)));
        let mut events = open.map(|(block, last)| self.close(block, last)).unwrap_or_default();
        if self.no_content {
            return events;
        }
        let mut delta = json!({"stop_reason": self.stop_reason, "stop_sequence": null});
        if let Some(details) = self.stop_details() {
            put(&mut delta, "stop_details", details);
        }
        let mut body = json!({ "delta": delta });
        if let Some(usage) = self.final_usage() {
            put(&mut body, "usage", usage);
        }
        events.push(Event::typed("message_delta", &body));
        events
    }

    pub(crate) fn whole(&self) -> String {
        let content = if self.no_content { None } else { Some(self.content()) };
        let usage = match self.usage {
            UsageShape::Missing => None,
            UsageShape::Null => Some(Value::Null),
            _ => Some(usage(self.prompt, self.deltas.len())),
        };
        let mut message = self.frame(content.clone().unwrap_or_default(), &json!(self.stop_reason), usage);
        if content.is_none()
            && let Some(message) = message.as_object_mut()
        {
            message.remove("content");
        }
        if let Some(details) = self.stop_details() {
            put(&mut message, "stop_details", details);
        }
        message.to_string()
    }

    fn frame(&self, content: Vec<Value>, stop_reason: &Value, usage: Option<Value>) -> Value {
        let mut message = json!({
            "id": format!("msg_sim_{}", self.call), "type": "message", "role": "assistant",
            "model": self.model, "content": content, "stop_reason": stop_reason, "stop_sequence": null,
        });
        if let Some(usage) = usage {
            put(&mut message, "usage", usage);
        }
        message
    }

    /// Cumulative, so that it stands for the whole answer; some servers repeat the input side, others do not.
    fn final_usage(&self) -> Option<Value> {
        let output = self.deltas.len();
        match self.usage {
            UsageShape::Missing => None,
            UsageShape::Null => Some(Value::Null),
            UsageShape::OnFinishChunk | UsageShape::EveryChunk | UsageShape::WithZeroes => {
                Some(usage(self.prompt, output))
            }
            UsageShape::Standard | UsageShape::Groq | UsageShape::DeepSeek => {
                Some(json!({ "output_tokens": output }))
            }
        }
    }

    fn stop_details(&self) -> Option<Value> {
        (self.stop_reason == "refusal")
            .then(|| json!({"type": "refusal", "category": null, "explanation": null}))
    }

    /// The block that begins with this delta, still empty.
    fn start(&self, delta: &Delta) -> Value {
        match delta {
            Delta::Reasoning { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Delta::Text(_) | Delta::Refusal(_) => json!({"type": "text", "text": ""}),
            Delta::ToolOpen { index, name, .. } => {
                json!({"type": "tool_use", "id": self.tool_id(*index), "name": name, "input": {}})
            }
            Delta::ToolArguments { index, .. } => {
                json!({"type": "tool_use", "id": self.tool_id(*index), "name": "", "input": {}})
            }
        }
    }

    /// The end of a block whose last delta has this index; thinking is signed just before.
    fn close(&self, block: usize, last: usize) -> Vec<Event> {
        let thinking = matches!(self.deltas.get(last), Some(Delta::Reasoning { .. }));
        let signature = thinking.then(|| {
            let delta = json!({"type": "signature_delta", "signature": self.signature()});
            Event::typed("content_block_delta", &json!({"index": block, "delta": delta}))
        });
        signature
            .into_iter()
            .chain([Event::typed("content_block_stop", &json!({ "index": block }))])
            .collect()
    }

    fn signature(&self) -> String {
        format!("c2lnbmF0dXJlLXNpbS0{}", self.call)
    }

    fn tool_id(&self, index: usize) -> String {
        format!("toolu_sim_{}_{index}", self.call)
    }

    /// All blocks, whole.
    fn content(&self) -> Vec<Value> {
        let block = |block| match block {
            Block::Thinking(text) => {
                json!({"type": "thinking", "thinking": text, "signature": self.signature()})
            }
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::Tool { index, name, input } => {
                json!({"type": "tool_use", "id": self.tool_id(index), "name": name, "input": input})
            }
        };
        gathered(&self.deltas).into_iter().map(block).collect()
    }
}

/// What Anthropic calls the tokens of the input are those that no cache had to do with.
fn usage(prompt: Prompt, output: usize) -> Value {
    json!({
        "input_tokens": prompt.fresh, "cache_creation_input_tokens": prompt.written,
        "cache_read_input_tokens": prompt.cached, "output_tokens": output,
    })
}

fn delta_json(delta: &Delta) -> Option<Value> {
    Some(match delta {
        Delta::Reasoning { text, .. } => json!({"type": "thinking_delta", "thinking": text}),
        Delta::Text(text) | Delta::Refusal(text) => json!({"type": "text_delta", "text": text}),
        Delta::ToolOpen { .. } => return None,
        Delta::ToolArguments { text, .. } => json!({"type": "input_json_delta", "partial_json": text}),
    })
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
