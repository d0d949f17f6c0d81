//! Requests, answers and streams in another dialect.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| pointsman_fuzz::translation::check(data));
