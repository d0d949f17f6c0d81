//! The `messages` dialect: Anthropic Messages, and the servers that speak it too.

mod answer;
mod events;
mod gather;
pub(crate) mod models;
mod outgoing;
mod reply;
mod request;
pub(crate) mod schema;
mod stream;
#[cfg(test)]
mod tests;
mod thoughts;
mod tools;
mod usage;

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::json::{self, Scanner};

pub use answer::check_message;
pub(crate) use events::{EventReader, EventWriter};
pub use gather::Gather;
pub(crate) use reply::{decode as decode_answer, encode as encode_answer};
pub(crate) use request::{decode as decode_request, encode as encode_request, thinking};
pub use stream::StreamDecoder;
pub(crate) use thoughts::without_foreign;
pub use tools::{PROVIDER_TOOLS, ProviderTool, provider_tool};

/// How deep the data of an event may nest when it is searched.
const MAX_DEPTH: usize = 128;

/// The `type` of an event's data. It usually stands first, and then the rest is not read.
pub(crate) fn event_kind(data: &[u8]) -> Option<Cow<'_, str>> {
    let mut scanner = Scanner::new(data.trim_ascii(), MAX_DEPTH);
    let value = find_member(&mut scanner, "type")?;
    json::text(scanner.slice(&value)).filter(|kind| !kind.is_empty())
}

/// The first member of this name in the object that the scanner stands before.
fn find_member(scanner: &mut Scanner<'_>, name: &str) -> Option<json::Span> {
    let mut first = true;
    scanner.open_object().ok()?;
    while let Some(key) = scanner.next_key(&mut first).ok()? {
        let value = scanner.skip_value().ok()?;
        if json::text(scanner.slice(&key)).is_some_and(|key| key == name) {
            return Some(value);
        }
    }
    None
}

/// Adds a `pointsman` member to the `message` of a `message_start`, at its front; all other bytes stay.
/// `None` for any other event.
pub(crate) fn add_disclosure(data: &[u8], pointsman_json: &str) -> Option<Bytes> {
    if event_kind(data)? != "message_start" {
        return None;
    }
    let data = data.trim_ascii();
    let message = find_member(&mut Scanner::new(data, MAX_DEPTH), "message")?;
    let inside = message.start + 1;
    let members = data.get(message.clone())?.strip_prefix(b"{")?.strip_suffix(b"}")?;
    let mut out = BytesMut::with_capacity(data.len() + pointsman_json.len() + 16);
    out.put_slice(data.get(..inside)?);
    out.put_slice(b"\"pointsman\":");
    out.put_slice(pointsman_json.as_bytes());
    if !members.trim_ascii().is_empty() {
        out.put_u8(b',');
    }
    out.put_slice(data.get(inside..)?);
    Some(out.freeze())
}

/// The types of the Anthropic API ("Errors").
const ERROR_KINDS: &[&str] = &[
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "timeout_error",
    "api_error",
    "overloaded_error",
    "conflict_error",
];

/// A provider's type if it is one of the dialect's, else the one that belongs to the status.
pub(crate) fn error_kind(provider: Option<&str>, status: u16) -> &'static str {
    let own = provider.and_then(|kind| ERROR_KINDS.iter().copied().find(|known| *known == kind));
    own.unwrap_or(match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    })
}
