"""The groups of Megatron-LM: which ranks share tensors, stages, data."""

from __future__ import annotations

from .._context import current_rank
from ..distributed import ProcessGroup

__all__ = [
    "destroy_model_parallel",
    "get_context_parallel_group",
    "get_context_parallel_rank",
    "get_context_parallel_world_size",
    "get_data_parallel_group",
    "get_data_parallel_rank",
    "get_data_parallel_src_rank",
    "get_data_parallel_world_size",
    "get_expert_model_parallel_group",
    "get_expert_model_parallel_rank",
    "get_expert_model_parallel_world_size",
    "get_expert_tensor_parallel_group",
    "get_model_parallel_group",
    "get_pipeline_model_parallel_first_rank",
    "get_pipeline_model_parallel_group",
    "get_pipeline_model_parallel_last_rank",
    "get_pipeline_model_parallel_next_rank",
    "get_pipeline_model_parallel_prev_rank",
    "get_pipeline_model_parallel_rank",
    "get_pipeline_model_parallel_world_size",
    "get_tensor_model_parallel_group",
    "get_tensor_model_parallel_rank",
    "get_tensor_model_parallel_src_rank",
    "get_tensor_model_parallel_world_size",
    "initialize_model_parallel",
    "is_pipeline_first_stage",
    "is_pipeline_last_stage",
    "model_parallel_is_initialized",
]


def initialize_model_parallel(
    tensor_model_parallel_size: int = 1,
    pipeline_model_parallel_size: int = 1,
    *,
    context_parallel_size: int = 1,
    expert_model_parallel_size: int = 1,
    expert_tensor_parallel_size: int | None = None,
    order: str = "tp-cp-ep-dp-pp",
) -> None:
    """Makes all groups. Every rank calls this after ``init_process_group``; no rank waits."""
    current_rank().initialize_model_parallel(
        tensor_model_parallel_size,
        pipeline_model_parallel_size,
        context_parallel_size,
        expert_model_parallel_size,
        expert_tensor_parallel_size,
        order,
    )


def destroy_model_parallel() -> None:
    """Forgets all groups."""
    current_rank().destroy_model_parallel()


def model_parallel_is_initialized() -> bool:
    """True if the groups of tensors, stages and data were made."""
    return current_rank().model_parallel_is_initialized()


def is_pipeline_first_stage() -> bool:
    """True on ranks of the first stage."""
    return get_pipeline_model_parallel_rank() == 0


def is_pipeline_last_stage() -> bool:
    """True on ranks of the last stage."""
    return get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1


def get_tensor_model_parallel_rank() -> int:
    """This rank's number in the tensor parallel group."""
    return current_rank().parallel_number("tensor_model_parallel_rank")


def get_tensor_model_parallel_world_size() -> int:
    """The size of the tensor parallel group."""
    return current_rank().parallel_number("tensor_model_parallel_world_size")


def get_tensor_model_parallel_src_rank() -> int:
    """The first rank of the tensor parallel group."""
    return current_rank().parallel_number("tensor_model_parallel_src_rank")


def get_pipeline_model_parallel_rank() -> int:
    """This rank's number in the pipeline parallel group."""
    return current_rank().parallel_number("pipeline_model_parallel_rank")


def get_pipeline_model_parallel_world_size() -> int:
    """The size of the pipeline parallel group."""
    return current_rank().parallel_number("pipeline_model_parallel_world_size")


def get_pipeline_model_parallel_first_rank() -> int:
    """The first stage of the pipeline parallel group."""
    return current_rank().parallel_number("pipeline_model_parallel_first_rank")


def get_pipeline_model_parallel_last_rank() -> int:
    """The last stage of the pipeline parallel group."""
    return current_rank().parallel_number("pipeline_model_parallel_last_rank")


def get_pipeline_model_parallel_next_rank() -> int:
    """The stage after this one in the pipeline parallel group."""
    return current_rank().parallel_number("pipeline_model_parallel_next_rank")


def get_pipeline_model_parallel_prev_rank() -> int:
    """The stage before this one in the pipeline parallel group."""
    return current_rank().parallel_number("pipeline_model_parallel_prev_rank")


def get_data_parallel_rank() -> int:
    """This rank's number in the data parallel group."""
    return current_rank().parallel_number("data_parallel_rank")


def get_data_parallel_world_size() -> int:
    """The size of the data parallel group."""
    return current_rank().parallel_number("data_parallel_world_size")


def get_data_parallel_src_rank() -> int:
    """The first rank of the data parallel group."""
    return current_rank().parallel_number("data_parallel_src_rank")


def get_context_parallel_rank() -> int:
    """This rank's number in the context parallel group."""
    return current_rank().parallel_number("context_parallel_rank")


def get_context_parallel_world_size() -> int:
    """The size of the context parallel group."""
    return current_rank().parallel_number("context_parallel_world_size")


def get_expert_model_parallel_rank() -> int:
    """This rank's number in the expert parallel group."""
    return current_rank().parallel_number("expert_model_parallel_rank")


def get_expert_model_parallel_world_size() -> int:
    """The size of the expert parallel group."""
    return current_rank().parallel_number("expert_model_parallel_world_size")


def get_tensor_model_parallel_group() -> ProcessGroup:
    """This rank's tensor parallel group."""
    return ProcessGroup(current_rank().parallel_group("tensor_model"))


def get_pipeline_model_parallel_group() -> ProcessGroup:
    """This rank's pipeline parallel group."""
    return ProcessGroup(current_rank().parallel_group("pipeline_model"))


def get_data_parallel_group() -> ProcessGroup:
    """This rank's data parallel group."""
    return ProcessGroup(current_rank().parallel_group("data"))


def get_context_parallel_group() -> ProcessGroup:
    """This rank's context parallel group."""
    return ProcessGroup(current_rank().parallel_group("context"))


def get_model_parallel_group() -> ProcessGroup:
    """This rank's model parallel group."""
    return ProcessGroup(current_rank().parallel_group("model"))


def get_expert_model_parallel_group() -> ProcessGroup:
    """This rank's expert parallel group."""
    return ProcessGroup(current_rank().parallel_group("expert_model"))


def get_expert_tensor_parallel_group() -> ProcessGroup:
    """This rank's expert tensor parallel group."""
    return ProcessGroup(current_rank().parallel_group("expert_tensor"))
