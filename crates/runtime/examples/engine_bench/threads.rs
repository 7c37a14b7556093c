//! The same patterns over two threads, beside a caller that submits and waits.

use crate::patterns::{Tasks, cell_of};
use phalanx_runtime::{
    Call, Callable, DType, Error, Failure, Orchestrator, Program, Task, Tensor, Worker, register,
};
use std::hint::black_box;
use std::time::Instant;

#[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

fn compute(task: &mut Task<'_>) -> Result<(), Failure> {
    kernel(task.scalar(0)?);
    Ok(())
}

const NOTHING: Callable = register!(nothing);
const COMPUTE: Callable = register!(compute);
static PROGRAM: Program = Program::new(&[NOTHING, COMPUTE]);

/// The number of workers.
pub(crate) const THREADS: u32 = 2;

/// Work without memory: `iterations` times 16 vectors of multiplications and additions.
pub(crate) fn kernel(iterations: u64) {
    let mut x = [black_box(-0.5f64); 32];
    for _ in 0..iterations {
        for value in &mut x {
            *value = *value * *value + *value;
        }
    }
    black_box(x);
}

/// The most iterations of [`kernel`] per nanosecond on all threads at once.
pub(crate) fn peak() -> f64 {
    const ITERATIONS: u64 = 1 << 15;
    let one = || {
        let times = (0..61).map(|_| {
            let begun = Instant::now();
            kernel(ITERATIONS);
            begun.elapsed().as_nanos()
        });
        let mut times: Vec<u128> = times.collect();
        times.sort_unstable();
        ITERATIONS as f64 / times[times.len() / 2] as f64
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread of ours")).sum()
    })
}

/// A worker and the data its tasks touch.
pub(crate) struct Threads {
    worker: Worker,
    data: Vec<Tensor>,
}

impl Threads {
    /// Two workers.
    pub(crate) fn new(data: usize) -> Result<Self, Error> {
        let worker = Worker::builder(&PROGRAM).threads().sub_workers(THREADS).init()?;
        let tensors = (0..data).map(|_| worker.tensor(DType::U8, &[4096]));
        Ok(Self { data: tensors.collect::<Result<_, _>>()?, worker })
    }

    /// Nanoseconds per task of one run.
    pub(crate) fn run(&self, tasks: &Tasks, iterations: u64) -> Result<f64, Error> {
        let begun = Instant::now();
        let finished = self.worker.run("bench", |graph| self.build(graph, tasks, iterations))?;
        let took = begun.elapsed().as_nanos() as f64;
        assert_eq!(finished.report.completed, tasks.count() as u64, "every task ran once");
        Ok(took / tasks.count() as f64)
    }

    fn build(
        &self,
        graph: &mut Orchestrator<'_>,
        tasks: &Tasks,
        iterations: u64,
    ) -> Result<(), Failure> {
        let is_chain = tasks.iter().all(|task| task == [0]);
        for task in tasks.iter() {
            let first = &self.data[task[0] as usize];
            let first = if is_chain { first.in_out() } else { first.output() };
            let mut call = if iterations == 0 {
                Call::new(&NOTHING)
            } else {
                Call::new(&COMPUTE).scalar(iterations)
            };
            call.push(first);
            for datum in &task[1..] {
                call.push(self.data[*datum as usize].input());
            }
            graph.submit_sub(&call)?;
        }
        Ok(())
    }
}

/// METG(50 %): the granularity, in nanoseconds, at which half of the peak is reached.
pub(crate) fn metg(
    threads: &Threads,
    width: usize,
    steps: usize,
    repeats: usize,
) -> Result<Option<f64>, Error> {
    let tasks = stencil(width * steps, width);
    let peak = peak();
    let mut below: Option<(f64, f64)> = None;
    for power in 4..17 {
        let iterations = 1u64 << power;
        let mut times = Vec::new();
        for _ in 0..repeats {
            times.push(threads.run(&tasks, iterations)?);
        }
        times.sort_unstable_by(f64::total_cmp);
        let nanoseconds = times[times.len() / 2];
        let efficiency = iterations as f64 / nanoseconds / peak;
        let granularity = nanoseconds * f64::from(THREADS);
        if efficiency >= 0.5 {
            return Ok(Some(crossing(below, (granularity, efficiency))));
        }
        below = Some((granularity, efficiency));
    }
    Ok(None)
}

/// Returns the size at which the efficiency is one half, between two points on a logarithmic scale.
fn crossing(below: Option<(f64, f64)>, above: (f64, f64)) -> f64 {
    let Some(below) = below else { return above.0 };
    let share = (0.5 - below.1) / (above.1 - below.1);
    (below.0.ln() + share * (above.0.ln() - below.0.ln())).exp()
}

/// A stencil of any width.
fn stencil(count: usize, width: usize) -> Tasks {
    let mut tasks = Tasks::default();
    (0..count).for_each(|at| tasks.add(cell_of(at, width)));
    tasks
}
