//! The collectives, each in two forms: one that waits, and one that gives back its work.

use super::check;
use super::collective::{Asking, launch};
use super::group::{ProcessGroup, resolve};
use super::work::Work;
use crate::ccl::algorithm::Operation;
use crate::ccl::part::ReduceOp;
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;

/// Combines the tensors of all ranks; afterwards they are bitwise equal.
pub async fn all_reduce(
    cx: &Rank,
    tensor: &Tensor,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    all_reduce_async(cx, tensor, op, group)?.wait().await
}

/// The same, without waiting.
pub fn all_reduce_async(
    cx: &Rank,
    tensor: &Tensor,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing(cx));
    }
    check::combinable("all_reduce", tensor, op)?;
    let asking = Asking {
        operation: Operation::AllReduce,
        combine: op,
        root: 0,
        input: tensor,
        output: tensor,
        splits: None,
    };
    Ok(Work::new(cx, launch(cx, &group, &asking, None)?.0))
}
