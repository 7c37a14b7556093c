"""The device that Triton sees: a SIP of a simulated machine, its clock, and the launches that it ran."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import _core
from .._context import Context, current_context, current_rank
from .._fibers import Fiber, getcurrent, wait
from .._machines import MachineSpec, machine as read_machine
from .._tensor import Tensor
from ..errors import ArgumentError, KernelError, NoDataError
from ._memory import DEVICE_TYPES, Span, address_of, spans_of_tables

if TYPE_CHECKING:
    from os import PathLike

    import numpy.typing as npt

__all__ = ["Device", "Launch", "Loaded", "current", "use"]

#: The machine that kernels run on if nothing else is said.
DEFAULT_MACHINE = "hgx-h100"
#: Turns of `while` that a program of a kernel may take.
DEFAULT_STEP_LIMIT = 10_000_000


@dataclass(frozen=True)
class Launch:
    """A launch that is over: what ran, and how long in simulated time."""

    kernel: str
    grid: tuple[int, int, int]
    simulated_ps: int
    num_warps: int
    num_stages: int


class Loaded(threading.local):
    """A kernel that was read, and what its arguments are. What Rust holds belongs to a thread, so each reads its own."""

    def __init__(self, text: str) -> None:
        self.core = _core.TritonKernel(text)
        self.name = self.core.name
        self.written = self.core.written
        self.from_memory = self.core.uses_pointers_from_memory
        self.kinds = self.core.arguments


class _Bound:
    """Arguments of one launch: what Rust takes, and the memories behind it."""

    __slots__ = ("arguments", "back", "data", "mapped", "rank", "spans")

    def __init__(self, rank: _core.Rank, data: bool) -> None:
        self.rank, self.data = rank, data
        self.arguments: list[Any] = []
        self.mapped: list[tuple[int, _core.Tensor]] = []
        #: Tensor, array of the host and element type by the address of the memory.
        self.spans: dict[int, tuple[_core.Tensor, npt.NDArray[Any], str]] = {}
        #: The memories that are copied back.
        self.back: dict[int, Span] = {}

    def tensor(self, span: Span, kind: str, written: bool) -> _core.Tensor:
        """The tensor for a memory of the host."""
        if written:
            if not span.writable:
                raise ArgumentError("a kernel writes to an array that is read-only")
            self.back[span.address] = span
        found = self.spans.get(span.address)
        if found is not None:
            if found[2] != kind:
                raise ArgumentError(f"one memory is an argument of two types, {found[2]} and {kind}: give the kernel one of them")
            return found[0]
        name, array_kind, itemsize = DEVICE_TYPES[kind]
        array = span.elements(array_kind, itemsize)
        tensor = self.rank.resident(array, name) if self.data else self.rank.empty([span.size // itemsize], name)
        self.spans[span.address] = (tensor, array, kind)
        self.mapped.append((span.address, tensor))
        return tensor

    def copy_back(self) -> None:
        """The memories that the kernel may have written, as it left them."""
        for address in self.back:
            tensor, array, _ = self.spans[address]
            tensor.peek().copy_to(array)


class Device:
    """A SIP of a machine for kernels of Triton. :func:`use` makes one."""

    def __init__(self, machine: MachineSpec, step_limit: int, data: bool, **settings: Any) -> None:
        self.machine = machine
        self.data = data
        self.step_limit = step_limit
        self.launches: deque[Launch] = deque(maxlen=4096)
        #: Simulated picoseconds of all launches so far, which events read.
        self.clock_ps = 0
        self._settings = settings
        self._contexts: dict[bool, Context] = {}
        self._times: dict[Any, int] = {}
        #: True while a launch is only timed.
        self.benchmarking = False
        self._sightings = 0
        self.estimating = False

    @property
    def context(self) -> Context:
        """The context that kernels outside of ranks run in."""
        return self._context(self.data)

    def _context(self, data: bool) -> Context:
        if data not in self._contexts:
            self._contexts[data] = Context(self.machine, data=data, **self._settings)
        return self._contexts[data]

    def begin_benchmark(self) -> None:
        """`do_bench` has run its function once, and will only look at the time now."""
        self._sightings = 2
        self.estimating = True

    def synchronize(self) -> None:
        """Launches are over when they return; `do_bench` ends with its second call."""
        if self._sightings:
            self._sightings -= 1

    def _only_times(self) -> bool:
        return self.benchmarking or (self._sightings > 0 and _in_do_bench(sys._getframe(1)))

    def launch(
        self, kernel: Loaded, grid: tuple[int, int, int], arguments: Sequence[Any], num_warps: int, num_stages: int
    ) -> None:
        """Runs a kernel to its end; memories of the host that it wrote are up to date then."""
        fiber = getcurrent()
        inside = (type(fiber) is Fiber and fiber.rank is not None) or current_context() is not None
        if inside:
            rank = current_rank()
            self._run(kernel, grid, arguments, num_warps, num_stages, _Bound(rank, rank.has_data()), None)
            return
        if self._only_times() and self._time(kernel, grid, arguments, num_warps, num_stages):
            return
        context = self.context
        rank = context._main_ranks(None)[0]
        took = self._run(kernel, grid, arguments, num_warps, num_stages, _Bound(rank, self.data), context)
        self.launches.append(Launch(kernel.name, grid, took, num_warps, num_stages))

    def _time(self, kernel: Loaded, grid: tuple[int, int, int], arguments: Sequence[Any], num_warps: int, num_stages: int) -> bool:
        """Runs a kernel without numbers; false if it needs some. The same launch takes the same time."""
        context = self._context(False)
        bound = _Bound(context._main_ranks(None)[0], False)
        self._bind(kernel, arguments, bound)
        key = (
            id(kernel), grid, num_warps, num_stages,
            tuple((address, len(bound.spans[address][1])) for address in bound.spans),
            tuple(argument for argument in bound.arguments if type(argument) is not tuple),
        )  # fmt: skip
        if key not in self._times:
            try:
                self._times[key] = self._run(kernel, grid, arguments, num_warps, num_stages, bound, context, bind=False)
            except (NoDataError, KernelError):
                # The kernel looks at numbers, or fails: the launch with numbers tells.
                if not self.data:
                    raise
                return False
            return True
        self.clock_ps += self._times[key]
        return True

    def _run(
        self, kernel: Loaded, grid: tuple[int, int, int], arguments: Sequence[Any], num_warps: int, num_stages: int,
        bound: _Bound, context: Context | None, bind: bool = True,
    ) -> int:  # fmt: skip
        if bind:
            self._bind(kernel, arguments, bound)
        rank = bound.rank
        begun = rank.now()
        with_range = rank.range(kernel.name)
        try:
            work = rank.launch_triton(kernel.core, grid, bound.arguments, num_stages, num_warps, bound.mapped, self.step_limit)
            pending = work.wait()
            if context is None:
                wait(pending)
            elif type(pending) is _core.Pending:
                context._core.drive(rank, pending)
                pending.result()
        finally:
            with_range.close()
        took = rank.now() - begun
        self.clock_ps += took
        if bound.data:
            bound.copy_back()
        return took

    def _bind(self, kernel: Loaded, arguments: Sequence[Any], bound: _Bound) -> None:
        """Turns arguments into what Rust takes."""
        made = bound.arguments
        for argument, kind, written in zip(arguments, kernel.kinds, kernel.written, strict=True):
            if kind[0] == "*":
                made.append(_pointer(bound, argument, kind, written))
            elif kind[0] == "t":
                made.append(_descriptor(bound, argument, kind, written))
            else:
                made.append(argument)
        if kernel.from_memory and bound.data:
            tables = [array for _, array, kind in bound.spans.values() if kind == "i64"]
            for span in spans_of_tables(tables).values():
                if span.address not in bound.spans:
                    bound.tensor(span, span.kind, span.writable)


def _pointer(bound: _Bound, argument: Any, kind: str, written: bool) -> Any:
    if type(argument) is Tensor:
        core = argument._core
        return core, core.storage_offset * argument.dtype.itemsize
    span = Span.of(argument)
    if span.size == 0:
        return None
    return bound.tensor(span, kind[1:], written), address_of(argument) - span.address


def _descriptor(bound: _Bound, argument: Any, kind: str, written: bool) -> Any:
    # `tensordesc<fp16[32,64]>`
    element = kind[kind.index("<") + 1 : kind.index("[")]
    tensor = _pointer(bound, argument.base, f"*{element}", written)
    return (*tensor, list(argument.shape), list(argument.strides), argument.padding == "nan")


def _in_do_bench(frame: FrameType | None) -> bool:
    """True if a benchmark of Triton calls."""
    testing = sys.modules.get("triton.testing")
    code = getattr(getattr(testing, "do_bench", None), "__code__", None)
    while frame is not None and code is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


class _Here(threading.local):
    """Contexts belong to a thread, so devices do."""

    device: Device | None = None
    version = -1


_here = _Here()
_settings: dict[str, Any] | None = None
_version = 0


def current() -> Device:
    """The device of this thread."""
    if _here.device is None or _here.version != _version:
        if _settings is None:
            return use()
        _here.device, _here.version = Device(**_settings), _version
    return _here.device


def use(
    machine: str | PathLike[str] | MachineSpec | None = None,
    /,
    *,
    data: bool | None = None,
    strict: bool = False,
    record: bool = False,
    threads: int | None = None,
    step_limit: int | None = None,
    **changes: Any,
) -> Device:
    """Chooses the machine for kernels of Triton from here on; ``changes`` as :func:`phalanx.machine` takes them.

    ``data=False`` simulates times without numbers; ``strict=True`` makes reading unwritten memory of the SIP an error; ``record=True`` keeps
    every operation, so that reports can be cut to a kernel; ``step_limit`` is the number of turns that the loops of one program may take. If not given, the environment says:
    ``PHALANX_MACHINE`` (``hgx-h100``), ``PHALANX_DATA`` (``on``) and ``PHALANX_STEP_LIMIT``.
    """
    global _settings, _version
    if data is None:
        data = _switch("PHALANX_DATA")
    if step_limit is None:
        step_limit = _number("PHALANX_STEP_LIMIT", DEFAULT_STEP_LIMIT)
    name = os.environ.get("PHALANX_MACHINE", DEFAULT_MACHINE) if machine is None else machine
    kept = {"strict": strict, "record": record, "threads": threads}
    _settings = {"machine": read_machine(name, **changes), "data": data, "step_limit": step_limit, **kept}
    _version += 1
    _here.device, _here.version = Device(**_settings), _version
    return _here.device


def _switch(name: str) -> bool:
    text = os.environ.get(name, "on")
    if text not in ("on", "off"):
        raise ArgumentError(f"{name} is `{text}`: allowed are `on` and `off`")
    return text == "on"


def _number(name: str, default: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    if not text.isdigit() or int(text) == 0:
        raise ArgumentError(f"{name} is `{text}`: allowed is a whole number above 0")
    return int(text)
