//! The running gateway beside neighbours that are stopped, killed, cut off or in a crowd: what it says then, and that
//! afterwards nothing of them is left in its process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../crates/upstream/tests/transport/frames.rs"]
#[allow(dead_code, unreachable_pub)] // shared with the tests of the transport
mod frames;
#[path = "cli/process.rs"]
#[allow(dead_code)] // shared with the tests of the command line
mod process;

#[path = "endurance/client.rs"]
mod client;
#[path = "endurance/clients.rs"]
mod clients;
#[path = "endurance/crowds.rs"]
mod crowds;
#[path = "endurance/gateway.rs"]
mod gateway;
#[path = "endurance/half_open.rs"]
mod half_open;
#[path = "endurance/handshakes.rs"]
mod handshakes;
#[path = "endurance/neighbour.rs"]
mod neighbour;
#[path = "endurance/providers.rs"]
mod providers;
#[path = "endurance/restart.rs"]
mod restart;

/// They fill the machine and hold answers against limits of a second: one after the other. (Where each test is a process
/// of its own, `.config/nextest.toml` says so.)
async fn turn() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}
