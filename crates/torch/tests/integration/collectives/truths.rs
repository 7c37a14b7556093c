//! Every closed form for collectives, exact to the nanosecond, with numbers on.

use super::{Case, GRIDS, torus};
use crate::ranks::machine;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::ccl::trial::{Trial, measure};
use phalanx_torch::ccl::{Operation, Plan};

const MIB: usize = 1 << 20;

/// `bare` with so many SIPs, wired like this.
pub(super) fn wired(topology: &str, ranks: usize) -> MachineSpec {
    let count = format!("system.sips.count={ranks}");
    machine("bare", &[&count, &format!("system.sips.topology={topology}")])
}

pub(super) fn plan(module: &str, n_slots: u32, slot_size: usize) -> Plan {
    let edge = EdgeSpec { n_slots, slot_size: slot_size as u64, ..EdgeSpec::default() };
    let (name, module) = (module.into(), module.into());
    let (channels, start, in_loops) = (None, Time::ZERO, false);
    Plan { name, module, edge, channels, start, in_loops, n_elem: None, topology: None, own: None }
}

/// Without numbers; `bytes` is the larger of input and output.
pub(super) fn timed(operation: Operation, spec: &MachineSpec, plan: &Plan, bytes: usize) -> Time {
    let members = (0..spec.devices()).collect();
    let trial = Trial::new(operation, members, bytes / 4);
    measure(spec, &trial, plan).unwrap_or_else(|error| panic!("{}: {error}", plan.name))
}

/// With numbers and without, a whole message in a slot; `bytes` is the larger of input and output, of every rank.
fn whole(operation: Operation, algorithm: &'static str, spec: &MachineSpec, bytes: usize) -> Time {
    let ranks = spec.sips.count as usize;
    let plan = plan(algorithm, 2, bytes);
    let elements = bytes / 4 / if operation.is_elementwise() { 1 } else { ranks };
    let case = Case::new(operation, algorithm, ranks, elements);
    let time = Case { edge: plan.edge, ..case }.check(spec);
    assert_eq!(time, timed(operation, spec, &plan, bytes), "{algorithm}: data on and off");
    time
}

const A: usize = 500;
const B: usize = 128;
const VEC: usize = 512;

fn ns(time: usize) -> Time {
    Time::ns(time as u64)
}

#[test]
fn t1_the_numbers_of_the_table() {
    let ring = wired("ring_1d", 8);
    assert_eq!(whole(Operation::AllReduce, "ring", &ring, MIB), ns(23_128));
    assert_eq!(whole(Operation::ReduceScatter, "ring", &ring, MIB), ns(12_460));
    assert_eq!(whole(Operation::AllGather, "ring", &ring, MIB), ns(10_668));
    let full = wired("fully_connected", 8);
    assert_eq!(whole(Operation::AllReduce, "halving_doubling", &full, MIB), ns(19_128));
    assert_eq!(whole(Operation::AllReduce, "recursive_doubling", &full, MIB), ns(32_220));
    assert_eq!(whole(Operation::AllReduce, "torus_2d", &torus(4, 4), MIB), ns(23_280));
}

#[test]
fn rings_obey_the_formula() {
    for (p, n) in [(2, MIB), (3, 3 << 14), (4, 1 << 16), (5, 5 << 14), (16, 1 << 17)] {
        let (spec, m) = (wired("ring_1d", p), n / p);
        let expected = 2 * (p - 1) * (A + m / B) + (p - 1) * m / VEC;
        assert_eq!(whole(Operation::AllReduce, "ring", &spec, n), ns(expected), "P={p} n={n}");
        let expected = (p - 1) * (A + m / B + m / VEC);
        assert_eq!(whole(Operation::ReduceScatter, "ring", &spec, n), ns(expected), "P={p} n={n}");
        let expected = (p - 1) * (A + m / B);
        assert_eq!(whole(Operation::AllGather, "ring", &spec, n), ns(expected), "P={p} n={n}");
        // Two directions carry half of it each; their sums share the vector engine.
        if p > 2 {
            let expected = 2 * (p - 1) * (A + m / 2 / B) + (p - 1) * m / VEC;
            let time = whole(Operation::AllReduce, "bidirectional_ring", &spec, n);
            assert!(time <= ns(expected), "P={p} n={n}: {time} and {expected} ns");
        }
    }
}

#[test]
fn pairs_and_trees_obey_the_formula() {
    for (p, log) in [(2, 1), (4, 2), (8, 3), (16, 4)] {
        for n in [1 << 13, 1 << 16] {
            let spec = wired("fully_connected", p);
            let expected = 2 * log * A + 2 * (p - 1) * n / p / B + (p - 1) * n / p / VEC;
            let time = whole(Operation::AllReduce, "halving_doubling", &spec, n);
            assert_eq!(time, ns(expected), "halving and doubling, P={p} n={n}");
            let expected = log * (A + n / B + n / VEC);
            let time = whole(Operation::AllReduce, "recursive_doubling", &spec, n);
            assert_eq!(time, ns(expected), "recursive doubling, P={p} n={n}");
            let expected = 2 * log * (A + n / B) + log * n / VEC;
            let time = whole(Operation::AllReduce, "tree", &spec, n);
            assert_eq!(time, ns(expected), "tree, P={p} n={n}");
            let time = whole(Operation::Broadcast, "tree", &spec, n);
            assert_eq!(time, ns(log * (A + n / B)), "a tree's broadcast, P={p} n={n}");
        }
    }
}

#[test]
fn grids_obey_the_formula() {
    for (rows, columns) in [(2, 2), (2, 4), (4, 2), (4, 4), (1, 4), (4, 1), (8, 4)] {
        let (p, n) = (rows * columns, 1 << 17);
        let expected =
            2 * (rows + columns - 2) * A + 2 * (p - 1) * n / p / B + (p - 1) * n / p / VEC;
        let time = whole(Operation::AllReduce, "torus_2d", &torus(rows, columns), n);
        assert_eq!(time, ns(expected), "{rows}x{columns}");
    }
}

#[test]
fn all_to_all_on_a_switch_is_pipelined() {
    for (p, n) in [(2, MIB), (4, 1 << 16), (8, 1 << 16), (16, 1 << 17), (5, 5 << 14)] {
        let expected = (p - 1) * (n / p) / B + A;
        let spec = wired("switch", p);
        assert_eq!(whole(Operation::AllToAll, "direct", &spec, n), ns(expected), "P={p} n={n}");
        // In small slots too, as long as there are enough of them.
        let small = plan("direct", 40, 4096);
        let time = timed(Operation::AllToAll, &spec, &small, n);
        assert!(
            time <= ns(expected + 4096 / B),
            "P={p} n={n} in small slots: {time}, not {expected} ns"
        );
    }
}

#[test]
fn the_ring_through_bounded_slots() {
    let plan = plan("ring", 4, 16 << 10);
    for (ranks, expected) in [(4, 439_180), (16, 549_004), (64, 576_460)] {
        let time = timed(Operation::AllReduce, &wired("ring_1d", ranks), &plan, 16 * MIB);
        assert_eq!(time, ns(expected), "P={ranks}");
    }
}

#[test]
fn a_large_ring_with_enough_slots_reaches_97_percent_of_the_bound() {
    for (p, n) in [(4, 16 * MIB), (8, 64 * MIB)] {
        let bound = 2 * (p - 1) * (n / p) / B;
        let time =
            timed(Operation::AllReduce, &wired("ring_1d", p), &plan("ring", 16, 64 << 10), n);
        assert!(time >= ns(bound), "P={p}: {time} is below the bound, {bound} ns");
        assert!(ns(bound * 100 / 97) >= time, "P={p}: {time}, and the bound is {bound} ns");
    }
}

#[test]
fn no_all_reduce_on_one_port_beats_the_bound() {
    for algorithm in super::able(Operation::AllReduce).filter(|name| !GRIDS.contains(name)) {
        for (p, n) in [(2, 1 << 16), (5, MIB), (8, MIB)] {
            let bound = 2 * (p - 1) * (n / p) / B;
            for plan in [plan(algorithm, 2, n), plan(algorithm, 16, 8192)] {
                let time = timed(Operation::AllReduce, &wired("switch", p), &plan, n);
                assert!(time >= ns(bound), "{algorithm}, P={p}: {time} is below {bound} ns");
            }
        }
    }
}

#[test]
fn hierarchical_uses_all_pes() {
    let pes = "cube.pes={rows: 2, columns: 2, link: {bandwidth: unlimited, latency: 0 ns}}";
    let spec = machine("bare", &[pes, "system.sips.count=4"]);
    let case = Case::new(Operation::AllReduce, "hierarchical", 4, MIB / 4);
    let case = Case { edge: plan("hierarchical", 2, MIB).edge, ..case };
    let hierarchical = case.check(&spec);
    let ring = Case { algorithm: "ring", ..case }.check(&spec);
    // Links carry as much, but four vector engines combine.
    assert!(hierarchical < ring, "{hierarchical} and {ring}");
}
