//! A simulator seen from outside: what bytes and ends a raw client gets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod answers;
mod raw;
