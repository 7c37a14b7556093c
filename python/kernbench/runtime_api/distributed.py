"""Collectives between ranks: a rank joins and waits; the main program runs the collective when every rank has joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet
from phalanx.errors import ArgumentError, MismatchError

from ..ccl import config
from ..ccl.ipcq import Ipcq
from .._workers import is_main, step_aside
from .tensor import Tensor

if TYPE_CHECKING:
    from .context import RuntimeContext

__all__ = ["Distributed"]

_OPS = ("sum", "prod", "min", "max", "avg")


class _Joined:
    """A rank in a collective."""

    def __init__(self, rank: int, members: tuple[int, ...], tensor: Tensor, op: str) -> None:
        self.rank, self.members, self.tensor, self.op = rank, members, tensor, op
        self.done = False
        self.error: BaseException | None = None

    def describe(self) -> str:
        """``all_reduce(sum, f16[8])``."""
        return f"all_reduce({self.op}, {self.tensor.dtype}{list(self.tensor.shape)})"

    def __repr__(self) -> str:
        return f"<rank {self.rank} in {self.describe()}>"


class Distributed:
    """The names of ``torch.distributed``, of one context."""

    def __init__(self, ctx: RuntimeContext) -> None:
        self._ctx = ctx
        self._rank_by_greenlet: dict[greenlet, int] = {}
        self._pending_collectives: list[_Joined] = []
        #: The ranks of the spawn that runs, or those that `init_process_group` named.
        self._world: int | None = None
        self._initialized: set[int] = set()
        #: The groups of :mod:`kernbench.tp.parallel_state`, by rank.
        self._parallel: dict[int, Any] = {}
        #: The number of collectives that have run.
        self._runs = 0

    def _bound(self) -> int | None:
        """The rank whose program runs; ``None`` outside of all."""
        place: greenlet | None = getcurrent()
        while place is not None:
            rank = self._rank_by_greenlet.get(place)
            if rank is not None:
                return rank
            place = place.parent
        return None

    def _place(self) -> int:
        """The SIP whose memory the program that runs uses."""
        return self._bound() or 0

    def _clear(self) -> None:
        self._pending_collectives.clear()
        self._rank_by_greenlet.clear()
        self._initialized.clear()
        self._parallel.clear()

    def init_process_group(self, backend: str | None = None, *_: Any, world_size: int = -1, rank: int = -1, **__: Any) -> None:
        """Makes the group of all ranks; every other argument is ignored."""
        own = self._bound()
        if own is not None and rank not in (-1, own):
            raise ValueError(f"init_process_group: rank is {rank}, and this is rank {own}")
        if world_size != -1:
            if self._world not in (None, world_size):
                raise ValueError(f"init_process_group: world_size is {world_size}, and there are {self._world} ranks")
            self._world = world_size
        if own is None and rank != -1:
            # A worker that a program drives by hand says which rank it is.
            self._rank_by_greenlet[getcurrent()] = rank
        self._initialized.add(self._place())

    def is_initialized(self) -> bool:
        """True after ``init_process_group``."""
        return self._place() in self._initialized

    def destroy_process_group(self, *_: Any) -> None:
        """Forgets the group of all ranks."""
        self._initialized.discard(self._place())

    def get_rank(self, group: Any = None) -> int:
        """The number of this rank, or its number in a group; 0 outside of all ranks."""
        rank = self._place()
        return rank if group is None else list(group).index(rank) if rank in group else -1

    def get_world_size(self, group: Any = None) -> int:
        """The number of ranks; outside of a spawn, that of the SIPs."""
        if group is not None:
            return len(list(group))
        if self._world is not None:
            return self._world
        return int(self._ctx.spec["system"]["sips"]["count"]) if "system" in self._ctx.spec else 1

    def all_reduce(self, tensor: Tensor, op: Any = "sum", group: Any = None) -> None:
        """Combines the tensors of all ranks, in place. Waits until every rank has joined and it is over."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"all_reduce: a tensor is needed, not {tensor!r}")
        name = str(getattr(op, "name", op)).lower().rsplit(".", 1)[-1]
        name = "prod" if name == "product" else name
        if name not in _OPS:
            raise ArgumentError(f"all_reduce: no reduction `{op}`: allowed are {', '.join(_OPS)}")
        bound = self._bound()
        members = tuple(group) if group is not None else tuple(range(1 if bound is None and self._world is None else self.get_world_size()))
        joined = _Joined(bound or 0, members, tensor, name)
        if joined.rank not in members:
            raise ArgumentError(f"all_reduce: rank {joined.rank} is not in the group of ranks {list(members)}")
        self._pending_collectives.append(joined)
        if is_main():
            self._run_ready()
            if not joined.done:
                self._pending_collectives.remove(joined)
                raise RuntimeError(f"all_reduce: the main program is rank {joined.rank} of {len(members)}, and nobody runs the others: use spawn")
        while not joined.done:
            step_aside()
        if joined.error is not None:
            raise joined.error

    def barrier(self, group: Any = None) -> None:
        """Waits until every rank has called this."""
        self.all_reduce(self._ctx.zeros((1,), dtype="i32", name="barrier"), group=group)

    def _run_ready(self) -> bool:
        """Runs the first collective that all its ranks have joined; false if there is none."""
        for first in list(self._pending_collectives):
            there: dict[int, _Joined] = {}
            for other in self._pending_collectives:
                if other.members == first.members:
                    there.setdefault(other.rank, other)
            if set(there) != set(first.members):
                continue
            parts = [there[rank] for rank in first.members]
            for part in parts:
                self._pending_collectives.remove(part)
            self._run(parts)
            return True
        return False

    def _run(self, parts: list[_Joined]) -> None:
        self._runs += 1
        error = _mismatch(parts)
        if error is None:
            try:
                self._perform(parts)
            except Exception as raised:
                error = raised
        for part in parts:
            part.done, part.error = True, error

    def _perform(self, parts: list[_Joined]) -> None:
        settings = config.load()
        module = config.module_of(settings)
        if module is None:
            handles = self._built_in(parts, settings)
        else:
            handles = self._in_python(parts, settings, module)
        for handle in handles:
            self._ctx._drive(handle)
        for handle in handles:
            if handle.error is not None:
                raise handle.error

    def _in_python(self, parts: list[_Joined], settings: dict[str, Any], module: Any) -> list[Any]:
        env, count = self._ctx.engine.env, len(parts)
        queues = [
            Ipcq(
                env, settings["n_slots"], settings["slot_size"], settings["vc_chunk_size"],
                credit_size=settings["ipcq_credit_size_bytes"], buffer_kind=settings["buffer_kind"],
                wire=(part.rank, parts[(number + 1) % count].rank),
            )
            for number, part in enumerate(parts)
        ]
        handles = []
        for number, part in enumerate(parts):
            args = (number, count, part.tensor, queues[number], queues[number - 1], part.op)
            handles.append(self._ctx._launch(module.kernel, args, 1, part.rank))
        return handles

    def _built_in(self, parts: list[_Joined], settings: dict[str, Any]) -> list[Any]:
        engine = self._ctx.engine
        groups = self._groups(parts[0].members, settings)
        handles = []
        for part, group in zip(parts, groups, strict=True):
            rank = engine._rank(part.rank)
            work = rank.all_reduce(part.tensor._core, part.op, group)
            end = engine.env.request(rank, work.wait(), f"the all_reduce of rank {part.rank}")
            handles.append(engine.submit("AllReduce", end, rank=part.rank, what=part.describe()))
        return handles

    def _groups(self, members: tuple[int, ...], settings: dict[str, Any]) -> list[Any]:
        """Phalanx's groups of these ranks, one of each rank."""
        engine = self._ctx.engine
        engine._use_ccl(settings)
        if () not in engine._groups:
            engine._groups[()] = [rank.init_process_group() for rank in engine._ranks]
        if members not in engine._groups:
            made = [rank.new_group(list(members)) for rank in engine._ranks]
            engine._groups[members] = [made[member] for member in members]
        return engine._groups[members]


def _mismatch(parts: list[_Joined]) -> BaseException | None:
    """The error of ranks that are in different collectives."""
    first = parts[0]
    for other in parts[1:]:
        if other.describe() != first.describe():
            return MismatchError(f"rank {first.rank} is in {first.describe()}, and rank {other.rank} is in {other.describe()}")
    return None
