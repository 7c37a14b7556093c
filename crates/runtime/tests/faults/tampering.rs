//! A child that writes over its mailbox harms itself at most: its parent hears of every task, and others work on.

use crate::callables::NOTHING;
use crate::count;
use crate::hostile::TAMPER;
use crate::support::{Dice, Leftovers, budgets, builder, eventually, turn};
use phalanx_runtime::{Call, Error, Worker};
use std::time::Duration;

/// Words of a mailbox before its rings, and as many as hold the first records of all rings.
const RANGES: [(u64, u64); 6] =
    [(0, 127), (16, 63), (64, 95), (128, 200), (128, 17_000), (0, 60_000)];

/// Runs some tasks; an error is fine, silence is not.
fn run_some(worker: &Worker, tamper: Option<&Call>) -> Result<(), Error> {
    let run = worker.submit("hostile", |graph| {
        for at in 0..40 {
            graph.submit_sub(tamper.filter(|_| at == 7).unwrap_or(&Call::new(&NOTHING)))?;
        }
        Ok(())
    });
    let ended = run.and_then(|run| run.wait_for(Duration::from_secs(600)).map(drop));
    assert!(!matches!(ended, Err(Error::TimedOut(_))), "nobody was told");
    ended
}

/// One attack: whether the run failed, and how many workers it cost; nothing if the host has paused several workers.
fn attack(seed: u64, scale: u32) -> Result<Option<(bool, usize)>, Error> {
    let mut dice = Dice::new(seed);
    let small = builder().sub_workers(3).memory(1 << 20).ring(64, 1 << 16).depth(4);
    let small = small
        .budgets(budgets(500, u64::from(scale) * 1_500))
        .close_within(scale * Duration::from_secs(1));
    let worker = small.init()?;
    let (first, last) = RANGES[usize::try_from(dice.below(RANGES.len() as u64)).expect("few")];
    let scalars = [seed, 1 << dice.below(8), first, last];
    let tamper = scalars.into_iter().fold(Call::new(&TAMPER), Call::scalar);
    let has_failed = run_some(&worker, Some(&tamper)).is_err();
    // A child that does not hear any more is found out when it is sent a task.
    let is_usable = (0..4).any(|_| run_some(&worker, None).is_ok());
    let losses = worker.lost();
    let stuck = losses.iter().filter(|one| one.words.contains("no progress")).count();
    // The one that was attacked may be stuck. Others are stuck only if they got no processor for a whole budget.
    if losses.len() > 1 && stuck + 1 >= losses.len() && scale < 16 {
        return Ok(None);
    }
    assert!(is_usable && losses.len() <= 1, "seed {seed}: others cannot work: {losses:?}");
    eventually("every dispatch ends", || {
        let now = worker.stats();
        now.tasks == 0 && now.running == 0 && now.queued == 0
    });
    // A child that does not hear that it is to leave is ended by force.
    match worker.close() {
        Ok(()) | Err(Error::Close { .. }) => Ok(Some((has_failed, losses.len()))),
        Err(error) => Err(error),
    }
}

#[test]
fn a_child_that_writes_over_its_mailbox_harms_itself_at_most() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let (attacks, mut failed, mut lost) = (count(12, 1_000), 0, 0);
    for seed in 0..attacks {
        let mut tries = [1, 4, 16].into_iter().map(|scale| attack(seed, scale));
        let (has_failed, workers) = tries.find_map(Result::transpose).expect("the last counts")?;
        (failed, lost) = (failed + u64::from(has_failed), lost + workers);
        left.check();
    }
    println!("{attacks} of {attacks} attacks: {failed} runs failed, {lost} children were lost");
    Ok(())
}
