"""The mappings of Megatron-LM between tensors that ranks share and tensors that they split. None of them waits."""

from __future__ import annotations

from .._context import current_rank
from .._tensor import Tensor
from ..distributed import ProcessGroup

__all__ = [
    "all_gather_last_dim_from_tensor_parallel_region",
    "all_to_all",
    "all_to_all_hp2sp",
    "all_to_all_sp2hp",
    "copy_to_tensor_model_parallel_region",
    "gather_from_sequence_parallel_region",
    "gather_from_tensor_model_parallel_region",
    "reduce_from_tensor_model_parallel_region",
    "reduce_scatter_last_dim_to_tensor_parallel_region",
    "reduce_scatter_to_sequence_parallel_region",
    "scatter_to_sequence_parallel_region",
    "scatter_to_tensor_model_parallel_region",
]


def _map(name: str, x: Tensor, group: ProcessGroup | None) -> Tensor:
    return Tensor(current_rank().mapping(name, x._core, None if group is None else group._core))


def copy_to_tensor_model_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The same tensor: forward, nothing is to be done."""
    return _map("copy_to_tensor_model_parallel_region", x, group)


def reduce_from_tensor_model_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The sum over ranks."""
    return _map("reduce_from_tensor_model_parallel_region", x, group)


def scatter_to_tensor_model_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """This rank's part of the last dimension."""
    return _map("scatter_to_tensor_model_parallel_region", x, group)


def gather_from_tensor_model_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The parts of the last dimension of all ranks."""
    return _map("gather_from_tensor_model_parallel_region", x, group)


def all_gather_last_dim_from_tensor_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The parts of the last dimension of all ranks."""
    return _map("all_gather_last_dim_from_tensor_parallel_region", x, group)


def reduce_scatter_last_dim_to_tensor_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """This rank's part of the last dimension of the sum over ranks."""
    return _map("reduce_scatter_last_dim_to_tensor_parallel_region", x, group)


def scatter_to_sequence_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """This rank's part of dimension 0."""
    return _map("scatter_to_sequence_parallel_region", x, group)


def gather_from_sequence_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The parts of dimension 0 of all ranks."""
    return _map("gather_from_sequence_parallel_region", x, group)


def reduce_scatter_to_sequence_parallel_region(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """This rank's part of dimension 0 of the sum over ranks."""
    return _map("reduce_scatter_to_sequence_parallel_region", x, group)


def all_to_all(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Equal parts of dimension 0, exchanged."""
    return _map("all_to_all", x, group)


def all_to_all_sp2hp(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """From tokens spread over ranks to features spread over ranks."""
    return _map("all_to_all_sp2hp", x, group)


def all_to_all_hp2sp(x: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """From features spread over ranks to tokens spread over ranks."""
    return _map("all_to_all_hp2sp", x, group)
