//! The words about lost workers: their names, the cause, and the work that the run had done.

use crate::callables::{GROW, HANG, LAST_WORDS, NOTHING, SLEEP};
use crate::support::{PATIENCE, budgets, builder, eventually, is_usable, signal, turn};
use phalanx_runtime::{Call, DType, Error, Finished, Orchestrator, RunError, Target, Worker};
use phalanx_runtime::{Reason, SubmitError};
use rustix::process::Signal;

/// Kills these children and waits until that is known; what each was called.
fn kill(worker: &Worker, children: &[usize]) -> Vec<String> {
    let before = worker.lost().len();
    let names = children.iter().map(|at| {
        let child = &worker.startup().children[*at];
        signal(child.process, Signal::KILL);
        format!("{} (process {})", child.name, child.process)
    });
    let names = names.collect();
    eventually("the losses are proven", || worker.lost().len() == before + children.len());
    names
}

/// Returns the words of a refused submission; nothing of it remains.
fn refused(worker: &Worker, submit: impl FnOnce(&mut Orchestrator<'_>) -> Error) -> Error {
    let mut said = None;
    let run = worker.run("refused", |graph| {
        said = Some(submit(graph));
        Ok(())
    });
    assert_eq!(run.expect("nothing was submitted").report.tasks, 0);
    said.expect("it ran")
}

fn run_error(run: Result<Finished, Error>) -> RunError {
    match run {
        Err(Error::Run(error)) => error,
        other => panic!("it should fail: {other:?}"),
    }
}

#[test]
fn prc_10_a_refused_submission_names_the_lost_and_how_they_died() {
    let _turn = turn();
    let worker = builder().chips(2).sub_workers(2).init().expect("a worker");
    let chip = kill(&worker, &[0]).remove(0);
    let call = Call::new(&NOTHING);
    let error = refused(&worker, |graph| {
        graph.submit_next_level(Target::Chip(0), &call).expect_err("chip 0 is lost")
    });
    assert!(matches!(error, Error::WorkersLost { refused: SubmitError::WorkerLost(_), .. }));
    let killed = "the process was killed by signal 9 (SIGKILL)";
    let wanted = format!("the task is refused: its worker is lost: {chip}: {killed}; ");
    assert!(error.to_string().starts_with(&wanted), "PRC-10: {error}");
    let error = refused(&worker, |graph| {
        let calls = [(0, call.clone()), (1, call.clone())];
        graph.submit_next_level_group(&calls).expect_err("chip 0 is lost")
    });
    assert!(error.to_string().starts_with(&wanted), "PRC-10: {error}");
    let mut subs = kill(&worker, &[2]);
    let error = refused(&worker, |graph| {
        graph.submit_sub_group(&[call.clone(), call.clone()]).expect_err("one is lost")
    });
    let words = error.to_string();
    let wanted =
        format!("a group of 2 can never start on 1 workers, and 1 are lost: {}: {killed}", subs[0]);
    assert!(words.contains(&wanted), "PRC-10: {words}");
    is_usable(&worker).expect("one sub worker is left");
    subs.extend(kill(&worker, &[3]));
    let error = refused(&worker, |graph| graph.submit_sub(&call).expect_err("all are lost"));
    let words = error.to_string();
    let all = subs.iter().map(|name| format!("{name}: {killed}")).collect::<Vec<_>>().join("; ");
    let wanted = format!("the task is refused: all workers that could run it are lost: {all}; ");
    assert!(words.starts_with(&wanted), "PRC-10: {words}");
    let Error::WorkersLost { lost, .. } = error else { panic!("{error}") };
    assert_eq!(lost.len(), 2, "PRC-10: as data too");
}

#[test]
fn prc_10_last_words_are_told_in_the_run_and_in_later_ones() {
    let _turn = turn();
    let worker = builder().chips(1).init().expect("a worker");
    let call = Call::new(&LAST_WORDS);
    let run = worker.run("it ends badly", |graph| {
        graph.submit_next_level(Target::Chip(0), &call)?;
        Ok(())
    });
    let name = format!("chip 0 (process {})", worker.startup().children[0].process);
    let first = run_error(run).to_string();
    eventually("the loss is proven", || worker.lost().len() == 1);
    let later = refused(&worker, |graph| {
        graph.submit_next_level(Target::Chip(0), &call).expect_err("it is lost")
    });
    for words in [first, later.to_string()] {
        let is_whole =
            [&name, "killed by signal 6 (SIGABRT)", "its last words: ", "a thread met a wall"];
        assert!(is_whole.iter().all(|part| words.contains(*part)), "PRC-10: {words}");
    }
}

#[test]
fn prc_10_tasks_that_never_began_name_the_worker_they_waited_for() {
    let _turn = turn();
    let worker = builder().chips(1).sub_workers(1).runs(3).init().expect("a worker");
    let number = worker.tensor(DType::I64, &[2]).expect("memory");
    let busy = worker.submit("busy", |graph| {
        let hang = |at| Ok::<_, Error>(Call::new(&HANG).args([number.rows(at, at + 1)?.output()]));
        graph.submit_next_level(Target::Chip(0), &hang(0)?)?;
        graph.submit_sub(&hang(1)?)?;
        Ok(())
    });
    let busy = busy.expect("it is open");
    let behind = |target: Option<Target>| {
        let run = worker.submit("behind", |graph| {
            match target {
                Some(target) => graph.submit_next_level(target, &Call::new(&NOTHING))?,
                None => graph.submit_sub(&Call::new(&NOTHING))?,
            };
            Ok(())
        });
        run.expect("it is open")
    };
    let behind = [behind(Some(Target::Chip(0))), behind(None)];
    let found = || worker.read_unordered::<i64>(&number).expect("it is ours");
    eventually("both hang", || found().iter().all(|process| *process != 0));
    for (name, run) in kill(&worker, &[0, 1]).iter().zip(behind) {
        let error = run_error(run.wait());
        let is_lost = matches!(error.cause().reason, Reason::WorkerLost(_) | Reason::PoolLost(_));
        let root = error.root().expect("PRC-10: a root").to_string();
        let parts = ["`fixture::nothing`", name, "killed by signal 9 (SIGKILL)"];
        let is_whole = parts.iter().all(|part| root.contains(*part));
        assert!(is_lost && is_whole, "PRC-10: {error}");
        assert_eq!((error.report().tasks, error.report().completed), (1, 0));
    }
    assert!(busy.wait().is_err());
}

#[test]
fn prc_10_a_run_that_has_failed_refuses_with_its_own_error() {
    let _turn = turn();
    let worker = builder().chips(2).init().expect("a worker");
    let name = format!("chip 0 (process {})", worker.startup().children[0].process);
    let mut said = None;
    let run = worker.run("goes on", |graph| {
        graph.submit_next_level(Target::Chip(0), &Call::new(&LAST_WORDS))?;
        for _ in 0..6000 {
            graph.flush();
            match graph.submit_next_level(Target::Chip(1), &Call::new(&NOTHING)) {
                Ok(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
                Err(error) => {
                    said = Some(error);
                    return Ok(());
                }
            }
        }
        Ok(())
    });
    let (error, said) = (run_error(run), said.expect("PRC-10: it is refused"));
    let Error::RunFailed(early) = &said else { panic!("PRC-10: {said}") };
    assert_eq!(early.cause(), error.cause());
    let words = said.to_string();
    assert!(words.starts_with("the task is refused: its run has failed: task t"), "{words}");
    assert!(words.contains(&name) && words.contains("SIGABRT"), "PRC-10: {words}");
}

#[test]
fn a_stall_tells_what_the_run_had_done() {
    let _turn = turn();
    let small = builder().chips(1).sub_workers(1).budgets(budgets(100, 300));
    let worker = small.init().expect("a worker");
    let number = worker.tensor(DType::I64, &[1]).expect("memory");
    let quick = Call::new(&NOTHING).expected(PATIENCE);
    let run = worker.run("three and one", |graph| {
        let before: Vec<_> = (0..3).map(|_| graph.submit_sub(&quick)).collect::<Result<_, _>>()?;
        let call = Call::new(&HANG).args([number.output()]).after(&before);
        graph.submit_next_level(Target::Chip(0), &call)?;
        Ok(())
    });
    let error = run_error(run);
    assert!(error.stall().is_some(), "{error}");
    assert_eq!((error.report().tasks, error.report().completed), (4, 3), "{error}");
}

#[test]
fn wrk_7_what_a_run_that_was_given_up_named_can_be_read_when_its_tasks_have_ended() {
    let _turn = turn();
    // The larger a process is, the longer its end takes, so one of these is told early.
    let mut early = 0;
    for mebibytes in [64, 64, 64, 512, 1024, 2048] {
        if mebibytes > 64 && early > 0 {
            break;
        }
        let worker = builder().chips(2).sub_workers(1).init().expect("a worker");
        let number = worker.tensor(DType::I64, &[3]).expect("memory");
        let run = worker.submit("a large one", |graph| {
            let row = |at| number.rows(at, at + 1);
            let done = graph.submit_sub(&Call::new(&NOTHING))?;
            // It takes the kernel a while to tear it down.
            let grow =
                Call::new(&GROW).scalar(mebibytes << 20).args([row(0)?.no_dep()]).after(&[done]);
            graph.submit_next_level(Target::Chip(0), &grow)?;
            let sleep = Call::new(&SLEEP).scalar(700).args([row(1)?.in_out()]).after(&[done]);
            graph.submit_next_level(Target::Chip(1), &sleep)?;
            Ok(())
        });
        let run = run.expect("it is open");
        let is_begun = |found: Vec<i64>| found[0] != 0 && found[1] != 0;
        let both = || worker.read_unordered::<i64>(&number).is_ok_and(is_begun);
        eventually("it is large, and the other has begun", both);
        signal(worker.startup().children[0].process, Signal::KILL);
        let error = run_error(run.wait());
        assert!(run.is_done(), "WRK-7: it was told");
        assert_eq!((error.report().tasks, error.report().completed > 0), (3, true), "{error}");
        let words = error.root().expect("a root").words.to_string();
        assert!(
            words.starts_with("the process was killed by signal 9 (SIGKILL)"),
            "PRC-10: {words}"
        );
        early += usize::from(words.contains("torn down"));
        let found = worker.read::<i64>(&number).expect("WRK-7: it waits for the proof");
        assert_eq!(found[1], 1, "WRK-7: the other has run");
        worker.write(&number, &[0i64; 3]).expect("WRK-7: nobody names it");
        assert_eq!(worker.lost().len(), 1, "WRK-7: the death is proven");
    }
    assert!(early > 0, "WRK-7: a run whose process has died ends before that process is torn down");
}

#[test]
fn wrk_7_a_run_that_goes_on_keeps_its_tensors() {
    let _turn = turn();
    let worker = builder().sub_workers(1).init().expect("a worker");
    let number = worker.tensor(DType::I64, &[1]).expect("memory");
    // A worker that is stopped ends nothing.
    let child = worker.startup().children[0].process;
    signal(child, Signal::STOP);
    let run = worker.submit("it goes on", |graph| {
        let call = Call::new(&SLEEP).scalar(0).args([number.in_out()]);
        graph.submit_sub(&call)?;
        // The code of the graph itself cannot wait for its own run.
        assert!(matches!(worker.read::<i64>(&number), Err(Error::InUse)), "WRK-7");
        Ok(())
    });
    let run = run.expect("it is open");
    assert!(matches!(worker.read::<i64>(&number), Err(Error::InUse)), "WRK-7");
    signal(child, Signal::CONT);
    run.wait().expect("it ends well");
    assert_eq!(worker.read::<i64>(&number).expect("WRK-7"), [1]);
}
