//! The program of the children.

use phalanx_runtime::{Builder, Call, Callable, Failure, Program, Task, Worker, register};
use std::hint::black_box;
use std::time::{Duration, Instant};

#[expect(clippy::unnecessary_wraps, reason = "the shape of every callable")]
fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

fn compute(task: &mut Task<'_>) -> Result<(), Failure> {
    kernel(task.scalar(0)?);
    Ok(())
}

/// Fills so many bytes of memory of its own, says so, and never returns.
fn hang(task: &mut Task<'_>) -> Result<(), Failure> {
    let bytes = vec![1u8; usize::try_from(task.scalar(0)?)?];
    task.argument(0)?.write_elements(&[1i64])?;
    loop {
        std::thread::sleep(Duration::from_secs(60));
        black_box(&bytes);
    }
}

const NOTHING: Callable = register!(nothing);
const COMPUTE: Callable = register!(compute);
const HANG: Callable = register!(hang);

/// The callables of this program.
pub(crate) static PROGRAM: Program = Program::new(&[NOTHING, COMPUTE, HANG]);

/// A worker with so many processes.
pub(crate) fn processes(count: u32) -> Builder {
    Worker::builder(&PROGRAM).sub_workers(count)
}

/// A task that does nothing.
pub(crate) fn idle() -> Call {
    Call::new(&NOTHING)
}

/// A task that computes for so many iterations.
pub(crate) fn busy(iterations: u64) -> Call {
    Call::new(&COMPUTE).scalar(iterations)
}

/// A task that has so many bytes and does not end.
pub(crate) fn stuck(bytes: u64) -> Call {
    Call::new(&HANG).scalar(bytes)
}

/// Work without memory: multiplications and additions.
pub(crate) fn kernel(iterations: u64) {
    let mut x = [black_box(-0.5f64); 32];
    for _ in 0..iterations {
        for value in &mut x {
            *value = *value * *value + *value;
        }
    }
    black_box(x);
}

/// Iterations of [`kernel`] that take so many microseconds, when nothing disturbs.
pub(crate) fn iterations_of(micros: f64) -> u64 {
    const ITERATIONS: u64 = 1 << 12;
    let times = (0..201).map(|_| {
        let begun = Instant::now();
        kernel(ITERATIONS);
        begun.elapsed().as_secs_f64() * 1e6
    });
    let best = times.fold(f64::INFINITY, f64::min);
    whole(micros * ITERATIONS as f64 / best)
}

/// Iterations of [`kernel`] a microsecond that so many threads get done, while whatever else runs here runs.
pub(crate) fn rate_of_all(threads: u32, span: Duration) -> f64 {
    let one = || {
        const PIECE: u64 = 256;
        let (begun, mut done) = (Instant::now(), 0);
        while begun.elapsed() < span {
            kernel(PIECE);
            done += PIECE;
        }
        done as f64 / (begun.elapsed().as_secs_f64() * 1e6)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).sum()
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
