//! The same program gives the same bytes for every order in which SIPs take their turns.

use crate::scenario::{Scenario, scenarios};
use crate::support::{Outcome, bare, quad, recorded, wire};
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::report::Report;
use phalanx_sim::spec::{SipsSpec, Topology};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, timeline};
use phalanx_trace::{Format, Writer};
use proptest::prelude::*;

/// All visible parts of a report.
fn image(report: &Report) -> String {
    let Report { simulated, events, utilisation, stalls, edges, critical_path, .. } = report;
    let log = report.op_log();
    format!(
        "{simulated} {events}\n{utilisation:#?}\n{stalls:#?}\n{edges:#?}\n{critical_path:#?}\n{log}"
    )
}

fn trace(report: &Report, format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format).unwrap();
    timeline::write(report, &mut writer).unwrap();
    writer.finish().unwrap()
}

fn in_order(partition_order: PartitionOrder) -> Options {
    Options { partition_order, ..recorded() }
}

/// Runs `program` with several partition orders, and compares every byte.
fn same_in_any_order(seeds: std::ops::Range<u64>, program: impl Fn(Options) -> Report) {
    let usual = program(recorded());
    let (image_of_usual, traces) =
        (image(&usual), [Format::Perfetto, Format::Chrome].map(|f| trace(&usual, f)));
    assert!(!usual.ops.is_empty() && traces.iter().all(|bytes| !bytes.is_empty()));
    for seed in seeds {
        let other = program(in_order(PartitionOrder::Shuffled(seed)));
        assert!(image(&other) == image_of_usual, "RPT-2: seed {seed}");
        let again = [Format::Perfetto, Format::Chrome].map(|f| trace(&other, f));
        assert!(again == traces, "PAR-2: the trace of seed {seed}");
    }
}

fn play(scenario: &Scenario, options: Options) -> Report {
    scenario.run(options).0.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn par_2_the_order_of_turns_changes_no_byte_of_random_traffic(scenario in scenarios(), seed: u64) {
        let usual = image(&play(&scenario, recorded()));
        for number in 0..4 {
            let order = PartitionOrder::Shuffled(seed.wrapping_add(number));
            let other = image(&play(&scenario, in_order(order)));
            prop_assert!(other == usual, "PAR-2: {:?}", order);
        }
    }

    #[test]
    fn the_same_run_twice_gives_the_same_bytes(scenario in scenarios()) {
        let (one, two) = (play(&scenario, recorded()), play(&scenario, recorded()));
        prop_assert_eq!(image(&one), image(&two));
        for format in [Format::Perfetto, Format::Chrome] {
            prop_assert!(trace(&one, format) == trace(&two, format));
        }
    }
}

/// Every SIP sends to every other, all at once.
async fn all_to_all(tl: Tl, sips: u32, edge: EdgeSpec, region: Region) -> Outcome {
    let me = tl.pe().sip;
    let mut receivers = Vec::new();
    for step in 1..sips {
        let (to, from) = ((me + step) % sips, (me + sips - step) % sips);
        receivers.push(tl.receiver(PeId::first(from), edge)?);
        let tile = tl.load(&View::of(&region)).await?;
        drop(tl.send(&tl.sender(PeId::first(to), edge)?, &tile));
    }
    for receiver in &receivers {
        let tile = tl.recv(receiver, DType::F32, region.elements).await?;
        drop(tl.add(&tile, &tile).await?);
    }
    Ok(())
}

fn run_all_to_all(spec: &MachineSpec, edge: EdgeSpec, options: Options) -> Report {
    let mut machine = Machine::new(spec.clone(), options);
    let sips = spec.sips.count;
    for sip in 0..sips {
        let region = crate::support::counting(&machine, sip, 0, 100);
        machine.launch(sip, "all-to-all", &[PeId::first(sip)], move |tl| {
            all_to_all(tl, sips, edge, region)
        });
    }
    machine.run().unwrap()
}

fn on(base: MachineSpec, count: u32, topology: Topology) -> MachineSpec {
    MachineSpec { sips: SipsSpec::new(count, topology, wire(16, 50)), ..base }
}

#[test]
fn par_1_sips_touch_each_other_only_by_messages() {
    // An event for another SIP without delay, or waking its process, would panic (SIM-3).
    let edge = EdgeSpec {
        slot_size: 128,
        vc_chunk_size: 48,
        ipcq_credit_size_bytes: 16,
        ..EdgeSpec::default()
    };
    for topology in [
        Topology::Ring1d,
        Topology::Switch,
        Topology::FullyConnected,
        Topology::Mesh2d { rows: 2, columns: 4 },
        Topology::Torus2d { rows: 2, columns: 4 },
    ] {
        for base in [bare(), quad()] {
            let spec = on(base, 8, topology);
            same_in_any_order(0..12, |options| run_all_to_all(&spec, edge, options));
        }
    }
}

#[test]
fn rpt_2_and_par_2_hold_where_many_seeds_meet_a_switch_with_contention() {
    let spec = on(bare(), 6, Topology::Switch);
    same_in_any_order(0..100, |options| run_all_to_all(&spec, EdgeSpec::default(), options));
}

/// Loads, adds, multiplies, meets at a barrier and stores, on every PE.
async fn busy(tl: Tl, a: Region, out: Region) -> Outcome {
    let (start, len) = tl.share(a.elements);
    let tile = tl.load(&View::dense(&a, start, len)).await?;
    let square = tl.mul(&tile, &tile);
    let product = {
        let (row, column) = (tl.zeros(DType::F32, [1, len])?, tl.zeros(DType::F32, [len, 1])?);
        tl.dot(&row, &column, None)
    };
    tl.barrier().await;
    tl.store(&View::dense(&out, start, len), &square.await?).await?;
    product.await.map(drop)
}

#[test]
fn par_2_engines_of_many_pes_give_the_same_bytes() {
    same_in_any_order(0..12, |options| {
        let mut machine = Machine::new(quad(), options);
        for sip in 0..4 {
            let a = crate::support::counting(&machine, sip, 1, 1000);
            let out = machine.zeros(sip, 2, DType::F32, 1000).unwrap();
            machine.launch(sip, "busy", &machine.pes(sip), move |tl| busy(tl, a, out));
        }
        machine.run().unwrap()
    });
}
