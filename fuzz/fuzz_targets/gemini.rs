//! Streams and answers in the Gemini dialect.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pointsman_wire::dialect::Dialect;

fuzz_target!(|data: &[u8]| pointsman_fuzz::stream::check(Dialect::Gemini, data));
