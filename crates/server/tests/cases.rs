//! Inputs that broke other gateways, each under its number, as far as they are about Chat Completions, about Messages
//! that need no translation, or about no dialect at all. What can differ between the dialects is tested in both. Which
//! numbers are shown stands in `tests/cases.toml`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "e2e/checks.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod checks;
#[path = "e2e/clients.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod clients;
#[path = "messages/line.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod line;
#[path = "e2e/support.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod support;

#[path = "e2e/logs.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod logs;

#[path = "cases/attempts.rs"]
mod attempts;
#[path = "cases/chunks.rs"]
mod chunks;
#[path = "cases/errors.rs"]
mod errors;
#[path = "cases/formed.rs"]
mod formed;
#[path = "../../upstream/tests/transport/frames.rs"]
#[allow(dead_code)] // shared with the tests of the transport
mod frames;
#[path = "cases/health.rs"]
mod health;
#[path = "cases/http2.rs"]
mod http2;
#[path = "cases/named.rs"]
mod named;
#[path = "cases/security.rs"]
mod security;
#[path = "cases/streams.rs"]
mod streams;
#[path = "cases/tongue.rs"]
mod tongue;
#[path = "cases/transport.rs"]
mod transport;
