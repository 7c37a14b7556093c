//! Node workloads: what is refused, and when.

use phalanx_runtime::Isolation;
use phalanx_sim::MachineSpec;
use phalanx_workloads::node::{self, NodeError, Setup};

/// Says why a workload does not run; fails if it begins to start anything.
fn refusal(name: &str, given: &[(&str, &str)], chips: u32) -> String {
    let machine = MachineSpec::preset("quad-sip").unwrap_or_else(|error| panic!("{error}"));
    let workload = node::find(name).expect("a workload");
    let tell = |what: &str| panic!("NDE-3: {name} {given:?}: {what}");
    let isolation = Isolation::Process;
    let setup = Setup { machine: &machine, chips, sub_workers: 1, isolation, tell: &tell };
    let outcome = workload
        .settings(&machine, given)
        .map_err(NodeError::from)
        .and_then(|settings| workload.run(&setup, &settings));
    match outcome {
        Err(NodeError::Parameter(error)) => error.to_string(),
        other => panic!("NDE-3: {name} {given:?}: {:?}", other.map(drop)),
    }
}

#[test]
fn nde_3_parameters_chips_and_memory_are_checked_before_anything_starts() {
    for (name, given, chips, words) in [
        ("multi-chip-add", ("element", "5"), 2, "unknown parameter `element`"),
        ("multi-chip-add", ("elements", "0"), 2, "parameter `elements`: 0 is out of range"),
        ("multi-chip-add", ("spoil", "maybe"), 2, "`maybe` is not one of its words"),
        ("multi-chip-add", ("repeats", "1"), 5, "`quad-sip` has 4 SIPs"),
        ("domain-rank-map", ("repeats", "1"), 4, "`domain-rank-map` does not run on 4 chips"),
        ("moe-dispatch", ("top", "33"), 2, "33 experts of 32 cannot be chosen"),
    ] {
        let error = refusal(name, &[given], chips);
        assert!(error.contains(words), "NDE-3: {name} {given:?}: {error}");
    }
}
