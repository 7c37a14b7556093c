//! The share of the links' bound that the best algorithm reaches on every machine that comes with Phalanx.

use super::truths::timed;
use crate::ranks::machine;
use phalanx_sim::MachineSpec;
use phalanx_torch::ccl::sweep::{link_limit, memory_limit};
use phalanx_torch::ccl::trial::{Trial, measure};
use phalanx_torch::ccl::{CclConfig, Operation, Plan};

/// The best share of the bound at 256 MiB, in per mille, and its plan.
fn best(spec: &MachineSpec, operation: Operation, plans: &[&str]) -> (u64, String) {
    let bytes = 256 << 20;
    let ccl = CclConfig::builtin();
    let limit = link_limit(spec, operation, bytes as u64).expect("links with a limit");
    let plans = plans.iter().filter_map(|name| ccl.plan(name, &ccl.names()));
    let members: Vec<u32> = (0..spec.devices()).collect();
    let fitting = plans.filter(|plan| plan.check(operation, spec, &members).is_ok());
    let share = |plan: &Plan| 1000 * limit.as_ps() / timed(operation, spec, plan, bytes).as_ps();
    let mut best = (0, String::new());
    for plan in fitting {
        let share = share(&plan);
        assert!(share <= 1000, "LNK-1: {} on {}: {share}", plan.name, spec.name);
        if share > best.0 {
            best = (share, plan.name);
        }
        if best.0 >= 900 {
            break;
        }
    }
    best
}

fn check(preset: &str, operations: &[Operation], plans: &[&str]) {
    let spec = machine(preset, &[]);
    for &operation in operations {
        let (share, plan) = best(&spec, operation, plans);
        assert!(share >= 900, "LNK-1: {operation} on {preset}: {share} per mille by {plan}");
    }
}

#[test]
fn lnk_1_rings_reach_90_percent() {
    for preset in ["bare", "pair", "quad-sip", "octo-ring"] {
        check(
            preset,
            &Operation::ALL,
            &["multi_ring:32", "multi_ring:8", "direct:32", "direct:all"],
        );
    }
}

#[test]
fn lnk_1_a_torus_reaches_90_percent() {
    check(
        "torus-16",
        &Operation::ALL,
        &["multi_ring:32", "multi_ring:8", "direct:32", "direct:all"],
    );
}

#[test]
fn lnk_1_a_switch_reaches_90_percent() {
    let operations = [Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather];
    check("pod-64", &operations, &["ring:32", "direct:32"]);
    check("pod-64", &[Operation::Scatter, Operation::AllToAll], &["direct:32"]);
}

#[test]
fn lnk_1_rails_reach_90_percent() {
    let operations = [Operation::Broadcast, Operation::Scatter, Operation::Gather];
    check("a100-ib-16", &operations, &["two_level:32"]);
    let operations = [Operation::Scatter, Operation::Gather];
    check("b200-roce-16", &operations, &["two_level:32"]);
    check("h100-pod-64", &operations, &["two_level:32"]);
}

#[test]
fn lnk_2_a_root_copies_its_vector_beside_its_messages() {
    let spec = machine("pod-64", &["system.sips.count=4"]);
    let (operation, bytes) = (Operation::Broadcast, 256 << 20);
    let ccl = CclConfig::builtin();
    let plan = ccl.plan("double_tree:32", &ccl.names()).unwrap();
    let mut trial = Trial::new(operation, (0..4).collect(), bytes / 4);
    trial.layout.apart = true;
    let time = measure(&spec, &trial, &plan).unwrap();
    let limit = memory_limit(&spec, operation, bytes as u64).unwrap();
    assert!(limit > link_limit(&spec, operation, bytes as u64).unwrap(), "LNK-2");
    let share = 1000 * limit.as_ps() / time.as_ps();
    assert!((900..=1000).contains(&share), "LNK-2: {share} per mille");
}

#[test]
fn lnk_1_full_meshes_reach_90_percent() {
    let operations = [
        Operation::AllReduce,
        Operation::ReduceScatter,
        Operation::AllGather,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::AllToAll,
    ];
    for preset in ["gaudi3-8", "mi300x-8"] {
        check(preset, &operations, &["two_hop:32", "two_hop:8"]);
    }
}

#[test]
fn lnk_1_a_switch_that_combines_reaches_90_percent() {
    for preset in ["hgx-h100", "hgx-b200"] {
        check(preset, &[Operation::AllReduce, Operation::AllGather], &["nvls:32", "ring:32"]);
    }
    for preset in ["hgx-a100", "hgx-h100"] {
        check(preset, &[Operation::AllToAll], &["direct:32"]);
    }
}
