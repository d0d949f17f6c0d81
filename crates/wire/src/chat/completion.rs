//! A plain answer: is it one?

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::stream::steady::{Name, rewritten};
use super::{Usage, is_failure};
use crate::error::UpstreamError;
use crate::json::{self, is_falsy, word};

/// What a good answer told.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionFacts {
    /// Token counts.
    pub usage: Option<Usage>,
    /// The provider's model name.
    pub model: Option<String>,
    /// The finish reasons of the choices, in their order.
    pub finish_reasons: Vec<String>,
    /// There is text, reasoning, a refusal, a tool call or audio. An answer without is good too, if it finished.
    pub has_output: bool,
    /// The answer with `tool_calls` as the reason of the end where tools were called and the provider says `stop`.
    pub amended: Option<Bytes>,
}

/// Why an answer with a success status is none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadCompletion {
    /// A page for people.
    #[error("the provider answered with HTML")]
    Html,
    /// Nothing.
    #[error("the provider answered with an empty body")]
    Empty,
    /// No JSON object, or cut off.
    #[error("the provider's answer is not a JSON object")]
    NotJson,
    /// No choice, or none with a message.
    #[error("the provider's answer has no choices")]
    NoChoices,
    /// Not what the endpoint's answers hold: this list is not there, or empty.
    #[error("the provider's answer has no {0}")]
    Lacks(&'static str),
    /// No list of content blocks, in Messages.
    #[error("the provider's answer has no content")]
    NoContent,
    /// An error inside.
    #[error("the provider reported an error inside a successful answer")]
    ErrorObject(UpstreamError),
}

#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    /// In place of a message, in Completions.
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    #[serde(borrow)]
    images: Option<&'a RawValue>,
}

impl Choice<'_> {
    fn has_output(&self) -> bool {
        self.text.is_some_and(|text| !is_falsy(text.get()))
            || self.message.as_ref().is_some_and(Message::has_output)
    }

    fn stops_after_tools(&self) -> bool {
        let calls = self.message.as_ref().and_then(|message| message.tool_calls);
        calls.is_some_and(|calls| !is_falsy(calls.get()))
            && self.finish_reason.and_then(word).is_some_and(|reason| reason == "stop")
    }
}

impl Message<'_> {
    fn has_output(&self) -> bool {
        let parts = [
            self.content,
            self.reasoning_content,
            self.reasoning,
            self.refusal,
            self.tool_calls,
            self.function_call,
            self.audio,
            self.images,
        ];
        parts.into_iter().flatten().any(|part| !is_falsy(part.get()))
    }
}

/// Checks the body of a plain answer with a success status.
///
/// An answer with a finish reason and empty content is valid.
///
/// # Errors
/// [`BadCompletion`] if it is no answer.
pub fn check_completion(body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    check(body, |choice| choice.message.is_some())
}

/// The same for Completions, whose choices hold a text.
pub(crate) fn check_texts(body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    check(body, |choice| choice.text.is_some_and(|text| text.get().starts_with('"')))
}

type IsAnswer = fn(&Choice<'_>) -> bool;

fn check(body: &[u8], is_answer: IsAnswer) -> Result<CompletionFacts, BadCompletion> {
    checked(body, |body| Some(facts(&serde_json::from_slice(body).ok()?, body, is_answer)))
}

/// Checks an answer that must be a JSON object. `read` looks at it, and says `None` where it cannot be parsed; of two
/// members of a name, over which a parser stumbles, the last one then holds.
pub(crate) fn checked(
    body: &[u8],
    read: impl Fn(&[u8]) -> Option<Result<CompletionFacts, BadCompletion>>,
) -> Result<CompletionFacts, BadCompletion> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
    match body.first() {
        None => return Err(BadCompletion::Empty),
        Some(b'<') => return Err(BadCompletion::Html),
        Some(b'{') => {}
        Some(_) => {
            return Err(UpstreamError::parse(body).map_or(BadCompletion::NotJson, BadCompletion::ErrorObject));
        }
    }
    if let Some(facts) = read(body) {
        return facts;
    }
    let body = json::without_duplicates(body).ok_or(BadCompletion::NotJson)?;
    read(&body).unwrap_or(Err(BadCompletion::NotJson))
}

fn facts(
    completion: &Completion<'_>,
    body: &[u8],
    is_answer: IsAnswer,
) -> Result<CompletionFacts, BadCompletion> {
    let choices = completion.choices.as_deref().unwrap_or_default();
    if let Some(error) = error_of(completion, body) {
        return Err(BadCompletion::ErrorObject(error));
    }
    if !choices.iter().any(is_answer) {
        return Err(BadCompletion::NoChoices);
    }
    let stops: Vec<bool> = choices.iter().map(Choice::stops_after_tools).collect();
    let amended = stops
        .contains(&true)
        .then(|| rewritten(body, &Name::default(), &|place, _| stops.get(place).is_some_and(|stops| *stops)));
    Ok(CompletionFacts {
        usage: completion.usage.and_then(|usage| Usage::parse(usage.get())),
        model: completion.model.and_then(word),
        finish_reasons: choices.iter().filter_map(|choice| choice.finish_reason.and_then(word)).collect(),
        has_output: choices.iter().any(Choice::has_output),
        amended: amended.flatten(),
    })
}

fn error_of(completion: &Completion<'_>, body: &[u8]) -> Option<UpstreamError> {
    let choices = completion.choices.as_deref().unwrap_or_default();
    let in_choice = choices.iter().find_map(|choice| choice.error);
    if let Some(error) = completion.error.or(in_choice).filter(|error| !is_falsy(error.get())) {
        let wrapped = format!("{{\"error\":{}}}", error.get());
        return UpstreamError::parse(wrapped.as_bytes());
    }
    let failed =
        choices.iter().filter_map(|choice| choice.finish_reason.and_then(word)).find(|end| is_failure(end));
    if let Some(reason) = failed {
        return Some(UpstreamError::of_kind(&reason, "the provider broke off its answer"));
    }
    if choices.is_empty() { UpstreamError::parse(body) } else { None }
}
