//! Any bytes as a `ccl.yaml`: refused with errors that render, or accepted and of use.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_torch::ccl::{CclConfig, Choice};

const BUILTIN: &[&str] = &["ring", "tree"];

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match CclConfig::parse("fuzz.yaml", text, BUILTIN) {
        Ok(config) => check(&config),
        Err(errors) => {
            assert!(!errors.errors().is_empty(), "CCF-2");
            assert!(errors.render(false).starts_with("error: "), "CCF-2");
        }
    }
});

fn check(config: &CclConfig) {
    if let Choice::Named(name) = config.default_choice() {
        assert!(config.plan(&name, BUILTIN).is_some(), "CCF-1");
    }
    for plan in config.plans(BUILTIN) {
        assert!(BUILTIN.contains(&plan.module.as_str()), "CCF-1");
        assert!(plan.edge.n_slots > 0 && plan.edge.slot_size > 0 && plan.n_elem != Some(0), "CCF-4");
        assert!(plan.edge.slot_size.checked_mul(plan.edge.n_slots.into()).is_some(), "CCF-4");
        let shown = config.unfit(&plan, "why").map(|errors| errors.render(false));
        assert!(shown.is_none_or(|shown| shown.contains("fuzz.yaml:")), "CCF-5");
    }
}
