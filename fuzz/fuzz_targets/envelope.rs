//! Request envelopes and what is made of them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| pointsman_fuzz::request::check(data));
