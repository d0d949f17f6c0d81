//! The front of the gateway end to end, on real sockets: clients that leave, crowd, knock, wish, and a gateway that
//! leaves itself. Apart from the other end-to-end tests since these look at all that is logged in the process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "e2e/abort.rs"]
mod abort;
#[path = "e2e/clients.rs"]
mod clients;
#[path = "e2e/doors.rs"]
mod doors;
#[path = "e2e/drain.rs"]
mod drain;
#[path = "e2e/limits.rs"]
mod limits;
#[path = "e2e/logs.rs"]
mod logs;
#[path = "e2e/support.rs"]
#[allow(dead_code)] // shared with the other test binary
mod support;
#[path = "e2e/through.rs"]
mod through;
#[path = "e2e/wishes.rs"]
mod wishes;
