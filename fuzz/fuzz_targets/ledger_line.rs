#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spoolgate_fuzz::ledger_line::body(data));
