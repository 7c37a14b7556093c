//! Tasks that are run at once, where they could be told from others.

use crate::at_once::submit_until_at_once;
use phalanx_engine::{Ladder, Time};
use phalanx_runtime::{
    Builder, Call, Callable, DType, Error, Failure, Orchestrator, Program, Target, Task, Tensor,
    Worker,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Fails if it is told to, or if the elements of its argument differ; says that so much time was simulated.
fn look(task: &mut Task<'_>) -> Result<(), Failure> {
    if task.scalar(0)? == 1 {
        return Err(Failure::new("as it should"));
    }
    let simulated = task.scalar(1)?;
    task.simulated(simulated);
    if task.argument_count() > 0 {
        let data = task.argument(0)?;
        let data = data.slice::<u64>()?;
        if data.iter().any(|one| *one != data[0]) {
            return Err(Failure::new("somebody writes it"));
        }
    }
    Ok(())
}

fn rest(task: &mut Task<'_>) -> Result<(), Failure> {
    std::thread::sleep(Duration::from_millis(task.scalar(0)?));
    Ok(())
}

/// Short tasks for so many milliseconds.
fn short_ones(graph: &mut Orchestrator<'_>, task: &mut Task<'_>) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_millis(task.scalar(0)?);
    while Instant::now() < until {
        graph.submit_sub(&look_at(None))?;
    }
    Ok(())
}

const LOOK: Callable = Callable::new("attack5::look", look);
const REST: Callable = Callable::new("attack5::rest", rest);
const SHORT_ONES: Callable = Callable::orchestration("attack5::short_ones", short_ones);
static PROGRAM: Program = Program::new(&[LOOK, REST, SHORT_ONES]);

fn helping(threads: u32) -> Builder {
    let worker = Worker::builder(&PROGRAM).threads().memory(1 << 25).ring(64, 1 << 20);
    worker.helping().sub_workers(threads).depth(4)
}

fn look_at(tensor: Option<&Tensor>) -> Call {
    Call::new(&LOOK).args(tensor.map(Tensor::input)).scalar(0).scalar(0)
}

fn cell(worker: &Worker) -> Tensor {
    worker.tensor(DType::I64, &[1]).expect("memory")
}

fn ladder(progress: u64, operation: u64) -> Ladder {
    let millis = |millis: u64| Time(millis * 1_000_000);
    let (progress, operation, wait) = (millis(progress), millis(operation), millis(10_000));
    Ladder { progress, operation, wait, guard: millis(1), ..Ladder::default() }
}

#[test]
fn orc_1_too_many_numbers_are_refused_also_where_tasks_are_run_at_once() {
    for count in [129, 300] {
        let worker = helping(1).init().expect("a worker");
        let run = worker.run("too many", |graph| {
            submit_until_at_once(graph, &look_at(None))?;
            let call = (0..count).fold(Call::new(&LOOK), Call::scalar);
            let refused = graph.submit_sub(&call);
            assert!(matches!(refused, Err(Error::TooMany { .. })), "ORC-1: {refused:?}");
            graph.submit_sub(&look_at(None))?;
            Ok(())
        });
        run.expect("ORC-1: a refusal changes nothing");
    }
}

#[test]
fn orc_1_what_is_refused_names_nothing() {
    let worker = helping(1).init().expect("a worker");
    let rows = worker.tensor(DType::I64, &[8]).expect("memory");
    let run = worker.run("refused", |graph| {
        submit_until_at_once(graph, &look_at(None))?;
        let twice = [rows.rows(0, 4)?.in_out(), rows.rows(3, 8)?.input()];
        let refused = graph.submit_sub(&look_at(None).args(twice));
        assert!(matches!(refused, Err(Error::Submit(_))), "ORC-1: {refused:?}");
        worker.write(&rows, &[1u64; 8])?;
        Ok(())
    });
    run.expect("ORC-1");
}

#[test]
fn once_3_a_failure_is_not_lost_though_memory_of_scopes_fills_the_ring() {
    let worker = helping(1).init().expect("a worker");
    let run = worker.submit("full", |graph| {
        submit_until_at_once(graph, &look_at(None))?;
        let mut kept = Vec::new();
        for _ in 0..64 {
            kept.push(graph.alloc(DType::I64, &[1])?);
        }
        assert!(graph.submit_sub(&look_at(None))?.to_string().starts_with('o'), "it has no slot");
        let _ = graph.submit_sub(&Call::new(&LOOK).scalar(1));
        assert!(graph.submit_sub(&look_at(None)).is_err(), "ONCE-3: RUN-5");
        Ok(())
    });
    let error = run.expect("a run").wait().expect_err("ONCE-3").to_string();
    assert!(error.contains("as it should"), "ONCE-3: {error}");
    worker.call(&look_at(None)).expect("it is as good as before");
    worker.close().expect("nothing is left");
}

#[test]
fn once_3_simulated_time_ends_at_the_largest_number() {
    let worker = helping(1).init().expect("a worker");
    let finished = worker.run("long", |graph| {
        submit_until_at_once(graph, &look_at(None))?;
        for _ in 0..4 {
            graph.submit_sub(&Call::new(&LOOK).scalar(0).scalar(u64::MAX / 2))?;
        }
        Ok(())
    });
    assert_eq!(finished.expect("it ends").simulated, u64::MAX, "ONCE-3");
}

#[test]
fn once_3_nobody_writes_what_is_being_named() {
    for _ in 0..4 {
        let worker = helping(0).init().expect("a worker");
        let (small, large) =
            (cell(&worker), worker.tensor(DType::I64, &[1 << 19]).expect("memory"));
        let numbers = [vec![1u64; 1 << 19], vec![2u64; 1 << 19]];
        let is_at_once = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_at_once.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                for round in 0..20 {
                    if worker.write(&large, &numbers[round % 2]).is_err() {
                        break;
                    }
                }
            });
            let run = worker.run("names it", |graph| {
                submit_until_at_once(graph, &look_at(Some(&small)))?;
                is_at_once.store(true, Ordering::Release);
                std::thread::sleep(Duration::from_millis(2));
                graph.submit_sub(&look_at(Some(&large)))?;
                Ok(())
            });
            run.expect("ONCE-3");
        });
    }
}

#[test]
fn once_3_memory_of_a_scope_is_not_taken_for_the_buffer_that_had_its_place() {
    let worker = helping(1).init().expect("a worker");
    let run = worker.run("places", |graph| {
        for _ in 0..8 {
            let cells: Vec<_> = (0..8).map(|_| cell(&worker)).collect();
            for cell in &cells {
                submit_until_at_once(graph, &look_at(Some(cell)))?;
            }
            // Another one gives back their places.
            drop(cells);
            let _other = cell(&worker);
            graph.manual_scope("memory", |graph| {
                let slab = graph.alloc(DType::I64, &[1])?;
                worker.write(&slab, &[1u64])
            })?;
        }
        Ok(())
    });
    run.expect("ONCE-3: nobody has named it");
}

#[test]
fn once_3_buffers_that_others_make_meanwhile_are_not_in_use() {
    let worker = helping(0).init().expect("a worker");
    let cells: Vec<_> = (0..16).map(|_| cell(&worker)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let fresh = cell(&worker);
                worker.write(&fresh, &[1u64])?;
            }
            Ok::<_, Error>(())
        });
        let run = worker.run("many", |graph| {
            for number in 0..200_000usize {
                graph.submit_sub(&look_at(Some(&cells[number % 16])))?;
                if number % 64 == 0 {
                    let own = cell(&worker);
                    graph.submit_sub(&look_at(Some(&own)))?;
                }
            }
            Ok(())
        });
        is_over.store(true, Ordering::Release);
        run.expect("it ends");
        other.join().expect("no panic").expect("nobody names it");
    });
}

#[test]
fn loc_2_short_tasks_do_not_wait_for_callers_that_were_given_up() {
    let worker = helping(1).depth(1).budgets(ladder(50, 200)).init().expect("a worker");
    let run = worker.submit("stuck", |graph| {
        for length in [30, 30, 30, 30, 800] {
            graph.submit_sub(&Call::new(&REST).scalar(length))?;
        }
        Ok(())
    });
    let run = run.expect("a run");
    std::thread::scope(|scope| {
        // Whichever of them does not run it sees that it takes too long.
        let waiters = [(); 2].map(|()| scope.spawn(|| run.wait()));
        for waiter in waiters {
            assert!(waiter.join().expect("no panic").is_err(), "it takes too long");
        }
    });
    let short = {
        let run = worker.submit("short", |graph| {
            for _ in 0..500 {
                graph.submit_sub(&look_at(None))?;
            }
            Ok(())
        });
        run.expect("a run").wait_for(Duration::from_secs(5)).expect("LOC-2").report.completed
    };
    assert_eq!(short, 500, "LOC-2");
}

#[test]
fn lvl_8_a_child_that_runs_short_tasks_at_once_is_not_stuck() {
    let pod = Worker::builder(&PROGRAM).threads().level(4).budgets(ladder(50, 200));
    let pod = pod.workers(1, |node| node.sub_workers(1).helping()).init().expect("a pod");
    let run = pod.run("below", |graph| {
        graph.submit_next_level(Target::Worker(0), &Call::new(&SHORT_ONES).scalar(700))?;
        Ok(())
    });
    run.expect("LVL-8");
}
