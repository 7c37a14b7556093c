"""The groups of Megatron-LM: which ranks share tensors, stages and data. Every rank of every context has its own answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phalanx.errors import ArgumentError

__all__ = [
    "destroy_model_parallel", "get_context_parallel_group", "get_context_parallel_rank", "get_context_parallel_world_size", "get_data_parallel_group", "get_data_parallel_rank", "get_data_parallel_src_rank", "get_data_parallel_world_size",
    "get_model_parallel_group", "get_pipeline_model_parallel_first_rank", "get_pipeline_model_parallel_group",
    "get_pipeline_model_parallel_last_rank", "get_pipeline_model_parallel_next_rank", "get_pipeline_model_parallel_prev_rank",
    "get_pipeline_model_parallel_rank", "get_pipeline_model_parallel_world_size", "get_tensor_model_parallel_group",
    "get_tensor_model_parallel_rank", "get_tensor_model_parallel_src_rank", "get_tensor_model_parallel_world_size",
    "initialize_model_parallel", "is_initialized", "is_pipeline_first_stage", "is_pipeline_last_stage", "model_parallel_is_initialized",
    "set_tensor_model_parallel_rank", "set_tensor_model_parallel_world_size",
]


@dataclass
class _Groups:
    """The groups of one rank, as lists of ranks, and what is set over its answers."""

    tensor: list[int]
    pipeline: list[int]
    data: list[int]
    tensor_rank: int | None = None
    tensor_size: int | None = None


def _distributed() -> Any:
    from ..runtime_api.context import current_context

    return current_context().distributed


def _groups(name: str) -> tuple[_Groups, int]:
    distributed = _distributed()
    rank = distributed.get_rank()
    groups = distributed._parallel.get(rank)
    if groups is None:
        raise AssertionError(f"{name} group is not initialized")
    return groups, rank


def initialize_model_parallel(
    tensor_model_parallel_size: int = 1,
    pipeline_model_parallel_size: int = 1,
    virtual_pipeline_model_parallel_size: int | None = None,
    **other: Any,
) -> None:
    """Makes the groups of this rank. Every rank calls this; no rank waits. :mod:`phalanx.tp` has the groups of contexts and experts."""
    for name, size in other.items():
        if name.endswith("_size") and size not in (None, 1):
            raise ArgumentError(f"initialize_model_parallel: {name} is {size}: kernbench has groups of tensors, stages and data; phalanx.tp has all")
    distributed = _distributed()
    rank, world = distributed.get_rank(), distributed.get_world_size()
    if rank in distributed._parallel:
        raise AssertionError("data parallel group is already initialized")
    tp, pp = int(tensor_model_parallel_size), int(pipeline_model_parallel_size)
    if tp < 1 or pp < 1 or world % (tp * pp):
        raise RuntimeError(f"world_size ({world}) is not divisible by {tp * pp}")
    # Tensor neighbours first, then data, then stages.
    stage = world // pp
    first, own = rank // stage * stage, rank % stage
    distributed._parallel[rank] = _Groups(
        tensor=[rank // tp * tp + index for index in range(tp)],
        pipeline=list(range(own, world, stage)),
        data=list(range(first + rank % tp, first + stage, tp)),
    )


def destroy_model_parallel() -> None:
    """Forgets the groups of this rank."""
    distributed = _distributed()
    distributed._parallel.pop(distributed.get_rank(), None)


def model_parallel_is_initialized() -> bool:
    """True if the groups of this rank were made."""
    distributed = _distributed()
    return distributed.get_rank() in distributed._parallel


is_initialized = model_parallel_is_initialized


def get_tensor_model_parallel_group() -> list[int]:
    """The ranks that share tensors with this one."""
    return _groups("tensor model parallel")[0].tensor


def get_tensor_model_parallel_rank() -> int:
    """The number of this rank among those that share tensors."""
    groups, rank = _groups("tensor model parallel")
    return groups.tensor.index(rank) if groups.tensor_rank is None else groups.tensor_rank


def get_tensor_model_parallel_world_size() -> int:
    """The number of ranks that share tensors."""
    groups, _ = _groups("tensor model parallel")
    return len(groups.tensor) if groups.tensor_size is None else groups.tensor_size


def set_tensor_model_parallel_rank(rank: int | None) -> None:
    """Sets the answer of :func:`get_tensor_model_parallel_rank` on this rank."""
    _groups("tensor model parallel")[0].tensor_rank = rank


def set_tensor_model_parallel_world_size(world_size: int | None) -> None:
    """Sets the answer of :func:`get_tensor_model_parallel_world_size` on this rank."""
    _groups("tensor model parallel")[0].tensor_size = world_size


def get_tensor_model_parallel_src_rank() -> int:
    """The first of the ranks that share tensors."""
    return _groups("tensor model parallel")[0].tensor[0]


def get_pipeline_model_parallel_group() -> list[int]:
    """The ranks of the pipeline, stage by stage."""
    return _groups("pipeline_model parallel")[0].pipeline


def get_pipeline_model_parallel_rank() -> int:
    """The stage of this rank."""
    groups, rank = _groups("pipeline_model parallel")
    return groups.pipeline.index(rank)


def get_pipeline_model_parallel_world_size() -> int:
    """The number of stages."""
    return len(_groups("pipeline_model parallel")[0].pipeline)


def get_pipeline_model_parallel_first_rank() -> int:
    """The rank of the first stage."""
    return _groups("pipeline_model parallel")[0].pipeline[0]


def get_pipeline_model_parallel_last_rank() -> int:
    """The rank of the last stage."""
    return _groups("pipeline_model parallel")[0].pipeline[-1]


def _neighbour(step: int) -> int:
    groups, rank = _groups("pipeline_model parallel")
    return groups.pipeline[(groups.pipeline.index(rank) + step) % len(groups.pipeline)]


def get_pipeline_model_parallel_next_rank() -> int:
    """The rank of the next stage."""
    return _neighbour(1)


def get_pipeline_model_parallel_prev_rank() -> int:
    """The rank of the stage before."""
    return _neighbour(-1)


def is_pipeline_first_stage() -> bool:
    """True on ranks of the first stage."""
    return get_pipeline_model_parallel_rank() == 0


def is_pipeline_last_stage() -> bool:
    """True on ranks of the last stage."""
    return get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1


def get_data_parallel_group() -> list[int]:
    """The ranks that have the same part of the model."""
    return _groups("data parallel")[0].data


def get_data_parallel_rank() -> int:
    """The number of this rank among those with the same part of the model."""
    groups, rank = _groups("data parallel")
    return groups.data.index(rank)


def get_data_parallel_world_size() -> int:
    """The number of ranks with the same part of the model."""
    return len(_groups("data parallel")[0].data)


def get_data_parallel_src_rank() -> int:
    """The first rank with the same part of the model."""
    return _groups("data parallel")[0].data[0]


def get_context_parallel_group() -> list[int]:
    """The ranks that share a sequence with this one: itself."""
    return [_groups("context parallel")[1]]


def get_context_parallel_rank() -> int:
    """The number of this rank among those that share a sequence."""
    _groups("context parallel")
    return 0


def get_context_parallel_world_size() -> int:
    """The number of ranks that share a sequence."""
    return len(get_context_parallel_group())


def get_model_parallel_group() -> list[int]:
    """The ranks that share one model."""
    groups, _ = _groups("model parallel")
    tensor_size = len(groups.tensor)
    return [rank for stage in groups.pipeline for rank in range(stage // tensor_size * tensor_size, stage // tensor_size * tensor_size + tensor_size)]
