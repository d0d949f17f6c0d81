//! What a stream of generateContent must look like to a client (Gemini API reference, "streamGenerateContent").
//!
//! Each event is a whole answer without a name: one candidate with a content of the model, which has at least one part, and each
//! part is exactly one thing. The names of the stream stay the same. The reason of the end comes once, and nothing after it; so
//! does an error.

use serde_json::Value;

use super::{Ending, Violation, text};

/// The automaton over one stream.
#[derive(Debug, Clone, Default)]
pub struct GeminiGrammar {
    ended: Option<Ending>,
    names: Option<(Value, Value)>,
    at: usize,
}

/// What a part can be (Gemini API reference, "Part").
const KINDS: [&str; 8] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
];

impl GeminiGrammar {
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
    /// [`Violation`] if neither the reason of an end nor an error came last.
    pub fn end(&self) -> Result<Ending, Violation> {
        let rule = "the stream ends without a reason or an error".to_owned();
        self.ended.ok_or(Violation { at: self.at, rule })
    }

    fn next(&mut self, name: Option<&[u8]>, data: &[u8]) -> Result<(), String> {
        if self.ended.is_some() {
            return Err("nothing may follow the last event".to_owned());
        }
        if name.is_some() {
            return Err("an event has no name".to_owned());
        }
        let data: Value = serde_json::from_slice(data).map_err(|_| "the data is no JSON".to_owned())?;
        if let Some(error) = data.get("error") {
            text(error, "/message")?;
            text(error, "/status")?;
            error.get("code").and_then(Value::as_u64).ok_or("the error's code is no number")?;
            self.ended = Some(Ending::Error);
            return Ok(());
        }
        self.names(&data)?;
        let candidate = data.pointer("/candidates/0").ok_or("there is no candidate")?;
        if candidate.get("index").and_then(Value::as_u64) != Some(0) {
            return Err("the candidate's index is not 0".to_owned());
        }
        if candidate.pointer("/content/role").and_then(Value::as_str) != Some("model") {
            return Err("the content is not the model's".to_owned());
        }
        let parts =
            candidate.pointer("/content/parts").and_then(Value::as_array).ok_or("there are no parts")?;
        if parts.is_empty() {
            return Err("the list of parts is empty".to_owned());
        }
        parts.iter().try_for_each(part)?;
        if candidate.get("finishReason").is_some() {
            text(candidate, "/finishReason")?;
            self.ended = Some(Ending::Complete);
        }
        Ok(())
    }

    fn names(&mut self, data: &Value) -> Result<(), String> {
        let name = |name: &str| data.get(name).filter(|name| name.is_string()).cloned();
        let names =
            name("responseId").zip(name("modelVersion")).ok_or("responseId or modelVersion is no text")?;
        match &self.names {
            Some(before) if *before != names => Err("the stream changes its names".to_owned()),
            _ => {
                self.names = Some(names);
                Ok(())
            }
        }
    }
}

fn part(part: &Value) -> Result<(), String> {
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| part.get(kind).is_some()).collect();
    match kinds.as_slice() {
        ["text"] => text(part, "/text").map(drop),
        ["functionCall"] => {
            text(part, "/functionCall/name")?;
            let object = part.pointer("/functionCall/args").is_some_and(Value::is_object);
            if object { Ok(()) } else { Err("the arguments of a call are no object".to_owned()) }
        }
        [_] => Ok(()),
        several => Err(format!("a part is {} things", several.len())),
    }
}
