//! `linear`: `y = x W^T`, with the output features of `W` spread over cubes.

use super::Dense;
use crate::error::Error;
use crate::launch::Arg;
use crate::request::Handle;
use crate::tensor::Tensor;
use crate::tp::compute::Compute;
use phalanx_sim::kernel::{Gemm, KernelError, Operand, Tl};
use phalanx_sim::memory::Region;
use std::ops::Range;
use std::rc::Rc;

/// The output features of a cube and their weights.
#[derive(Clone, Debug)]
struct Features {
    cube: u16,
    rows: Range<usize>,
    region: Region,
}

struct Linear {
    x: Dense,
    y: Dense,
    /// One for each cube, or a single one that all PEs share.
    features: Vec<Features>,
    /// The first element of the weights in their region.
    start: usize,
    shared: bool,
    tile: [usize; 3],
    pes: usize,
}

/// Launches `y = x W^T`: `x` is `[.., k]`, `w` is `[n, k]` in one piece or cut by rows over the cubes of `compute`,
/// `y` is `[.., n]`.
pub(crate) fn linear(
    y: &Tensor,
    x: &Tensor,
    w: &Tensor,
    compute: Compute,
) -> Result<Handle, Error> {
    let cx = x.owner();
    let (from, to) = (Dense::of(x)?, Dense::of(y)?);
    let fits = w.shape().len() == 2
        && w.shape()[1] == from.columns
        && w.shape()[0] == to.columns
        && from.rows == to.rows
        && w.dtype() == x.dtype();
    if !fits {
        let (x, w, y) = (x.describe(), w.describe(), y.describe());
        return Err(Error::argument(format!("linear: {x} by the transpose of {w} is not {y}")));
    }
    let shared = w.region().is_ok();
    if !w.is_contiguous() || (!shared && !cut_over(w, compute)) {
        return Err(Error::argument(format!(
            "linear: weights {} must be in one piece, or cut by rows over {} cubes",
            w.describe(),
            compute.cubes
        )));
    }
    let features = w.shards().iter().map(|shard| Features {
        cube: shard.pe.cube,
        rows: if shared { 0..w.shape()[0] } else { shard.rows.clone() },
        region: shard.region,
    });
    let kernel = Rc::new(Linear {
        x: from,
        y: to,
        features: features.collect(),
        start: w.storage_offset(),
        shared,
        tile: cx.machine().gemm.tile.map(|side| side as usize),
        pes: compute.pes,
    });
    let args = [Arg::read(x), Arg::read(w), Arg::write(y)];
    cx.launch("linear", compute.grid(), &args, move |tl, _| run(kernel.clone(), tl))
}

/// True if the weights are cut by rows, a part for each cube.
fn cut_over(w: &Tensor, compute: Compute) -> bool {
    w.is_whole()
        && w.shards().len() == compute.cubes
        && w.shards().iter().all(|shard| shard.columns.len() == w.shape()[1])
}

async fn run(linear: Rc<Linear>, tl: Tl) -> Result<(), KernelError> {
    let near = linear.features.iter().find(|features| features.cube == tl.pe().cube);
    let features = near.unwrap_or(&linear.features[0]);
    let share = if linear.shared {
        (tl.program_id(), tl.num_programs())
    } else {
        (usize::from(tl.pe().pe), linear.pes)
    };
    let (m, n, k) = (linear.x.rows, features.rows.len(), linear.x.columns);
    let copies: Vec<Operand> =
        linear.y.operands().into_iter().map(|copy| copy.at(features.rows.start)).collect();
    let gemm = Gemm {
        a: linear.x.operand(&tl),
        b: Operand::row_major(features.region, k).at(linear.start).transposed(),
        c: copies[0],
        dims: [m, n, k],
        tile: linear.tile,
        buffers: 2,
        share,
    };
    gemm.run_into(&tl, &copies).await
}
