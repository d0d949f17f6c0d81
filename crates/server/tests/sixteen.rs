//! The sixteen public failover scenarios: one route of two different models, profile `interactive`, default retry order.
//! Each test bears the number of its scenario in `docs/scenarios.md`. Where a figure is time, it is real time with the
//! profile's own limits; only idle limits and the minute of the outage are scaled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "e2e/checks.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod checks;
#[path = "e2e/support.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod support;

#[path = "sixteen/answers.rs"]
mod answers;
#[path = "sixteen/books.rs"]
mod books;
#[path = "sixteen/limits.rs"]
mod limits;
#[path = "sixteen/route.rs"]
mod route;
#[path = "sixteen/streams.rs"]
mod streams;
