//! Any bytes as a machine file: refused with errors that render, or accepted and printed back to the same machine.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_sim::config::{parse_machine, to_yaml};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse_machine("fuzz.yaml", text) {
        Ok(spec) => assert_eq!(parse_machine("printed.yaml", &to_yaml(&spec)), Ok(spec), "PRINT-1"),
        Err(errors) => {
            assert!(!errors.errors().is_empty(), "CFG-2");
            assert!(errors.render(false).starts_with("error: "), "CFG-2");
        }
    }
});
