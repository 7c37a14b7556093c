//! Collectives that combine numbers.

use crate::ccl::algorithm::Operation;
use crate::ccl::part::ReduceOp;
use crate::distributed::check;
use crate::distributed::collective::{CollectiveCall, launch};
use crate::distributed::group::{ProcessGroup, resolve};
use crate::distributed::work::Work;
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;

/// Combines the tensors of all ranks; afterwards all are bitwise equal.
pub async fn all_reduce(
    cx: &Rank,
    tensor: &Tensor,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    all_reduce_async(cx, tensor, op, group)?.wait().await
}

/// Does the same without waiting.
pub fn all_reduce_async(
    cx: &Rank,
    tensor: &Tensor,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    check::own(cx, "all_reduce", &[tensor])?;
    check::combinable("all_reduce", tensor, op)?;
    let call =
        CollectiveCall { combine: op, ..CollectiveCall::new(Operation::AllReduce, tensor, tensor) };
    Ok(Work::new(launch(cx, &group, &call)?))
}

/// Combines the tensors of all ranks; rank `dst` gets the result, the tensors of other ranks stay.
pub async fn reduce(
    cx: &Rank,
    tensor: &Tensor,
    dst: usize,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    reduce_async(cx, tensor, dst, op, group)?.wait().await
}

/// Does the same without waiting.
pub fn reduce_async(
    cx: &Rank,
    tensor: &Tensor,
    dst: usize,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    let root = check::root("reduce", &group, dst)?;
    check::own(cx, "reduce", &[tensor])?;
    check::combinable("reduce", tensor, op)?;
    let call = CollectiveCall {
        combine: op,
        root,
        ..CollectiveCall::new(Operation::Reduce, tensor, tensor)
    };
    Ok(Work::new(launch(cx, &group, &call)?))
}

/// Combines the inputs of all ranks; each rank gets its part of the result.
pub async fn reduce_scatter(
    cx: &Rank,
    output: &Tensor,
    input: &Tensor,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    reduce_scatter_async(cx, output, input, op, group)?.wait().await
}

/// Does the same without waiting.
pub fn reduce_scatter_async(
    cx: &Rank,
    output: &Tensor,
    input: &Tensor,
    op: ReduceOp,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    check::own(cx, "reduce_scatter", &[output, input])?;
    let words = "reduce_scatter: input tensor must be the same type as the output tensor";
    check::same_type(words, input, output)?;
    let words =
        "reduce_scatter: input tensor must be the same size as output size times world size";
    check::times(words, input, output, group.size())?;
    check::combinable("reduce_scatter", input, op)?;
    let call = CollectiveCall {
        combine: op,
        ..CollectiveCall::new(Operation::ReduceScatter, input, output)
    };
    Ok(Work::new(launch(cx, &group, &call)?))
}
