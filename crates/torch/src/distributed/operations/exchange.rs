//! All-to-all and barrier.

use crate::ccl::algorithm::Operation;
use crate::ccl::part::Splits;
use crate::distributed::check;
use crate::distributed::collective::{CollectiveCall, launch};
use crate::distributed::group::{ProcessGroup, SplitRows, resolve};
use crate::distributed::work::Work;
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::DType;

/// Gives every rank its part of every rank's input. The parts are rows of dimension 0, by the split sizes or in equal
/// numbers. Either all ranks give split sizes or none does.
pub async fn all_to_all(
    cx: &Rank,
    output: &Tensor,
    input: &Tensor,
    output_split_sizes: Option<&[usize]>,
    input_split_sizes: Option<&[usize]>,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    all_to_all_async(cx, output, input, output_split_sizes, input_split_sizes, group)?.wait().await
}

/// Does the same without waiting.
pub fn all_to_all_async(
    cx: &Rank,
    output: &Tensor,
    input: &Tensor,
    output_split_sizes: Option<&[usize]>,
    input_split_sizes: Option<&[usize]>,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    let Some(own) = group.rank() else { return Ok(Work::nothing()) };
    check::own(cx, "all_to_all", &[output, input])?;
    let words = "all_to_all: output tensor must have the same type as input tensor";
    check::same_type(words, output, input)?;
    let to = check::splits("input", input, input_split_sizes, group.size())?;
    let from = check::splits("output", output, output_split_sizes, group.size())?;
    let even = output_split_sizes.is_none() && input_split_sizes.is_none();
    if even && input.numel() != output.numel() {
        return Err(Error::argument(format!(
            "all_to_all: Split sizes doesn't match total dim 0 size: {} cannot take the equal parts of {}",
            output.describe(),
            input.describe()
        )));
    }
    if to[own] != from[own] {
        return Err(Error::argument(format!(
            "all_to_all: rank {} sends {} elements to itself and takes {}; both are one part",
            cx.rank(),
            to[own],
            from[own]
        )));
    }
    let rows =
        (!even).then(|| SplitRows { sent: rows_of(&to, input), received: rows_of(&from, output) });
    let splits = (!even).then_some(Splits { sent: to, received: from });
    let call = CollectiveCall { splits, ..CollectiveCall::new(Operation::AllToAll, input, output) };
    let handle = launch(cx, &group, &call)?;
    if let Some(rows) = rows {
        group.note_splits(rows);
    }
    Ok(Work::new(handle))
}

/// The rows of dimension 0 that have so many elements.
fn rows_of(elements: &[usize], tensor: &Tensor) -> Vec<usize> {
    let rows = tensor.shape().first().copied().unwrap_or(1);
    let row = tensor.numel().checked_div(rows).unwrap_or(0).max(1);
    elements.iter().map(|count| count / row).collect()
}

/// Waits until every rank of the group has called this.
pub async fn barrier(cx: &Rank, group: Option<&ProcessGroup>) -> Result<(), Error> {
    barrier_async(cx, group)?.wait().await
}

/// Does the same without waiting.
pub fn barrier_async(cx: &Rank, group: Option<&ProcessGroup>) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    // The sum over all ranks is complete when all ranks have arrived.
    let one = cx.full([1], 1.0, DType::F32)?;
    let call =
        CollectiveCall { name: "barrier", ..CollectiveCall::new(Operation::AllReduce, &one, &one) };
    Ok(Work::new(launch(cx, &group, &call)?))
}
