//! The response object (OpenAI API reference, "The response object"), with what the client asked repeated in it.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::item::Item;
use super::usage::OutUsage;
use crate::error::ErrorView;
use crate::json::Members;

/// What an answer repeats of its request, and what stands there where the client said nothing.
const REPEATED: [(&str, &str); 16] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("prompt_cache_key", "null"),
    ("reasoning", "{\"effort\":null,\"summary\":null}"),
    ("safety_identifier", "null"),
    ("service_tier", "\"default\""),
    ("temperature", "null"),
    ("text", "{\"format\":{\"type\":\"text\"}}"),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_p", "null"),
    ("truncation", "\"disabled\""),
    ("user", "null"),
];

/// What a client asked, as far as its answer repeats it.
#[derive(Clone, Default)]
pub struct Echo(Vec<(&'static str, Box<RawValue>)>);

impl std::fmt::Debug for Echo {
    /// Not what the client wrote.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Echo").finish_non_exhaustive()
    }
}

impl Echo {
    /// How much it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.iter().map(|(_, value)| value.get().len()).sum()
    }

    /// Reads it from the client's request.
    pub(crate) fn of(body: &[u8]) -> Self {
        let Ok(mut members) = Members::of_body(body) else { return Self::default() };
        let taken = REPEATED.iter().filter_map(|(name, _)| Some((*name, members.take(name)?.to_owned())));
        Self(taken.collect())
    }
}

/// How far a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Completed,
    Failed,
    InProgress,
    /// It ended before the model was done: `max_output_tokens` or `content_filter`.
    Incomplete(&'static str),
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::InProgress => "in_progress",
            Self::Incomplete(_) => "incomplete",
        }
    }
}

/// The output of a response.
#[derive(Clone, Copy)]
pub(super) enum Items<'a> {
    /// As items.
    Of(&'a [Item<'a>]),
    /// As JSON.
    Raw(&'a RawValue),
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Of(items) => items.serialize(serializer),
            Self::Raw(json) => json.serialize(serializer),
        }
    }
}

/// A response as it is written.
pub(super) struct Object<'a> {
    pub(super) id: &'a str,
    pub(super) created_s: u64,
    pub(super) model: &'a str,
    pub(super) status: Status,
    pub(super) error: Option<ErrorView<'a>>,
    pub(super) output: Items<'a>,
    pub(super) usage: Option<OutUsage>,
    pub(super) echo: &'a Echo,
}

#[derive(Serialize)]
struct Failure<'a> {
    code: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct Reason {
    reason: &'static str,
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("object", "response")?;
        map.serialize_entry("created_at", &self.created_s)?;
        map.serialize_entry("status", self.status.name())?;
        map.serialize_entry("background", &false)?;
        let failure = self
            .error
            .as_ref()
            .map(|error| Failure { code: error.code.unwrap_or("server_error"), message: error.message });
        map.serialize_entry("error", &failure)?;
        let reason = match self.status {
            Status::Incomplete(reason) => Some(Reason { reason }),
            _ => None,
        };
        map.serialize_entry("incomplete_details", &reason)?;
        map.serialize_entry("model", self.model)?;
        map.serialize_entry("output", &self.output)?;
        map.serialize_entry("previous_response_id", &None::<()>)?;
        // Nothing of it is kept: there is nothing to come back to.
        map.serialize_entry("store", &false)?;
        map.serialize_entry("usage", &self.usage)?;
        for (name, default) in REPEATED {
            match self.echo.0.iter().find(|(known, _)| *known == name) {
                Some((_, json)) => map.serialize_entry(name, json)?,
                None => map.serialize_entry(name, &raw(default))?,
            }
        }
        map.end()
    }
}

fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

/// A response's id: that of the provider, in the form that it has here.
pub(super) fn response_id(id: &str) -> String {
    if id.starts_with("resp_") {
        return id.to_owned();
    }
    format!(
        "resp_{}",
        id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect::<String>()
    )
}

/// What marks the ids that are made here: no provider knows them.
pub(super) const MINTED: &str = "_pm1_";

/// The id of an item: of this response and its place in it.
pub(super) fn item_id(prefix: &str, response: &str, place: usize) -> String {
    format!("{prefix}{MINTED}{}_{place}", response.strip_prefix("resp_").unwrap_or(response))
}
