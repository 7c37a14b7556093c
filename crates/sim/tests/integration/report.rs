//! Reports: stacks that fill the run, and a critical path that explains all of it.

use crate::scenario::scenarios;
use crate::support::{
    Outcome, bare, pe, quad, recorded, traffic, traffic_with, with_path, without_data,
};
use phalanx_sim::Time;
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::record::Resource;
use phalanx_sim::report::{CriticalPath, Report};
use phalanx_sim::stall::Kind;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use proptest::prelude::*;

/// RPT-1, STL-1 and REC-1, for any report.
fn adds_up(report: &Report) {
    for stalls in &report.stalls {
        let idle = stalls.stack.idle(report.simulated);
        assert_eq!(stalls.stack.total() + idle, report.simulated, "STL-1: {}", stalls.resource);
        let parts: u64 = Kind::ALL.iter().map(|kind| stalls.stack.get(*kind).as_ps()).sum();
        assert_eq!(parts, stalls.stack.total().as_ps(), "RPT-1: {}", stalls.resource);
    }
    assert_eq!(report.critical_path.spent.total(), report.simulated, "REC-1");
    for usage in &report.utilisation {
        assert!(usage.busy <= report.simulated, "{usage:?} in {}", report.simulated);
    }
    let known: Time =
        report.critical_path.parts.iter().fold(Time::ZERO, |sum, part| sum + part.time);
    assert!(known <= report.simulated, "REC-1: {known} of {}", report.simulated);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn rpt_1_stl_1_and_rec_1_stacks_and_path_fill_any_run(scenario in scenarios()) {
        let report = scenario.run(without_data()).0.unwrap();
        adds_up(&report);
        let path = &report.critical_path;
        let recorded = scenario.run(Options { record: true, ..without_data() }).0.unwrap();
        same_path(path, &recorded.critical_path);
        prop_assert_eq!(path.spent, recorded.critical_path.spent);
    }

    #[test]
    fn rec_2_a_path_that_was_folded_all_the_time_is_the_path_of_the_recorded_run(
        scenario in scenarios(), seed in any::<u64>()
    ) {
        let recorded = scenario.run(Options { record: true, ..without_data() }).0.unwrap();
        let partition_order = PartitionOrder::Shuffled(seed);
        let folded = Options { steps: 1, partition_order, ..without_data() };
        let folded = scenario.run(folded).0.unwrap();
        same_path(&folded.critical_path, &recorded.critical_path);
    }

    #[test]
    fn rec_6_waits_for_credits_and_latencies_are_parts_of_any_path(scenario in scenarios()) {
        let path = scenario.run(without_data()).0.unwrap().critical_path;
        for kind in [Kind::Credit, Kind::Latency] {
            let parts = path.parts.iter().filter(|part| part.kind == kind);
            let named = parts.fold(Time::ZERO, |sum, part| sum + part.time);
            prop_assert_eq!(named, path.spent.get(kind), "REC-6: {}", kind);
        }
    }

    #[test]
    fn rec_5_a_run_without_a_critical_path_differs_in_nothing_else(scenario in scenarios()) {
        let mut whole = scenario.run(without_data()).0.unwrap();
        let options = Options { critical_path: false, ..without_data() };
        let without = scenario.run(options.clone()).0.unwrap();
        let path = std::mem::take(&mut whole.critical_path);
        prop_assert!(path.end.is_some() || whole.simulated == Time::ZERO, "REC-5");
        prop_assert_eq!(format!("{without:?}"), format!("{whole:?}"), "REC-5");
        let recorded = scenario.run(Options { record: true, ..options }).0.unwrap();
        same_path(&path, &recorded.critical_path);
    }
}

/// REC-2 and REC-3: the path of a run, and the path of the same run recorded.
fn same_path(path: &CriticalPath, recorded: &CriticalPath) {
    for path in [path, recorded] {
        assert!(path.complete && path.forgotten == 0, "REC-2, REC-3: {path:?}");
    }
    assert!(path.kept <= recorded.kept, "REC-2: {} steps of {}", path.kept, recorded.kept);
    assert_eq!((path.end, path.spent), (recorded.end, recorded.spent), "REC-2");
    assert_eq!((&path.parts, path.latency), (&recorded.parts, recorded.latency), "REC-2");
}

/// Loads, computes, meets the others and stores.
async fn mixed(tl: Tl, region: Region) -> Outcome {
    let (start, len) = tl.share(region.elements);
    for _ in 0..3 {
        let tile = tl.load(&View::dense(&region, start, len)).await?;
        let other = tl.load(&View::dense(&region, start, len));
        let square = tl.mul(&tile, &tile).await?;
        tl.barrier().await;
        drop(tl.store(&View::dense(&region, start, len), &tl.add(&square, &other.await?).await?));
    }
    Ok(())
}

#[test]
fn rpt_1_stacks_of_loads_engines_and_barriers_fill_the_run() {
    let mut machine = Machine::new(quad(), without_data());
    for sip in 0..4 {
        let region = machine.zeros(sip, 1, DType::F16, 5000).unwrap();
        machine.launch(sip, "mixed", &machine.pes(sip), move |tl| mixed(tl, region));
    }
    let report = machine.run().unwrap();
    adds_up(&report);
    let pes = report.stalls.iter().filter(|stalls| matches!(stalls.resource, Resource::Program(_)));
    assert_eq!(pes.count(), 4 * 32);
}

#[test]
fn rec_2_the_path_of_loads_engines_and_barriers_can_be_folded_all_the_time() {
    let run = |options: Options| {
        let mut machine = Machine::new(quad(), options);
        for sip in 0..4 {
            let region = machine.zeros(sip, 1, DType::F16, 5000).unwrap();
            machine.launch(sip, "mixed", &machine.pes(sip), move |tl| mixed(tl, region));
        }
        machine.run().unwrap().critical_path
    };
    let recorded = run(Options { record: true, ..without_data() });
    same_path(&run(Options { steps: 1, ..without_data() }), &recorded);
}

/// Goes on after an operation while the next one of the same engine is under way.
async fn overlapping(tl: Tl, region: Region) -> Outcome {
    for _ in 0..4 {
        let tile = tl.load(&View::of(&region)).await?;
        let first = tl.add(&tile, &tile);
        drop(tl.mul(&tile, &tile));
        drop(first.await?);
    }
    Ok(())
}

#[test]
fn rec_2_the_path_of_a_program_that_waits_is_kept() {
    let run = |options: Options| {
        let mut machine = Machine::new(quad(), options);
        let region = machine.zeros(0, 0, DType::F32, 4096).unwrap();
        machine.launch(0, "overlapping", &[PeId::first(0)], move |tl| overlapping(tl, region));
        machine.run().unwrap().critical_path
    };
    let recorded = run(Options { record: true, ..without_data() });
    assert!(recorded.parts.iter().any(|part| part.count == 4), "four loads: {recorded:?}");
    same_path(&run(Options { steps: 1, ..without_data() }), &recorded);
}

#[test]
fn rec_5_a_run_that_is_asked_for_no_path_says_which_option_keeps_it() {
    let run = |options| {
        let mut machine = Machine::new(bare(), options);
        machine.launch(0, "nap", &[PeId::first(0)], |tl| async move {
            tl.compute(Time::ns(3)).await;
            Ok(())
        });
        machine.run().unwrap().to_string()
    };
    let remark = "critical path: not kept; a run with the option `critical_path` keeps it";
    assert!(run(Options::default()).contains(remark), "REC-5: by default");
    assert!(run(with_path()).contains("critical path, to the end of sip0.cube0.pe0"), "REC-5");
    let nothing = Machine::new(bare(), Options::default()).run().unwrap().to_string();
    assert!(!nothing.contains("critical path"), "REC-5: a run of nothing");
}

#[test]
fn rec_1_the_path_of_a_chain_names_each_part() {
    let mut spec = bare();
    spec.dma = crate::support::wire(16, 100).into();
    let mut machine = Machine::new(spec, with_path());
    let region = machine.zeros(0, 0, DType::F32, 1024).unwrap();
    machine.launch(0, "chain", &[PeId::first(0)], move |tl| async move {
        let tile = tl.load(&View::of(&region)).await?;
        let sum = tl.add(&tile, &tile).await?;
        tl.store(&View::of(&region), &sum).await
    });
    let report = machine.run().unwrap();
    let path = &report.critical_path;
    let parts: Vec<String> = path
        .parts
        .iter()
        .map(|part| format!("{} {} {}", part.resource, part.kind, part.time))
        .collect();
    assert_eq!(
        parts,
        [
            "sip0.cube0.pe0.dma.load dma 256 ns",
            "sip0.cube0.pe0.dma.store dma 256 ns",
            "sip0.cube0.pe0.dma.load latency 100 ns",
            "sip0.cube0.pe0.dma.store latency 100 ns",
            "sip0.cube0.pe0.vector compute 8 ns"
        ],
        "REC-1"
    );
    assert!(path.complete);
    assert_eq!(path.spent.get(Kind::Dma), Time::ns(512));
    assert_eq!(path.spent.get(Kind::Latency), Time::ns(200));
}

#[test]
fn rec_2_a_long_run_keeps_few_steps_and_the_whole_path() {
    let edge = EdgeSpec { n_slots: 2, slot_size: 128, ..EdgeSpec::default() };
    let run = |messages: usize| {
        let options = Options { steps: 1 << 10, ..with_path() };
        let sizes = vec![128; messages];
        traffic_with(options, &bare(), edge, &[(pe(0, 0, 0), pe(1, 0, 0), &sizes)])
    };
    let (short, long) = (run(50), run(60_000));
    for (report, messages) in [(&short, 50), (&long, 60_000)] {
        adds_up(report);
        let path = &report.critical_path;
        assert!(path.complete && path.forgotten == 0, "REC-2");
        let steps: u64 = path.parts.iter().map(|part| part.count).sum();
        assert!(steps >= messages / 2, "REC-2: every second message is on the path: {steps}");
    }
    assert!(long.critical_path.kept < 1 << 11, "REC-2: {}", long.critical_path.kept);
}

#[test]
fn a_queue_with_too_few_slots_waits_for_credits() {
    let edge = EdgeSpec { n_slots: 4, slot_size: 16 * 1024, ..EdgeSpec::default() };
    let few = traffic(&bare(), edge, &[(pe(0, 0, 0), pe(1, 0, 0), &[16 * 1024; 64])]);
    assert!(few.critical_path.spent.get(Kind::Credit) > Time::ZERO);
    let link = few
        .stalls
        .iter()
        .find(|stalls| stalls.resource == Resource::Link { from: 0, to: 1 })
        .unwrap();
    assert!(link.stack.get(Kind::Credit) > link.stack.get(Kind::Link), "{link:?}");
}

#[test]
fn rec_6_a_wait_for_a_credit_is_named_by_the_port_of_its_link() {
    // The second message waits for the only slot: 10 ns on the wire, 500 ns there, and 500 ns for the credit.
    let edge = EdgeSpec { n_slots: 1, slot_size: 1280, ..EdgeSpec::default() };
    let report = traffic(&bare(), edge, &[(pe(0, 0, 0), pe(1, 0, 0), &[1280; 2])]);
    let parts = &report.critical_path.parts;
    let credits = parts.iter().filter(|part| part.kind == Kind::Credit);
    let waits: Vec<_> = credits.map(|part| (part.resource, part.time, part.count)).collect();
    assert_eq!(waits, [(Resource::Link { from: 0, to: 1 }, Time::ns(500), 1)], "REC-6");
}

#[test]
fn the_op_log_is_text_in_order_of_time() {
    let mut machine = Machine::new(bare(), recorded());
    let region = machine.zeros(0, 0, DType::F32, 128).unwrap();
    machine.launch(0, "one", &[PeId::first(0)], move |tl| async move {
        let tile = tl.load(&View::of(&region)).await?;
        drop(tl.exp(&tile).await?);
        tl.compute(Time::ns(3)).await;
        Ok(())
    });
    let report = machine.run().unwrap();
    insta::assert_snapshot!(report.op_log(), @"
    0 1000 sip0.cube0.pe0.vector exp 512
    0 4000 sip0.cube0.pe0 one 0
    1000 4000 sip0.cube0.pe0.vector compute 0
    ");
    let starts: Vec<u64> = report
        .op_log()
        .lines()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(starts.is_sorted());
}

#[test]
fn a_run_without_a_log_has_none_and_takes_the_same_time() {
    let run = |options| {
        let mut machine = Machine::new(bare(), options);
        machine.launch(0, "nap", &[PeId::first(0)], |tl| async move {
            tl.compute(Time::ns(3)).await;
            Ok(())
        });
        machine.run().unwrap()
    };
    let (with, without) = (run(recorded()), run(Options::default()));
    assert_eq!((with.simulated, with.events), (without.simulated, without.events));
    assert!(without.ops.is_empty() && !with.ops.is_empty());
}
