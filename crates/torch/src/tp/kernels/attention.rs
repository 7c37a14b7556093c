//! The two products of attention: scores from queries and keys, and values weighted by scores.
//!
//! Queries, keys and values of a head stand side by side in the columns of one matrix: `[tokens, heads · 3 · width]`,
//! where the tokens of several sequences are interleaved as `[sequence position, sequence]`.

use super::Dense;
use crate::error::Error;
use crate::launch::Arg;
use crate::request::Handle;
use crate::tensor::Tensor;
use crate::tp::compute::Compute;
use phalanx_sim::kernel::{Gemm, KernelError, Operand, Tl};
use std::rc::Rc;

/// The sizes of an attention on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Tokens of a sequence.
    pub(crate) length: usize,
    /// Number of sequences.
    pub(crate) sequences: usize,
    /// Heads of this rank.
    pub(crate) heads: usize,
    /// Columns of a head.
    pub(crate) width: usize,
}

impl Sizes {
    /// Number of score matrices: one for each sequence and head.
    pub(crate) fn matrices(&self) -> usize {
        self.sequences * self.heads
    }

    /// Part `part` (query, key, value) of matrix `number`, as an operand.
    fn part(&self, mixed: Operand, number: usize, part: usize) -> Operand {
        let (sequence, head) = (number / self.heads, number % self.heads);
        let columns = self.heads * 3 * self.width;
        let strides = [self.sequences * columns, 1];
        Operand { strides, ..mixed.at(sequence * columns + (head * 3 + part) * self.width) }
    }

    /// The result of matrix `number`, as an operand.
    fn result(&self, all: Operand, number: usize) -> Operand {
        let (sequence, head) = (number / self.heads, number % self.heads);
        let columns = self.heads * self.width;
        let strides = [self.sequences * columns, 1];
        Operand { strides, ..all.at(sequence * columns + head * self.width) }
    }

    /// The scores of matrix `number`, as an operand.
    fn scores(&self, all: Operand, number: usize) -> Operand {
        all.at(number * self.length * self.length)
    }
}

struct Products {
    sizes: Sizes,
    mixed: Dense,
    scores: Dense,
    /// The weighted values; `None` for the product of scores.
    result: Option<Dense>,
    tile: [usize; 3],
}

/// Launches `scores = query · key^T`, for each sequence and head.
pub(crate) fn scores(
    scores: &Tensor,
    mixed: &Tensor,
    sizes: Sizes,
    compute: Compute,
) -> Result<Handle, Error> {
    let args = [Arg::read(mixed), Arg::write(scores)];
    launch("scores", &args, products(mixed, scores, None, sizes)?, mixed, compute)
}

/// Launches `result = scores · value`, for each sequence and head.
pub(crate) fn weigh(
    result: &Tensor,
    scores: &Tensor,
    mixed: &Tensor,
    sizes: Sizes,
    compute: Compute,
) -> Result<Handle, Error> {
    let args = [Arg::read(mixed), Arg::read(scores), Arg::write(result)];
    launch("weigh", &args, products(mixed, scores, Some(result), sizes)?, mixed, compute)
}

fn products(
    mixed: &Tensor,
    scores: &Tensor,
    result: Option<&Tensor>,
    sizes: Sizes,
) -> Result<Products, Error> {
    Ok(Products {
        sizes,
        mixed: Dense::of(mixed)?,
        scores: Dense::of(scores)?,
        result: result.map(Dense::of).transpose()?,
        tile: mixed.owner().machine().gemm.tile.map(|side| side as usize),
    })
}

fn launch(
    name: &str,
    args: &[Arg],
    products: Products,
    mixed: &Tensor,
    compute: Compute,
) -> Result<Handle, Error> {
    let products = Rc::new(products);
    mixed.owner().launch(name, compute.grid(), args, move |tl, _| run(products.clone(), tl))
}

async fn run(products: Rc<Products>, tl: Tl) -> Result<(), KernelError> {
    let Products { sizes, mixed, scores, result, tile } = &*products;
    let (programs, mut dealt) = (tl.num_programs(), 0);
    for number in 0..sizes.matrices() {
        let copies: Vec<Operand> = match result {
            None => scores.operands().into_iter().map(|all| sizes.scores(all, number)).collect(),
            Some(result) => {
                result.operands().into_iter().map(|all| sizes.result(all, number)).collect()
            }
        };
        let mixed = mixed.operand(&tl);
        let (a, b, dims) = if result.is_none() {
            let [query, key] = [0, 1].map(|part| sizes.part(mixed, number, part));
            (query, key.transposed(), [sizes.length, sizes.length, sizes.width])
        } else {
            let weights = sizes.scores(scores.operand(&tl), number);
            (weights, sizes.part(mixed, number, 2), [sizes.length, sizes.width, sizes.length])
        };
        let tiles = dims[0].div_ceil(tile[0]) * dims[1].div_ceil(tile[1]);
        // Tiles of all matrices go to PEs in turn, so that small matrices keep all PEs busy too.
        let share = ((tl.program_id() + programs - dealt % programs) % programs, programs);
        dealt += tiles;
        let gemm = Gemm { a, b, c: copies[0], dims, tile: *tile, buffers: 2, share };
        gemm.run_into(&tl, &copies).await?;
    }
    Ok(())
}
