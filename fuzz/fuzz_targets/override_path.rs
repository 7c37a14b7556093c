//! The first byte picks a preset, each line after it is an override of that preset.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_sim::config::{Override, parse_machine, parse_machine_with, presets, to_yaml};

fuzz_target!(|input: (u8, &str)| {
    let preset = presets()[usize::from(input.0) % presets().len()];
    let overrides: Vec<Override> = input.1.lines().filter_map(|line| Override::parse(line).ok()).collect();
    match parse_machine_with(preset.name, preset.text, &overrides) {
        Ok(spec) => assert_eq!(parse_machine("printed.yaml", &to_yaml(&spec)), Ok(spec), "PRINT-1"),
        Err(errors) => assert!(errors.render(true).contains("error"), "CFG-2"),
    }
});
