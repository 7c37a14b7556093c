"""The mappings of Megatron-LM between tensors that ranks share and tensors that they split."""

from __future__ import annotations

from typing import Any

from . import parallel_state
from .primitives import gather_last_dim, reduce, split_last_dim

__all__ = [
    "copy_to_tensor_model_parallel_region", "gather_from_tensor_model_parallel_region", "reduce_from_tensor_model_parallel_region",
    "scatter_to_tensor_model_parallel_region",
]


def _group(group: Any) -> list[int]:
    return list(parallel_state.get_tensor_model_parallel_group() if group is None else group)


def copy_to_tensor_model_parallel_region(x: Any, group: Any = None) -> Any:
    """The same tensor: forward, nothing is to be done."""
    return x


def reduce_from_tensor_model_parallel_region(x: Any, group: Any = None) -> Any:
    """The sum over ranks, in place."""
    return reduce(x, _group(group))


def scatter_to_tensor_model_parallel_region(x: Any, group: Any = None) -> Any:
    """This rank's part of the last dimension."""
    return split_last_dim(x, _group(group))


def gather_from_tensor_model_parallel_region(x: Any, group: Any = None) -> Any:
    """The parts of the last dimension of all ranks."""
    return gather_last_dim(x, _group(group))
