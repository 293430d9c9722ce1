#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spoolgate_fuzz::decide::body(data));
