//! From one dialect to another: a request on its way to a target that speaks another dialect than the client, and its answer
//! on the way back.
//!
//! The client's body is read afresh for each attempt, so that a failover across dialects is the same as a first try. What was
//! lost on the way is told; what would mean something else is refused before anything is sent.

mod form;
mod names;
mod pairing;
mod seal;
mod stream;
mod unwrap;

use std::borrow::Cow;

use bytes::Bytes;

use crate::dialect::Dialect;
use crate::ir::{Answer, Block, Losses, Request, Signature, Unreadable, Untranslatable};
use crate::passthrough::MaxTokensName;
use crate::responses::Echo;
use crate::{bedrock, chat, gemini, messages, responses};

pub use form::{Form, form, formed};
pub use names::Names;
pub(crate) use names::fingerprint;
pub use seal::origin;
pub(crate) use seal::{is_foreign, may_hold_foreign, unpack};
pub(crate) use stream::Sink;
pub use stream::{StreamTranslator, TooMuchHeld};
pub(crate) use unwrap::{SCHEMA as WRAPPED_SCHEMA, wrap};

/// What a request is written for.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'t> {
    /// What the provider calls the model.
    pub model: &'t str,
    /// Whether the answer shall be a stream.
    pub stream: bool,
    /// Whether the stream shall tell what it took, where that must be asked for.
    pub include_usage: bool,
    /// The most tokens that the model gives out, where that is known.
    pub max_output: Option<u64>,
    /// Whether the model is known to reason.
    pub reasons: bool,
    /// The name under which the provider takes the limit on output tokens.
    pub max_tokens_name: Option<MaxTokensName>,
    /// The target, as [`origin`] names it: what it sealed before may go to it again.
    pub origin: &'t str,
    /// Whether the provider has tools that take any text, in dialects that have such.
    pub custom_tools: bool,
}

/// A request as it is sent.
#[derive(Debug)]
pub struct Written {
    /// Its body.
    pub body: Bytes,
    /// What it no longer says.
    pub losses: Losses,
    /// What was renamed: the answer must be translated with it.
    pub names: Names,
}

/// What must be known to write an answer in the client's dialect.
#[derive(Debug, Clone, Default)]
pub struct Back {
    /// What was renamed in the request.
    pub names: Names,
    /// The time of the answer in seconds since 1970, for dialects that tell it.
    pub created_s: u64,
    /// Whether the client asked to be told what a stream took, where that is asked for.
    pub include_usage: bool,
    /// The target that answers, as [`origin`] names it.
    pub origin: String,
    /// What the client asked, where its answer repeats that: see [`echo`].
    pub echo: Echo,
    /// The answer's id, where the provider gives none.
    pub id: String,
    /// What the provider calls the model, where its answer does not name it.
    pub model: String,
}

/// What an answer in the client's dialect repeats of its request.
#[must_use]
pub fn echo(client: Dialect, body: &[u8]) -> Echo {
    match client {
        Dialect::Chat | Dialect::Messages | Dialect::Gemini | Dialect::Bedrock => Echo::default(),
        Dialect::Responses => Echo::of(body),
    }
}

/// Why a request is not sent in another dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The client's own fault.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The other dialect cannot say it.
    #[error(transparent)]
    Untranslatable(#[from] Untranslatable),
}

/// Writes a client's request in the dialect of a target.
///
/// # Errors
/// [`Refused`]; nothing may be sent then.
pub fn request(
    body: &[u8],
    from: Dialect,
    to: Dialect,
    destination: &Destination<'_>,
) -> Result<Written, Refused> {
    let mut request = read(body, from)?;
    let mended = pairing::mend(&mut request)?;
    let mut written = match to {
        Dialect::Chat => chat::encode_request(&request, destination)?,
        Dialect::Messages => messages::encode_request(&request, destination)?,
        Dialect::Responses => responses::encode_request(&request, destination)?,
        Dialect::Gemini => gemini::encode_request(&request, destination)?,
        Dialect::Bedrock => bedrock::encode_request(&request, destination)?,
    };
    written.losses.extend(mended);
    Ok(written)
}

pub(crate) fn read(body: &[u8], dialect: Dialect) -> Result<Request<'_>, Unreadable> {
    match dialect {
        Dialect::Chat => chat::decode_request(body),
        Dialect::Messages => messages::decode_request(body),
        Dialect::Responses => responses::decode_request(body),
        Dialect::Gemini => gemini::decode_request(body),
        Dialect::Bedrock => Err(no_client()),
    }
}

/// A dialect that no client speaks.
fn no_client() -> Unreadable {
    Unreadable::at("", "is in a dialect that no client speaks")
}

/// Writes a provider's whole answer in the client's dialect.
///
/// # Errors
/// [`Unreadable`] if it is no answer of its dialect.
pub fn answer(body: &[u8], from: Dialect, to: Dialect, back: &Back) -> Result<Bytes, Unreadable> {
    let mut answer = read_answer(body, from)?;
    if answer.id.is_empty() {
        answer.id = Cow::Borrowed(&back.id);
    }
    if answer.model.is_empty() {
        answer.model = Cow::Borrowed(&back.model);
    }
    back.names.restore(&mut answer);
    seal_thoughts(&mut answer, from, &back.origin);
    let bytes = match to {
        Dialect::Chat => chat::encode_answer(&answer, back.created_s),
        Dialect::Messages => messages::encode_answer(&answer),
        Dialect::Responses => responses::encode_answer(&answer, back),
        Dialect::Gemini => gemini::encode_answer(&answer),
        Dialect::Bedrock => return Err(no_client()),
    };
    bytes.map(Bytes::from).map_err(|_| Unreadable::at("", "cannot be written as JSON"))
}

pub(crate) fn read_answer(body: &[u8], dialect: Dialect) -> Result<Answer<'_>, Unreadable> {
    match dialect {
        Dialect::Chat => chat::decode_answer(body),
        Dialect::Messages => messages::decode_answer(body),
        Dialect::Responses => responses::decode_answer(body),
        Dialect::Gemini => gemini::decode_answer(body),
        Dialect::Bedrock => bedrock::decode_answer(body),
    }
}

/// Marks what the model thought as this target's.
fn seal_thoughts(answer: &mut Answer<'_>, from: Dialect, origin: &str) {
    for block in &mut answer.blocks {
        if let Block::Reasoning { signature, .. } = block {
            let seal = signature.as_ref().map_or("", |signature| signature.value.as_ref());
            let value = Cow::Owned(seal::pack(from, origin, seal));
            *signature = Some(Signature { dialect: from, origin: None, value });
        }
    }
}
