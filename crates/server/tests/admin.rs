//! The admin plane against a running gateway: what it shows is what happens on the data plane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "admin/access.rs"]
mod access;
#[path = "admin/explain.rs"]
mod explain;
#[path = "admin/operate.rs"]
mod operate;
#[path = "admin/outage.rs"]
mod outage;
#[path = "admin/reload.rs"]
mod reload;
#[path = "admin/requests.rs"]
mod requests;
#[path = "admin/support.rs"]
mod support;
