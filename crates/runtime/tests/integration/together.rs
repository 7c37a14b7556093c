//! Several who use one helping worker at the same time, and graphs that end badly while short tasks stay.

use crate::as_elsewhere::ladder;
use crate::callables::{ADD, MEET, NOTHING, PROGRAM, REST, TALLIED, TALLY, TELL, TOLD, UNTIL_TOLD};
use crate::helping::{ends_alone, helping, mislead, submit_short_ones};
use phalanx_runtime::{Call, DType, Failure, Tensor, Worker};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// What `work` returns, if that ends at all; a thread that hangs is left behind.
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(120)).ok()
}

#[test]
fn callers_that_run_each_others_tasks_do_not_wait_for_a_sign_that_nobody_gives() {
    for threads in [0, 1, 2] {
        let ended = soon(move || {
            let worker = helping(threads).init().expect("a worker");
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
        assert!(ended.is_some(), "ERR-1, NODE-1: with {threads} threads");
    }
}

#[test]
fn a_flush_does_not_wait_for_what_another_caller_runs() {
    let ended = soon(|| {
        let worker = helping(0).init().expect("a worker");
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
    assert!(ended.is_some(), "LOC-2");
}

#[test]
fn orc_2_a_ring_that_is_nearly_full_of_memory_does_not_stop_the_submitter() {
    for threads in [0, 1] {
        let ended = soon(move || {
            let worker = helping(threads).init().expect("a worker");
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
        assert!(ended.is_some(), "ORC-2: with {threads} threads");
    }
}

#[test]
fn wrk_1_short_tasks_that_stay_do_not_stop_an_earlier_run() {
    let ended = soon(|| {
        let worker = helping(1).init().expect("a worker");
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
fn who_waits_is_no_member_of_a_group() {
    let worker = helping(2).init().expect("a worker");
    let cells: Vec<_> = (0..3).map(|_| worker.tensor(DType::I64, &[1]).expect("memory")).collect();
    let call = || Call::new(&MEET).args(cells.iter().map(Tensor::no_dep));
    let refused = worker.submit("too many", |graph| {
        graph.submit_sub_group(&[call(), call(), call()])?;
        Ok(())
    });
    let refused = refused.expect("a run");
    let early = refused.wait_for(Duration::ZERO);
    let ended = refused.wait_for(Duration::from_secs(60));
    assert!(ended.is_err(), "{early:?} {ended:?}");
    assert!(!matches!(ended, Err(phalanx_runtime::Error::TimedOut(_))), "it was never run");
}

#[test]
fn dog_1_a_row_of_tasks_that_a_caller_runs_is_not_one_long_task() {
    let worker = helping(1).budgets(ladder(250, 1_000)).init().expect("a worker");
    mislead(&worker);
    let handle = worker.submit("rows", |graph| {
        for _ in 0..8 {
            graph.submit_sub(&Call::new(&REST).scalar(300))?;
        }
        Ok(())
    });
    let handle = handle.expect("a run");
    let [one, other] = std::thread::scope(|scope| {
        [(); 2].map(|()| scope.spawn(|| handle.wait())).map(|waiter| waiter.join().expect("ends"))
    });
    assert_eq!(one.expect("DOG-1").report.completed, 8);
    other.expect("DOG-1");
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
        let is_done = (0..20_000).any(|_| {
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
        graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]).scalar(5))?;
        graph.submit_sub(&Call::new(&TELL).args([flag.no_dep(), cell.input()]))?;
        Ok(())
    });
    // Whoever asks how the run is would take it in.
    let is_told = |_| {
        std::thread::sleep(Duration::from_millis(1));
        TOLD.load(Ordering::SeqCst) > 0
    };
    (0..10_000).any(is_told);
    let ended = run.expect("a run").wait();
    assert_eq!(ended.expect("NODE-1").report.completed, 5);
}

#[test]
fn err_2_a_caller_looks_at_its_time_after_each_long_task() {
    let worker = helping(0).depth(8).init().expect("a worker");
    mislead(&worker);
    let handle = worker.submit("long ones", |graph| {
        for _ in 0..8 {
            graph.submit_sub(&Call::new(&REST).scalar(20))?;
        }
        Ok(())
    });
    let handle = handle.expect("a run");
    handle.wait_for(Duration::from_millis(5)).expect_err("ERR-2: they take longer");
    assert!(!handle.is_done(), "ERR-2: it ran all of them");
    assert_eq!(handle.wait().expect("it ends").report.completed, 8, "ERR-2");
}

#[test]
fn ep_4_what_a_caller_has_taken_and_not_begun_does_not_begin_after_a_cancel() {
    let worker = helping(0).depth(8).init().expect("a worker");
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
