//! The server: from an accepted request to a settled one.
//!
//! Start with [`pipeline`](self) (`pipeline.rs`): the way of a request, one function per step. The controller of the core
//! decides; what is here obeys, and is the only user of the real clock and of entropy.

mod admin;
mod answer;
mod app;
mod attempt;
mod audit;
mod auth;
mod aws;
mod clock;
mod connection;
mod counting;
mod descriptors;
mod exchange;
mod fail;
mod formed;
mod gemini;
mod guard;
mod ids;
mod intake;
mod limits;
mod listing;
mod metrics;
mod names;
mod piped;
mod pipeline;
mod preferences;
mod reading;
mod record;
mod relay;
mod reload;
mod run;
mod snapshot;
mod switches;
mod translation;
mod verdict;

pub use admin::{ExplainError, Explanation, FallbackView, FirstDecision, HealthView, Resolution, TargetRow};
pub use app::{App, AppError, Loader};
pub use clock::Clock;
pub use limits::Admission;
pub use metrics::Metrics;
pub use run::{Running, start};
pub use snapshot::{Snapshot, SnapshotError};
