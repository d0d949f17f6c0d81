//! Gemini through the gateway end to end, on real sockets, as the client's dialect and as the provider's: only the providers
//! are simulated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "gemini/answers.rs"]
mod answers;
#[path = "gemini/asked.rs"]
mod asked;
#[path = "e2e/checks.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod checks;
#[path = "gemini/failures.rs"]
mod failures;
#[path = "messages/line.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod line;
#[path = "e2e/support.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod support;
#[path = "gemini/tools.rs"]
mod tools;
