//! One rank that stands for all (TRI-1) against all ranks, and groups that have the same trial (TRI-2).
//!
//! `PHALANX_AUTO_ROWS` sets the number of rows.

use super::fastest::rows;
use crate::ranks::machine;
use phalanx_sim::spec::Topology;
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::ccl::layout::{Layout, Piece};
use phalanx_torch::ccl::least::least;
use phalanx_torch::ccl::trial::{
    Outcome, Timing, Trial, mirrored_within, shared_within, whole_within,
};
use phalanx_torch::ccl::{Algorithm, CclConfig, Operation, Plan};
use proptest::prelude::*;
use proptest::sample::select;

/// Machines whose SIPs reach each other alike, with `count` of them.
fn machines() -> impl Strategy<Value = MachineSpec> {
    let topologies =
        ["switch", "fully_connected"].map(|name| format!("system.sips.topology={name}"));
    let presets = ["bare", "pair", "quad-sip", "octo-ring", "pod-64"];
    let tuned = [
        "name=same",
        "system.sips.link.bandwidth=64 GB/s",
        "system.sips.link.latency=5 ns",
        "pe.dma.outstanding=4",
        "pe.tcm.capacity=64 KiB",
        "cube.hbm.latency=1 us",
    ];
    let counts = select(vec![2_u32, 3, 4, 5, 6, 8, 12, 16]);
    (select(presets.to_vec()), select(topologies.to_vec()), counts, select(tuned.to_vec()))
        .prop_map(|(preset, topology, count, tuned)| {
            machine(preset, &[&topology, &format!("system.sips.count={count}"), tuned])
        })
}

/// Plans of every algorithm, with other queues and channels.
fn plans() -> impl Strategy<Value = Plan> {
    let edge = (select(vec![1_u32, 2, 4, 7]), select(vec![256_u64, 4096, 16 << 10]), 0..4_u32);
    let channels = select(vec!["", ":1", ":3", ":8", ":32", ":all"]);
    (select(Algorithm::names()), channels, edge).prop_map(
        |(name, channels, (slots, size, more))| {
            let config = CclConfig::builtin();
            let mut edge = config.edge();
            (edge.n_slots, edge.slot_size) = (slots, size);
            match more {
                1 => edge.vc_chunk_size = 512,
                2 => edge.ipcq_credit_size_bytes = 16,
                3 => edge.delay = Time::ns(300),
                _ => {}
            }
            let plan =
                config.with_edge(edge).plan(&format!("{name}{channels}"), &Algorithm::names());
            plan.expect("every algorithm has a plan")
        },
    )
}

/// Layouts of one piece, or of a piece on each of some PEs.
fn layouts(machine: &MachineSpec, operation: Operation, count: usize, pieces: usize) -> Layout {
    let cubes = machine.cubes.count() as usize;
    let pes = machine.pes.count() as usize;
    let pieces = if operation.is_elementwise() { pieces.min(cubes * pes) } else { 1 };
    let small = |number: usize| u16::try_from(number).unwrap();
    let piece = |index: usize| {
        let cube = small(index % cubes);
        Piece { cube, pe: small(index / cubes), count, input: vec![cube], output: vec![cube] }
    };
    Layout { pieces: (0..pieces).map(piece).collect(), apart: false }
}

fn timing(outcome: Outcome) -> Timing {
    match outcome {
        Outcome::Ended(timing) => timing,
        Outcome::Longer(_) => panic!("a trial without a limit ends"),
    }
}

fn forever() -> Time {
    Time::MAX
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rows() * 8))]

    #[test]
    fn tri_1_one_rank_stands_for_all_or_for_none(
        machine in machines(),
        operation in select(Operation::ALL.to_vec()),
        plan in plans(),
        (count, even, pieces) in (1_usize..3000, any::<bool>(), 1_usize..6),
        cut in 1_u64..100,
    ) {
        let ranks = machine.sips.count as usize;
        let count = if even && operation.is_elementwise() { count * 2 * ranks } else { count };
        let members: Vec<u32> = (0..machine.sips.count).collect();
        if plan.check(operation, &machine, &members).is_err() {
            return Ok(());
        }
        let layout = layouts(&machine, operation, count, pieces);
        let trial = Trial { layout, ..Trial::new(operation, members, count) };
        if let Some(one) = mirrored_within(&machine, &trial, &plan, forever) {
            let all = whole_within(&machine, &trial, &plan, forever).unwrap();
            prop_assert_eq!(one, all, "TRI-1");
            // A trial that is cut short is longer than the limit, or has ended as the whole one has.
            let limit = Time::ps(timing(all).time.as_ps() / 100 * cut);
            match mirrored_within(&machine, &trial, &plan, || limit).unwrap() {
                Outcome::Ended(timing) => prop_assert_eq!(Outcome::Ended(timing), all, "TRI-1"),
                Outcome::Longer(least) => {
                    let time = timing(all).time;
                    prop_assert!(
                        least > limit && least < time,
                        "TRI-1: {} of {} up to {}", least, time, limit
                    );
                }
            }
        }
    }

    #[test]
    fn lst_1_no_trial_is_faster_than_its_bound(
        machine in machines(),
        operation in select(vec![Operation::AllReduce, Operation::ReduceScatter, Operation::Broadcast]),
        plan in plans(),
        (count, pieces) in (1_usize..3000, 1_usize..6),
    ) {
        let members: Vec<u32> = (0..machine.sips.count).collect();
        if plan.check(operation, &machine, &members).is_err() {
            return Ok(());
        }
        let layout = layouts(&machine, operation, count, pieces);
        let trial = Trial { layout, ..Trial::new(operation, members, count) };
        // Some plans do not fit into the scratch memory of a PE.
        let Ok(outcome) = whole_within(&machine, &trial, &plan, forever) else { return Ok(()) };
        let time = timing(outcome).time;
        let bound = least(&machine, &trial, &plan);
        prop_assert!(bound <= time, "LST-1: {} and {}", bound, time);
    }

    #[test]
    fn tri_2_groups_in_the_same_order_have_the_same_times(
        operation in select(Operation::ALL.to_vec()),
        plan in plans(),
        (count, root) in (1_usize..3000, 0_usize..4),
        sips in Just((0_u32..9).collect::<Vec<_>>()).prop_shuffle(),
        topology in select(vec!["switch", "fully_connected"]),
    ) {
        let topology = format!("system.sips.topology={topology}");
        let machine = machine("quad-sip", &["system.sips.count=9", &topology]);
        let trial = Trial { root, ..Trial::new(operation, sips[..4].to_vec(), count) };
        if plan.check(operation, &machine, &trial.members).is_err() {
            return Ok(());
        }
        let standard = trial.standard(&machine);
        prop_assert!(standard.members.iter().all(|sip| *sip < 4));
        let time = |trial: &Trial| whole_within(&machine, trial, &plan, forever).unwrap();
        prop_assert_eq!(time(&trial), time(&standard), "TRI-2");
    }
}

#[test]
fn tri_3_threads_share_a_trial() {
    let machine = machine("pod-64", &["system.sips.count=12"]);
    for (name, elements) in [("ring:8", 5000), ("double_tree:32", 1 << 16), ("direct", 700)] {
        let plan = CclConfig::builtin().plan(name, &Algorithm::names()).unwrap();
        let trial = Trial::new(Operation::AllReduce, (1..11).collect(), elements);
        let one = whole_within(&machine, &trial, &plan, forever).unwrap();
        let time = timing(one).time;
        for shards in [1, 2, 3, 7, 50] {
            let all = shared_within(&machine, &trial, &plan, forever, shards).unwrap();
            assert_eq!(all, one, "TRI-3: {name} on {shards} threads");
            for cut in [1, 2, 50] {
                let limit = Time::ps(time.as_ps() - time.as_ps() / cut);
                match shared_within(&machine, &trial, &plan, || limit, shards).unwrap() {
                    Outcome::Ended(timing) => assert_eq!(Outcome::Ended(timing), one, "TRI-3"),
                    Outcome::Longer(least) => assert!(least < time, "TRI-3: {least} of {time}"),
                }
            }
        }
    }
}

#[test]
fn lst_1_the_bounds_of_a_pod() {
    let machine = machine("pod-64", &[]);
    let trial = Trial::new(Operation::AllReduce, (0..64).collect(), 1 << 22);
    let bound = |name: &str| {
        let plan = CclConfig::builtin().plan(name, &Algorithm::names()).unwrap();
        least(&machine, &trial, &plan).as_ps() / 1_000_000
    };
    // The root of a tree sends 16 MiB to six children over a port of 512 GB/s.
    assert_eq!(bound("tree:32"), 196, "LST-1");
    // Through its own DMA of 256 GB/s these and a store take 458 us, and each message and each store 50 ns or more beside its bytes.
    assert!(bound("tree:1") > 458, "LST-1: {} us", bound("tree:1"));
    // Of each of 64 segments a PE has a part that 63 messages carry away, 63 bring and one store keeps, of at least 150 ns.
    assert!(bound("direct:8") > (126 * 50 + 64 * 150) / 1000, "LST-1: {} us", bound("direct:8"));
    // A rank sends everything twice and stores it.
    assert!(bound("double_tree:1") > 196, "LST-1: {} us", bound("double_tree:1"));
    // A segment goes round twice, and every hop has the latency of a link and of a DMA.
    assert_eq!(bound("ring:32"), 126 * 1050 / 1000, "LST-1");
    // A PE sends 126 segments in 16 messages each, and stores 64; the messages take 230 us, the stores 219 us.
    assert!(bound("ring") > 440, "LST-1: {} us", bound("ring"));
    assert_eq!(bound("nvls"), 0, "LST-1: nothing is said");
}

/// The share of trials that one rank stands for: without it TRI-1 would hold for nothing.
#[test]
fn tri_1_symmetric_plans_on_a_pod_are_mirrored() {
    let machine = machine("pod-64", &["system.sips.count=16"]);
    let members: Vec<u32> = (0..16).collect();
    let cases = [
        ("ring", Operation::AllReduce),
        ("ring", Operation::ReduceScatter),
        ("ring", Operation::AllGather),
        ("hierarchical", Operation::AllReduce),
        ("direct", Operation::AllReduce),
        ("direct", Operation::ReduceScatter),
        ("direct", Operation::AllToAll),
        ("direct", Operation::AllGather),
        ("halving_doubling", Operation::AllReduce),
        ("recursive_doubling", Operation::AllReduce),
        ("bidirectional_ring", Operation::AllReduce),
    ];
    let mut missing = Vec::new();
    for (name, operation) in cases {
        for elements in [512, 4096, 1 << 18] {
            let plan = CclConfig::builtin().plan(name, &Algorithm::names()).unwrap();
            let trial = Trial::new(operation, members.clone(), elements);
            let Some(one) = mirrored_within(&machine, &trial, &plan, forever) else {
                missing.push((name, operation, elements));
                continue;
            };
            let all = whole_within(&machine, &trial, &plan, forever).unwrap();
            assert_eq!(one, all, "TRI-1: {name}, {operation}, {elements}");
        }
    }
    assert_eq!(missing, [], "TRI-1");
}

#[test]
fn tri_1_ranks_that_differ_are_all_simulated() {
    let pod = machine("pod-64", &["system.sips.count=16"]);
    let torus = super::torus(4, 4);
    assert!(matches!(torus.sips.topology, Topology::Torus2d { .. }));
    let members: Vec<u32> = (0..16).collect();
    let cases = [
        (&pod, "ring", Operation::AllReduce, 1000),
        (&pod, "ring", Operation::Broadcast, 4096),
        (&pod, "tree", Operation::AllReduce, 4096),
        (&pod, "direct", Operation::Reduce, 4096),
        (&torus, "ring", Operation::AllReduce, 4096),
    ];
    for (machine, name, operation, elements) in cases {
        let plan = CclConfig::builtin().plan(name, &Algorithm::names()).unwrap();
        let trial = Trial::new(operation, members.clone(), elements);
        let mirrored = mirrored_within(machine, &trial, &plan, forever);
        assert_eq!(mirrored, None, "TRI-1: {name}, {operation}, {elements}");
    }
}
