//! Frames of AWS's event stream, and streams and answers in the Bedrock dialect.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| pointsman_fuzz::frames::check(data));
