//! The binary from outside: what it prints, what it serves, and the codes that it ends with.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "cli/process.rs"]
mod process;

#[path = "cli/catalogs.rs"]
mod catalogs;
#[path = "cli/explains.rs"]
mod explains;
#[path = "cli/serves.rs"]
mod serves;
#[path = "cli/words.rs"]
mod words;
