//! Bytes to meaning and back: framing, codecs, error envelopes, classification.
//!
//! This crate is synchronous and pure. It knows no sockets, no clock, no randomness and nothing of the other
//! crates: time comes in as an argument, bytes come in as slices. What it offers:
//!
//! - [`sse`]: server-sent events, both directions; [`framing`]: those, or the frames of Bedrock.
//! - [`envelope`]: what the gateway must know of a client's request, read in one forward pass.
//! - [`passthrough`]: a client's own bytes, changed only where a target needs it.
//! - [`dialect`]: what differs between the dialects, selected by one value.
//! - [`chat`]: the Chat Completions dialect: the tap over a stream, gathering, checking a plain answer.
//! - [`endpoint`]: what is asked for beside conversations: embeddings, images and others.
//! - [`messages`], [`gemini`], [`bedrock`]: the same for Messages, Gemini and Bedrock's Converse.
//! - [`grammar`]: what a Messages stream, and a Gemini stream, must look like to a client.
//! - [`translate`]: a request, an answer, a stream in another dialect than the client's.
//! - [`error`]: error bodies, read leniently and written strictly.
//! - [`classify`]: what kind of failure an answer is; one table per provider.
//! - [`ir`]: what requests, answers and streams mean, for those that change their dialect on the way.
//! - [`guidance`]: what a provider says about when to come back.
//! - [`provider`]: providers as rows of data.
//! - [`tokens`]: how many tokens a text or a request has.

pub mod bedrock;
pub mod chat;
pub mod classify;
mod counts;
pub mod dialect;
pub mod endpoint;
pub mod envelope;
pub mod error;
pub mod framing;
pub mod gemini;
pub mod grammar;
pub mod guidance;
pub mod ir;
mod json;
pub mod messages;
pub mod passthrough;
pub mod provider;
pub mod responses;
pub mod sse;
pub mod tokens;
pub mod translate;
