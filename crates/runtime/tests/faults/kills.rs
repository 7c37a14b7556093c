//! kill -9 of a child in every state of its work.

use crate::callables::{HANG, SLEEP, SUM_BYTES};
use crate::count;
use crate::support::{
    Dice, Leftovers, builder, children, describe, eventually, is_usable, signal, turn,
};
use phalanx_runtime::{Call, DType, Error, Failure, Orchestrator, RunHandle, Tensor, Worker};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The most tasks of a run.
const TASKS: u64 = 40;
const CHILDREN: u32 = 3;

/// The phase of the victim when it is killed.
#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    Stuck,
    Independent,
    Chain,
    Group,
    Large,
    Cancelled,
    Closing,
}

const STATES: [State; 8] = [
    State::Idle,
    State::Stuck,
    State::Independent,
    State::Chain,
    State::Group,
    State::Large,
    State::Cancelled,
    State::Closing,
];

/// Returns the number of segments that are shared with children now.
fn shared_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter(|line| line.contains("memfd:")).count()
}

/// Keeps busy for up to so many microseconds, without sleeping.
fn linger(dice: &mut Dice, micros: u64) {
    let until = Instant::now() + Duration::from_micros(dice.below(micros));
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// The submissions; each task that has an element of its own counts itself there.
fn build(graph: &mut Orchestrator<'_>, state: State, numbers: &Tensor) -> Result<(), Failure> {
    let element = |at: u64| numbers.rows(at, at + 1);
    let quick = |at: u64| -> Result<Call, Failure> {
        Ok(Call::new(&SLEEP).scalar(0).args([element(at)?.in_out()]))
    };
    match state {
        State::Idle | State::Closing => {}
        State::Stuck => {
            graph.submit_sub(&Call::new(&HANG).args([element(0)?.output()]))?;
        }
        State::Independent | State::Cancelled => {
            for at in 0..TASKS {
                graph.submit_sub(&quick(at)?)?;
            }
        }
        State::Chain => {
            for _ in 0..TASKS {
                graph.submit_sub(&Call::new(&SLEEP).scalar(0).args([numbers.in_out()]))?;
            }
        }
        State::Group => {
            for at in (0..TASKS - 2).step_by(3) {
                graph.submit_sub_group(&[quick(at)?, quick(at + 1)?, quick(at + 2)?])?;
            }
        }
        State::Large => {
            let bytes = vec![1; 300 << 10];
            for at in 0..TASKS {
                let call = Call::new(&SUM_BYTES).bytes(&bytes).args([element(at)?.in_out()]);
                graph.submit_sub(&call)?;
            }
        }
    }
    Ok(())
}

/// The process to kill: any, or the one that runs the task that does not end.
fn victim(worker: &Worker, state: State, numbers: &Tensor, dice: &mut Dice) -> Result<u32, Error> {
    let any = usize::try_from(dice.below(CHILDREN.into())).expect("few");
    if !matches!(state, State::Stuck) {
        return Ok(worker.startup().children[any].process);
    }
    loop {
        let found = worker.read_unordered::<i64>(numbers)?[0];
        if found != 0 {
            return Ok(u32::try_from(found).expect("a process"));
        }
    }
}

/// Waits for the end of a run; how long after `begun` it was known.
fn await_end(run: &RunHandle, begun: Instant) -> (Result<(), Error>, Duration) {
    let ended = run.wait_for(Duration::from_secs(600)).map(drop);
    assert!(!matches!(ended, Err(Error::TimedOut(_))), "nobody was told");
    (ended, begun.elapsed())
}

/// Every dispatch has ended once, and nothing is left of any.
fn check_settled(worker: &Worker, state: State) {
    let is_settled = || {
        let now = worker.stats();
        now.tasks == 0 && now.running == 0 && now.queued == 0 && now.groups == 0
    };
    eventually("every dispatch ends", is_settled);
    assert_eq!(worker.stats().stale, 0, "{state:?}: a dispatch ended twice");
}

/// One kill; how long it took until the waiter knew, and whether the run had failed.
fn kill_once(state: State, seed: u64) -> Result<(Duration, bool), Error> {
    let mut dice = Dice::new(seed);
    let small = builder().sub_workers(CHILDREN).memory(1 << 22).ring(64, 1 << 20);
    let worker = small.init()?;
    let numbers = worker.tensor(DType::I64, &[TASKS])?;
    let run = worker.submit("faults", |graph| build(graph, state, &numbers))?;
    let process = victim(&worker, state, &numbers, &mut dice)?;
    linger(&mut dice, 1500);
    if matches!(state, State::Closing) {
        drop((run, numbers));
        return kill_while_closing(worker, process, &mut dice);
    }
    if matches!(state, State::Cancelled) {
        run.cancel();
    }
    let begun = Instant::now();
    signal(process, Signal::KILL);
    let (ended, time) = await_end(&run, begun);
    eventually("the loss is proven", || worker.lost().len() == 1);
    check_settled(&worker, state);
    eventually("the tensor is free", || worker.read::<i64>(&numbers).is_ok());
    let begins = worker.read::<i64>(&numbers)?;
    if matches!(state, State::Independent | State::Group | State::Cancelled) {
        assert!(begins.iter().all(|begins| *begins <= 1), "{state:?}: {begins:?}");
    }
    is_usable(&worker)?;
    drop((run, numbers));
    worker.close()?;
    Ok((time, ended.is_err()))
}

fn kill_while_closing(
    worker: Worker,
    process: u32,
    dice: &mut Dice,
) -> Result<(Duration, bool), Error> {
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let closer = scope.spawn(|| worker.close());
        linger(dice, 800);
        signal(process, Signal::KILL);
        closer.join().expect("no panic")?;
        Ok((begun.elapsed(), false))
    })
}

#[test]
fn a_kill_in_any_state_ends_every_dispatch_once_and_harms_nobody_else() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let mappings = shared_mappings();
    let seeds = count(5, 80);
    for state in STATES {
        let (mut times, mut failed) = (Vec::new(), 0);
        for seed in 0..seeds {
            let (time, has_failed) = kill_once(state, seed)?;
            times.push(time);
            failed += u64::from(has_failed);
            left.check();
            assert_eq!(shared_mappings(), mappings, "{state:?}: memory stays shared");
        }
        println!("{seeds} kills, {state:?}: {failed} runs failed; known: {}", describe(&mut times));
    }
    println!("{} of {} kills", seeds * 8, seeds * 8);
    Ok(())
}

#[test]
fn node_4_a_child_that_is_killed_while_its_worker_closes_is_not_started_again() -> Result<(), Error>
{
    let _turn = turn();
    let left = Leftovers::before();
    let mut dice = Dice::new(4);
    for _ in 0..count(100, 3000) {
        let worker = builder().memory(1 << 16).sub_workers(1).restart().init()?;
        for victim in children() {
            signal(victim, Signal::KILL);
        }
        linger(&mut dice, 400);
        worker.close()?;
        left.check();
    }
    Ok(())
}
