//! The callables of `moe-dispatch`.

use crate::node::allreduce_window::TIMEOUT;
use phalanx_device::{Operand, SimChip};
use phalanx_runtime::{Callable, DomainView, Failure, Task, register};
use phalanx_sim::DType;
use phalanx_sim::kernel::{KernelError, Tl, View};
use phalanx_sim::value::bf16;
use phalanx_torch::{Args, Grid};

/// Signal cells of the three barriers: counts written, rows written, rows back.
const COUNTS: u32 = 0;
const ROWS: u32 = 1;
const BACK: u32 = 2;

/// Notifies all peers, and waits until all have notified.
fn barrier(view: &DomainView<'_>, cell: u32) -> Result<(), Failure> {
    for peer in 0..view.ranks() {
        view.notify(peer, cell, 1)?;
    }
    for peer in 0..view.ranks() {
        view.wait(peer, cell, 1, TIMEOUT)?;
    }
    Ok(())
}

/// Sends each token to the chips of its experts, and copies the received rows out of the window.
///
/// Reads tokens, routes and weights; writes the number of rows of each expert of this chip, the rows, their weights, and the
/// origin of each row: rank and slot.
pub(crate) const DISPATCH: Callable = register!(dispatch).collective();

fn dispatch(task: &mut Task<'_>) -> Result<(), Failure> {
    let view = task.domain(0)?;
    let [x, routes, weights, mut counts, mut rows, mut row_weights, mut origins] =
        task.arguments()?;
    let top = usize::try_from(routes.layout().shape()[1])?;
    let own = counts.slice_mut::<i32>()?;
    let (x, hidden) = (x.slice::<bf16>()?, usize::try_from(rows.layout().shape()[1])?);
    let routes = routes.slice::<i32>()?;
    let all = publish(&view, routes, own.len() * view.ranks())?;
    let mut next = first_rows(&view, &all, own.len());
    for (slot, (route, weight)) in routes.iter().zip(weights.slice::<f32>()?).enumerate() {
        let (expert, token) = (usize::try_from(*route)?, slot / top);
        let (peer, at) = (expert / own.len(), next[expert]);
        next[expert] += 1;
        view.put(peer, "rows", at * hidden, &x[token * hidden..(token + 1) * hidden])?;
        view.put(peer, "weights", at, &[*weight])?;
        let origin = [i32::try_from(view.rank())?, i32::try_from(slot)?];
        view.put(peer, "origins", at * 2, &origin)?;
    }
    barrier(&view, ROWS)?;
    let mine = view.rank() * own.len()..(view.rank() + 1) * own.len();
    for (count, expert) in own.iter_mut().zip(mine) {
        *count = all.iter().map(|counts| counts[expert]).sum();
    }
    let used = total(own)?;
    view.get(view.rank(), "rows", 0, &mut rows.slice_mut::<bf16>()?[..used * hidden])?;
    view.get(view.rank(), "weights", 0, &mut row_weights.slice_mut::<f32>()?[..used])?;
    view.get(view.rank(), "origins", 0, &mut origins.slice_mut::<i32>()?[..used * 2])?;
    Ok(())
}

/// Counts the rows of each expert, publishes the counts, and returns the counts of all ranks.
fn publish(
    view: &DomainView<'_>,
    routes: &[i32],
    experts: usize,
) -> Result<Vec<Vec<i32>>, Failure> {
    let mut histogram = vec![0i32; experts];
    for route in routes {
        let expert = usize::try_from(*route)?;
        let count = histogram.get_mut(expert);
        *count.ok_or_else(|| Failure::new(format!("there is no expert {expert}")))? += 1;
    }
    for peer in 0..view.ranks() {
        view.put(peer, "counts", view.rank() * experts, &histogram)?;
    }
    barrier(view, COUNTS)?;
    let all = view.buffer("counts")?.read::<i32>()?;
    Ok(all.chunks(experts).map(<[i32]>::to_vec).collect())
}

/// The index of this rank's first row of each expert on the expert's chip: prefix sums over experts, then over senders.
fn first_rows(view: &DomainView<'_>, all: &[Vec<i32>], experts: usize) -> Vec<usize> {
    let count = |rank: usize, expert: usize| usize::try_from(all[rank][expert]).unwrap_or(0);
    let mut first = Vec::new();
    for chip in 0..view.ranks() {
        let mut at = 0;
        for expert in chip * experts..(chip + 1) * experts {
            first.push(at + (0..view.rank()).map(|rank| count(rank, expert)).sum::<usize>());
            at += (0..view.ranks()).map(|rank| count(rank, expert)).sum::<usize>();
        }
    }
    first
}

fn total(counts: &[i32]) -> Result<usize, Failure> {
    Ok(usize::try_from(counts.iter().sum::<i32>())?)
}

/// Stands in for experts: each row times its weight, on the chip.
pub(crate) const EXPERT: Callable = register!(expert);

fn expert(task: &mut Task<'_>) -> Result<(), Failure> {
    let [counts, rows, weights, mut y] = task.arguments()?;
    let (used, hidden) = (total(counts.slice()?)?, usize::try_from(rows.layout().shape()[1])?);
    if used == 0 {
        return Ok(());
    }
    let operands = vec![
        Operand::input(&rows.slice::<bf16>()?[..used * hidden], &[used, hidden])?,
        Operand::input(&weights.slice::<f32>()?[..used], &[used, 1])?,
        Operand::output(&mut y.slice_mut::<bf16>()?[..used * hidden], &[used, hidden])?,
    ];
    SimChip::launch_on(task, operands, "expert", Grid::All, weigh)
}

/// Elements of a tile.
const BLOCK: usize = 32 * 1024;

/// Argument 0 times argument 1, row by row, in f32.
async fn weigh(tl: Tl, args: Args) -> Result<(), KernelError> {
    let [rows, weights, y] = [args.region(0)?, args.region(1)?, args.region(2)?];
    let hidden = args.tensor(0).shape()[1];
    let (start, len) = tl.share(weights.elements);
    let step = (BLOCK / hidden).max(1);
    for at in (start..start + len).step_by(step) {
        let block = [step.min(start + len - at), hidden];
        let x = tl.load(&View::block(&rows, hidden, (at, 0), block)).await?;
        let w = tl.load(&View::block(&weights, 1, (at, 0), [block[0], 1])).await?;
        let x = tl.cast(&x, DType::F32).await?;
        let product = tl.mul(&x, &w).await?;
        let product = tl.cast(&product, DType::Bf16).await?;
        tl.store(&View::block(&y, hidden, (at, 0), block), &product).await?;
    }
    Ok(())
}

/// Sends rows back to their origins, and sums the rows of each token, on the chip.
pub(crate) const COMBINE: Callable = register!(combine).collective();

fn combine(task: &mut Task<'_>) -> Result<(), Failure> {
    let view = task.domain(0)?;
    let [counts, origins, y, mut out] = task.arguments()?;
    let (used, hidden) = (total(counts.slice()?)?, usize::try_from(y.layout().shape()[1])?);
    let origins = origins.slice::<i32>()?.chunks(2).take(used);
    for (origin, row) in origins.zip(y.slice::<bf16>()?.chunks(hidden)) {
        let (rank, slot) = (usize::try_from(origin[0])?, usize::try_from(origin[1])?);
        view.put(rank, "back", slot * hidden, row)?;
    }
    barrier(&view, BACK)?;
    let back = view.buffer("back")?.read::<bf16>()?;
    let tokens = usize::try_from(out.layout().shape()[0])?;
    let top = back.len() / (tokens * hidden);
    let operands =
        vec![Operand::input(&back, &[tokens, top * hidden])?, Operand::argument(3, &mut out)?];
    SimChip::launch_on(task, operands, "combine", Grid::All, add_up)
}

/// The sum of the rows of each token, in f32.
async fn add_up(tl: Tl, args: Args) -> Result<(), KernelError> {
    let (back, out) = (args.region(0)?, args.region(1)?);
    let hidden = args.tensor(1).shape()[1];
    let top = args.tensor(0).shape()[1] / hidden;
    let (start, len) = tl.share(out.elements / hidden);
    for token in start..start + len {
        let rows = tl.load(&View::block(&back, hidden, (token * top, 0), [top, hidden])).await?;
        let rows = tl.cast(&rows, DType::F32).await?;
        let sum = tl.sum(&rows, 0).await?;
        let sum = tl.cast(&sum, DType::Bf16).await?;
        tl.store(&View::dense(&out, token * hidden, hidden), &sum).await?;
    }
    Ok(())
}
