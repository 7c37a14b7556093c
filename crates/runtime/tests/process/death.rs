//! kill -9 of a child at every moment of its life.

use crate::callables::{GROW, HANG, NOTHING, SLEEP, WHO, wish};
use crate::support::{
    Dice, FIXTURE, Leftovers, builder, child_named, describe, eventually, is_usable, signal, timed,
    turn,
};
use phalanx_runtime::Reason;
use phalanx_runtime::{Call, DType, Error, Target, Worker};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The number of seeds for each phase.
const SEEDS: u64 = 12;

/// Starts a worker while another thread kills one of its children after a while.
fn start_and_kill(path: &str, ids: &[u32], victim: u64, after: Duration) -> Result<Worker, Error> {
    std::thread::scope(|scope| {
        let killer = scope.spawn(move || {
            let name = format!("chip {victim}");
            let process = loop {
                if let Some(process) = child_named(&name) {
                    break process;
                }
                std::thread::yield_now();
            };
            std::thread::sleep(after);
            signal(process, Signal::KILL);
        });
        let chips = u32::try_from(ids.len()).expect("few");
        let builder = builder().program_path(path).chips(chips).sub_workers(1);
        let worker = builder.device_ids(ids).init();
        killer.join().expect("no panic");
        worker
    })
}

/// A program that needs a while before it is the fixture.
fn slow_fixture() -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = format!("{}/slow-fixture", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, format!("#!/bin/sh\nsleep 0.2\nexec '{FIXTURE}' \"$@\"\n"))
        .expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

#[test]
fn a_child_that_is_killed_while_it_starts_fails_the_start() {
    let _turn = turn();
    let slow = slow_fixture();
    let left = Leftovers::before();
    let mut phases = BTreeMap::new();
    for seed in 0..2 * SEEDS {
        let mut dice = Dice::new(seed);
        let path = if seed % 2 == 0 { FIXTURE } else { &slow };
        let after = Duration::from_micros(dice.below(2000));
        match start_and_kill(path, &[0, 1, 2], dice.below(3), after) {
            Err(Error::Start(error)) => {
                assert!(error.words.contains("SIGKILL"), "{error}");
                *phases.entry(format!("{:?}", error.phase)).or_insert(0) += 1;
            }
            Err(error) => panic!("another error: {error}"),
            Ok(worker) => {
                // It was ready before: then it is lost like any other.
                eventually("the loss is noticed", || worker.lost().len() == 1);
                is_usable(&worker).expect("the sub worker lives");
                worker.close().expect("the others leave");
                *phases.entry("after the start".to_owned()).or_insert(0) += 1;
            }
        }
        left.check();
    }
    println!("killed while starting: {phases:?}");
}

#[test]
fn a_child_that_is_killed_while_it_or_others_bootstrap_fails_the_start() {
    let _turn = turn();
    let left = Leftovers::before();
    let mut phases = BTreeMap::new();
    for seed in 0..SEEDS / 2 {
        let mut dice = Dice::new(seed);
        let (slow, victim) = (dice.below(3), dice.below(3));
        let ids: Vec<u32> =
            (0..3).map(|at| if u64::from(at) == slow { wish::HANG } else { at }).collect();
        // The slow one takes minutes, so the start is not over.
        let after = Duration::from_millis(60 + dice.below(60));
        let error = match start_and_kill(FIXTURE, &ids, victim, after) {
            Err(Error::Start(error)) => error,
            other => panic!("it should not start: {:?}", other.map(drop)),
        };
        assert!(error.worker.starts_with(&format!("chip {victim} ")), "{error}");
        assert!(error.words.contains("SIGKILL"), "{error}");
        *phases.entry(format!("{:?}", error.phase)).or_insert(0) += 1;
        left.check();
    }
    println!("killed while bootstrapping: {phases:?}");
}

#[test]
fn a_child_that_is_killed_while_idle_is_never_picked_again() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let mut times = Vec::new();
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let worker = builder().chips(1).sub_workers(3).init()?;
        is_usable(&worker)?;
        std::thread::sleep(Duration::from_micros(dice.below(2000)));
        let victim = usize::try_from(1 + dice.below(3)).expect("few");
        let process = worker.startup().children[victim].process;
        let begun = Instant::now();
        signal(process, Signal::KILL);
        eventually("the loss is noticed", || worker.lost().len() == 1);
        times.push(begun.elapsed());
        let lost = worker.lost();
        assert!(lost[0].words.contains("killed by signal 9 (SIGKILL)"), "{lost:?}");
        let numbers = worker.tensor(DType::I64, &[64])?;
        worker.run("the others", |graph| {
            for at in 0..64 {
                graph.submit_sub(&Call::new(&WHO).args([numbers.rows(at, at + 1)?.output()]))?;
            }
            Ok(())
        })?;
        let found = worker.read::<i64>(&numbers)?;
        assert!(!found.contains(&i64::from(process)), "a dead worker was picked");
        drop(numbers);
        worker.close()?;
        left.check();
    }
    println!("killed while idle, until known (looked at every 5 ms): {}", describe(&mut times));
    Ok(())
}

#[test]
fn a_child_that_is_killed_while_it_runs_fails_its_task_once() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let mut times = Vec::new();
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let worker = builder().chips(2).sub_workers(2).init()?;
        let number = worker.tensor(DType::I64, &[3])?;
        let run = worker.submit("one hangs", |graph| {
            let hang = Call::new(&HANG).args([number.rows(0, 1)?.output()]);
            let hang = graph.submit_next_level(Target::Chip(0), &hang)?;
            graph.submit_next_level(Target::Chip(0), &Call::new(&NOTHING))?;
            graph.submit_sub(&Call::new(&NOTHING).after(&[hang]))?;
            for _ in 0..8 {
                graph.submit_next_level(Target::Chip(1), &Call::new(&NOTHING))?;
                graph.submit_sub(&Call::new(&NOTHING))?;
            }
            Ok(())
        })?;
        let process = worker.startup().children[0].process;
        std::thread::sleep(Duration::from_micros(200 + dice.below(3000)));
        let (error, time) = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| (run.wait(), Instant::now()));
            std::thread::sleep(Duration::from_micros(300 + dice.below(1000)));
            let begun = Instant::now();
            signal(process, Signal::KILL);
            let (ended, at) = waiter.join().expect("no panic");
            (ended, at.saturating_duration_since(begun))
        });
        times.push(time);
        let Err(Error::Run(error)) = error else { panic!("it should fail: {error:?}") };
        assert!(matches!(error.cause().reason, Reason::WorkerLost(_)), "{error}");
        let root = error.root().expect("a root");
        assert!(root.worker.starts_with("chip 0 (process "), "{root}");
        assert!(root.words.contains("SIGKILL") || root.words.contains("torn down"), "{root}");
        // Both tasks of the victim failed, and its dependant; all others ended well, each once.
        eventually("the loss is proven", || worker.lost().len() == 1);
        is_usable(&worker)?;
        let other = Call::new(&NOTHING);
        worker.run("the other chip", |graph| {
            graph.submit_next_level(Target::Chip(1), &other)?;
            graph.submit_next_level(Target::Chip(0), &other).expect_err("chip 0 is gone");
            Ok(())
        })?;
        drop((run, number));
        worker.close()?;
        left.check();
    }
    println!("killed while running, until the waiter knows: {}", describe(&mut times));
    Ok(())
}

#[test]
fn prc_4_what_was_published_before_a_death_counts() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let (mut done, mut lost) = (0, 0);
    for seed in 0..2 * SEEDS {
        let mut dice = Dice::new(seed);
        let worker = builder().sub_workers(1).init()?;
        let process = worker.startup().children[0].process;
        let numbers = worker.tensor(DType::I64, &[40])?;
        let run = worker.submit("short tasks", |graph| {
            for at in 0..40 {
                let call = Call::new(&SLEEP).scalar(0).args([numbers.rows(at, at + 1)?.in_out()]);
                graph.submit_sub(&call)?;
            }
            Ok(())
        })?;
        let pause = Instant::now() + Duration::from_micros(dice.below(2500));
        while Instant::now() < pause {
            std::hint::spin_loop();
        }
        signal(process, Signal::KILL);
        let ended = run.wait();
        eventually("the loss is proven", || worker.lost().len() == 1);
        eventually("the tensor is free", || worker.read::<i64>(&numbers).is_ok());
        let counts = worker.read::<i64>(&numbers)?;
        // Each began at most once, and those that ended well began.
        assert!(counts.iter().all(|count| *count <= 1), "{counts:?}");
        let entered: i64 = counts.iter().sum();
        let completed = match &ended {
            Ok(finished) => finished.report.completed,
            Err(Error::Run(error)) => error.report().completed,
            Err(other) => panic!("another error: {other}"),
        };
        assert!(i64::try_from(completed).expect("few") <= entered, "{completed} of {entered}");
        (done, lost) = (done + completed, lost + 40 - completed);
        drop((run, numbers));
        worker.close()?;
        left.check();
    }
    println!("{} kills: {done} tasks ended well, {lost} with the worker", 2 * SEEDS);
    Ok(())
}

#[test]
fn a_child_that_is_killed_while_it_leaves_is_reaped() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let worker = builder().chips(3).device_ids(&[0, wish::STAY, 2]).init()?;
        let process = worker.startup().children[1].process;
        let pause = Duration::from_micros(dice.below(5000));
        let closed = std::thread::scope(|scope| {
            let closer = scope.spawn(|| worker.close());
            std::thread::sleep(pause);
            signal(process, Signal::KILL);
            closer.join().expect("no panic")
        });
        closed?;
        left.check();
    }
    println!("{SEEDS} kills while leaving");
    Ok(())
}

#[test]
fn the_death_of_a_large_child_is_told_before_it_is_torn_down() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(2).init()?;
    let number = worker.tensor(DType::I64, &[1])?;
    let call = Call::new(&GROW).scalar(64 << 20).args([number.no_dep()]);
    let run = worker.submit("a large one", |graph| Ok(graph.submit_sub(&call).map(drop)?))?;
    let mut process = 0;
    eventually("it is large", || {
        let found = worker.read_unordered::<i64>(&number).expect("ours")[0];
        process = u32::try_from(found).expect("a process");
        process != 0
    });
    let (error, time) = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| (run.wait(), Instant::now()));
        std::thread::sleep(Duration::from_millis(5));
        let begun = Instant::now();
        signal(process, Signal::KILL);
        let (ended, at) = waiter.join().expect("no panic");
        (ended, at.saturating_duration_since(begun))
    });
    println!("64 MiB: told after {time:.1?}: {}", error.expect_err("killed"));
    let ((), proof) = timed(|| eventually("it is proven", || worker.lost().len() == 1));
    println!("the proof came {proof:.1?} later");
    is_usable(&worker)?;
    worker.close()
}
