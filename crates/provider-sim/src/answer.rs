//! The JSON of a Chat Completions answer: its output as deltas, its chunks, and the whole completion.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::prompt::Prompt;
use crate::request::Ask;
use crate::script::{Answer, Fault, MAX_TOKENS, Reasoning, Script, UsageShape};

/// Who answers: what makes ids and texts deterministic.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// Number of the call, counted from 1.
    pub(crate) call: u64,
}

/// One output event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delta {
    Reasoning { field: String, text: String },
    Text(String),
    Refusal(String),
    ToolOpen { index: usize, id: String, name: String, custom: bool },
    ToolArguments { index: usize, text: String, custom: bool },
}

/// A complete answer, before it is spelled as a stream or as one body.
#[derive(Clone, Debug)]
pub(crate) struct Spoken {
    pub(crate) deltas: Vec<Delta>,
    id: String,
    /// Names the simulator in each chunk: two answers put together would show.
    fingerprint: String,
    created: u64,
    model: String,
    finish: String,
    usage: UsageShape,
    include_usage: bool,
    no_choices: bool,
    azure: bool,
    prompt: Prompt,
    calls: Vec<Value>,
    reasoning: Option<Reasoning>,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_filter_results: Option<Value>,
    choices: Vec<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_groq: Option<Value>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Value>,
    logprobs: Option<()>,
    finish_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_filter_results: Option<Value>,
}

const TOOL_FRAGMENT_CHARS: usize = 8;

impl Spoken {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        let answer = &script.answer;
        let asked = ask.model.clone().unwrap_or_default();
        let finish = match (&answer.finish, answer.tool_calls.is_empty()) {
            (Some(finish), _) => finish.clone(),
            (None, true) => "stop".to_owned(),
            (None, false) => "tool_calls".to_owned(),
        };
        Self {
            deltas: deltas(script, &asked, voice, true),
            id: format!("chatcmpl-sim-{}", voice.call),
            fingerprint: format!("fp_{}", voice.name),
            // A fixed epoch keeps answers the same from run to run.
            created: 1_700_000_000 + voice.call,
            model: answer.model.clone().unwrap_or(asked),
            finish,
            usage: answer.usage,
            include_usage: ask.include_usage,
            no_choices: answer.no_choices,
            azure: script.wire.azure_preamble,
            prompt: Prompt::new(answer, ask),
            calls: tool_calls(answer, voice),
            reasoning: answer.reasoning.clone(),
        }
    }

    /// Azure's first chunk: no choices, empty id and model, the filter's verdict on the prompt.
    pub(crate) fn azure_chunk(&self) -> String {
        to_json(&Chunk {
            id: "",
            object: "",
            created: 0,
            model: "",
            system_fingerprint: None,
            prompt_filter_results: Some(prompt_filter_results()),
            choices: Vec::new(),
            usage: None,
            x_groq: None,
        })
    }

    /// The first chunk: the role and no output.
    pub(crate) fn role_chunk(&self) -> String {
        self.chunk(Some(json!({"role": "assistant", "content": ""})), None, 0)
    }

    /// The chunk of the output event with this index.
    pub(crate) fn delta_chunk(&self, index: usize) -> String {
        let delta = self.deltas.get(index).map_or_else(|| json!({}), delta_json);
        self.chunk(Some(delta), None, index + 1)
    }

    /// The chunk with the finish reason.
    pub(crate) fn finish_chunk(&self) -> String {
        self.chunk(Some(json!({})), Some(&self.finish), self.deltas.len())
    }

    /// The usage chunk at the end, with empty `choices`, where the shape has one.
    pub(crate) fn usage_chunk(&self) -> Option<String> {
        let wanted = match self.usage {
            UsageShape::Standard => self.include_usage,
            UsageShape::EveryChunk | UsageShape::WithZeroes => true,
            _ => false,
        };
        let usage = self.usage_json(self.deltas.len());
        wanted.then(|| to_json(&Chunk { usage: Some(usage), ..self.frame("chat.completion.chunk") }))
    }

    /// The whole answer as one body.
    pub(crate) fn completion(&self) -> String {
        let usage = match self.usage {
            UsageShape::Missing => None,
            UsageShape::Null => Some(Value::Null),
            _ => Some(self.usage_json(self.deltas.len())),
        };
        let choice = Choice {
            index: 0,
            message: Some(self.message()),
            delta: None,
            logprobs: None,
            finish_reason: Some(&self.finish),
            content_filter_results: self.azure.then(content_filter_results),
        };
        to_json(&Chunk {
            choices: if self.no_choices { Vec::new() } else { vec![choice] },
            usage,
            x_groq: (self.usage == UsageShape::Groq).then(|| json!({"id": self.groq_id()})),
            prompt_filter_results: self.azure.then(prompt_filter_results),
            ..self.frame("chat.completion")
        })
    }

    fn frame(&self, object: &'static str) -> Chunk<'_> {
        Chunk {
            id: &self.id,
            object,
            created: self.created,
            model: &self.model,
            system_fingerprint: Some(&self.fingerprint),
            prompt_filter_results: None,
            choices: Vec::new(),
            usage: None,
            x_groq: None,
        }
    }

    fn chunk(&self, delta: Option<Value>, finish: Option<&str>, outputs: usize) -> String {
        let output = delta.as_ref().is_some_and(|delta| delta.get("role").is_none()) && finish.is_none();
        let choice = Choice {
            index: 0,
            message: None,
            delta,
            logprobs: None,
            finish_reason: finish,
            content_filter_results: (self.azure && output).then(content_filter_results),
        };
        to_json(&Chunk {
            choices: if self.no_choices { Vec::new() } else { vec![choice] },
            usage: self.usage_on_chunk(finish.is_some(), outputs),
            x_groq: self.groq_on_chunk(finish.is_some(), outputs),
            ..self.frame("chat.completion.chunk")
        })
    }

    fn usage_on_chunk(&self, last: bool, outputs: usize) -> Option<Value> {
        match self.usage {
            UsageShape::Standard => self.include_usage.then_some(Value::Null),
            UsageShape::OnFinishChunk | UsageShape::DeepSeek => last.then(|| self.usage_json(outputs)),
            UsageShape::EveryChunk => Some(self.usage_json(outputs)),
            UsageShape::Null => Some(Value::Null),
            UsageShape::WithZeroes => {
                Some(json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}))
            }
            UsageShape::Groq | UsageShape::Missing => None,
        }
    }

    fn groq_on_chunk(&self, last: bool, outputs: usize) -> Option<Value> {
        if self.usage != UsageShape::Groq {
            return None;
        }
        match (last, outputs) {
            (true, _) => Some(json!({"id": self.groq_id(), "usage": self.usage_json(outputs)})),
            (false, 0) => Some(json!({"id": self.groq_id()})),
            (false, _) => None,
        }
    }

    fn groq_id(&self) -> String {
        format!("req_{}", self.id)
    }

    /// Usage when this many output events have been sent.
    fn usage_json(&self, outputs: usize) -> Value {
        let reasoning =
            self.deltas.iter().take(outputs).filter(|d| matches!(d, Delta::Reasoning { .. })).count();
        let completion = u64::try_from(outputs).unwrap_or(u64::MAX);
        let mut usage = json!({
            "prompt_tokens": self.prompt.total(),
            "completion_tokens": completion,
            "total_tokens": self.prompt.total().saturating_add(completion),
            "prompt_tokens_details": self.prompt.details(),
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        });
        if let (UsageShape::DeepSeek, Some(object)) = (self.usage, usage.as_object_mut()) {
            let missed = self.prompt.total() - self.prompt.cached;
            object.insert("prompt_cache_hit_tokens".to_owned(), json!(self.prompt.cached));
            object.insert("prompt_cache_miss_tokens".to_owned(), json!(missed));
        }
        usage
    }

    fn message(&self) -> Value {
        let (mut text, mut refusal) = (String::new(), String::new());
        for delta in &self.deltas {
            match delta {
                Delta::Text(piece) => text.push_str(piece),
                Delta::Refusal(piece) => refusal.push_str(piece),
                _ => {}
            }
        }
        let empty_is_null = !self.calls.is_empty() || !refusal.is_empty();
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("assistant"));
        let content = if text.is_empty() && empty_is_null { Value::Null } else { json!(text) };
        message.insert("content".to_owned(), content);
        message.insert("refusal".to_owned(), if refusal.is_empty() { Value::Null } else { json!(refusal) });
        if let Some(reasoning) = &self.reasoning {
            message.insert(reasoning.field.clone(), json!(reasoning.text));
        }
        if !self.calls.is_empty() {
            message.insert("tool_calls".to_owned(), json!(self.calls));
        }
        Value::Object(message)
    }
}

fn to_json(chunk: &Chunk<'_>) -> String {
    serde_json::to_string(chunk).unwrap_or_default()
}

fn delta_json(delta: &Delta) -> Value {
    match delta {
        Delta::Reasoning { field, text } => json!({ field: text }),
        Delta::Text(text) => json!({"content": text}),
        Delta::Refusal(text) => json!({"refusal": text}),
        Delta::ToolOpen { index, id, name, custom: false } => json!({"tool_calls": [
            {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        ]}),
        Delta::ToolOpen { index, id, name, custom: true } => json!({"tool_calls": [
            {"index": index, "id": id, "type": "custom", "custom": {"name": name, "input": ""}}
        ]}),
        Delta::ToolArguments { index, text, custom: false } => {
            json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
        }
        Delta::ToolArguments { index, text, custom: true } => {
            json!({"tool_calls": [{"index": index, "custom": {"input": text}}]})
        }
    }
}

/// The output of an answer. Where the form has no tools with free text, such a call has arguments as others have.
pub(crate) fn deltas(script: &Script, model: &str, voice: &Voice, free_text: bool) -> Vec<Delta> {
    let answer = &script.answer;
    // A fault that comes late still comes in the middle of the answer.
    let default_length =
        script.fault.as_ref().and_then(Fault::after).map_or(12, |after| after.saturating_add(4).max(12));
    let mut deltas = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        let field = &reasoning.field;
        deltas.extend(
            pieces(&reasoning.text)
                .map(|text| Delta::Reasoning { field: field.clone(), text: text.to_owned() }),
        );
    }
    deltas.extend(text_pieces(answer, model, voice, default_length).into_iter().map(Delta::Text));
    if let Some(refusal) = &answer.refusal {
        deltas.extend(pieces(refusal).map(|text| Delta::Refusal(text.to_owned())));
    }
    for (index, call) in answer.tool_calls.iter().enumerate() {
        let custom = call.custom && free_text;
        deltas.push(Delta::ToolOpen { index, id: tool_id(voice, index), name: call.name.clone(), custom });
        let wrapped = call.custom && !free_text;
        let arguments =
            if wrapped { json!({"input": call.arguments}).to_string() } else { call.arguments.clone() };
        let characters: Vec<char> = arguments.chars().collect();
        let fragments = characters.chunks(TOOL_FRAGMENT_CHARS).map(|text| text.iter().collect());
        deltas.extend(fragments.map(|text| Delta::ToolArguments { index, text, custom }));
    }
    deltas.truncate(MAX_TOKENS);
    deltas
}

fn tool_id(voice: &Voice, index: usize) -> String {
    format!("call_sim_{}_{index}", voice.call)
}

fn tool_calls(answer: &Answer, voice: &Voice) -> Vec<Value> {
    let calls = answer.tool_calls.iter().enumerate();
    calls
        .map(|(index, call)| {
            let id = tool_id(voice, index);
            if call.custom {
                let custom = json!({"name": call.name, "input": call.arguments});
                return json!({"id": id, "type": "custom", "custom": custom});
            }
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": id, "type": "function", "function": function})
        })
        .collect()
}

/// The text as tokens: words with the white space before them.
fn text_pieces(answer: &Answer, model: &str, voice: &Voice, default_length: usize) -> Vec<String> {
    let speaks_otherwise = !answer.tool_calls.is_empty() || answer.refusal.is_some();
    let (mut words, own_length) = match &answer.text {
        Some(text) => {
            let words: Vec<String> = pieces(text).map(str::to_owned).collect();
            let length = words.len();
            (words, length)
        }
        None if speaks_otherwise && answer.tokens.is_none() => return Vec::new(),
        None => {
            let words = [&voice.name, " answers", " as", &format!(" {model}:")].map(str::to_owned);
            (words.to_vec(), default_length)
        }
    };
    let length = answer.tokens.unwrap_or(own_length).min(MAX_TOKENS);
    words.truncate(length);
    words.extend((words.len()..length).map(|position| format!(" {}", word(voice.seed, position))));
    words
}

/// Splits at each white space that follows a word, so that the pieces together are the text.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let after = rest.get(word..).unwrap_or_default();
        let end = after.find(char::is_whitespace).map_or(rest.len(), |at| word + at);
        let (piece, left) = rest.split_at_checked(end)?;
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

const WORDS: [&str; 32] = [
    "signal",
    "track",
    "switch",
    "lantern",
    "platform",
    "engine",
    "whistle",
    "carriage",
    "depot",
    "junction",
    "rail",
    "sleeper",
    "gauge",
    "timetable",
    "guard",
    "coupling",
    "freight",
    "bridge",
    "tunnel",
    "siding",
    "crossing",
    "boiler",
    "lever",
    "yard",
    "station",
    "express",
    "local",
    "north",
    "south",
    "early",
    "late",
    "clear",
];

/// The word at this position: always the same for the same seed (splitmix64).
fn word(seed: u64, position: usize) -> &'static str {
    let position = u64::try_from(position).unwrap_or(0);
    let mut z = seed.wrapping_add((position + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let index = usize::try_from((z ^ (z >> 31)) % 32).unwrap_or(0);
    WORDS.get(index).copied().unwrap_or("signal")
}

fn content_filter_results() -> Value {
    let safe = json!({"filtered": false, "severity": "safe"});
    json!({"hate": safe, "self_harm": safe, "sexual": safe, "violence": safe})
}

fn prompt_filter_results() -> Value {
    json!([{"prompt_index": 0, "content_filter_results": content_filter_results()}])
}
