//! Machines in shards: every byte is that of one machine (XCH-1).

mod exchange;

use crate::scenario::{Scenario, scenarios};
use crate::support::{bare, recorded, wire, without_data};
use exchange::on_shards;
use phalanx_sim::executor::Wait;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::report::Report;
use phalanx_sim::spec::{Efficiency, InSwitchSpec, LevelSpec, SipsSpec, Topology};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{Binary, DType};
use phalanx_sim::{MachineSpec, Time, timeline};
use phalanx_trace::{Format, Writer};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// All visible parts of a run.
fn image(result: &Result<Report, RunError>) -> String {
    let report = match result {
        Ok(report) => report,
        Err(error) => return format!("{error}\n{error:#?}"),
    };
    let mut writer = Writer::new(Vec::new(), Format::Chrome).unwrap();
    timeline::write(report, &mut writer).unwrap();
    let trace = String::from_utf8(writer.finish().unwrap()).unwrap();
    let Report { events, edges, utilisation, critical_path, .. } = report;
    let log = report.op_log();
    format!("{report}\n{events}\n{edges:#?}\n{utilisation:#?}\n{critical_path:#?}\n{log}\n{trace}")
}

/// Runs `program` alone and on several shards, and compares every byte.
fn same_on_shards(options: &Options, program: impl Fn(Options) -> String + Sync) {
    let alone = program(options.clone());
    for (shards, by_bytes) in [(2, false), (3, true), (7, false)] {
        let other = on_shards(shards, by_bytes, |exchange| {
            program(Options { exchange: Some(exchange), ..options.clone() })
        });
        let mut lines = alone.lines().zip(other.lines());
        if let Some((one, other)) = lines.find(|(one, other)| one != other) {
            panic!("XCH-1: {shards} shards\n  {one}\n  {other}\n of a run that shows\n{alone}");
        }
        assert_eq!(alone.len(), other.len(), "XCH-1: {shards} shards");
    }
}

fn play(scenario: &Scenario, options: &Options) {
    same_on_shards(options, |options| image(&scenario.run(options).0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn xch_1_xch_3_shd_1_random_traffic_is_the_same_on_any_number_of_shards(scenario in scenarios()) {
        play(&scenario, &recorded());
        play(&scenario, &without_data());
    }

    #[test]
    fn xch_1_shd_3_a_fold_of_all_shards_is_that_of_one(scenario in scenarios()) {
        play(&scenario, &Options { steps: 40, ..without_data() });
    }
}

/// Nodes of SIPs behind shared NICs and oversubscribed switches: stations, which are partitions too.
fn nodes() -> MachineSpec {
    let node = LevelSpec {
        name: "node".to_owned(),
        count: 3,
        topology: Topology::Switch,
        link: wire(10, 120).into(),
        nics: 2,
        pcie: Some(wire(20, 30)),
        oversubscription: 2,
        multicast: None,
        reduction: None,
    };
    let sips = SipsSpec::new(4, Topology::FullyConnected, wire(100, 10));
    MachineSpec { sips, levels: vec![node], ..bare() }
}

/// Sends `rounds` messages to the next SIPs, receives as many from those before.
async fn talk(tl: Tl, (sips, rounds): (u32, u32), edge: EdgeSpec) -> Result<(), KernelError> {
    let me = tl.pe().sip;
    let mut ends = Vec::new();
    for step in [1, 2, 5] {
        let to = tl.sender_on(PeId::first((me + step) % sips), step, edge)?;
        to.about(&format!("round of {me} by {step}").into());
        let from = tl.receiver_on(PeId::first((me + 2 * sips - step) % sips), step, edge)?;
        ends.push((to, from));
    }
    let mut sum = tl.zeros(DType::F32, 24)?;
    for _ in 0..rounds {
        for (to, _) in &ends {
            tl.send(to, &sum).await;
        }
        for (_, from) in &ends {
            let got = tl.recv(from, DType::F32, 24).await?;
            sum = tl.add(&sum, &got).await?;
            assert!(from.topic().is_some_and(|topic| topic.starts_with("round of ")));
        }
    }
    Ok(())
}

#[test]
fn xch_1_xch_2_shd_2_stations_and_credits_of_every_kind_are_the_same_on_shards() {
    for spec in [nodes(), MachineSpec { levels: Vec::new(), ..nodes() }] {
        let sips = spec.devices();
        for (n_slots, credit, chunk) in [(1, 0, 0), (2, 16, 64), (4, 0, 32)] {
            let credit = (credit, chunk);
            let edge = EdgeSpec {
                n_slots,
                slot_size: 64,
                ipcq_credit_size_bytes: credit.0,
                vc_chunk_size: credit.1,
                ..EdgeSpec::default()
            };
            same_on_shards(&recorded(), |options| {
                let mut machine = Machine::new(spec.clone(), options);
                for sip in 0..sips {
                    machine.launch(sip, "talk", &[PeId::first(sip)], move |tl| {
                        talk(tl, (sips, 6), edge)
                    });
                }
                image(&machine.run())
            });
        }
    }
}

/// A sum of all SIPs in the switch, which sends it back to all.
async fn sum(tl: Tl, sips: u32) -> Result<(), KernelError> {
    let edge = EdgeSpec { n_slots: 2, slot_size: 64, ..EdgeSpec::default() };
    let root = PeId::first(0);
    let others: Vec<PeId> = (1..sips).map(PeId::first).collect();
    if tl.pe() == root {
        let (reducer, all) = (tl.reducer(&others, 0, edge)?, tl.multicaster(&others, 0, edge)?);
        for _ in 0..5 {
            let sum = tl.recv_reduced(&reducer, Binary::Add, DType::F32, 16).await?;
            tl.multicast(&all, &sum).await;
        }
        return Ok(());
    }
    let (to, from) = (tl.contributor(root, 0, edge)?, tl.multicast_receiver(root, 0, edge)?);
    for round in 0..5 {
        tl.compute(Time::ns(u64::from(tl.pe().sip * 7 % 5 * round))).await;
        tl.send(&to, &tl.zeros(DType::F32, 16)?).await;
        drop(tl.recv(&from, DType::F32, 16).await?);
    }
    Ok(())
}

#[test]
fn xch_1_in_switch_messages_are_the_same_on_shards() {
    let mut spec = bare();
    let cost =
        InSwitchSpec { efficiency: Efficiency::millionths(500_000).unwrap(), start: Time::ns(100) };
    (spec.sips.count, spec.sips.topology) = (7, Topology::Switch);
    (spec.sips.multicast, spec.sips.reduction) = (Some(cost), Some(cost));
    same_on_shards(&recorded(), |options| {
        let mut machine = Machine::new(spec.clone(), options);
        for sip in 0..7 {
            machine.launch(sip, "sum", &[PeId::first(sip)], |tl| sum(tl, 7));
        }
        image(&machine.run())
    });
}

/// The fault of some SIPs of a ring of messages.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Two kernels fail at one instant.
    Failures,
    /// A SIP receives one message more than is sent.
    Deadlock,
    /// A SIP receives one message less.
    Unread,
    /// A SIP opens its end with other settings.
    Mismatch,
    /// A SIP does not begin.
    Absent,
}

async fn faulty(tl: Tl, sips: u32, fault: Fault) -> Result<(), KernelError> {
    let (me, mut edge) = (tl.pe().sip, EdgeSpec { n_slots: 2, ..EdgeSpec::default() });
    let to = tl.sender(PeId::first((me + 1) % sips), edge)?;
    to.about(&format!("from {me}").into());
    if matches!(fault, Fault::Mismatch) && me == 3 {
        edge.n_slots = 5;
    }
    let from = tl.receiver(PeId::first((me + sips - 1) % sips), edge)?;
    for round in 0..6 {
        tl.send(&to, &tl.zeros(DType::F32, 8)?).await;
        match (fault, me, round) {
            (Fault::Failures, 1 | 5, 3) => drop(tl.recv(&from, DType::F32, 9).await?),
            (Fault::Unread, 4, 5) => return Ok(()),
            _ => drop(tl.recv(&from, DType::F32, 8).await?),
        }
    }
    if matches!(fault, Fault::Deadlock) && me == 2 {
        drop(tl.recv(&from, DType::F32, 8).await?);
    }
    Ok(())
}

#[test]
fn xch_1_shd_3_failures_and_deadlocks_are_the_same_on_shards() {
    let faults = [Fault::Failures, Fault::Deadlock, Fault::Unread, Fault::Mismatch, Fault::Absent];
    for fault in faults {
        for spec in [bare(), nodes()] {
            let sips = spec.devices();
            same_on_shards(&recorded(), |options| {
                let mut machine = Machine::new(spec.clone(), options);
                for sip in (0..sips).filter(|sip| !matches!((fault, sip), (Fault::Absent, 6))) {
                    machine.launch(sip, "faulty", &[PeId::first(sip)], move |tl| {
                        faulty(tl, sips, fault)
                    });
                }
                let result = machine.run();
                assert!(result.is_err(), "{fault:?}");
                // The machine can be used again, and goes on from the same time.
                machine.clear();
                for sip in 0..sips {
                    let run = |tl| faulty(tl, 8, Fault::Absent);
                    machine.launch(sip, "again", &[PeId::first(sip)], run);
                }
                let again = machine.run();
                format!("{}\n{}\n{}", image(&result), image(&again), machine.now())
            });
        }
    }
}

/// A process that dozes and one that polls, on every SIP, beside kernels that talk. Returns what they saw.
fn watched(spec: &MachineSpec, options: Options) -> String {
    let sips = spec.devices();
    let mut machine = Machine::new(spec.clone(), options);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let edge = EdgeSpec { n_slots: 2, slot_size: 96, ..EdgeSpec::default() };
    for sip in (0..sips).filter(|sip| machine.owns(*sip)).collect::<Vec<_>>() {
        machine.launch(sip, "talk", &[PeId::first(sip)], move |tl| talk(tl, (sips, 4), edge));
        for number in 0..2 {
            let (sim, seen) = (machine.host(sip).sim().clone(), seen.clone());
            let watch = async move {
                for step in 1..9 {
                    let deadline = Time::ns(u64::from(sip) % 3 * 50 + 400 * step);
                    sim.doze_until(deadline).await;
                    seen.borrow_mut().push((sip, number, sim.now()));
                }
            };
            machine.spawn(sip, format!("watch{number}"), watch).detach();
        }
        let (sim, seen) = (machine.host(sip).sim().clone(), seen.clone());
        let poll = async move {
            let polled = || Wait { what: "the others".to_owned(), providers: Vec::new() };
            for _ in 0..u64::from(sip % 2) * 40 {
                sim.pause(polled).await;
                seen.borrow_mut().push((sip, 9, sim.now()));
            }
        };
        machine.spawn(sip, "poll", poll).detach();
    }
    let result = machine.run();
    // Only the order of one SIP can be observed.
    let mut seen = machine.gather(seen.take());
    seen.sort_by_key(|(sip, ..)| *sip);
    format!("{seen:#?}\n{}", image(&result))
}

#[test]
fn sim_10_dozes_and_pauses_end_at_the_same_instants_on_shards() {
    for spec in [bare(), nodes()] {
        same_on_shards(&recorded(), |options| watched(&spec, options));
    }
}
