//! The transport against servers on real sockets that behave in every way that providers and networks do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(missing_docs, unreachable_pub)]

mod frames;
mod http1;
mod http2;
mod isolation;
mod limits;
mod losses;
mod proxy;
mod stale;
mod support;
mod tls;
