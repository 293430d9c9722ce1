#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spoolgate_fuzz::market_file::body(data));
