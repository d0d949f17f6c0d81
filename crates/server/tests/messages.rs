//! Anthropic Messages through the gateway end to end, on real sockets: only the providers are simulated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "e2e/checks.rs"]
#[allow(dead_code)] // shared with the other test binary
mod checks;
#[path = "messages/committed.rs"]
mod committed;
#[path = "messages/failover.rs"]
mod failover;
#[path = "messages/heartbeat.rs"]
mod heartbeat;
#[path = "messages/line.rs"]
mod line;
#[path = "messages/neighbours.rs"]
mod neighbours;
#[path = "messages/responses.rs"]
mod responses;
#[path = "messages/shapes.rs"]
mod shapes;
#[path = "e2e/support.rs"]
#[allow(dead_code)] // shared with the other test binary
mod support;
#[path = "messages/table.rs"]
mod table;
#[path = "messages/through.rs"]
mod through;
#[path = "messages/translated.rs"]
mod translated;
