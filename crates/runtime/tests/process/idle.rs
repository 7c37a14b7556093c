//! Workers that have nothing to do cost nothing, and one that is stopped for a while is not taken for dead.

use crate::callables::{MOVE, PROGRAM, SLEEP, clock};
use crate::support::{budgets, builder, eventually, is_usable, signal, ticks, turn};
use phalanx_runtime::{Builder, Call, DType, Error, Worker};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn reap_3_node_3_eight_idle_children_and_their_parent_use_no_processor() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().chips(4).sub_workers(4).init()?;
    is_usable(&worker)?;
    let mut all: Vec<u32> = worker.startup().children.iter().map(|child| child.process).collect();
    all.push(std::process::id());
    // The last task may still be going on; who polls is never quiet for a second.
    let is_quiet = (0..60).any(|_| {
        let before: Vec<u64> = all.iter().map(|process| ticks(*process)).collect();
        std::thread::sleep(Duration::from_secs(1));
        let used = all.iter().zip(before).map(|(one, before)| ticks(*one) - before);
        let used: Vec<u64> = used.collect();
        println!("ticks in one second, the parent last: {used:?}");
        used.iter().all(|ticks| *ticks <= 5)
    });
    assert!(is_quiet, "REAP-3, NODE-3: somebody polls");
    worker.close()
}

#[test]
fn a_long_task_that_says_that_it_moves_is_not_taken_for_stuck() -> Result<(), Error> {
    let _turn = turn();
    for builder in [builder(), Worker::builder(&PROGRAM).threads()] {
        while !moves(builder.clone())? {}
    }
    Ok(())
}

/// Runs a task that moves, for longer than its budget; false if it got no processor for half of the budget.
fn moves(builder: Builder) -> Result<bool, Error> {
    const BUDGET: u64 = 500;
    let worker = builder.sub_workers(1).budgets(budgets(100, BUDGET)).init()?;
    let said = worker.tensor(DType::I64, &[2])?;
    worker.write(&said, &[clock(), 0])?;
    let Err(error) = worker.call(&Call::new(&MOVE).scalar(2 * BUDGET).args([said.no_dep()])) else {
        worker.close()?;
        return Ok(true);
    };
    let now = clock();
    let said = worker.read_unordered::<u64>(&said)?;
    let gap = Duration::from_nanos(said[1].max(now.saturating_sub(said[0])));
    assert!(gap > Duration::from_millis(BUDGET / 2), "it moved within {gap:?}: {error}");
    println!("it got no processor for {gap:?}: once more");
    Ok(false)
}

#[test]
fn a_child_that_is_stopped_within_its_budget_is_waited_for() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(1).budgets(budgets(100, 60_000)).init()?;
    let child = worker.startup().children[0].process;
    let number = worker.tensor(DType::I64, &[1])?;
    for round in 1..=3 {
        let call = Call::new(&SLEEP).scalar(50).args([number.in_out()]);
        let run = worker.submit("stopped", |graph| Ok(graph.submit_sub(&call).map(drop)?))?;
        signal(child, Signal::STOP);
        // Longer than the budget in which nothing may run, shorter than that of an operation.
        std::thread::sleep(Duration::from_millis(200));
        signal(child, Signal::CONT);
        run.wait()?;
        drop(run);
        eventually("the buffer is free", || worker.read::<i64>(&number).is_ok());
        assert_eq!(worker.read::<i64>(&number)?, [round]);
    }
    assert!(worker.lost().is_empty());
    worker.close()
}
