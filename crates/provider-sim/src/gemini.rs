//! The JSON of a Gemini answer (Gemini API, "Generating content"): its output as parts, its chunks, and the whole
//! response.

use serde_json::{Map, Value, json};

use crate::answer::{Delta, Voice, deltas};
use crate::prompt::Prompt;
use crate::request::{Ask, Carried};
use crate::script::{Script, UsageShape};
use crate::speech::Event;

mod check;
mod errors;
mod shape;

pub(crate) use check::check;
pub(crate) use errors::{google, in_list, spell};

/// A complete answer, before it is spelled as a stream or as one body.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    parts: Vec<Part>,
    /// For each part, the tokens when it has been sent.
    spent: Vec<Spent>,
    /// `None` in an answer without candidates.
    finish: Option<String>,
    /// The model signs what it thought.
    signs: bool,
    carried: Carried,
    model: String,
    usage: UsageShape,
    prompt: Prompt,
    voice: Voice,
}

/// One output.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Thought(String),
    Text(String),
    /// Whole, as Gemini sends calls.
    Call {
        name: String,
        arguments: Value,
        /// Of calls that are made together only the first is signed.
        first: bool,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    thoughts: usize,
    candidates: usize,
}

impl Generated {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice, carried: Carried) -> Self {
        let answer = &script.answer;
        let asked = ask.model.clone().unwrap_or_default();
        let deltas = if answer.no_choices { Vec::new() } else { deltas(script, &asked, voice, false) };
        let (parts, spent, malformed) = parts(&deltas);
        let finish = match answer.finish.as_deref() {
            _ if malformed => "MALFORMED_FUNCTION_CALL".to_owned(),
            None if answer.refusal.is_some() => "SAFETY".to_owned(),
            None | Some("stop" | "tool_calls") => "STOP".to_owned(),
            Some("length") => "MAX_TOKENS".to_owned(),
            Some("content_filter") => "SAFETY".to_owned(),
            Some(own) => own.to_owned(),
        };
        Self {
            parts,
            spent,
            finish: (!answer.no_choices).then_some(finish),
            signs: check::signs(&asked),
            carried,
            model: answer.model.clone().unwrap_or(asked),
            usage: answer.usage,
            prompt: Prompt::new(answer, ask),
            voice: voice.clone(),
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.parts.len()
    }

    /// The chunk of the output with this index.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        let Some(part) = self.parts.get(index) else { return Vec::new() };
        let chunk = self.response(vec![self.part(part)], None, index + 1);
        vec![self.event(&chunk, index == 0, false)]
    }

    /// The last chunk, which has the finish reason; it is all that marks the end.
    pub(crate) fn done(&self) -> Event {
        let chunk = self.response(self.last_parts(), self.finish.as_deref(), self.outputs());
        self.event(&chunk, self.outputs() == 0, true)
    }

    pub(crate) fn whole(&self) -> String {
        let mut parts: Vec<Value> = Vec::new();
        let mut before: Option<&Part> = None;
        for part in &self.parts {
            let own = self.part(part);
            let goes_on = matches!(
                (before, part),
                (Some(Part::Text(_)), Part::Text(_)) | (Some(Part::Thought(_)), Part::Thought(_))
            );
            match (parts.last_mut().and_then(|last| last.get_mut("text")), own.get("text")) {
                (Some(Value::String(text)), Some(Value::String(more))) if goes_on => text.push_str(more),
                _ => parts.push(own),
            }
            before = Some(part);
        }
        if parts.is_empty() || self.signature_at_end().is_some() {
            parts.extend(self.last_parts());
        }
        self.response(parts, self.finish.as_deref(), self.outputs()).to_string()
    }

    /// The error as an event.
    pub(crate) fn failure(&self, error: &Value, after: Option<usize>) -> Event {
        self.event(&errors::event(error), after.is_none_or(|after| after == 0), true)
    }

    /// The error as the body of an answer that is not streamed.
    pub(crate) fn failed_whole(&self, error: &Value) -> String {
        errors::event(error).to_string()
    }

    /// What keeps an array alive: white space; `None` is a comment of an event stream.
    pub(crate) fn heartbeat(&self) -> Option<Event> {
        (self.carried == Carried::Array).then(|| Event::bare("\n".to_owned()))
    }

    pub(crate) fn stream_type(&self) -> &'static str {
        if self.carried == Carried::Array { "application/json; charset=UTF-8" } else { "text/event-stream" }
    }

    /// A chunk as an event, or as the next element of an array.
    fn event(&self, chunk: &Value, first: bool, last: bool) -> Event {
        match self.carried {
            Carried::Array => {
                let (lead, end) = (if first { "[" } else { ",\r\n" }, if last { "\n]" } else { "" });
                Event::bare(format!("{lead}{chunk}{end}"))
            }
            Carried::Events | Carried::Whole => Event::plain(chunk.to_string()),
        }
    }

    /// A chunk, or the whole response, after so many outputs.
    fn response(&self, parts: Vec<Value>, finish: Option<&str>, outputs: usize) -> Value {
        let mut response =
            json!({"modelVersion": self.model, "responseId": format!("sim-{}", self.voice.call)});
        if self.finish.is_some() {
            let mut candidate = json!({"index": 0});
            if finish != Some("MALFORMED_FUNCTION_CALL") {
                put(&mut candidate, "content", json!({"parts": parts, "role": "model"}));
            }
            if let Some(finish) = finish {
                put(&mut candidate, "finishReason", json!(finish));
            }
            if finish == Some("SAFETY") {
                let rating = json!({"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": true});
                put(&mut candidate, "safetyRatings", json!([rating]));
            }
            put(&mut response, "candidates", json!([candidate]));
        }
        let last = finish.is_some() || self.finish.is_none();
        if let Some(usage) = self.usage(outputs, last) {
            put(&mut response, "usageMetadata", usage);
        }
        response
    }

    /// Cumulative, and on every chunk; thoughts are not among the candidates' tokens.
    fn usage(&self, outputs: usize, last: bool) -> Option<Value> {
        match self.usage {
            UsageShape::Null | UsageShape::Missing => return None,
            UsageShape::OnFinishChunk if !last => return None,
            UsageShape::WithZeroes if !last => {
                return Some(json!({"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}));
            }
            _ => {}
        }
        let spent = outputs.checked_sub(1).and_then(|at| self.spent.get(at)).copied().unwrap_or_default();
        let output = u64::try_from(spent.thoughts + spent.candidates).unwrap_or(u64::MAX);
        let prompt = self.prompt.total();
        let mut usage = json!({
            "promptTokenCount": prompt,
            "candidatesTokenCount": spent.candidates,
            "totalTokenCount": prompt.saturating_add(output),
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
        });
        if self.prompt.cached > 0 {
            put(&mut usage, "cachedContentTokenCount", json!(self.prompt.cached));
        }
        if spent.thoughts > 0 {
            put(&mut usage, "thoughtsTokenCount", json!(spent.thoughts));
        }
        Some(usage)
    }

    fn part(&self, part: &Part) -> Value {
        match part {
            Part::Thought(text) => json!({"text": text, "thought": true}),
            Part::Text(text) => json!({ "text": text }),
            Part::Call { name, arguments, first } => {
                let mut part = json!({"functionCall": {"name": name, "args": arguments}});
                if self.signs && *first {
                    put(&mut part, "thoughtSignature", json!(check::signature(&self.voice)));
                }
                part
            }
        }
    }

    /// An answer without calls is signed at its end.
    fn signature_at_end(&self) -> Option<String> {
        let calls = self.parts.iter().any(|part| matches!(part, Part::Call { .. }));
        (self.signs && !calls).then(|| check::signature(&self.voice))
    }

    /// What goes along with the finish reason: an empty text.
    fn last_parts(&self) -> Vec<Value> {
        let mut part = json!({"text": ""});
        if let Some(signature) = self.signature_at_end() {
            put(&mut part, "thoughtSignature", json!(signature));
        }
        vec![part]
    }
}

/// The outputs: a call and the fragments of its arguments are one. Tells too whether arguments are no JSON object,
/// which Gemini sends nothing of.
fn parts(deltas: &[Delta]) -> (Vec<Part>, Vec<Spent>, bool) {
    let (mut parts, mut tokens): (Vec<Part>, Vec<Spent>) = (Vec::new(), Vec::new());
    let mut spent = Spent::default();
    let mut malformed = false;
    let mut rest = deltas.iter().peekable();
    while let Some(delta) = rest.next() {
        let part = match delta {
            Delta::Reasoning { text, .. } => Part::Thought(text.clone()),
            Delta::Text(text) | Delta::Refusal(text) => Part::Text(text.clone()),
            Delta::ToolArguments { .. } => continue,
            Delta::ToolOpen { index, name, .. } => {
                let mut whole = String::new();
                while let Some(Delta::ToolArguments { text, .. }) = rest.peek() {
                    whole.push_str(text);
                    spent.candidates += 1;
                    rest.next();
                }
                match arguments(&whole) {
                    Some(arguments) => Part::Call { name: name.clone(), arguments, first: *index == 0 },
                    None => {
                        malformed = true;
                        continue;
                    }
                }
            }
        };
        match part {
            Part::Thought(_) => spent.thoughts += 1,
            Part::Text(_) | Part::Call { .. } => spent.candidates += 1,
        }
        parts.push(part);
        tokens.push(spent);
    }
    (parts, tokens, malformed)
}

/// Arguments as an object; none are an empty one.
fn arguments(text: &str) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(Value::Object(Map::new()));
    }
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// The body of `GET /v1beta/models`.
pub(crate) fn models(served: &[String]) -> String {
    let any = ["sim-model".to_owned()];
    let served = if served.is_empty() { any.as_slice() } else { served };
    let model = |id: &String| {
        json!({
            "name": format!("models/{id}"), "version": "001", "displayName": id, "inputTokenLimit": 1_048_576,
            "outputTokenLimit": 65_536, "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    };
    json!({"models": served.iter().map(model).collect::<Vec<_>>()}).to_string()
}

/// What Gemini says of a model that it does not serve.
pub(crate) fn model_not_found(model: &str) -> String {
    let message = format!(
        "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels \
         to see the list of available models and their supported methods."
    );
    google(404, &message, Value::Null).to_string()
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
