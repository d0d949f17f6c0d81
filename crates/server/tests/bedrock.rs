//! Bedrock through the gateway end to end, on real sockets: clients of each dialect, signed requests, frames. Only the
//! providers are simulated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "bedrock/answers.rs"]
mod answers;
#[path = "bedrock/asked.rs"]
mod asked;
#[path = "e2e/checks.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod checks;
#[path = "bedrock/failures.rs"]
mod failures;
#[path = "bedrock/signed.rs"]
mod signed;
#[path = "e2e/support.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod support;
#[path = "bedrock/tools.rs"]
mod tools;
