//! Moves bytes to and from providers: a connection pool per worker, TLS, a limit for each phase.
//!
//! Read [`Client::send`] first: one call is one attempt on one provider. It answers with a [`Response`] whose
//! [`Body`] is read chunk by chunk, or with a [`TransportError`] that says *how far the request got*
//! ([`TransportPhase`]) and *what broke* ([`TransportErrorKind`]). Whether another attempt is allowed is decided
//! elsewhere, from these two facts.
//!
//! What this crate does on its own, because it cannot change the outcome for the provider:
//! - it replaces a stale pooled connection when nothing of the request was sent;
//! - it sends again what an HTTP/2 peer says that it did not process (`REFUSED_STREAM`, `GOAWAY`);
//! - with [`Request::replay_on_stale`], it repeats once what a *reused* connection lost before the first byte of
//!   an answer.
//!
//! What it never does: follow redirects, decompress, read JSON, buffer a response body, or let a header of one
//! request reach another.

mod body;
mod client;
mod connect;
mod error;
mod exchange;
mod lease;
mod meter;
mod origin;
mod pool;
mod proxy;
mod request;
mod resolve;
mod socket;
mod tls;
mod tunnel;
mod upload;

pub use body::Body;
pub use client::{Client, ClientConfig, ClientError, PoolStats};
pub use error::{TransportError, TransportErrorKind, TransportPhase};
pub use origin::{Origin, OriginError, Scheme};
pub use proxy::ProxyConfig;
pub use request::{HttpVersion, Request, Response, SendLimits, Timing};
