//! Collectives on whole machines, where scratch is bounded and everything costs.

use super::truths::{plan, timed};
use super::{Case, GRIDS};
use crate::ranks::{ccl, machine};
use phalanx_sim::DType;
use phalanx_sim::Time;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::machine::{Machine, Options};
use phalanx_torch::ccl::{Algorithm, CclConfig, Operation};
use phalanx_torch::{Context, distributed as dist, multiprocessing};

#[test]
fn every_algorithm_runs_on_every_preset_that_it_fits() {
    for preset in ["pair", "quad-sip", "octo-ring", "torus-16"] {
        let spec = machine(preset, &[]);
        let members: Vec<u32> = (0..spec.sips.count).collect();
        for algorithm in Algorithm::ALL {
            for &operation in algorithm.operations {
                if algorithm.check(operation, &spec, &members).is_err() {
                    continue;
                }
                let plan = CclConfig::builtin().plan(algorithm.name, &[algorithm.name]).unwrap();
                let [tiny, large] =
                    [64, 1 << 20].map(|bytes| timed(operation, &spec, &plan, bytes));
                assert!(tiny < large, "{preset}, {operation} by {}", algorithm.name);
            }
        }
    }
}

#[test]
fn a_whole_machine_keeps_its_links_busy() {
    // The bus bandwidth of links of 128 bytes a nanosecond, in per cent.
    let bus = |operation, algorithm: &str, n_slots: u32, slot_kib: usize| {
        let spec = machine("octo-ring", &[]);
        let n = 16 << 20;
        let time = timed(operation, &spec, &plan(algorithm, n_slots, slot_kib << 10), n);
        let moved = if operation == Operation::AllReduce { 2 * 7 * (n / 8) } else { 7 * (n / 8) };
        moved as u64 * 100 / 128 * 1000 / time.as_ps()
    };
    let least = |operation, algorithm, slots, kib, least| {
        let got = bus(operation, algorithm, slots, kib);
        assert!(got >= least, "{operation} by {algorithm}, {slots} slots of {kib} KiB: {got} %");
    };
    // One PE combines and forwards all: its DMA and the latency of its loads set the pace, the more so the smaller its
    // pieces are.
    least(Operation::ReduceScatter, "ring", 16, 16, 48);
    least(Operation::AllReduce, "ring", 16, 16, 42);
    least(Operation::AllReduce, "ring", 8, 64, 75);
    // With all of them the links do.
    least(Operation::AllReduce, "hierarchical", 4, 16, 97);
}

#[test]
fn collectives_of_all_sizes_follow_each_other() {
    // Different algorithms are chosen, whose queues between the same PEs are set up differently.
    let mut context = Context::new(machine("quad-sip", &[]), Options::default())
        .with_ccl(ccl("defaults: { algorithm: auto, n_slots: 64, slot_size: 16 KiB }"));
    let ends = multiprocessing::spawn(&mut context, 4, move |rank, cx| async move {
        dist::init_process_group(&cx)?;
        #[expect(clippy::cast_precision_loss, reason = "few ranks")]
        let number = rank as f64;
        let mut all = Vec::new();
        for elements in [1, 1 << 18, 7, 1 << 14, 1 << 20, 100] {
            all.push(cx.full([elements], number, DType::F32)?);
        }
        for x in &all {
            dist::all_reduce(&cx, x, dist::ReduceOp::Sum, None).await?;
        }
        for x in &all {
            let got = x.to_vec().await?;
            assert!(got.iter().all(|one| one.to_bits() == 6.0_f32.to_bits()), "{got:?}");
        }
        Ok(cx.now())
    });
    assert!(ends.unwrap().iter().all(|end| *end > Time::ZERO));
}

#[test]
fn queues_that_are_set_up_differently_do_not_meet() {
    // Scratch has room for all slots of one queue, but not of seven: `direct` takes fewer while the messages of `ring`
    // are still on their way.
    let spec = machine("bare", &["pe.tcm.capacity=16 KiB"]);
    let mut machine = Machine::new(spec, Options::default());
    let edge = EdgeSpec { n_slots: 8, slot_size: 512, ..EdgeSpec::default() };
    let mut cases = Vec::new();
    for (operation, algorithm) in [
        (Operation::Broadcast, "ring"),
        (Operation::AllReduce, "direct"),
        (Operation::AllReduce, "ring"),
        (Operation::Gather, "direct"),
        (Operation::AllReduce, "tree"),
        (Operation::AllToAll, "direct"),
        (Operation::AllReduce, "halving_doubling"),
        (Operation::Gather, "ring"),
        (Operation::AllReduce, "bidirectional_ring"),
    ] {
        let case = Case { edge, ..Case::new(operation, algorithm, 8, 3000) };
        let found = Algorithm::find(algorithm).unwrap();
        let outputs: Vec<_> = (0..8).map(|rank| case.launch(&mut machine, found, rank)).collect();
        cases.push((case, outputs));
    }
    machine.run().unwrap_or_else(|error| panic!("{error}"));
    for (case, outputs) in &cases {
        let read = |region| machine.read(region).expect("mapped").expect("data is on");
        case.compare(&outputs.iter().map(read).collect::<Vec<_>>());
    }
}

#[test]
fn more_slots_than_fit_are_no_slower() {
    let spec = machine("quad-sip", &[]);
    for operation in [Operation::AllReduce, Operation::AllGather] {
        for algorithm in super::able(operation).filter(|name| !GRIDS.contains(name)) {
            let time = |slots| timed(operation, &spec, &plan(algorithm, slots, 16 << 10), 1 << 20);
            let few = time(24);
            for slots in [28, 30, 32, 33, 64, 1000] {
                let more = time(slots);
                assert!(
                    more <= few,
                    "{operation} by {algorithm}: {slots} slots take {more}, 24 {few}"
                );
            }
        }
    }
}
