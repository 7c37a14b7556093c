//! The callables of the tests on chips.

use phalanx_device::{GraphOptions, KernelTask as ChipTask, SimChip};
use phalanx_runtime::{Callable, Failure, Program, Task, register};
use phalanx_sim::Time;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::value::{Element, bf16, f16};
use phalanx_torch::{Args, Grid};
use std::time::{Duration, Instant};

/// The element type of the tests.
pub(crate) trait Number: Element + PartialEq + std::fmt::Debug {
    fn doubled(self) -> Self;
}

impl Number for f32 {
    fn doubled(self) -> Self {
        self + self
    }
}
impl Number for f16 {
    fn doubled(self) -> Self {
        self + self
    }
}
impl Number for bf16 {
    fn doubled(self) -> Self {
        self + self
    }
}
impl Number for i32 {
    fn doubled(self) -> Self {
        self.wrapping_add(self)
    }
}
impl Number for i64 {
    fn doubled(self) -> Self {
        self.wrapping_add(self)
    }
}
impl Number for u32 {
    fn doubled(self) -> Self {
        self.wrapping_add(self)
    }
}
impl Number for f64 {
    fn doubled(self) -> Self {
        self + self
    }
}

pub(crate) const ADD: Callable = register!(add);
pub(crate) const DOUBLE: Callable = register!(double);
pub(crate) const NOTHING: Callable = register!(nothing);
pub(crate) const NAP: Callable = register!(nap);
pub(crate) const KEEP: Callable = register!(keep);
pub(crate) const FORGET: Callable = register!(forget);
pub(crate) const TIMES_KEPT: Callable = register!(times_kept);
pub(crate) const FAIL: Callable = register!(fail);
pub(crate) const PANIC: Callable = register!(panic);
pub(crate) const PROGRAM_PANIC: Callable = register!(program_panic);
pub(crate) const DEADLOCK: Callable = register!(deadlock);
pub(crate) const FAR_AWAY: Callable = register!(far_away);
pub(crate) const LONG: Callable = register!(long);
pub(crate) const ROWS: Callable = register!(rows);

pub(crate) static PROGRAM: Program = Program::new(&[
    ADD,
    DOUBLE,
    NOTHING,
    NAP,
    KEEP,
    FORGET,
    TIMES_KEPT,
    FAIL,
    PANIC,
    PROGRAM_PANIC,
    DEADLOCK,
    FAR_AWAY,
    LONG,
    ROWS,
])
.chip(SimChip::bootstrap);

fn add(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "add", Grid::Pes(1), |tl, args| async move {
        let (a, b) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
        let sum = tl.add(&a, &b).await?;
        tl.store(&args.view(2)?, &sum).await
    })
}

async fn twice(tl: Tl, args: Args) -> Result<(), KernelError> {
    let tile = tl.load(&args.view(0)?).await?;
    let sum = tl.add(&tile, &tile).await?;
    tl.store(&args.view(0)?, &sum).await
}

fn double(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "double", Grid::Pes(1), twice)
}

fn nothing(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "nothing", Grid::All, |_, _| async move { Ok(()) })
}

/// Keeps a PE busy for as many nanoseconds as its scalar says.
fn nap(task: &mut Task<'_>) -> Result<(), Failure> {
    let span = Time::ns(task.scalar(0)?);
    SimChip::launch(task, "nap", Grid::Pes(1), move |tl, _| async move {
        tl.compute(span).await;
        Ok(())
    })
}

fn keep(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::run(task, async |board| {
        board.keep("weight", board.tensor(0)?);
        Ok(())
    })
}

fn forget(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::run(task, async |board| {
        assert!(board.forget("weight"), "CHP-4: kept before");
        assert!(!board.forget("weight"), "CHP-4: gone");
        Ok(())
    })
}

fn times_kept(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::run(task, async |board| {
        let (data, weight) = (board.tensor(0)?, board.kept("weight")?);
        let args = [phalanx_torch::Arg::write(data), phalanx_torch::Arg::read(&weight)];
        let kernel = |tl: Tl, args: Args| async move {
            let (a, b) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
            let product = tl.mul(&a, &b).await?;
            tl.store(&args.view(0)?, &product).await
        };
        board.rank().launch("times", Grid::Pes(1), &args, kernel)?.wait().await
    })
}

fn fail(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "fail", Grid::Pes(1), |_, _| async move {
        Err(KernelError::Other("the kernel does not like it".into()))
    })
}

fn panic(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "panic", Grid::Pes(1), |tl, _| async move {
        tl.compute(Time::ns(1)).await;
        panic!("the kernel met a wall")
    })
}

fn program_panic(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::run(task, async |board| {
        board.rank().sleep(Time::ns(1)).await;
        panic!("the program met a wall")
    })
}

/// One program of two comes to the barrier.
fn deadlock(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "deadlock", Grid::Pes(2), |tl, _| async move {
        if tl.program_id() == 0 {
            tl.barrier().await;
        }
        Ok(())
    })
}

fn far_away(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::run(task, async |board| board.tensor(7).map(|_| ()))
}

/// Kernel after kernel for as many milliseconds of real time as its scalar says.
fn long(task: &mut Task<'_>) -> Result<(), Failure> {
    let span = Duration::from_millis(task.scalar(0)?);
    SimChip::run(task, async move |board| {
        let begun = Instant::now();
        while begun.elapsed() < span {
            board.launch("double", Grid::Pes(1), twice)?.wait().await?;
            board.tensor(0)?.fill_(1.0)?.wait().await?;
            board.tensor(0)?.to_vec().await?;
        }
        Ok(())
    })
}

/// Doubles each row twice, as a graph on the chip.
fn rows(task: &mut Task<'_>) -> Result<(), Failure> {
    let outcome = SimChip::graph(task, "rows", GraphOptions::default(), async |graph, board| {
        for _ in 0..2 {
            for row in board.tensor(0)?.chunk(4, 0)? {
                graph.submit(ChipTask::new("double", twice).in_out(&row)).await?;
            }
        }
        Ok(())
    })?;
    let count = (outcome.tasks().len(), outcome.edges().len());
    if count == (8, 4) { Ok(()) } else { Err(Failure::new(format!("tasks, edges: {count:?}"))) }
}
