//! Moving activations into and out of parallel regions.
//!
//! Each mapping launches its collective and returns the result tensor without waiting. With one rank it returns its input.
//! The default group is the tensor parallel one.
//!
//! - **TPM-1 (placed alike).** The output of a mapping has as many copies as its input.

use crate::distributed::{self as dist, ProcessGroup, ReduceOp};
use crate::error::Error;
use crate::placement::DpPolicy;
use crate::rank::Rank;
use crate::tensor::Tensor;
use crate::tp::compute::{Compute, divide, group_or_tensor};
use crate::tp::kernels::rows;

/// A tensor and the ranks that share it.
struct Region<'a> {
    cx: &'a Rank,
    group: ProcessGroup,
    ranks: usize,
    x: &'a Tensor,
}

impl<'a> Region<'a> {
    fn new(cx: &'a Rank, x: &'a Tensor, group: Option<&ProcessGroup>) -> Result<Self, Error> {
        let group = group_or_tensor(cx, group)?;
        Ok(Self { cx, ranks: group.size(), group, x })
    }

    /// This rank's number in the group.
    fn rank(&self) -> Result<usize, Error> {
        let outside = || Error::argument(format!("rank {} is not in the group", self.cx.rank()));
        self.group.rank().ok_or_else(outside)
    }

    /// All PEs of the cubes that hold copies of the tensor.
    fn compute(&self) -> Compute {
        Compute { cubes: self.x.policy().num_cubes, ..Compute::all(self.cx) }
    }

    /// A tensor placed like the input.
    fn empty(&self, shape: &[usize]) -> Result<Tensor, Error> {
        let policy = DpPolicy::replicated(self.x.policy().num_cubes);
        self.cx.placed(policy).empty(shape, self.x.dtype())
    }

    /// The tensor with its elements adjacent.
    fn dense(&self) -> Result<Tensor, Error> {
        if self.x.is_contiguous() {
            return Ok(self.x.clone());
        }
        let dense = self.empty(self.x.shape())?;
        dense.copy_(self.x)?;
        Ok(dense)
    }

    /// Its shape as rows and columns.
    fn matrix(&self) -> [usize; 2] {
        let columns = self.x.shape().last().copied().unwrap_or(1);
        [self.x.numel() / columns.max(1), columns]
    }

    /// Its shape with another last dimension.
    fn with_last(&self, last: usize) -> Vec<usize> {
        let mut shape = self.x.shape().to_vec();
        match shape.last_mut() {
            Some(dim) => *dim = last,
            None => shape.push(last),
        }
        shape
    }

    /// Its shape with another first dimension.
    fn with_first(&self, first: usize) -> Vec<usize> {
        let mut shape = self.x.shape().to_vec();
        match shape.first_mut() {
            Some(dim) => *dim = first,
            None => shape.push(first),
        }
        shape
    }

    fn first(&self) -> usize {
        self.x.shape().first().copied().unwrap_or(1)
    }

    /// The first dimension, divided among the ranks.
    fn divided_first(&self) -> Result<usize, Error> {
        divide(self.first(), self.ranks).map_err(|_| {
            Error::argument(
                "First dimension of the tensor should be divisible by tensor parallel size",
            )
        })
    }

    /// The columns, cut into one block for each rank and put one below the other.
    fn folded(&self) -> Result<Tensor, Error> {
        let [rows, columns] = self.matrix();
        let width = divide(columns, self.ranks)?;
        let tall = self.empty(&[self.ranks * rows, width])?;
        rows::fold(&self.dense()?, &tall, self.ranks, true, self.compute())?;
        Ok(tall)
    }

    /// The blocks of rows of `tall`, one for each rank, put side by side.
    fn unfolded(&self, tall: &Tensor, shape: &[usize]) -> Result<Tensor, Error> {
        let wide = self.empty(shape)?;
        rows::fold(&wide, tall, self.ranks, false, self.compute())?;
        Ok(wide)
    }

    fn all_gather(&self, input: &Tensor, shape: &[usize]) -> Result<Tensor, Error> {
        let output = self.empty(shape)?;
        drop(dist::all_gather_async(self.cx, &output, input, Some(&self.group))?);
        Ok(output)
    }

    fn reduce_scatter(&self, input: &Tensor, shape: &[usize]) -> Result<Tensor, Error> {
        let (output, sum) = (self.empty(shape)?, ReduceOp::Sum);
        drop(dist::reduce_scatter_async(self.cx, &output, input, sum, Some(&self.group))?);
        Ok(output)
    }

    fn all_to_all(&self, input: &Tensor, shape: &[usize]) -> Result<Tensor, Error> {
        let output = self.empty(shape)?;
        drop(dist::all_to_all_async(self.cx, &output, input, None, None, Some(&self.group))?);
        Ok(output)
    }
}

/// Returns the tensor: every rank has all of it. (Backward it is an all-reduce.)
pub fn copy_to_tensor_model_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    Region::new(cx, x, group)?;
    Ok(x.clone())
}

/// Returns the sum over ranks. The sum overwrites `x` if `x` is contiguous.
pub fn reduce_from_tensor_model_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let sum = region.dense()?;
    drop(dist::all_reduce_async(cx, &sum, ReduceOp::Sum, Some(&region.group))?);
    Ok(sum)
}

/// This rank's share of the last dimension.
pub fn scatter_to_tensor_model_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let [_, columns] = region.matrix();
    let kept = region.empty(&region.with_last(divide(columns, region.ranks)?))?;
    rows::keep_columns(&kept, &region.dense()?, region.rank()?, region.compute())?;
    Ok(kept)
}

/// Gathers the tensors of all ranks, side by side along the last dimension.
pub fn gather_from_tensor_model_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let ([rows, columns], ranks) = (region.matrix(), region.ranks);
    let tall = region.all_gather(&region.dense()?, &[ranks * rows, columns])?;
    region.unfolded(&tall, &region.with_last(ranks * columns))
}

/// Gathers the tensors of all ranks, side by side along the last dimension; backward each gets its share of the sum.
pub fn all_gather_last_dim_from_tensor_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    gather_from_tensor_model_parallel_region(cx, x, group)
}

/// This rank's share of the last dimension of the sum over ranks.
pub fn reduce_scatter_last_dim_to_tensor_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let [_, columns] = region.matrix();
    let shape = region.with_last(divide(columns, region.ranks)?);
    region.reduce_scatter(&region.folded()?, &shape)
}

/// This rank's share of dimension 0.
pub fn scatter_to_sequence_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let share = region.divided_first()?;
    region.dense()?.narrow(0, region.rank()? * share, share)
}

/// Gathers the tensors of all ranks, concatenated along dimension 0.
pub fn gather_from_sequence_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let shape = region.with_first(region.ranks * region.first());
    region.all_gather(&region.dense()?, &shape)
}

/// This rank's share of dimension 0 of the sum over ranks.
pub fn reduce_scatter_to_sequence_parallel_region(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let shape = region.with_first(region.divided_first()?);
    region.reduce_scatter(&region.dense()?, &shape)
}

/// Sends share `i` of dimension 0 to rank `i`; share `i` of the result is from rank `i`.
pub fn all_to_all(cx: &Rank, x: &Tensor, group: Option<&ProcessGroup>) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    region.divided_first()?;
    region.all_to_all(&region.dense()?, x.shape())
}

/// Exchanges a share of the tokens with all features for all tokens with a share of the features: `[n/tp, h]` to `[n,
/// h/tp]`.
pub fn all_to_all_sp2hp(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let ([rows, columns], ranks) = (region.matrix(), region.ranks);
    let folded = region.folded()?;
    region.all_to_all(&folded, &[ranks * rows, columns / ranks])
}

/// Exchanges all tokens with a share of the features for a share of the tokens with all features: `[n, h/tp]` to
/// `[n/tp, h]`.
pub fn all_to_all_hp2sp(
    cx: &Rank,
    x: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Tensor, Error> {
    let region = Region::new(cx, x, group)?;
    if region.ranks == 1 {
        return Ok(x.clone());
    }
    let ([rows, columns], ranks) = (region.matrix(), region.ranks);
    let share = divide(rows, ranks)?;
    let dense = region.dense()?.reshape([rows, columns])?;
    let tall = region.all_to_all(&dense, &[rows, columns])?;
    region.unfolded(&tall, &[share, ranks * columns])
}
