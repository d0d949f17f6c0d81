//! A simulator seen from outside: what bytes and ends a raw client gets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod answers;
mod bedrock;
mod bedrock_requests;
mod cached;
mod control;
mod errors;
mod faults;
mod gemini;
mod gemini_faults;
mod gemini_requests;
mod lifecycle;
mod messages;
mod named;
mod raw;
mod responses;
mod responses_faults;
mod responses_requests;
mod services;

use pointsman_provider_sim::{Script, Sim, SimConfig};

/// A simulator `sim-a` on a free port that answers everything with this script.
async fn sim(script: Script) -> Sim {
    Sim::start(SimConfig { default: script, ..SimConfig::named("sim-a") }).await.unwrap()
}
