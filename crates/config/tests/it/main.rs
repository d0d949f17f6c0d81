//! What the crate promises, from outside: text in, configuration or problems out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod bedrock;
mod catalog;
mod environment;
mod example;
mod files;
mod places;
mod promises;
mod refused;
mod resolved;
mod secrets;
mod spanning;
mod support;
