//! Collectives on whole machines, where scratch is bounded and everything costs.

use super::truths::{plan, timed};
use crate::ranks::{ccl, machine};
use phalanx_sim::DType;
use phalanx_sim::Time;
use phalanx_sim::machine::Options;
use phalanx_torch::ccl::algorithm::ALL;
use phalanx_torch::ccl::{CclConfig, Operation};
use phalanx_torch::{Context, distributed as dist, multiprocessing};

#[test]
fn every_algorithm_runs_on_every_preset_that_it_fits() {
    for preset in ["pair", "quad-sip", "octo-ring", "torus-16"] {
        let spec = machine(preset, &[]);
        let members: Vec<u32> = (0..spec.sips.count).collect();
        for algorithm in ALL {
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
    for (operation, algorithm, slots, kib) in [
        (Operation::AllReduce, "ring", 16, 16),
        (Operation::AllReduce, "ring", 8, 64),
        (Operation::ReduceScatter, "ring", 16, 16),
        (Operation::AllGather, "ring", 16, 16),
        (Operation::AllReduce, "hierarchical", 4, 16),
    ] {
        eprintln!(
            "{operation} {algorithm} {slots}x{kib}: {} %",
            bus(operation, algorithm, slots, kib)
        );
    }
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
