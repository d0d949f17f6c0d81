//! Pointsman.
fn main() {}
