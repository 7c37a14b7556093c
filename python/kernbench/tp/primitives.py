"""The parts of the layers: kernels, and tensors that are cut, gathered and summed over ranks."""

from __future__ import annotations

from typing import Any

__all__ = ["add_bias", "divide", "gather_last_dim", "gemm", "reduce", "split_last_dim"]


def divide(numerator: int, denominator: int) -> int:
    """A quotient without a rest."""
    if numerator % denominator:
        raise AssertionError(f"{numerator} is not divisible by {denominator}")
    return numerator // denominator


def _gemm_kernel(tl: Any, x: Any, weight: Any, out: Any) -> None:
    """``out = x weight^T``: rows of ``x`` are those of all its dimensions but the last."""
    rows = tl.load(x)
    product = tl.dot(rows.reshape(-1, rows.shape[-1]), tl.load(weight).T)
    tl.store(out, product.reshape(out.shape))


def _bias_kernel(tl: Any, x: Any, bias: Any) -> None:
    tl.store(x, tl.add(tl.load(x), tl.load(bias)))


def _take_kernel(tl: Any, x: Any, start: int, out: Any) -> None:
    tl.store(out, tl.load(x, (..., slice(start, start + out.shape[-1]))))


def _put_kernel(tl: Any, x: Any, start: int, out: Any) -> None:
    tl.store(out, tl.load(x), (..., slice(start, start + x.shape[-1])))


def gemm(x: Any, weight: Any, out_features: int) -> Any:
    """``x weight^T``, in a new tensor."""
    ctx = x._ctx
    out = ctx.zeros((*x.shape[:-1], out_features), dtype=x.dtype, name="gemm")
    ctx.launch(_gemm_kernel, x, weight, out)
    return out


def add_bias(x: Any, bias: Any) -> Any:
    """Adds a vector to every row, in place."""
    x._ctx.launch(_bias_kernel, x, bias)
    return x


def reduce(x: Any, group: list[int]) -> Any:
    """The sum over ranks, in place; the same tensor if the rank is alone."""
    if len(group) > 1:
        x._ctx.distributed.all_reduce(x, op="sum", group=group)
    return x


def split_last_dim(x: Any, group: list[int]) -> Any:
    """This rank's part of the last dimension, in a new tensor; the same tensor if the rank is alone."""
    if len(group) == 1:
        return x
    ctx = x._ctx
    width = divide(x.shape[-1], len(group))
    out = ctx.zeros((*x.shape[:-1], width), dtype=x.dtype, name="split")
    ctx.launch(_take_kernel, x, width * group.index(ctx.distributed.get_rank()), out)
    return out


def gather_last_dim(x: Any, group: list[int]) -> Any:
    """The parts of the last dimension of all ranks, in a new tensor; the same tensor if the rank is alone.

    Each rank puts its part among zeros, and the sum over ranks has all of them.
    """
    if len(group) == 1:
        return x
    ctx = x._ctx
    out = ctx.zeros((*x.shape[:-1], x.shape[-1] * len(group)), dtype=x.dtype, name="gather")
    ctx.launch(_put_kernel, x, x.shape[-1] * group.index(ctx.distributed.get_rank()), out)
    return reduce(out, group)
