//! Several callers of one worker, runs that nobody waits for, and graphs that end badly.

use crate::callables::{ADD, NOTHING, PROGRAM, REST, TALLIED, TALLY, TELL, TOLD, UNTIL_TOLD};
use phalanx_runtime::{Builder, Call, DType, Failure, Orchestrator, RunHandle, Tensor, Worker};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

fn threads(count: u32) -> Builder {
    let worker = Worker::builder(&PROGRAM).threads().memory(1 << 24).ring(64, 1 << 20);
    worker.sub_workers(count).depth(4)
}

/// Enough short tasks that their callable is known to be short.
fn submit_short_ones(graph: &mut Orchestrator<'_>, sum: &Tensor) -> Result<(), Failure> {
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

/// True if [`TELL`] is called with this number though nobody touches its worker: a thread that asks for the state of a run takes
/// endings in.
pub(crate) fn is_told(number: u32) -> bool {
    (0..600_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        TOLD.load(Ordering::SeqCst) & 1 << number != 0
    })
}

/// True if a run ends though nobody waits for it.
pub(crate) fn ends_alone(handle: &RunHandle) -> bool {
    (0..600_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        handle.is_done()
    })
}

/// Returns the result of `work`, if `work` ends at all; a thread that hangs is left behind.
pub(crate) fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(600)).ok()
}

#[test]
fn node_1_no_caller_waits_for_a_sign_that_nobody_gives() {
    for count in [1, 2, 3] {
        let ended = soon(move || {
            let worker = threads(count).init().expect("a worker");
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let sum = worker.tensor(DType::F64, &[1]).expect("memory");
                        for round in 1..=10u32 {
                            let run = worker.run("short", |graph| submit_short_ones(graph, &sum));
                            run.expect("it ends");
                            let total = worker.read::<f64>(&sum).expect("over")[0];
                            assert!((total - f64::from(round) * 2_000.0).abs() < 0.5, "{total}");
                        }
                    });
                }
            });
            worker.close().expect("nothing is left");
        });
        assert!(ended.is_some(), "NODE-1: with {count} threads");
    }
}

#[test]
fn a_flush_does_not_wait_for_what_another_caller_runs() {
    let ended = soon(|| {
        let worker = threads(1).init().expect("a worker");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let run = worker.run("flushed", |graph| {
                            for _ in 0..300 {
                                graph.submit_sub(&Call::new(&NOTHING))?;
                                graph.flush();
                            }
                            Ok(())
                        });
                        run.expect("it ends");
                    }
                });
            }
        });
    });
    assert!(ended.is_some(), "a flush waits for nobody");
}

#[test]
fn orc_2_a_ring_that_is_nearly_full_of_memory_does_not_stop_the_submitter() {
    for count in [1, 2] {
        let ended = soon(move || {
            let worker = threads(count).init().expect("a worker");
            let run = worker.run("nearly full", |graph| {
                graph.scope("kept", |graph| {
                    for _ in 0..60 {
                        graph.alloc(DType::U8, &[8])?;
                    }
                    for _ in 0..200 {
                        graph.submit_sub(&Call::new(&NOTHING))?;
                    }
                    Ok::<_, Failure>(())
                })
            });
            run.expect("it ends");
        });
        assert!(ended.is_some(), "ORC-2: with {count} threads");
    }
}

#[test]
fn wrk_1_a_graph_that_is_being_built_does_not_stop_an_earlier_run() {
    let ended = soon(|| {
        let worker = threads(1).init().expect("a worker");
        let sum = worker.tensor(DType::F64, &[1]).expect("memory");
        let flag = worker.tensor(DType::I64, &[1]).expect("memory");
        for _ in 0..4 {
            worker.run("known", |graph| submit_short_ones(graph, &sum)).expect("it ends");
        }
        mislead(&worker);
        let earlier = worker.submit("earlier", |graph| {
            for _ in 0..24 {
                graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
            }
            Ok(())
        });
        let earlier = earlier.expect("a run");
        let later = worker.run("later", |graph| {
            for _ in 0..20 {
                graph.submit_sub(&Call::new(&ADD).args([sum.in_out()]).real(1.0))?;
            }
            worker.write_unordered(&flag, &[1u64])?;
            assert!(ends_alone(&earlier), "WRK-1");
            Ok(())
        });
        later.expect("it ends");
    });
    assert!(ended.is_some(), "WRK-1");
}

#[test]
fn node_1_work_goes_on_while_code_of_a_graph_computes() {
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).depth(2).init();
    let worker = worker.expect("a worker");
    let cell = worker.tensor(DType::F64, &[1]).expect("memory");
    let run = worker.run("computes", |graph| {
        for _ in 0..50 {
            graph.submit_sub(&Call::new(&TALLY).args([cell.in_out()]))?;
        }
        graph.flush();
        let all = || TALLIED.load(Ordering::SeqCst) == 50;
        let is_done = (0..600_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            all()
        });
        assert!(is_done, "NODE-1: {} of 50", TALLIED.load(Ordering::SeqCst));
        Ok(())
    });
    run.expect("it ends");
}

#[test]
fn node_1_what_a_busy_thread_has_ended_is_taken_in() {
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(3).depth(2).init();
    let worker = worker.expect("a worker");
    mislead(&worker);
    let [cell, flag] = [(); 2].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
    let run = worker.submit("one behind the other", |graph| {
        graph.submit_sub(&Call::new(&REST).args([cell.in_out()]).scalar(20))?;
        for _ in 0..2 {
            graph.submit_sub(&Call::new(&REST).scalar(1))?;
        }
        // It is sent behind the first, and waits for what only follows from the end of that.
        graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
        graph.submit_sub(&Call::new(&TELL).args([flag.no_dep(), cell.input()]).scalar(1))?;
        Ok(())
    });
    assert!(is_told(1), "NODE-1");
    let ended = run.expect("a run").wait();
    assert_eq!(ended.expect("NODE-1").report.completed, 5);
}

#[test]
fn ep_4_what_a_worker_was_sent_and_has_not_begun_does_not_begin_after_a_cancel() {
    let worker = threads(1).depth(8).init().expect("a worker");
    mislead(&worker);
    let flag = worker.tensor(DType::I64, &[1]).expect("memory");
    let cells: Vec<_> = (0..6).map(|_| worker.tensor(DType::F64, &[1]).expect("memory")).collect();
    let handle = worker.submit("cancelled", |graph| {
        graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
        for cell in &cells {
            graph.submit_sub(&Call::new(&ADD).args([cell.in_out()]).real(1.0))?;
        }
        Ok(())
    });
    let handle = handle.expect("a run");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Long enough for the first to begin; if it has not, none begins.
            std::thread::sleep(Duration::from_millis(20));
            handle.cancel();
            worker.write_unordered(&flag, &[1u64]).expect("it can be told");
        });
        handle.wait().expect_err("EP-4: it was cancelled");
    });
    for cell in &cells {
        assert_eq!(worker.read::<f64>(cell).expect("over"), [0.0], "EP-4");
    }
}

#[test]
fn len_1_nobody_waits_behind_a_long_task_while_another_worker_has_nothing_to_do() {
    for count in [2, 3] {
        let worker =
            Worker::builder(&PROGRAM).threads().sub_workers(count).init().expect("a worker");
        let sum = worker.tensor(DType::F64, &[1]).expect("memory");
        let flag = worker.tensor(DType::I64, &[1]).expect("memory");
        let cells: Vec<_> =
            (0..20).map(|_| worker.tensor(DType::F64, &[1]).expect("memory")).collect();
        // Nothing is known of them at first, then that they are long.
        for _ in 0..3 {
            worker.write(&flag, &[0u64]).expect("no run names it");
            worker.run("known", |graph| submit_short_ones(graph, &sum)).expect("it ends");
            let run = worker.submit("one waits for all others", |graph| {
                graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
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
            let ended = run.expect("a run").wait().expect("LEN-1");
            assert_eq!(ended.report.completed, 22, "LEN-1");
        }
    }
}

#[test]
fn wrk_1_a_graph_whose_code_panics_is_cancelled_and_harms_no_other() {
    let worker = threads(1).init().expect("a worker");
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

#[test]
fn orc_4_a_submission_runs_no_task() {
    let worker = threads(1).init().expect("a worker");
    mislead(&worker);
    let flag = worker.tensor(DType::I64, &[1]).expect("memory");
    let finished = worker.run("told later", |graph| {
        // All end only after the graph's code has gone on.
        for _ in 0..40 {
            graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
        }
        worker.write_unordered(&flag, &[1u64])?;
        Ok(())
    });
    assert_eq!(finished.expect("ORC-4").report.completed, 40);
}

#[test]
fn critical_is_the_longest_chain_and_work_the_sum_of_all() {
    let worker = threads(2).init().expect("a worker");
    let [flag, cell] = [(); 2].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
    let finished = worker.run("a chain and others", |graph| {
        // Nothing of the chain has ended before all of it is submitted: only what is waited for counts.
        graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep(), cell.in_out()]))?;
        for _ in 0..10 {
            graph.submit_sub(&Call::new(&REST).args([cell.in_out()]).scalar(2))?;
        }
        for _ in 0..10 {
            graph.submit_sub(&Call::new(&REST).scalar(1))?;
        }
        worker.write_unordered(&flag, &[1u64])?;
        Ok(())
    });
    let report = finished.expect("it ends").report;
    let ms = 1_000_000;
    assert!(report.critical >= 20 * ms, "ten tasks of two milliseconds each: {report:?}");
    assert!(report.work >= report.critical + 10 * ms, "{report:?}");
}

#[test]
fn critical_of_a_recorded_run_is_the_longest_chain_also_of_tasks_that_waited_for_nobody() {
    for is_recording in [true, false] {
        let builder = threads(1);
        let builder = if is_recording { builder.recording() } else { builder };
        let worker = builder.init().expect("a worker");
        let cell = worker.tensor(DType::I64, &[1]).expect("memory");
        let finished = worker.run("one after the other", |graph| {
            for _ in 0..4 {
                graph.submit_sub(&Call::new(&REST).args([cell.in_out()]).scalar(1))?;
                graph.flush();
                let has_ended = || {
                    let now = worker.stats();
                    now.running + now.queued == 0
                };
                assert!((0..600_000).any(|_| has_ended() || short_pause()), "it ends");
            }
            Ok(())
        });
        let report = finished.expect("it ends").report;
        assert_eq!(report.completed, 4);
        assert_eq!(report.critical == report.work, is_recording, "{report:?}");
    }
}

/// Pauses for a millisecond; false.
fn short_pause() -> bool {
    std::thread::sleep(Duration::from_millis(1));
    false
}
