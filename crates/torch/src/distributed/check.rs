//! Checks of arguments, with the messages of torch where torch has them.

use super::group::ProcessGroup;
use crate::ccl::part::ReduceOp;
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;

/// Refuses an average of whole numbers.
pub(super) fn combinable(operation: &str, tensor: &Tensor, combine: ReduceOp) -> Result<(), Error> {
    if combine == ReduceOp::Avg && !tensor.dtype().is_float() {
        return Err(Error::argument(format!(
            "{operation}: Cannot use ReduceOp::Avg with i32 inputs; use Sum, Product, Min or Max, or another type"
        )));
    }
    Ok(())
}

/// Refuses tensors of other ranks.
pub(super) fn own(cx: &Rank, operation: &str, tensors: &[&Tensor]) -> Result<(), Error> {
    match tensors.iter().find(|tensor| !tensor.owner().is(cx)) {
        None => Ok(()),
        Some(tensor) => Err(Error::argument(format!(
            "{operation}: {tensor:?} is not one of rank {}, which uses its own tensors only",
            cx.rank()
        ))),
    }
}

/// The number in the group of rank `root` of the world.
pub(super) fn root(operation: &str, group: &ProcessGroup, root: usize) -> Result<usize, Error> {
    group.rank_of(root).ok_or_else(|| {
        let members: Vec<String> = group.members().iter().map(ToString::to_string).collect();
        Error::argument(format!(
            "{operation}: rank {root} is not part of {}; ranks are those of the world, and this group has {}",
            group.describe(),
            members.join(", ")
        ))
    })
}

/// Refuses two tensors of different types.
pub(super) fn same_type(words: &str, one: &Tensor, other: &Tensor) -> Result<(), Error> {
    if one.dtype() == other.dtype() {
        return Ok(());
    }
    Err(Error::argument(format!("{words}: got {} and {}", one.describe(), other.describe())))
}

/// Refuses a `large` tensor whose size is not `ranks` times that of the `small` one.
pub(super) fn times(
    words: &str,
    large: &Tensor,
    small: &Tensor,
    ranks: usize,
) -> Result<(), Error> {
    if large.numel() == small.numel() * ranks {
        return Ok(());
    }
    Err(Error::argument(format!(
        "{words}: {} is not {ranks} times {}",
        large.describe(),
        small.describe()
    )))
}

/// Refuses a list that does not hold one tensor like `one` for each rank.
pub(super) fn list(
    operation: &str,
    name: &str,
    list: &[Tensor],
    one: &Tensor,
    ranks: usize,
) -> Result<(), Error> {
    if list.len() != ranks {
        return Err(Error::argument(format!(
            "{operation}: `{name}` has {} tensors; it takes one for each of the {ranks} ranks of the group",
            list.len()
        )));
    }
    for tensor in list {
        let words = format!("{operation}: Invalid usage of tensors with different dtypes");
        same_type(&words, tensor, one)?;
        if tensor.numel() != one.numel() {
            return Err(Error::argument(format!(
                "{operation}: `{name}` holds {}; each of its tensors takes as many elements as {}",
                tensor.describe(),
                one.describe()
            )));
        }
    }
    Ok(())
}

/// An argument that only the root gives.
pub(super) struct RootArgument {
    pub(super) name: &'static str,
    /// The word for the root: `source` or `destination`.
    pub(super) role: &'static str,
}

/// Refuses an argument that is missing on the root or given on another rank.
pub(super) fn only_on_root<T>(
    operation: &str,
    argument: &RootArgument,
    given: Option<T>,
    is_root: bool,
) -> Result<Option<T>, Error> {
    let RootArgument { name, role } = argument;
    match (given.is_some(), is_root) {
        (false, true) => Err(Error::argument(format!(
            "{operation}: Argument `{name}` must be specified on {role} rank"
        ))),
        (true, false) => Err(Error::argument(format!(
            "{operation}: Argument `{name}` must NOT be specified on non-{role} ranks; give `None`"
        ))),
        _ => Ok(given),
    }
}

/// The elements of a tensor that go to (or come from) each rank, in rows of dimension 0.
pub(super) fn splits(
    side: &str,
    tensor: &Tensor,
    sizes: Option<&[usize]>,
    ranks: usize,
) -> Result<Vec<usize>, Error> {
    let rows = tensor.shape().first().copied().unwrap_or(1);
    let row = tensor.numel().checked_div(rows).unwrap_or(0);
    let refuse = |words: String| Err(Error::argument(format!("all_to_all: {words}")));
    let Some(sizes) = sizes else {
        if !rows.is_multiple_of(ranks) {
            return refuse(format!(
                "Tensor's dim 0 does not divide equally across group size: the {side} has {rows} rows for {ranks} ranks; give split sizes"
            ));
        }
        return Ok(vec![rows / ranks * row; ranks]);
    };
    if sizes.len() != ranks {
        return refuse(format!(
            "Number of tensor splits not equal to group size: {} for the {side}, and {ranks} ranks",
            sizes.len()
        ));
    }
    let sum = sizes.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size));
    if sum != Some(rows) {
        return refuse(format!(
            "Split sizes doesn't match total dim 0 size: {sizes:?} for the {side}, which has {rows} rows"
        ));
    }
    Ok(sizes.iter().map(|size| size * row).collect())
}
