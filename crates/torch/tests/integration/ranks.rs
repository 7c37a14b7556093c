//! Programs of ranks: what the front end promises.

mod first;

use phalanx_sim::config;
use phalanx_sim::machine::Options;
use phalanx_sim::spec::MachineSpec;
use phalanx_torch::Context;
use phalanx_torch::ccl::{Algorithm, CclConfig};

/// A preset with other settings.
pub(crate) fn machine(name: &str, set: &[&str]) -> MachineSpec {
    let text = config::preset(name).expect("a preset").text;
    let overrides: Vec<config::Override> =
        set.iter().map(|text| config::Override::parse(text).expect("an override")).collect();
    config::parse_machine_with(name, text, &overrides).expect("a machine")
}

/// Collectives set up by this text.
pub(crate) fn ccl(text: &str) -> CclConfig {
    CclConfig::parse("ccl.yaml", text, &Algorithm::names()).expect("a configuration")
}

/// A context over `bare` with so many SIPs.
pub(crate) fn bare(sips: usize, text: &str) -> Context {
    let spec = machine("bare", &[&format!("system.sips.count={sips}")]);
    Context::new(spec, Options::default()).with_ccl(ccl(text))
}
