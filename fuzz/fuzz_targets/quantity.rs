//! Any text as every kind of quantity: refused with help, or accepted and printed back to the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_sim::units::{self, QuantityError};

fuzz_target!(|text: &str| {
    check(units::parse_bandwidth(text), |n| units::show_bandwidth(*n), units::parse_bandwidth);
    check(units::parse_rate(text), |n| units::show_rate(*n), units::parse_rate);
    check(units::parse_time(text), |n| units::show_time(*n), units::parse_time);
    check(units::parse_time(text), ToString::to_string, units::parse_time);
    check(units::parse_bytes(text), ToString::to_string, units::parse_bytes);
    check(units::parse_capacity(text), |n| units::show_capacity(*n), units::parse_capacity);
    check(units::parse_efficiency(text), |n| units::show_efficiency(*n), units::parse_efficiency);
    check(units::parse_count(text), ToString::to_string, units::parse_count);
});

fn check<T: PartialEq + std::fmt::Debug>(
    parsed: Result<T, QuantityError>,
    show: impl Fn(&T) -> String,
    parse: fn(&str) -> Result<T, QuantityError>,
) {
    match parsed {
        Ok(value) => assert_eq!(parse(&show(&value)), Ok(value), "UNIT-2"),
        Err(error) => assert!(!error.to_string().is_empty() && error.help().is_some(), "UNIT-3"),
    }
}
