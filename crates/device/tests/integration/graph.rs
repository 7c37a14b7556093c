//! Task graphs on a chip: the promises GRF-1 to GRF-9.

mod edges;
mod failures;
mod gemm;
mod groups;
mod order;
mod random;
mod room;
mod watched;

use crate::support::machine;
use phalanx_device::graph::{Dispatch, Outcome};
use phalanx_device::{GraphOptions, KernelTask, OpenGraph, TaskGraph};
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::Options;
use phalanx_sim::topology::PeId;
use phalanx_sim::{DType, Time};
use phalanx_torch::{Args, Context, Error, Grid, Rank, Tensor};

/// One SIP where everything but time on the engines is free.
fn chip() -> Context {
    let spec = machine("bare", &["system.sips.count=1", "cube.pes.columns=4"]);
    Context::new(spec, Options::default())
}

/// A chip where everything costs something.
fn quad() -> Context {
    Context::new(machine("quad-sip", &[]), Options::default())
}

/// So many PEs, started for free.
fn free(pes: usize) -> GraphOptions {
    GraphOptions {
        pes: Grid::Pes(pes),
        dispatch: Dispatch::OnChip(Time::ZERO),
        ..GraphOptions::default()
    }
}

fn pe(number: u16) -> PeId {
    PeId { sip: 0, cube: 0, pe: number }
}

/// A kernel that keeps its PE busy.
fn busy(
    span: Time,
) -> impl Fn(Tl, Args) -> std::pin::Pin<Box<dyn Future<Output = Result<(), KernelError>>>> {
    move |tl, _| {
        Box::pin(async move {
            tl.compute(span).await;
            Ok(())
        })
    }
}

/// A task that keeps its PE busy for so many nanoseconds.
fn nap(nanoseconds: u64) -> KernelTask {
    KernelTask::new("nap", busy(Time::ns(nanoseconds)))
}

/// A task that fails at once.
fn failing() -> KernelTask {
    KernelTask::new("failing", |_: Tl, _| async { Err(KernelError::Other("no luck".to_owned())) })
}

/// `y = x + 1`.
async fn increment(tl: Tl, args: Args) -> Result<(), KernelError> {
    let x = tl.load(&args.view(0)?).await?;
    let one = tl.full(x.dtype(), x.shape(), 1.0)?;
    let y = tl.add(&x, &one).await?;
    tl.store(&args.view(1)?, &y).await
}

/// The edges of an outcome as pairs of numbers.
fn pairs(outcome: &Outcome) -> Vec<(usize, usize)> {
    let mut pairs: Vec<_> =
        outcome.edges().iter().map(|edge| (edge.from.number(), edge.to.number())).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// A matrix of so many rows and columns of zeros.
fn matrix(cx: &Rank, rows: usize, columns: usize) -> Result<Tensor, Error> {
    cx.zeros([rows, columns], DType::F32)
}

/// A tile of a matrix.
fn tile(x: &Tensor, row: usize, column: usize, side: usize) -> Result<Tensor, Error> {
    x.narrow(0, row * side, side)?.narrow(1, column * side, side)
}

async fn submit_all(
    graph: &TaskGraph,
    tasks: impl IntoIterator<Item = KernelTask>,
) -> Result<(), Error> {
    for task in tasks {
        graph.submit(task).await?;
    }
    Ok(())
}
