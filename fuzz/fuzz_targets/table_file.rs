//! Any bytes as a table of measurements: refused with errors that render, or accepted with rows that can be simulated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_workloads::truth::{Selection, Size, read};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match read("fuzz.csv", text, &Selection::default()) {
        Ok(tables) => {
            assert!(!tables.is_empty(), "TRU-1");
            for point in tables.iter().flat_map(|table| &table.points) {
                assert!(point.measured_us > 0.0 && point.measured_us.is_finite(), "TRU-1");
                let positive = match point.size {
                    Size::Bytes(bytes) => bytes > 0,
                    Size::Gemm(sides) => sides.iter().all(|side| *side > 0),
                };
                assert!(positive, "TRU-1");
            }
        }
        Err(errors) => {
            assert!(!errors.errors().is_empty(), "TRU-1");
            assert!(errors.render(false).starts_with("error: "), "TRU-1");
        }
    }
});
