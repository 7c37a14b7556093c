//! Collectives that move numbers without combining them.

use crate::ccl::algorithm::Operation;
use crate::distributed::check::{self, RootArgument};
use crate::distributed::collective::{CollectiveCall, launch};
use crate::distributed::group::{ProcessGroup, resolve};
use crate::distributed::work::Work;
use crate::error::Error;
use crate::rank::Rank;
use crate::request::Handle;
use crate::tensor::Tensor;

/// Gives every rank the inputs of all ranks, concatenated.
pub async fn all_gather(
    cx: &Rank,
    output: &Tensor,
    input: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    all_gather_async(cx, output, input, group)?.wait().await
}

/// Does the same without waiting.
pub fn all_gather_async(
    cx: &Rank,
    output: &Tensor,
    input: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    check::own(cx, "all_gather", &[output, input])?;
    let words = "all_gather: output tensor must have the same type as input tensor";
    check::same_type(words, output, input)?;
    let words =
        "all_gather: output tensor size must be equal to world_size times input tensor size";
    check::times(words, output, input, group.size())?;
    let call = CollectiveCall::new(Operation::AllGather, input, output);
    Ok(Work::new(launch(cx, &group, &call)?))
}

/// Gives every rank the inputs of all ranks, each in a tensor of its own.
pub async fn all_gather_list(
    cx: &Rank,
    outputs: &[Tensor],
    input: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    all_gather_list_async(cx, outputs, input, group)?.wait().await
}

/// Does the same without waiting.
pub fn all_gather_list_async(
    cx: &Rank,
    outputs: &[Tensor],
    input: &Tensor,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    check::own(cx, "all_gather", &[input])?;
    check::own(cx, "all_gather", &outputs.iter().collect::<Vec<_>>())?;
    check::list("all_gather", "outputs", outputs, input, group.size())?;
    let together = cx.empty([input.numel() * group.size()], input.dtype())?;
    let call = CollectiveCall::new(Operation::AllGather, input, &together);
    let mut handles = vec![launch(cx, &group, &call)?];
    handles.extend(take_apart(&together, outputs)?);
    Ok(Work::of_all(handles))
}

/// Gives every rank the tensor of rank `src`.
pub async fn broadcast(
    cx: &Rank,
    tensor: &Tensor,
    src: usize,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    broadcast_async(cx, tensor, src, group)?.wait().await
}

/// Does the same without waiting.
pub fn broadcast_async(
    cx: &Rank,
    tensor: &Tensor,
    src: usize,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    let root = check::root("broadcast", &group, src)?;
    check::own(cx, "broadcast", &[tensor])?;
    let call = CollectiveCall { root, ..CollectiveCall::new(Operation::Broadcast, tensor, tensor) };
    Ok(Work::new(launch(cx, &group, &call)?))
}

/// Gives every rank its part of the input of rank `src`; only `src` gives an input.
pub async fn scatter(
    cx: &Rank,
    output: &Tensor,
    input: Option<&Tensor>,
    src: usize,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    scatter_async(cx, output, input, src, group)?.wait().await
}

/// Does the same without waiting.
pub fn scatter_async(
    cx: &Rank,
    output: &Tensor,
    input: Option<&Tensor>,
    src: usize,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    let root = check::root("scatter", &group, src)?;
    let is_root = group.rank() == Some(root);
    check::own(cx, "scatter", &[output, input.unwrap_or(output)])?;
    let argument = RootArgument { name: "input", role: "source" };
    let input = check::only_on_root("scatter", &argument, input, is_root)?;
    if let Some(input) = input {
        let words = "scatter: input tensor must be the same type as the output tensor";
        check::same_type(words, input, output)?;
        let words = "scatter: input tensor must be the same size as output size times world size";
        check::times(words, input, output, group.size())?;
    }
    let call = CollectiveCall {
        root,
        ..CollectiveCall::new(Operation::Scatter, input.unwrap_or(output), output)
    };
    Ok(Work::new(launch(cx, &group, &call)?))
}

/// Gives every rank its tensor of the list of rank `src`; only `src` gives a list.
pub async fn scatter_list(
    cx: &Rank,
    output: &Tensor,
    scatter_list: Option<&[Tensor]>,
    src: usize,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    scatter_list_async(cx, output, scatter_list, src, group)?.wait().await
}

/// Does the same without waiting.
pub fn scatter_list_async(
    cx: &Rank,
    output: &Tensor,
    scatter_list: Option<&[Tensor]>,
    src: usize,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let own = resolve(cx, group)?;
    if own.rank().is_none() {
        return Ok(Work::nothing());
    }
    let is_root = own.rank() == Some(check::root("scatter", &own, src)?);
    let argument = RootArgument { name: "scatter_list", role: "source" };
    let Some(list) = check::only_on_root("scatter", &argument, scatter_list, is_root)? else {
        return scatter_async(cx, output, None, src, group);
    };
    check::own(cx, "scatter", &list.iter().collect::<Vec<_>>())?;
    check::list("scatter", "scatter_list", list, output, own.size())?;
    let together = cx.empty([output.numel() * own.size()], output.dtype())?;
    for (index, tensor) in list.iter().enumerate() {
        part(&together, index, tensor)?.copy_(tensor)?;
    }
    scatter_async(cx, output, Some(&together), src, group)
}

/// Gives rank `dst` the inputs of all ranks, concatenated; only `dst` gives an output.
pub async fn gather(
    cx: &Rank,
    input: &Tensor,
    output: Option<&Tensor>,
    dst: usize,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    gather_async(cx, input, output, dst, group)?.wait().await
}

/// Does the same without waiting.
pub fn gather_async(
    cx: &Rank,
    input: &Tensor,
    output: Option<&Tensor>,
    dst: usize,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let group = resolve(cx, group)?;
    if group.rank().is_none() {
        return Ok(Work::nothing());
    }
    let root = check::root("gather", &group, dst)?;
    let is_root = group.rank() == Some(root);
    check::own(cx, "gather", &[input, output.unwrap_or(input)])?;
    let argument = RootArgument { name: "output", role: "destination" };
    let output = check::only_on_root("gather", &argument, output, is_root)?;
    if let Some(output) = output {
        let words = "gather: output tensor must have the same type as input tensor";
        check::same_type(words, output, input)?;
        let words =
            "gather: output tensor size must be equal to world_size times input tensor size";
        check::times(words, output, input, group.size())?;
    }
    let call = CollectiveCall {
        root,
        ..CollectiveCall::new(Operation::Gather, input, output.unwrap_or(input))
    };
    Ok(Work::new(launch(cx, &group, &call)?))
}

/// Gives rank `dst` the inputs of all ranks, each in a tensor of its own; only `dst` gives a list.
pub async fn gather_list(
    cx: &Rank,
    input: &Tensor,
    gather_list: Option<&[Tensor]>,
    dst: usize,
    group: Option<&ProcessGroup>,
) -> Result<(), Error> {
    gather_list_async(cx, input, gather_list, dst, group)?.wait().await
}

/// Does the same without waiting.
pub fn gather_list_async(
    cx: &Rank,
    input: &Tensor,
    gather_list: Option<&[Tensor]>,
    dst: usize,
    group: Option<&ProcessGroup>,
) -> Result<Work, Error> {
    let own = resolve(cx, group)?;
    if own.rank().is_none() {
        return Ok(Work::nothing());
    }
    let is_root = own.rank() == Some(check::root("gather", &own, dst)?);
    let argument = RootArgument { name: "gather_list", role: "destination" };
    let Some(list) = check::only_on_root("gather", &argument, gather_list, is_root)? else {
        return gather_async(cx, input, None, dst, group);
    };
    check::own(cx, "gather", &list.iter().collect::<Vec<_>>())?;
    check::list("gather", "gather_list", list, input, own.size())?;
    let together = cx.empty([input.numel() * own.size()], input.dtype())?;
    let work = gather_async(cx, input, Some(&together), dst, group)?;
    Ok(work.and(take_apart(&together, list)?))
}

/// Copies the parts of a tensor into tensors of their own.
fn take_apart(together: &Tensor, parts: &[Tensor]) -> Result<Vec<Handle>, Error> {
    let copy = |(index, tensor): (usize, &Tensor)| tensor.copy_(&part(together, index, tensor)?);
    parts.iter().enumerate().map(copy).collect()
}

/// Part `index` of a tensor of parts like `one`.
fn part(together: &Tensor, index: usize, one: &Tensor) -> Result<Tensor, Error> {
    together.narrow(0, index * one.numel(), one.numel())?.reshape(one.shape())
}
