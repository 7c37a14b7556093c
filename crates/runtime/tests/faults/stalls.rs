//! A real deadlock and a real kernel that never returns are caught, with the right name.

use crate::callables::{HANG, NOTHING};
use crate::collectives::AWAIT;
use crate::count;
use crate::support::{
    Dice, Leftovers, PATIENCE, at_some_scale, budgets, builder, describe, eventually, turn,
};
use phalanx_runtime::{Call, DType, DomainSpec, Error, RunError, Target};
use std::time::{Duration, Instant};

/// The error of a run that must have been ended by the watchdog.
fn stalled<T>(ended: Result<T, Error>) -> RunError {
    match ended {
        Err(Error::Run(error)) if error.stall().is_some() => error,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it should stall"),
    }
}

/// A task that is never taken for stuck.
fn quick() -> Call {
    Call::new(&NOTHING).expected(PATIENCE)
}

/// Rank `waiter` waits for a cell of another that never writes it; both names. Its wait ends, and it takes tasks again.
fn deadlock(scale: u64, dice: &mut Dice) -> Result<(), Error> {
    let small = builder().memory(1 << 22).ring(64, 1 << 20).budgets(budgets(40, scale * 250));
    let worker = small.chips(3).init()?;
    let waiter = u32::try_from(dice.below(3)).expect("few");
    let silent = (waiter + 1 + u32::try_from(dice.below(2)).expect("few")) % 3;
    let run = worker.run("deadlock", |graph| {
        let (name, window, signals) = ("ring", 1 << 12, 2);
        let chips = &[0, 1, 2];
        let spec = DomainSpec { name, chips, window, buffers: &[], signals };
        let domain = graph.allocate_domain(&spec)?;
        let wait = [u64::from(silent), 1, 1, 600_000];
        let wait = wait.into_iter().fold(Call::new(&AWAIT).domain(&domain), Call::scalar);
        graph.submit_next_level(Target::Chip(waiter), &wait)?;
        for chip in 0..3 {
            graph.submit_next_level(Target::Chip(chip), &quick())?;
        }
        Ok(())
    });
    let words = stalled(run).to_string();
    let wanted =
        format!("it waits for cell 1 of rank {silent} of domain `ring`, and that is chip {silent}");
    assert!(words.starts_with(&format!("chip {waiter} (process ")), "{words}");
    assert!(words.contains(&wanted) && words.contains("fixture::await"), "{words}");
    worker.run("it goes on", |graph| {
        graph.submit_next_level(Target::Chip(waiter), &quick())?;
        Ok(())
    })?;
    assert!(worker.lost().is_empty(), "{:?}", worker.lost());
    worker.close()
}

/// One worker never returns while the others work.
fn stuck(dice: &mut Dice) -> Result<(), Error> {
    let small = builder().memory(1 << 22).ring(64, 1 << 20).budgets(budgets(40, 120));
    let worker = small.chips(2).sub_workers(1).init()?;
    let number = worker.tensor(DType::I64, &[1])?;
    let culprit = u32::try_from(dice.below(2)).expect("few");
    let run = worker.run("stuck", |graph| {
        let hang = Call::new(&HANG).args([number.output()]);
        let hang = graph.submit_next_level(Target::Chip(culprit), &hang)?;
        for _ in 0..16 {
            graph.submit_next_level(Target::Chip(1 - culprit), &quick())?;
            graph.submit_sub(&quick())?;
        }
        graph.submit_sub(&quick().after(&[hang]))?;
        Ok(())
    });
    let words = stalled(run).to_string();
    let process = worker.startup().children[culprit as usize].process;
    let wanted = format!("chip {culprit} (process {process}) has shown no progress in task");
    assert!(words.starts_with(&wanted) && words.contains("fixture::hang"), "{words}");
    eventually("the stuck one is ended", || worker.lost().len() == 1);
    assert!(worker.lost()[0].worker.starts_with(&format!("chip {culprit} ")));
    worker.call(&quick())?;
    drop(number);
    worker.close()
}

/// Tries one kind again and again.
fn caught(what: &str, one: impl Fn(u64) -> Result<(), Error>) -> Result<(), Error> {
    let left = Leftovers::before();
    let rounds = count(4, 100);
    let mut times: Vec<Duration> = Vec::new();
    for seed in 0..rounds {
        let begun = Instant::now();
        one(seed + 1)?;
        times.push(begun.elapsed());
        left.check();
    }
    println!("{} of {rounds} {what}: {}", times.len(), describe(&mut times));
    Ok(())
}

#[test]
fn every_deadlock_is_caught_and_names_who_waits_for_whom() -> Result<(), Error> {
    let _turn = turn();
    caught("deadlocks caught", |seed| {
        at_some_scale(|scale| deadlock(scale.into(), &mut Dice::new(seed)).expect("it goes on"));
        Ok(())
    })
}

#[test]
fn every_kernel_that_never_returns_is_caught_and_named() -> Result<(), Error> {
    let _turn = turn();
    caught("stuck kernels caught", |seed| stuck(&mut Dice::new(seed)))
}
