//! Durable records: what they hold, the trait of a ledger, and the memory backend.
//!
//! Records hold kinds, names, counts and times, and no content: no prompt, output, tool argument or credential.

mod ledger;
mod memory;
mod record;

pub use ledger::{Filter, Ledger};
pub use memory::MemoryLedger;
pub use record::{AttemptEntry, RequestEntry, TraceEntry, UsageEntry};
