//! No false alarm: workers that start late or stall for less than their budgets fail nothing.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "small whole numbers"
)]

use crate::callables::wish;
use crate::collectives::ALL_REDUCE;
use crate::count;
use crate::support::{Dice, builder, turn};
use phalanx_runtime::{Budgets, Call, DType, Domain, DomainSpec, Error, Failure, Worker};
use std::time::Duration;

/// Rounds on one worker.
const ROUNDS: u64 = 20;
/// Budgets, in milliseconds.
const PROGRESS: u64 = 60;
const OPERATION: u64 = 60_000;
const STARTUP: u64 = 120_000;
/// The longest delay of a start, and the longest stall.
const SKEW: u64 = 1_000;
const STALL: u64 = 250;

/// Stalls exceed the budget of progress, and never that of an operation.
fn budgets() -> Budgets {
    let time = Duration::from_millis;
    Budgets {
        progress: time(PROGRESS),
        operation: time(OPERATION),
        wait: time(OPERATION + PROGRESS + 100),
        startup: time(STARTUP),
        harness: time(600_000),
        guard: time(1),
    }
}

/// Mostly little, seldom longer than the budget of progress.
fn stall(dice: &mut Dice) -> u64 {
    match dice.below(40) {
        0 => PROGRESS + dice.below(STALL - PROGRESS),
        1..8 => dice.below(10),
        _ => 0,
    }
}

/// One all-reduce in which every rank stalls for a while of its own.
fn round(worker: &Worker, chips: u32, dice: &mut Dice) -> Result<(), Error> {
    const COUNT: u64 = 16;
    let members: Vec<u32> = (0..chips).collect();
    let ranks = u64::from(chips);
    let mut kept: Option<Domain> = None;
    worker.run("all-reduce", |graph| {
        let buffers: &[(&str, DType, &[u64])] = &[
            ("data", DType::F32, &[COUNT]),
            ("inbox", DType::F32, &[4 * ranks * (COUNT + ranks)]),
            ("out", DType::F32, &[ranks * COUNT]),
        ];
        let (name, window, signals) = ("all", 1 << 16, 2);
        let spec = DomainSpec { name, chips: &members, window, buffers, signals };
        let domain = graph.allocate_domain(&spec)?;
        let mut calls = Vec::new();
        for chip in members.iter().copied() {
            let data = domain.buffer(chip as usize, "data")?;
            worker.write(&data, &[chip as f32 + 1.0; COUNT as usize])?;
            let call = Call::new(&ALL_REDUCE).scalar(mode(chips)).scalar(stall(dice));
            calls.push((chip, call.domain(&domain)));
        }
        graph.submit_next_level_group(&calls)?;
        kept = Some(domain);
        Ok::<_, Failure>(())
    })?;
    let domain = kept.expect("a domain");
    let sum = (1..=chips).sum::<u32>() as f32;
    for rank in 0..domain.ranks() {
        let found = worker.read::<f32>(&domain.buffer(rank, "data")?)?;
        assert!(found.iter().all(|value| *value == sum), "{found:?}");
    }
    Ok(())
}

/// All ranks must go the same way: a mesh of two, a ring of more.
fn mode(chips: u32) -> u64 {
    if chips == 2 { 0 } else { 2 }
}

#[test]
fn skewed_starts_and_stalls_below_the_budget_fail_nothing() -> Result<(), Error> {
    let _turn = turn();
    let rounds = count(2 * ROUNDS, 1000);
    let mut passed = 0;
    for number in 0..rounds / ROUNDS {
        let mut dice = Dice::new(number + 1);
        let chips = if number % 2 == 0 { 2 } else { 4 };
        let late = |_| wish::LATE + u32::try_from(dice.below(SKEW)).expect("small");
        let ids: Vec<u32> = (0..chips).map(late).collect();
        let small = builder().memory(1 << 24).ring(64, 1 << 20).budgets(budgets());
        let worker = small.chips(chips).device_ids(&ids).init()?;
        for _ in 0..ROUNDS {
            round(&worker, chips, &mut dice)?;
            passed += 1;
        }
        worker.close()?;
    }
    println!("{passed} of {rounds} all-reduces over 2 and 4 chips");
    assert_eq!(passed, rounds);
    Ok(())
}
