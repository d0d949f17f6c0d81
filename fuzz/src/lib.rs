//! What must hold for any bytes from outside. Each function takes an input and panics where something does not
//! hold; the targets in `fuzz_targets/` only call them, so that a finding can be replayed as a plain test too.

pub mod configuration;
pub mod failure;
pub mod frames;
pub mod framing;
pub mod request;
pub mod stream;
pub mod translation;
