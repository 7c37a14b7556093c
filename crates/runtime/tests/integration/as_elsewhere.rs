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
    let length = task.scalar(0)?;
    if length > 0 {
        std::thread::sleep(Duration::from_millis(length));
    }
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

const LOOK: Callable = Callable::new("as_elsewhere::look", look);
const REST: Callable = Callable::new("as_elsewhere::rest", rest);
const SHORT_ONES: Callable = Callable::orchestration("as_elsewhere::short_ones", short_ones);
const MIX: Callable = Callable::new("as_elsewhere::mix", mix);
static PROGRAM: Program = Program::new(&[LOOK, REST, SHORT_ONES, MIX]);

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

/// Budgets in milliseconds.
pub(crate) fn ladder(progress: u64, operation: u64) -> Ladder {
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
fn once_2_a_few_at_a_time_that_are_no_longer_short_are_handed_over() {
    let worker = helping(1).init().expect("a worker");
    let pause = |length| Call::new(&REST).scalar(length);
    let mut at_once = 0;
    let run = worker.run("a few at a time", |graph| {
        submit_until_at_once(graph, &pause(0))?;
        for _ in 0..60 {
            submit_until_at_once(graph, &look_at(None))?;
            for _ in 0..4 {
                at_once += u32::from(graph.submit_sub(&pause(1))?.to_string().starts_with('o'));
            }
            // This one is not run at once.
            graph.submit_sub(&look_at(None).bytes(b"rare"))?;
        }
        Ok(())
    });
    run.expect("it ends");
    assert!(at_once < 60, "ONCE-2: {at_once} of 240 long ones at once");
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

/// The first, element by element, becomes 31 times itself and the sum of the others and of a number.
fn mix(task: &mut Task<'_>) -> Result<(), Failure> {
    let mut sum = task.scalar(0)?;
    for at in 1..task.argument_count() {
        let data = task.argument(at)?;
        if data.layout().is_dense() {
            sum = data.slice::<u64>()?.iter().fold(sum, |sum, one| sum.wrapping_add(*one));
        } else {
            let elements = data.read_elements::<u64>()?;
            sum = elements.iter().fold(sum, |sum, one| sum.wrapping_add(*one));
        }
    }
    if sum == u64::MAX {
        return Err(Failure::new("as it should"));
    }
    let mut first = task.argument(0)?;
    if first.layout().is_dense() {
        for one in first.slice_mut::<u64>()? {
            *one = one.wrapping_mul(31).wrapping_add(sum);
        }
        return Ok(());
    }
    let elements = first.read_elements::<u64>()?;
    let mixed: Vec<u64> =
        elements.iter().map(|one| one.wrapping_mul(31).wrapping_add(sum)).collect();
    Ok(first.write_elements(&mixed)?)
}

const BUFFERS: usize = 5;
const LENGTH: u64 = 12;

/// Some of a buffer: which elements.
#[derive(Clone)]
struct Part {
    buffer: usize,
    from: u64,
    count: u64,
    stride: u64,
}

impl Part {
    fn random(dice: &mut Dice) -> Self {
        let (buffer, stride) = (dice.below(BUFFERS as u64), 1 + dice.below(16) / 15);
        let from = dice.below(LENGTH);
        let count = dice.below((LENGTH - from).div_ceil(stride) + 1);
        Self { buffer: usize::try_from(buffer).expect("few"), from, count, stride }
    }

    fn tensor(&self, buffers: &[Tensor]) -> Tensor {
        let buffer = buffers[self.buffer].buffer();
        buffer.strided(8 * self.from, DType::I64, &[self.count], &[self.stride]).expect("within")
    }

    fn elements(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { from, count, stride, .. } = *self;
        (0..count).map(move |at| usize::try_from(from + at * stride).expect("few"))
    }

    fn meets(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.elements().any(|one| other.elements().any(|x| x == one))
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a task of these parts does, and the task.
fn mixed(dice: &mut Dice, model: &mut [Vec<u64>], buffers: &[Tensor]) -> Call {
    let first = Part::random(dice);
    let others: Vec<_> = (0..dice.below(6) / 4).map(|_| Part::random(dice)).collect();
    let others: Vec<_> = others.into_iter().filter(|other| !other.meets(&first)).collect();
    let mut sum = dice.below(100);
    let mut call = Call::new(&MIX).args([first.tensor(buffers).in_out()]).scalar(sum);
    for other in &others {
        call.push(other.tensor(buffers).input());
        for at in other.elements() {
            sum = sum.wrapping_add(model[other.buffer][at]);
        }
    }
    for at in first.elements() {
        let one = &mut model[first.buffer][at];
        *one = one.wrapping_mul(31).wrapping_add(sum);
    }
    call
}

/// Many short tasks, and now and then something else.
fn submit_mixed(
    graph: &mut Orchestrator<'_>,
    dice: &mut Dice,
    model: &mut [Vec<u64>],
    buffers: &[Tensor],
) -> Result<u32, Failure> {
    let mut at_once = 0;
    for _ in 0..dice.below(6) {
        for _ in 0..dice.below(600) {
            let task = graph.submit_sub(&mixed(dice, model, buffers))?;
            at_once += u32::from(task.to_string().starts_with('o'));
        }
        let all = buffers.iter().map(Tensor::in_out);
        match dice.below(9) {
            0 => graph.submit_sub(&Call::new(&REST).args(all).scalar(1)).map(drop)?,
            1 => {
                graph.submit_next_level(Target::Chip(0), &mixed(dice, model, buffers))?;
            }
            2 => graph.submit_sub_group(&[mixed(dice, model, buffers)]).map(drop)?,
            3 => {
                let last = graph.submit_sub(&mixed(dice, model, buffers))?;
                graph.submit_sub(&mixed(dice, model, buffers).after(&[last]))?;
            }
            4 => graph.scope("slabs", |graph| {
                let slab = graph.alloc(DType::I64, &[2])?;
                let fill = Call::new(&MIX).args([slab.in_out()]).scalar(1);
                graph.submit_sub(&fill)?;
                graph.submit_sub(&mixed(dice, model, buffers))?;
                graph.submit_sub(&fill).map(drop)
            })?,
            5 => graph.flush(),
            6 => {
                graph.submit_sub(&mixed(dice, model, buffers).bytes(b"blob"))?;
            }
            7 => graph.submit_sub(&mixed(dice, model, buffers).priority(3)).map(drop)?,
            _ => graph.submit_sub(&Call::new(&REST).args(all).scalar(0)).map(drop)?,
        }
    }
    Ok(at_once)
}

#[test]
fn once_1_random_graphs_of_several_callers_end_as_one_after_the_other() {
    let (rounds, mut at_once) = (40, 0);
    for (threads, runs) in [(0, 1), (1, 1), (2, 3)] {
        let builder = helping(threads.max(1)).chips(1).runs(runs).depth(1 + runs);
        let worker = builder.init().expect("a worker");
        std::thread::scope(|scope| {
            let callers: Vec<_> = (0..=u64::from(threads))
                .map(|caller| {
                    let worker = &worker;
                    scope.spawn(move || {
                        let mut dice = Dice(0x9e37_79b9 + 77 * caller + u64::from(threads));
                        let mut at_once = 0;
                        let shape = [LENGTH];
                        for round in 0..rounds {
                            let buffers: Vec<_> = (0..BUFFERS)
                                .map(|_| worker.tensor(DType::I64, &shape).expect("memory"))
                                .collect();
                            let mut model = vec![vec![0; 12]; BUFFERS];
                            let is_bad = dice.below(5) == 0;
                            let run = worker.submit("mixed", |graph| {
                                at_once += submit_mixed(graph, &mut dice, &mut model, &buffers)?;
                                if is_bad {
                                    let bad = [buffers[0].in_out()];
                                    graph
                                        .submit_sub(&Call::new(&MIX).args(bad).scalar(u64::MAX))?;
                                }
                                Ok(())
                            });
                            let ended = run.expect("a run").wait_for(Duration::from_secs(20));
                            assert_eq!(ended.is_err(), is_bad, "{ended:?}");
                            if let Err(error) = &ended {
                                assert!(error.to_string().contains("as it should"), "{error}");
                            }
                            for (buffer, model) in buffers.iter().zip(&model) {
                                let read = worker.read::<u64>(buffer);
                                assert!(read.is_ok() || is_bad, "round {round}: {read:?}");
                                if !is_bad {
                                    assert_eq!(&read.expect("over"), model, "round {round}");
                                }
                            }
                        }
                        at_once
                    })
                })
                .collect();
            for caller in callers {
                at_once += caller.join().expect("ONCE-1");
            }
        });
        worker.close().expect("nothing is left");
    }
    assert!(at_once > 0, "ONCE-1: none was run at once");
}
