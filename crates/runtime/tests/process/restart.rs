//! Workers that are started again.

use crate::callables::{DEVICE, EXIT, HANG, NOTHING, SLEEP, WHO, wish};
use crate::support::{
    Dice, Leftovers, builder, describe, eventually, is_usable, signal, timed, turn,
};
use phalanx_runtime::{Call, DType, Error, RunHandle, Target, Tensor, Worker};
use rustix::process::Signal;
use std::time::Duration;

/// The process that a sub worker is now.
fn process_of(worker: &Worker) -> Result<u32, Error> {
    let number = worker.tensor(DType::I64, &[1])?;
    worker.call(&Call::new(&WHO).args([number.output()]).idempotent())?;
    Ok(u32::try_from(worker.read::<i64>(&number)?[0]).expect("a process"))
}

#[test]
fn a_worker_that_is_lost_while_idle_is_started_again() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().sub_workers(1).restart().init()?;
    let mut times = Vec::new();
    for round in 1..=20 {
        let process = process_of(&worker)?;
        signal(process, Signal::KILL);
        let (next, time) = timed(|| process_of(&worker));
        assert_ne!(next?, process);
        times.push(time);
        eventually("the loss is known", || worker.replaced().len() == round);
    }
    let words = worker.replaced()[0].words.clone();
    assert!(words.contains("SIGKILL") && worker.lost().is_empty(), "{words}");
    worker.close()?;
    left.check();
    println!("killed and used again: {}", describe(&mut times));
    Ok(())
}

#[test]
fn prc_9_idempotent_tasks_run_again_and_all_end_well() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    for seed in 7..10 {
        run_again(&mut Dice::new(seed))?;
        left.check();
    }
    Ok(())
}

/// Kills workers while they run tasks that may run again: three times, as no worker is lost for good by that.
fn run_again(dice: &mut Dice) -> Result<(), Error> {
    let worker = builder().sub_workers(3).restart().init()?;
    let numbers = worker.tensor(DType::I64, &[120])?;
    let run = worker.submit("again", |graph| {
        for at in 0..120 {
            let call = Call::new(&SLEEP).scalar(3).args([numbers.rows(at, at + 1)?.in_out()]);
            graph.submit_sub(&call.idempotent())?;
        }
        Ok(())
    })?;
    let mut kills = 0;
    while !run.is_done() {
        std::thread::sleep(Duration::from_micros(5000 + dice.below(10_000)));
        let ours: Vec<u32> = crate::support::children().into_iter().collect();
        let victim = usize::try_from(dice.below(3)).expect("few");
        if let Some(process) = ours.get(victim).filter(|_| kills < 3) {
            signal(*process, Signal::KILL);
            kills += 1;
        }
    }
    assert_eq!(run.wait()?.report.completed, 120);
    drop(run);
    eventually("the tensor is free", || worker.read::<i64>(&numbers).is_ok());
    let counts = worker.read::<i64>(&numbers)?;
    assert!(counts.iter().all(|count| *count >= 1), "{counts:?}");
    let again: i64 = counts.iter().map(|count| count - 1).sum();
    println!("{kills} kills, {again} tasks ran again, {} were replaced", worker.replaced().len());
    // The last kill may not be known yet, and what is sent to the dead meanwhile fails.
    eventually("all are there again", || is_usable(&worker).is_ok());
    drop(numbers);
    worker.close()
}

#[test]
fn other_tasks_fail_and_the_worker_goes_on() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().chips(1).device_ids(&[9]).window(4096).restart().init()?;
    let number = worker.tensor(DType::I64, &[1])?;
    for _ in 0..5 {
        let exit = Call::new(&EXIT).scalar(5);
        let run = worker.run("it leaves", |graph| {
            graph.submit_next_level(Target::Chip(0), &exit)?;
            Ok(())
        });
        let Err(Error::Run(error)) = run else { panic!("it fails") };
        let words = error.root().expect("a task").words.to_string();
        assert!(words.contains("exited with 5") || words.contains("torn down"), "{words}");
        worker.run("the device is there again", |graph| {
            let call = Call::new(&DEVICE).args([number.output()]);
            graph.submit_next_level(Target::Chip(0), &call)?;
            Ok(())
        })?;
        assert_eq!(worker.read::<i64>(&number)?, [9]);
    }
    worker.close()
}

#[test]
fn a_task_that_always_ends_its_worker_ends_it_for_good() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let worker = builder().sub_workers(2).restart().init()?;
    let Err(Error::Run(error)) = worker.call(&Call::new(&EXIT).scalar(1).idempotent()) else {
        panic!("it can never end well")
    };
    let words = error.to_string();
    assert!(words.contains("without having done anything"), "{words}");
    assert_eq!(worker.lost().len(), 1);
    is_usable(&worker)?;
    worker.close()?;
    left.check();
    Ok(())
}

/// A file that tells the bootstrap of a chip what to do, one line each time.
struct Script(std::path::PathBuf);

impl Script {
    fn new(name: &str) -> Self {
        let name = format!("phalanx-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn write(&self, lines: &[&str]) {
        let text: Vec<&str> = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        std::fs::write(&self.0, text.concat()).expect("a temporary file");
    }

    /// A worker with one chip that follows it, and a tensor for answers.
    fn start(&self) -> Result<(Worker, Tensor), Error> {
        self.write(&[]);
        let path = self.0.to_str().expect("text").as_bytes();
        let chip =
            builder().chips(1).device_ids(&[wish::SCRIPT]).window(4096).setting(path).restart();
        let worker = chip.init()?;
        let number = worker.tensor(DType::I64, &[4])?;
        Ok((worker, number))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Three tasks on chip 0, of which the second may not run twice.
fn three_tasks(worker: &Worker, number: &Tensor) -> Result<RunHandle, Error> {
    worker.submit("three", |graph| {
        for at in 0..3 {
            let call = Call::new(&SLEEP).scalar(0).args([number.rows(at, at + 1)?.in_out()]);
            let call = if at == 1 { call } else { call.idempotent() };
            graph.submit_next_level(Target::Chip(0), &call)?;
        }
        Ok(())
    })
}

/// Ends the process of chip 0, and waits until that is known.
fn lose(worker: &Worker) {
    let before = worker.replaced().len();
    signal(worker.startup().children[0].process, Signal::KILL);
    eventually("the loss is known", || worker.replaced().len() > before);
}

#[test]
fn prc_9_a_replacement_that_cannot_start_is_replaced_in_turn() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let script = Script::new("again");
    for bad in [["fail", "die"], ["panic", "fail"], ["die", "change"]] {
        let (worker, number) = script.start()?;
        script.write(&bad);
        lose(&worker);
        let run = three_tasks(&worker, &number)?;
        let report = run.wait()?.report;
        assert_eq!(report.completed, 3, "PRC-9: what was kept for it has run");
        drop(run);
        assert_eq!(worker.read::<i64>(&number)?, [1, 1, 1, 0], "PRC-9: once");
        let replaced = worker.replaced();
        assert_eq!((replaced.len(), worker.lost().len()), (3, 0), "PRC-9: {replaced:?}");
        let names: std::collections::BTreeSet<_> =
            replaced.iter().map(|lost| lost.worker.clone()).collect();
        assert_eq!(names.len(), 3, "PRC-9: each has a name of its own: {replaced:?}");
        drop(number);
        worker.close()?;
        left.check();
    }
    Ok(())
}

#[test]
fn prc_9_when_all_attempts_are_used_up_each_cause_is_named() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let script = Script::new("used-up");
    let (worker, number) = script.start()?;
    script.write(&["hold", "die", "panic", "fail"]);
    lose(&worker);
    let run = three_tasks(&worker, &number)?;
    eventually("the first attempt is under way", || {
        std::fs::read_to_string(&script.0).is_ok_and(|lines| lines.lines().count() == 3)
    });
    std::fs::remove_file(&script.0).expect("it is there");
    let Err(Error::Run(error)) = run.wait() else { panic!("PRC-9: it can never start") };
    let words = error.to_string();
    let causes =
        ["SIGKILL", "started again 3 times", "1. ", "on fire again", "2. ", "exited with 3", "3. "];
    for cause in causes.into_iter().chain(["it panics again"]) {
        assert!(words.contains(cause), "PRC-9: {cause}: {words}");
    }
    assert_eq!(error.failures().len(), 3, "EP-1: each task has failed once: {words}");
    assert!(error.report().completed == 0 && error.report().tasks == 3, "{words}");
    drop(run);
    assert_eq!(worker.read::<i64>(&number)?, [0; 4], "none has run");
    assert_eq!(worker.lost().len(), 1);
    drop(number);
    worker.close()?;
    left.check();
    Ok(())
}

#[test]
fn prc_9_a_replacement_that_is_killed_while_it_starts_is_replaced_in_turn() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    let script = Script::new("killed");
    let (worker, number) = script.start()?;
    let first = worker.startup().children[0].process;
    script.write(&["slow", "slow"]);
    lose(&worker);
    let run = three_tasks(&worker, &number)?;
    let mut gone = vec![first];
    for round in 1..=2 {
        let mut next = None;
        eventually("another starts", || {
            next = crate::support::children().into_iter().find(|process| !gone.contains(process));
            // It bootstraps when it has taken its line.
            let script = std::fs::read_to_string(&script.0).unwrap_or_default();
            next.is_some() && script.lines().count() == 2 - round
        });
        signal(next.expect("a process"), Signal::KILL);
        gone.extend(next);
    }
    assert_eq!(run.wait()?.report.completed, 3, "PRC-9");
    let replaced = worker.replaced();
    assert_eq!(replaced.len(), 3, "PRC-9: {replaced:?}");
    assert!(replaced.iter().all(|lost| lost.words.contains("SIGKILL")), "{replaced:?}");
    drop((run, number));
    worker.close()?;
    left.check();
    Ok(())
}

#[test]
fn closing_while_a_worker_starts_again_leaves_nothing() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let within = Duration::from_millis(500);
        let worker = builder().sub_workers(2).restart().close_within(within).init()?;
        let number = worker.tensor(DType::I64, &[1])?;
        let run = worker.submit("hangs", |graph| {
            graph.submit_sub(&Call::new(&HANG).args([number.output()]))?;
            graph.submit_sub(&Call::new(&NOTHING))?;
            Ok(())
        })?;
        signal(worker.startup().children[0].process, Signal::KILL);
        std::thread::sleep(Duration::from_micros(dice.below(6000)));
        // The task that hangs is on either of them.
        let _ = worker.close();
        drop((run, number));
        left.check();
    }
    Ok(())
}
