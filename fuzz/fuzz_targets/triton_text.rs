//! Any text as the TTIR of a kernel: refused with an error that has a place, or a module.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = phalanx_triton::parse(text) {
        assert!(error.line > 0 && error.column > 0 && !error.message.is_empty(), "TTR-1");
    }
});
