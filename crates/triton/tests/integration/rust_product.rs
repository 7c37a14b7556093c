//! The product of `tests/kernels/kernels.py` as a kernel in Rust, for tests and for `examples/triton_bench.rs`.

use phalanx_sim::DType;
use phalanx_sim::kernel::{Computing, KernelError, Loading, Tile, Tl, View};
use phalanx_sim::memory::Region;
use std::collections::VecDeque;

/// Rows, columns and depth of a block.
const BLOCK: [usize; 3] = [32, 64, 32];
/// The rounds whose loads are issued ahead, the current one included.
pub(crate) const STAGES: usize = 3;

/// Returns the programs of a product of square matrices.
pub(crate) fn programs(size: usize) -> usize {
    size / BLOCK[0] * (size / BLOCK[1])
}

/// One program of the product of matrices of `size` rows: the same blocks in the same order as the Triton kernel.
pub(crate) async fn product(
    tl: Tl,
    [left, right, out]: [Region; 3],
    size: usize,
) -> Result<(), KernelError> {
    let [rows, columns, depth] = BLOCK;
    let (down, across, group) = (size / rows, size / columns, 8);
    let pid = tl.program_id();
    let first = pid / (group * across) * group;
    let high = (down - first).min(group);
    let (row, column) = (first + pid % (group * across) % high, pid % (group * across) / high);
    let mut ahead: VecDeque<(Loading<Tile>, Loading<Tile>)> = VecDeque::new();
    let (mut next, mut sum) = (0, None::<Computing>);
    for _ in 0..size / depth {
        while ahead.len() < STAGES && next < size / depth {
            let x = View::block(&left, size, (row * rows, next * depth), [rows, depth]);
            let y = View::block(&right, size, (next * depth, column * columns), [depth, columns]);
            ahead.push_back((tl.load(&x), tl.load(&y)));
            next += 1;
        }
        let Some((x, y)) = ahead.pop_front() else { break };
        let (x, y) = (x.await?, y.await?);
        let before = match sum.take() {
            Some(operation) => Some(operation.await?),
            None => None,
        };
        sum = Some(tl.accumulate(&x, &y, before));
    }
    let Some(sum) = sum else { return Ok(()) };
    let result = tl.cast(&sum.await?, DType::F16).await?;
    let target = View::block(&out, size, (row * rows, column * columns), [rows, columns]);
    drop(tl.store(&target, &result));
    Ok(())
}
