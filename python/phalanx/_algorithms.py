"""Algorithms of collectives that are written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _core
from ._context import algorithms as _registered
from ._fibers import begin, finish
from ._kernel import Queue, Tile, Tl, View
from .errors import ArgumentError

__all__ = ["Part", "register_algorithm", "registered_algorithms", "unregister_algorithm"]

_COMBINE = {"sum": "add", "avg": "add", "prod": "mul", "min": "minimum", "max": "maximum"}


class Part:
    """One rank's part in a collective: its vectors, and its queues to the other ranks. Elements are named by a ``range``."""

    __slots__ = ("_core", "_tl", "dtype", "input_length", "op", "operation", "output_length", "rank", "ranks", "root")

    def __init__(self, core: _core.Part, tl: Tl) -> None:
        self._core, self._tl = core, tl
        #: The collective: ``"all_reduce"``, ...
        self.operation = core.operation
        #: The operation that combines numbers: ``"sum"``, ...
        self.op = core.op
        #: The number of this rank in the group, the number of ranks, and the root of operations that have one.
        self.rank, self.ranks, self.root = core.rank, core.ranks, core.root
        #: The name of the elements' type.
        self.dtype = core.dtype
        self.input_length, self.output_length = core.lengths

    def segment(self, length: int, index: int) -> range:
        """Segment ``index``, modulo the ranks, of a vector that is cut into one segment per rank."""
        return range(*self._core.segment(length, index % self.ranks))

    def chunks(self, elements: range) -> list[range]:
        """The elements in pieces that fit a slot each."""
        return [range(start, stop) for start, stop in self._core.chunks(elements.start, elements.stop)]

    def to(self, rank: int, receivers: int = 1) -> Queue:
        """Opens a queue to another rank. ``receivers``, the same on all ranks, is the number of queues that a rank receives from."""
        return self._core.to(self._tl, rank % self.ranks, receivers)

    def source(self, rank: int, receivers: int = 1) -> Queue:
        """Opens a queue from another rank."""
        return self._core.source(self._tl, rank % self.ranks, receivers)

    def send(self, queue: Queue, tile: Tile) -> None:
        """Sends a tile without waiting; it leaves when a slot is free."""
        self._tl.send_async(queue, tile)

    def recv(self, queue: Queue, length: int) -> Tile:
        """Receives so many elements. They occupy their slot until the tile is gone."""
        tile: Tile = self._tl.recv(queue, length, self.dtype)
        return tile

    def load(self, elements: range) -> Tile:
        """Loads elements of the input."""
        tile: Tile = self._tl.load(self.input(elements))
        return tile

    def reload(self, elements: range) -> Tile:
        """Loads elements of the output."""
        tile: Tile = self._tl.load(self._core.output(self._tl, (elements.start, elements.stop)))
        return tile

    def store(self, elements: range, tile: Tile) -> None:
        """Stores elements of the output, in each of its copies, without waiting."""
        for view in self._core.outputs((elements.start, elements.stop)):
            self._tl.store_async(view, tile)

    def input(self, elements: range) -> View:
        """Elements of the input, for the methods of ``tl``."""
        return self._core.input((elements.start, elements.stop))

    def combine(self, one: Tile, other: Tile) -> Tile:
        """Combines two tiles, ``one`` as the first operand."""
        tile: Tile = getattr(self._tl, _COMBINE[self.op])(one, other)
        return tile

    def finish(self, tile: Tile) -> Tile:
        """Finishes a combined tile: divides an average by the number of ranks."""
        if self.op != "avg":
            return tile
        ranks = self._tl.full([1] * len(tile.shape), self.ranks, self.dtype)
        divided: Tile = self._tl.div(tile, ranks)
        return divided

    def copy(self) -> None:
        """Copies the input to the output, unless they are the same memory: the part of a rank without peers."""
        if not self._core.is_in_place:
            for chunk in self.chunks(range(self.input_length)):
                self.store(chunk, self.load(chunk))


def register_algorithm(
    kernel: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    operations: Sequence[str] = ("all_reduce",),
    channels: int | str = 1,
    fits: Callable[[_core.MachineSpec, list[int]], str | None] | None = None,
) -> Any:
    """Adds an algorithm of collectives: contexts that are made afterwards have it beside the built-in ones.

    ``kernel(tl, part)`` runs one rank's :class:`Part` in one of ``operations``. ``ccl.yaml``, and the ``ccl`` of a context, choose it by its
    name, and ``auto`` tries it. ``channels`` is the number of PEs that share the vector, or ``"all"``. ``fits(machine, members)`` returns why it
    cannot run there, or ``None``. Also a decorator; of two with one name, the last counts.

    >>> import phalanx, phalanx.distributed as dist
    >>> @dist.register_algorithm(operations=["broadcast"])
    ... def line(tl, part):
    ...     behind = part.source(part.rank - 1) if part.rank != part.root else None
    ...     ahead = part.to(part.rank + 1) if (part.rank + 1) % part.ranks != part.root else None
    ...     for chunk in part.chunks(range(part.output_length)):
    ...         tile = part.load(chunk) if behind is None else part.recv(behind, len(chunk))
    ...         if ahead is not None:
    ...             part.send(ahead, tile)
    ...         if behind is not None:
    ...             part.store(chunk, tile)
    >>> def worker(rank):
    ...     dist.init_process_group()
    ...     x = phalanx.full(100, rank)
    ...     dist.broadcast(x, src=2)
    ...     return float(x.numpy().sum())
    >>> phalanx.Context("quad-sip", ccl={"defaults": {"algorithm": "line"}}).spawn(worker)
    [200.0, 200.0, 200.0, 200.0]
    >>> dist.unregister_algorithm("line")
    """
    if kernel is None:
        return lambda given: register_algorithm(given, name=name, operations=operations, channels=channels, fits=fits)
    own: str = name or str(getattr(kernel, "__name__", "algorithm"))
    if not own.replace("_", "").isalnum():
        raise ArgumentError(f"an algorithm called `{own}`: a name has letters, digits and underscores")

    def begin_part(core: _core.Part) -> Callable[..., Any]:
        return lambda tl, _: lambda: begin(lambda: finish(kernel(tl, Part(core, tl))))

    _registered[own] = _core.Algorithm(own, list(operations), str(channels), fits, begin_part)
    return kernel


def unregister_algorithm(name: str) -> None:
    """Forgets an algorithm: contexts that are made afterwards do not have it."""
    if _registered.pop(name, None) is None:
        known = ", ".join(_registered) or "none"
        raise ArgumentError(f"no algorithm `{name}` was registered: there are {known}")


def registered_algorithms() -> list[str]:
    """The names of the algorithms of the program."""
    return list(_registered)
