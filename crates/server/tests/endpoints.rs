//! Endpoints beside conversations end to end, on real sockets: embeddings, images, audio and others go by the same
//! pipeline. Only the providers are simulated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(unreachable_pub)] // modules of one test binary

#[path = "endpoints/audio.rs"]
mod audio;
#[path = "e2e/checks.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod checks;
#[path = "endpoints/completions.rs"]
mod completions;
#[path = "endpoints/counted.rs"]
mod counted;
#[path = "endpoints/explained.rs"]
mod explained;
#[path = "endpoints/images.rs"]
mod images;
#[path = "endpoints/raw.rs"]
mod raw;
#[path = "e2e/support.rs"]
#[allow(dead_code)] // shared with the other test binaries
mod support;
#[path = "endpoints/vectors.rs"]
mod vectors;
#[path = "endpoints/whole.rs"]
mod whole;
