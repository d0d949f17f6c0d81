//! What a stranger's review of the data path found: each test is a promise that was not kept. The provider here is a
//! bare socket, so that every byte and every pause is the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "review/harness.rs"]
mod harness;

#[path = "review/blame.rs"]
mod blame;
#[path = "review/bounds.rs"]
mod bounds;
#[path = "review/streams.rs"]
mod streams;
