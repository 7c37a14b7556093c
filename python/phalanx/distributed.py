"""Communication between ranks, with the names of ``torch.distributed``.

``src`` and ``dst`` are ranks of the world, even with a group. With ``async_op=True`` an operation returns a :class:`Work` at once.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from typing import Any

from . import _core
from ._algorithms import Part, register_algorithm, registered_algorithms, unregister_algorithm
from ._context import current_rank
from ._fibers import wait
from ._tensor import Tensor, Work, empty, tensor as tensor_of
from .errors import ArgumentError

__all__ = [
    "GroupMember", "P2POp", "Part", "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all_single",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "destroy_process_group", "gather", "gather_tensor", "get_rank", "get_world_size",
    "init_process_group", "irecv", "is_initialized", "isend", "monitored_barrier", "new_group", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "register_algorithm", "registered_algorithms", "scatter",
    "scatter_tensor", "send", "unregister_algorithm",
]


class ReduceOp:
    """The operation that combines numbers of ranks."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "prod"
    MIN = "min"
    MAX = "max"
    #: Names of torch that every operation refuses, as NCCL does.
    BAND, BOR, BXOR, PREMUL_SUM = "band", "bor", "bxor", "premul_sum"


class ProcessGroup:
    """A group of ranks."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.Group) -> None:
        self._core = core

    @property
    def ranks(self) -> list[int]:
        """Its ranks, by their numbers in the world."""
        return self._core.members

    def rank(self) -> int:
        """The number of this rank in the group; -1 if it is not a member."""
        rank = self._core.rank
        return -1 if rank is None else rank

    def size(self) -> int:
        """The number of its ranks."""
        return len(self._core.members)

    def __repr__(self) -> str:
        return f"<ProcessGroup of ranks {self.ranks}>"


class GroupMember:
    """Constants for groups."""

    WORLD = None
    #: torch's value for a group that this rank is not in. Here such a group is a group, and its operations do nothing.
    NON_GROUP_MEMBER = -100


def _group(group: ProcessGroup | None) -> _core.Group | None:
    if group is None:
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"a group is a ProcessGroup or None, not {group!r}")
    return group._core


def _tensor(tensor: Any, name: str = "tensor") -> _core.Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type phalanx.Tensor\n             but got {type(tensor)} instead."
        )
    return tensor._core


def _tensors(tensors: Any, name: str) -> list[_core.Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[phalanx.Tensor]\n             but got {type(tensors)} instead."
        )
    return [tensor._core for tensor in tensors]


def _end(work: _core.Work, async_op: bool, name: str, group: ProcessGroup | None) -> Work | None:
    """Waits for an operation, unless it is asynchronous."""
    if group is not None and group._core.rank is None:
        rank = current_rank().rank
        warnings.warn(
            f"Running {name} on global rank {rank} which does not belong to the given group.", stacklevel=3
        )
        return None
    if async_op:
        return Work(work)
    wait(work.wait())
    return None


def _global(rank: int | None, group_rank: int | None, group: ProcessGroup | None) -> int:
    """The rank of the world that a rank, or a rank of a group, means."""
    if rank is None and group_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    if rank is not None:
        return rank
    assert group_rank is not None
    return group_rank if group is None else group.ranks[group_rank]


def init_process_group(backend: str | None = None, *, world_size: int = -1, rank: int = -1, **_: Any) -> None:
    """Makes the group of all ranks; each rank calls it once, before it communicates. All other arguments are ignored."""
    own = current_rank()
    if world_size not in (-1, own.world_size):
        raise ValueError(f"init_process_group: world_size is {world_size}, and {own.world_size} ranks were spawned")
    if rank not in (-1, own.rank):
        raise ValueError(f"init_process_group: rank is {rank}, and this is rank {own.rank}")
    own.init_process_group()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forgets a group; all groups without an argument."""
    current_rank().destroy_process_group(_group(group))


def is_initialized() -> bool:
    """True between ``init_process_group`` and ``destroy_process_group``."""
    try:
        current_rank().group_size(None)
    except ArgumentError:
        return False
    return True


def new_group(ranks: Sequence[int] | None = None, **_: Any) -> ProcessGroup:
    """Makes a group of some ranks. Every rank of the world calls it in the same order, members or not; no rank waits."""
    own = current_rank()
    members = list(range(own.world_size)) if ranks is None else list(ranks)
    if not all(isinstance(rank, int) for rank in members):
        raise TypeError("ranks must be a sequence of integers")
    return ProcessGroup(own.new_group(members))


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this rank in a group, or in the world; -1 if it is not a member."""
    rank = current_rank().group_rank(_group(group))
    return -1 if rank is None else rank


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The size of a group, or of the world; -1 if this rank is not a member."""
    size = current_rank().group_size(_group(group))
    return -1 if size is None else size


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combines the tensors of all ranks, in place; afterwards they are bitwise equal."""
    return _end(current_rank().all_reduce(_tensor(tensor), op, _group(group)), async_op, "all_reduce", group)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: str = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combines the tensors of all ranks; rank ``dst`` gets the result, the tensors of other ranks stay."""
    root = _global(dst, group_dst, group)
    return _end(current_rank().reduce(_tensor(tensor), root, op, _group(group)), async_op, "reduce", group)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Every rank gets the tensor of rank ``src``."""
    root = _global(src, group_src, group)
    return _end(current_rank().broadcast(_tensor(tensor), root, _group(group)), async_op, "broadcast", group)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Every rank gets the tensors of all ranks, each in a tensor of its own."""
    outputs, own = _tensors(tensor_list, "tensor_list"), _tensor(tensor)
    return _end(current_rank().all_gather_list(outputs, own, _group(group)), async_op, "all_gather", group)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Every rank gets the tensors of all ranks, concatenated."""
    output, own = _tensor(output_tensor, "output_tensor"), _tensor(input_tensor, "input_tensor")
    return _end(current_rank().all_gather(output, own, _group(group)), async_op, "all_gather_into_tensor", group)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combines the inputs of all ranks; each rank gets its part of the result."""
    work = current_rank().reduce_scatter(_tensor(output, "output"), _tensor(input, "input"), op, _group(group))
    return _end(work, async_op, "reduce_scatter_tensor", group)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: str = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combines the lists of all ranks tensor by tensor; each rank gets the tensor of its own number. The list is copied into one tensor first."""
    _tensors(input_list, "input_list")
    size = get_world_size(group)
    if len(input_list) != size or any(part.shape != output.shape or part.dtype != output.dtype for part in input_list):
        kinds = ", ".join(f"{part.dtype}{list(part.shape)}" for part in input_list)
        raise ArgumentError(
            f"reduce_scatter: input_list has {len(input_list)} tensors ({kinds}); the group needs {size} of {output.dtype}{list(output.shape)}, as the output"
        )
    whole = empty((size, *output.shape), dtype=output.dtype)
    for part, own in zip(whole, input_list, strict=True):
        part.copy_(own)
    return reduce_scatter_tensor(output, whole, op, group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Every rank gets the objects of all ranks, which are pickled for it, in its list."""
    size = get_world_size(group)
    if len(object_list) != size:
        raise ArgumentError(f"all_gather_object: object_list has {len(object_list)} elements; the group has {size} ranks")
    own, lengths = pickle.dumps(obj), empty(size, dtype="i64")
    all_gather_into_tensor(lengths, tensor_of([len(own)], dtype="i64"), group)
    counts = lengths.tolist()
    most = max(counts)
    texts = empty(size, most, dtype="u8")
    all_gather_into_tensor(texts, _bytes(own, most), group)
    for place, (row, count) in enumerate(zip(texts.numpy(), counts, strict=True)):
        object_list[place] = pickle.loads(row[:count].tobytes())


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Any = None, group_src: int | None = None
) -> None:
    """Every rank gets the objects in the list of rank ``src``, which are pickled for it, in its own list of the same length."""
    root = _global(0 if src is None and group_src is None else src, group_src, group)
    own = pickle.dumps(object_list) if get_rank() == root else b""
    length = tensor_of([len(own)], dtype="i64")
    broadcast(length, root, group)
    text = _bytes(own, int(length.item()))
    broadcast(text, root, group)
    given = pickle.loads(text.numpy().tobytes())
    if len(given) != len(object_list):
        raise ArgumentError(f"broadcast_object_list: rank {root} gives {len(given)} objects; the list of this rank has {len(object_list)}")
    object_list[:] = given


def _bytes(text: bytes, length: int) -> Tensor:
    """A tensor of so many bytes that begins with these."""
    import numpy as np

    array = np.zeros(length, np.uint8)
    array[: len(text)] = np.frombuffer(text, np.uint8)
    return tensor_of(array, dtype="u8")


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Every rank gets its tensor of the list of rank ``src``; only ``src`` gives a list."""
    root = _global(0 if src is None and group_src is None else src, group_src, group)
    tensors = None if scatter_list is None else _tensors(scatter_list, "scatter_list")
    return _end(current_rank().scatter(_tensor(tensor), tensors, root, _group(group)), async_op, "scatter", group)


def scatter_tensor(
    output: Tensor, input: Tensor | None = None, src: int = 0, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Every rank gets its part of the input of rank ``src``; only ``src`` gives an input."""
    given = None if input is None else _tensor(input, "input")
    work = current_rank().scatter_tensor(_tensor(output, "output"), given, src, _group(group))
    return _end(work, async_op, "scatter_tensor", group)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Rank ``dst`` gets the tensors of all ranks, each in a tensor of its own; only ``dst`` gives a list."""
    root = _global(0 if dst is None and group_dst is None else dst, group_dst, group)
    tensors = None if gather_list is None else _tensors(gather_list, "gather_list")
    return _end(current_rank().gather(_tensor(tensor), tensors, root, _group(group)), async_op, "gather", group)


def gather_tensor(
    input: Tensor, output: Tensor | None = None, dst: int = 0, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Rank ``dst`` gets the tensors of all ranks, concatenated; only ``dst`` gives an output."""
    given = None if output is None else _tensor(output, "output")
    work = current_rank().gather_tensor(_tensor(input, "input"), given, dst, _group(group))
    return _end(work, async_op, "gather_tensor", group)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Every rank gets its part of every rank's input. Parts are rows of dimension 0, by the split sizes or in equal numbers."""
    for sizes in (output_split_sizes, input_split_sizes):
        if sizes is not None and any(size < 0 for size in sizes):
            raise RuntimeError("Split sizes must be non-negative")
    work = current_rank().all_to_all(
        _tensor(output, "output"),
        _tensor(input, "input"),
        None if not output_split_sizes else list(output_split_sizes),
        None if not input_split_sizes else list(input_split_sizes),
        _group(group),
    )
    return _end(work, async_op, "all_to_all_single", group)


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits until every rank of the group has called this."""
    return _end(current_rank().barrier(_group(group)), async_op, "barrier", group)


def monitored_barrier(group: ProcessGroup | None = None, timeout: float | Any = 30.0, wait_all_ranks: bool = False) -> None:
    """Waits until every rank of the group has called this; after ``timeout`` seconds of simulated time (a number or a
    ``timedelta``) it fails with the ranks that are missing."""
    seconds = timeout.total_seconds() if hasattr(timeout, "total_seconds") else float(timeout)
    _end(current_rank().monitored_barrier(round(seconds * 1e12), _group(group)), False, "monitored_barrier", group)


def isend(
    tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Sends a tensor to rank ``dst``, which receives it with the same tag."""
    work = current_rank().isend(_tensor(tensor), _global(dst, group_dst, group), tag, _group(group))
    return _end(work, True, "isend", group)


def irecv(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Receives a tensor from rank ``src``, or from any rank."""
    source = None if src is None and group_src is None else _global(src, group_src, group)
    work = current_rank().irecv(_tensor(tensor), source, tag, _group(group))
    return _end(work, True, "irecv", group)


def send(
    tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Sends a tensor to rank ``dst``, and waits until its numbers have left."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receives a tensor from rank ``src``, or from any rank; returns the sender, or -1 if this rank is not in the group."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """One message of :func:`batch_isend_irecv`: ``op`` is ``isend`` or ``irecv``."""

    __slots__ = ("group", "op", "peer", "tag", "tensor")

    def __init__(
        self,
        op: Any,
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op is not isend and op is not irecv:
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer = _global(peer, group_peer, group)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begins messages together; the order of sends against receives does not matter."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works = [op.op(op.tensor, op.peer, op.group, op.tag) for op in p2p_op_list]
    return [work for work in works if work is not None]
