//! The gateway end to end, on real sockets: only the providers are simulated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "e2e/checks.rs"]
mod checks;
#[path = "e2e/committed.rs"]
mod committed;
#[path = "e2e/failover.rs"]
mod failover;
#[path = "e2e/framing.rs"]
mod framing;
#[path = "e2e/heartbeat.rs"]
mod heartbeat;
#[path = "e2e/models.rs"]
mod models;
#[path = "e2e/outages.rs"]
mod outages;
#[path = "e2e/rates.rs"]
mod rates;
#[path = "e2e/rejected.rs"]
mod rejected;
#[path = "e2e/shapes.rs"]
mod shapes;
#[path = "e2e/support.rs"]
mod support;
#[path = "e2e/table.rs"]
mod table;
