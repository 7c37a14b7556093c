//! Callers that run tasks themselves: what they leave behind, and which tasks stay with them.

use crate::callables::{ADD, COUNT_THREADS, NOTHING, PROGRAM, REST, TELL, UNTIL_TOLD};
use phalanx_runtime::{Builder, Call, DType, Failure, Orchestrator, RunHandle, Tensor, Worker};
use std::time::Duration;

pub(crate) fn helping(threads: u32) -> Builder {
    let worker = Worker::builder(&PROGRAM).threads().memory(1 << 24).ring(64, 1 << 20);
    worker.helping().sub_workers(threads).depth(4)
}

/// Enough short tasks that the next ones stay with who submits.
pub(crate) fn submit_short_ones(graph: &mut Orchestrator<'_>, sum: &Tensor) -> Result<(), Failure> {
    for _ in 0..2_000 {
        graph.submit_sub(&Call::new(&ADD).args([sum.in_out()]).real(1.0))?;
    }
    Ok(())
}

/// Lets the worker think that tasks which wait or rest are short, so that it sends one behind the other.
pub(crate) fn mislead(worker: &Worker) {
    let flag = worker.tensor(DType::I64, &[1]).expect("memory");
    worker.write(&flag, &[1u64]).expect("no run names it");
    let run = worker.run("short for once", |graph| {
        for _ in 0..200 {
            graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
            graph.submit_sub(&Call::new(&REST).scalar(0))?;
        }
        Ok(())
    });
    run.expect("it ends");
}

/// Whether a run ends though nobody waits for it.
pub(crate) fn ends_alone(handle: &RunHandle) -> bool {
    (0..60_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        handle.is_done()
    })
}

#[test]
fn err_1_what_a_caller_that_goes_has_not_begun_is_run_by_others() {
    for round in 0..5 {
        let worker = helping(1).init().expect("a worker");
        mislead(&worker);
        let flags: Vec<_> =
            (0..24).map(|_| worker.tensor(DType::I64, &[1]).expect("memory")).collect();
        let handle = worker.submit("a row for each", |graph| {
            for flag in &flags {
                graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
            }
            Ok(())
        });
        let handle = handle.expect("a run");
        std::thread::scope(|scope| {
            // All end soon, but not before the caller has some that it has not begun.
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10 + round));
                for flag in &flags {
                    worker.write_unordered(flag, &[1u64]).expect("it can be told");
                }
            });
            let ended = handle.wait_for(Duration::from_millis(5));
            assert!(ended.is_err() || round > 0, "it cannot have ended so soon: {ended:?}");
        });
        assert!(ends_alone(&handle), "ERR-1");
        assert_eq!(handle.wait().expect("it ended well").report.completed, 24, "ERR-1");
        worker.close().expect("nothing is left");
    }
}

#[test]
fn err_1_what_was_recalled_and_given_back_ends_once() {
    let worker = helping(1).init().expect("a worker");
    for _ in 0..50 {
        mislead(&worker);
        let flag = worker.tensor(DType::I64, &[1]).expect("memory");
        let handle = worker.submit("cancelled", |graph| {
            for _ in 0..12 {
                graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
            }
            Ok(())
        });
        let handle = handle.expect("a run");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(300));
                handle.cancel();
                worker.write_unordered(&flag, &[1u64]).expect("it can be told");
            });
            let _ = handle.wait_for(Duration::from_micros(200));
        });
        assert!(ends_alone(&handle), "ERR-1");
    }
    worker.close().expect("nothing is left");
}

#[test]
fn err_3_a_submitter_that_waits_for_room_does_its_share() {
    const STEPS: u64 = 200;
    let worker = helping(1).init().expect("a worker");
    let cells: Vec<_> = (0..2).map(|_| worker.tensor(DType::I64, &[1]).expect("memory")).collect();
    // Of two tasks that wait for the same two, each has a thread to run on.
    let finished = worker.run("two wide", |graph| {
        for _ in 0..STEPS {
            for at in 0..2 {
                let args = [cells[at].in_out(), cells[1 - at].no_dep()];
                graph.submit_sub(&Call::new(&COUNT_THREADS).args(args))?;
            }
            graph.submit_sub(&Call::new(&NOTHING).args([cells[0].in_out(), cells[1].in_out()]))?;
        }
        Ok(())
    });
    assert_eq!(finished.expect("it ends").report.completed, 3 * STEPS);
    let by_thread: u64 = cells.iter().map(|cell| worker.read::<u64>(cell).expect("over")[0]).sum();
    let is_shared = (STEPS / 2..=3 * STEPS / 2).contains(&by_thread);
    assert!(is_shared, "ERR-3: {by_thread} of {} by the thread", 2 * STEPS);
}

#[test]
fn loc_1_tasks_that_are_not_known_to_be_short_are_handed_over() {
    let worker = helping(1).depth(1).init().expect("a worker");
    let sum = worker.tensor(DType::F64, &[1]).expect("memory");
    let [mine, others] = [(); 2].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
    for round in 1..=3u32 {
        for flag in [&mine, &others] {
            worker.write(flag, &[0u64]).expect("no run names it");
        }
        let handle = worker.submit("short, then long", |graph| {
            submit_short_ones(graph, &sum)?;
            // It ends only when it is told to, which happens here: somebody else must run it.
            graph.submit_sub(&Call::new(&UNTIL_TOLD).args([mine.no_dep()]))?;
            graph.flush();
            Ok(())
        });
        let handle = handle.expect("a run");
        worker.write_unordered(&mine, &[1u64]).expect("it can be told");
        assert_eq!(handle.wait().expect("LOC-1").report.completed, 2_001);
        let total = worker.read::<f64>(&sum).expect("over")[0];
        assert!((total - f64::from(round) * 2_000.0).abs() < f64::EPSILON, "LOC-1: {total}");
    }
}

#[test]
fn loc_3_nobody_waits_behind_a_long_task_while_another_worker_has_nothing_to_do() {
    for is_helping in [false, true] {
        let builder = Worker::builder(&PROGRAM).threads().sub_workers(2);
        let worker = if is_helping { builder.helping() } else { builder }.init().expect("a worker");
        let sum = worker.tensor(DType::F64, &[1]).expect("memory");
        let flag = worker.tensor(DType::I64, &[1]).expect("memory");
        let cells: Vec<_> =
            (0..20).map(|_| worker.tensor(DType::F64, &[1]).expect("memory")).collect();
        // Nothing is known of them at first, then that they are long.
        for _ in 0..3 {
            worker.write(&flag, &[0u64]).expect("no run names it");
            worker.run("known", |graph| submit_short_ones(graph, &sum)).expect("it ends");
            let run = worker.submit("one waits for all others", |graph| {
                graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]).scalar(20))?;
                for (number, cell) in cells.iter().enumerate() {
                    let call = if number % 2 == 0 {
                        Call::new(&REST).scalar(2)
                    } else {
                        Call::new(&ADD).real(1.0)
                    };
                    graph.submit_sub(&call.args([cell.in_out()]))?;
                }
                let others = cells.iter().map(Tensor::input);
                graph.submit_sub(&Call::new(&TELL).args([flag.no_dep()]).args(others))?;
                Ok(())
            });
            let ended = run.expect("a run").wait().expect("LOC-3");
            assert_eq!(ended.report.completed, 22, "LOC-3");
        }
    }
}

#[test]
fn loc_2_short_tasks_are_run_when_the_submitter_flushes_and_when_it_has_submitted_all() {
    let worker = helping(1).init().expect("a worker");
    let sum = worker.tensor(DType::F64, &[1]).expect("memory");
    // Refused while a thread adds to it.
    let seen = || worker.read_unordered::<f64>(&sum).map_or(0.0, |sum| sum[0]);
    for round in 1..=3u32 {
        let goal = f64::from(round) * 2_000.0;
        let handle = worker.submit("flushed", |graph| {
            submit_short_ones(graph, &sum)?;
            graph.flush();
            let mut looks = 0;
            while seen() < goal && looks < 10_000 {
                std::thread::sleep(Duration::from_millis(1));
                looks += 1;
            }
            assert!((seen() - goal).abs() < f64::EPSILON, "LOC-2: {} of {goal}", seen());
            Ok(())
        });
        handle.expect("a run").wait().expect("it ends");
    }
    let handle = worker.submit("not waited for", |graph| submit_short_ones(graph, &sum));
    assert!(ends_alone(&handle.expect("a run")), "LOC-2");
    assert!((seen() - 8_000.0).abs() < f64::EPSILON, "LOC-2");
}

#[test]
fn a_caller_alone_runs_everything() {
    let worker = helping(0).init().expect("a worker");
    let finished = worker.run("alone", |graph| {
        for _ in 0..1_000 {
            graph.submit_sub(&Call::new(&NOTHING))?;
        }
        Ok(())
    });
    assert_eq!(finished.expect("it ends").report.completed, 1_000);
}

#[test]
fn wrk_1_a_graph_whose_code_panics_is_cancelled_and_harms_no_other() {
    let worker = helping(1).init().expect("a worker");
    let sum = worker.tensor(DType::F64, &[1]).expect("memory");
    for round in 0..6 {
        let panics = || {
            let run = worker.submit("panics", |graph| {
                submit_short_ones(graph, &sum)?;
                graph.scope("inner", |graph| {
                    let own = graph.alloc(DType::F64, &[1])?;
                    graph.submit_sub(&Call::new(&ADD).args([own.in_out()]).real(1.0))?;
                    assert!(round % 2 == 0, "in a scope");
                    Ok::<_, Failure>(())
                })?;
                panic!("the code of a graph")
            });
            drop(run);
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        assert!(caught.is_err(), "it panicked");
    }
    let handle = worker.submit("after that", |graph| submit_short_ones(graph, &sum));
    let handle = handle.expect("WRK-1: it is not kept from beginning");
    assert!(ends_alone(&handle), "WRK-1");
    worker.close().expect("nothing is left");
}
