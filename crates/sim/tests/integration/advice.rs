//! Advice: each piece is the result of a run, and a queue is never told to take more slots than its PE can hold.

use crate::scenario::scenarios;
use crate::support::{bare, limited, pe, without_data};
use phalanx_sim::advice::{Advice, LEAST_GAIN, Number, Study, Target};
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::machine::{Machine, RunError};
use phalanx_sim::report::Report;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use proptest::prelude::*;

/// Elements of a slot of 16 KiB.
const ELEMENTS: usize = 4096;

/// Runs 64 messages through a queue of `n_slots`, whose receiver works on each for `consume`.
fn queue(spec: MachineSpec, n_slots: u64, consume: Time) -> Result<Report, RunError> {
    let n_slots = u32::try_from(n_slots).unwrap();
    let edge = EdgeSpec { n_slots, slot_size: 16 << 10, ..EdgeSpec::default() };
    let (from, to) = (pe(0, 0, 0), pe(1, 0, 0));
    let mut machine = Machine::new(spec, without_data());
    machine.launch(0, "send", &[from], move |tl| async move {
        let (queue, tile) = (tl.sender(to, edge)?, tl.zeros(DType::F32, ELEMENTS)?);
        for _ in 0..64 {
            tl.send(&queue, &tile).await;
        }
        Ok(())
    });
    machine.launch(1, "receive", &[to], move |tl| async move {
        let queue = tl.receiver(from, edge)?;
        for _ in 0..64 {
            let _tile = tl.recv(&queue, DType::F32, ELEMENTS).await?;
            tl.compute(consume).await;
        }
        Ok(())
    });
    machine.run()
}

/// Returns the advice on the slots of a queue.
fn slots(spec: &MachineSpec, n_slots: u64, consume: Time) -> Option<Advice> {
    let report = queue(spec.clone(), n_slots, consume).unwrap();
    let mut study = Study::new(&report);
    let number = Number::count("n_slots", n_slots, 1..=1 << 20);
    study.number(&number, |n_slots| queue(spec.clone(), n_slots, consume));
    study.advice().pop()
}

#[test]
fn adv_1_a_queue_is_told_the_least_number_of_slots_that_keeps_its_wire_busy() {
    let advice = slots(&bare(), 4, Time::ZERO).unwrap();
    assert_eq!(advice.to_string(), "n_slots 4 -> 9: 17.932 us -> 8.692 us (-51.5 %)", "ADV-1");
    assert_eq!(slots(&bare(), 9, Time::ZERO), None, "ADV-1");
}

#[test]
fn adv_1_a_queue_with_a_slow_receiver_is_not_told_to_take_more_slots() {
    assert_eq!(slots(&bare(), 4, Time::us(10)), None, "ADV-1");
}

#[test]
fn a_queue_is_not_told_to_take_more_slots_than_its_pe_can_hold() {
    // The sender holds a tile of a slot; the receiver's slots are all of its scratch.
    for (kib, most) in [(228, 9), (100, 6), (70, 4)] {
        let small = MachineSpec { tcm: limited(kib << 10), ..bare() };
        let advice = slots(&small, 4, Time::ZERO);
        let told = advice.map_or(4, |advice| advice.change.to.parse().unwrap());
        assert!(told <= most && told * 16 <= kib, "{told} slots in {kib} KiB");
    }
}

#[test]
fn settings_come_first_and_there_are_at_most_four_pieces() {
    let report = queue(bare(), 1, Time::ZERO).unwrap();
    let mut study = Study::new(&report);
    let number = Number::count("n_slots", 1, 1..=64);
    for _ in 0..3 {
        study.number(&number, |n_slots| queue(bare(), n_slots, Time::ZERO));
        study.machine(&bare(), |spec| queue(spec, 1, Time::ZERO));
    }
    let advice = study.advice();
    let targets: Vec<Target> = advice.iter().map(|advice| advice.change.target).collect();
    let (setting, machine) = (Target::Setting, Target::Machine);
    assert_eq!(targets, [setting, setting, machine, machine]);
    assert!(advice[2].after <= advice[3].after);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn adv_1_advice_on_any_machine_is_a_run_that_gains(scenario in scenarios()) {
        let run = |spec| {
            crate::scenario::Scenario { spec, ..scenario.clone() }.run(without_data()).0
        };
        let report = run(scenario.spec.clone()).unwrap();
        let mut study = Study::new(&report);
        study.machine(&scenario.spec, run);
        for Advice { change, before, after, .. } in study.advice() {
            let changed = format!("{}={}", change.name, change.to);
            let again = run(scenario.spec.with(&changed).unwrap()).unwrap();
            prop_assert_eq!((before, after), (report.simulated, again.simulated), "ADV-1");
            prop_assert!((before - after).as_ps() * LEAST_GAIN >= before.as_ps(), "ADV-1");
        }
    }
}
