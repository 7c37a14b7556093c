//! Random graphs of several callers on one worker, some cancelled, against the same graphs one task after the other.

use crate::callables::{ADD, PROGRAM, REST, SCALE, SUM};
use phalanx_runtime::{Builder, Call, DType, Error, Failure, Orchestrator, Tensor, Worker};
use std::time::Duration;

fn threads(count: u32, depth: usize) -> Builder {
    let worker = Worker::builder(&PROGRAM).threads().memory(1 << 24).ring(48, 1 << 20);
    worker.sub_workers(count).depth(depth)
}

/// The same numbers every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick(&mut self) -> usize {
        usize::try_from(self.roll(CELLS as u64)).unwrap_or(0)
    }
}

const CELLS: usize = 6;
/// Sums stay exact below this.
const MOST: f64 = 1e12;

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(usize, u8),
    Halve(usize),
    Sum(usize, usize, usize),
    Rest,
    Flush,
}

fn step(dice: &mut Dice) -> Step {
    match dice.roll(400) {
        0 => Step::Flush,
        1 => Step::Rest,
        2..40 => Step::Halve(dice.pick()),
        40..120 => {
            let (from, by, most) = (dice.pick(), 1 + dice.pick() % (CELLS - 2), CELLS);
            let other = (from + by) % most;
            let to = (0..most).find(|to| *to != from && *to != other).unwrap_or(0);
            Step::Sum(from, other, to)
        }
        _ => Step::Add(dice.pick(), u8::try_from(dice.roll(100)).unwrap_or(0)),
    }
}

fn expected(cells: &mut [f64; CELLS], steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Add(at, number) => cells[at] += f64::from(number),
            Step::Halve(at) => cells[at] *= 0.5,
            Step::Sum(one, other, to) => cells[to] = cells[one] + cells[other],
            Step::Rest | Step::Flush => {}
        }
    }
}

fn submit(graph: &mut Orchestrator<'_>, cells: &[Tensor], steps: &[Step]) -> Result<(), Failure> {
    for step in steps {
        let call = match *step {
            Step::Add(at, number) => {
                Call::new(&ADD).args([cells[at].in_out()]).real(f64::from(number))
            }
            Step::Halve(at) => Call::new(&SCALE).args([cells[at].in_out()]).real(0.5),
            Step::Sum(one, other, to) => {
                let args = [cells[one].input(), cells[other].input(), cells[to].output()];
                Call::new(&SUM).args(args).priority(1)
            }
            Step::Rest => Call::new(&REST).scalar(1),
            Step::Flush => {
                graph.flush();
                continue;
            }
        };
        graph.submit_sub(&call)?;
    }
    Ok(())
}

fn value(worker: &Worker, cell: &Tensor) -> f64 {
    worker.read::<f64>(cell).expect("no run names it")[0]
}

/// One caller's graphs, some waited for in small portions, some cancelled.
fn use_it(worker: &Worker, seed: u64) {
    let mut dice = Dice(seed);
    let cells: Vec<_> =
        (0..CELLS).map(|_| worker.tensor(DType::F64, &[1]).expect("memory")).collect();
    let mut known = [0.0; CELLS];
    for _ in 0..25 {
        let count = 1 + dice.roll(600);
        let steps: Vec<Step> = (0..count).map(|_| step(&mut dice)).collect();
        let handle = worker.submit("random", |graph| submit(graph, &cells, &steps));
        let handle = handle.expect("a run");
        let is_cancelled = dice.roll(4) == 0;
        if is_cancelled {
            handle.cancel();
        }
        let patience = Duration::from_micros(dice.roll(300));
        let mut ended = handle.wait_for(patience);
        while matches!(ended, Err(Error::TimedOut(_))) {
            ended = handle.wait_for(patience.max(Duration::from_micros(20)));
        }
        assert!(ended.is_ok() || is_cancelled, "seed {seed}: {ended:?}");
        handle.wait().ok();
        drop(handle);
        if ended.is_err() {
            known = std::array::from_fn(|at| value(worker, &cells[at]));
        } else {
            expected(&mut known, &steps);
            let found: [f64; CELLS] = std::array::from_fn(|at| value(worker, &cells[at]));
            let is_same = found.iter().zip(&known).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(is_same, "EP-2, seed {seed}: {found:?}, not {known:?}");
        }
        if known.iter().any(|value| *value > MOST) {
            known = [0.0; CELLS];
            for cell in &cells {
                worker.write(cell, &[0.0f64]).expect("no run names it");
            }
        }
    }
}

#[test]
fn ep_2_random_graphs_of_several_callers_end_as_one_after_the_other() {
    for (count, depth) in [(1, 1), (1, 4), (1, 16), (2, 1), (2, 2), (2, 16), (3, 16)] {
        let worker = threads(count, depth).init().expect("a worker");
        std::thread::scope(|scope| {
            for caller in 0..3 {
                let worker = &worker;
                let seed = 1_000 * u64::from(count) + 10 * depth as u64 + caller;
                scope.spawn(move || use_it(worker, seed));
            }
        });
        worker.close().expect("nothing is left");
    }
}

#[test]
fn wrk_3_a_worker_closes_well_whatever_is_left_of_its_runs() {
    for round in 0..40u64 {
        let worker =
            threads(1 + u32::try_from(round % 3).unwrap_or(0), 4).init().expect("a worker");
        let cells: Vec<_> =
            (0..CELLS).map(|_| worker.tensor(DType::F64, &[1]).expect("memory")).collect();
        let mut dice = Dice(round);
        let handles: Vec<_> = (0..3)
            .map(|_| {
                let steps: Vec<Step> = (0..200).map(|_| step(&mut dice)).collect();
                let handle = worker.submit("left", |graph| submit(graph, &cells, &steps));
                handle.expect("a run")
            })
            .collect();
        let _ = handles[0].wait_for(Duration::from_micros(round));
        worker.close().expect("WRK-3");
        for handle in &handles {
            handle.wait().expect("WRK-3: it ended before everybody left");
        }
    }
}
