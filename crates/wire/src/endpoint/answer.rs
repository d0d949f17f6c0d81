//! A plain answer of an endpoint that is no conversation: is it one?

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Endpoint;
use crate::chat::{BadCompletion, CompletionFacts, Usage, check_texts, checked};
use crate::error::UpstreamError;
use crate::json::{self, is_falsy};

/// What these answers have in common. Only that a list is there and whether it is empty matters, not what it holds.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    results: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Where an answer has its list (a transcript its text), and whether that may be empty.
struct Shape {
    /// OpenAI's name for it.
    list: &'static str,
    /// `data` is one too: Voyage's form of a ranking.
    or_data: bool,
    /// Whoever asks for the best above a mark may get none.
    may_be_empty: bool,
}

impl Shape {
    fn of(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Rerank => Self { list: "results", or_data: true, may_be_empty: true },
            Endpoint::Transcriptions | Endpoint::Translations => {
                Self { list: "text", or_data: false, may_be_empty: true }
            }
            Endpoint::Moderations => Self { list: "results", or_data: false, may_be_empty: false },
            _ => Self { list: "data", or_data: false, may_be_empty: false },
        }
    }

    fn is_there(&self, answer: &Answer<'_>) -> bool {
        if self.list == "text" {
            return answer.text.is_some_and(|text| text.get().starts_with('"'));
        }
        let named = if self.list == "results" { answer.results } else { answer.data };
        let list = named.or_else(|| answer.data.filter(|_| self.or_data));
        list.is_some_and(|list| list.get().starts_with('[') && (self.may_be_empty || !is_falsy(list.get())))
    }
}

/// Silence is a line without words; no byte at all is no answer.
pub(super) fn check_text(body: &[u8]) -> Result<(), BadCompletion> {
    match body.trim_ascii().first() {
        _ if body.is_empty() => Err(BadCompletion::Empty),
        Some(b'<') => Err(BadCompletion::Html),
        Some(b'{') => match UpstreamError::parse(body) {
            Some(error) => Err(BadCompletion::ErrorObject(error)),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

pub(super) fn check(endpoint: Endpoint, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    if endpoint == Endpoint::Completions {
        return check_texts(body);
    }
    if endpoint.counts() {
        let name = if endpoint == Endpoint::GeminiCount { "totalTokens" } else { "input_tokens" };
        return checked(body, |body| Some(counted(name, &serde_json::from_slice(body).ok()?, body)));
    }
    checked(body, |body| Some(facts(endpoint, &serde_json::from_slice(body).ok()?, body)))
}

/// A count is a number; Gemini leaves out what is nothing (Protocol Buffers, "ProtoJSON Format").
fn counted(
    name: &'static str,
    answer: &Map<String, Value>,
    body: &[u8],
) -> Result<CompletionFacts, BadCompletion> {
    let there =
        answer.get(name).is_some_and(Value::is_u64) || name == "totalTokens" && !answer.contains_key("error");
    if !there {
        let error = UpstreamError::parse(body).map(BadCompletion::ErrorObject);
        return Err(error.unwrap_or(BadCompletion::Lacks(name)));
    }
    Ok(CompletionFacts {
        usage: None,
        model: None,
        finish_reasons: Vec::new(),
        has_output: true,
        amended: None,
    })
}

fn facts(endpoint: Endpoint, answer: &Answer<'_>, body: &[u8]) -> Result<CompletionFacts, BadCompletion> {
    let shape = Shape::of(endpoint);
    let there = shape.is_there(answer);
    if let Some(error) = answer.error.filter(|error| !is_falsy(error.get())) {
        let wrapped = format!("{{\"error\":{}}}", error.get());
        let words = "the provider reported an error that cannot be read";
        let error = UpstreamError::parse(wrapped.as_bytes());
        return Err(BadCompletion::ErrorObject(
            error.unwrap_or_else(|| UpstreamError::of_kind("error", words)),
        ));
    }
    if !there {
        let error = UpstreamError::parse(body).map(BadCompletion::ErrorObject);
        return Err(error.unwrap_or(BadCompletion::Lacks(shape.list)));
    }
    let model = answer.model.and_then(|model| json::text(model.get().as_bytes()));
    Ok(CompletionFacts {
        usage: answer.usage.and_then(|usage| Usage::parse(usage.get())),
        model: model.filter(|model| !model.is_empty()).map(std::borrow::Cow::into_owned),
        finish_reasons: Vec::new(),
        has_output: true,
        amended: None,
    })
}
