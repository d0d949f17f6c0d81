//! The decision core: pure, deterministic, without I/O or a clock.
