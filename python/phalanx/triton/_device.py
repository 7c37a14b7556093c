"""The device that Triton sees: a SIP of a simulated machine, its clock, and the launches that it ran."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core
from .._context import Context, current_context, current_rank
from .._fibers import Fiber, getcurrent, wait
from .._machines import MachineSpec, machine as read_machine
from .._tensor import Tensor
from ..errors import ArgumentError, KernelError, NoDataError
from ._memory import DEVICE_TYPES, Span, deaths, placed, remembers, spans_of_tables
from ._results import Results

if TYPE_CHECKING:
    from os import PathLike

    import numpy.typing as npt

__all__ = ["Device", "Launch", "Loaded", "current", "use"]

#: The machine that kernels run on if nothing else is said.
DEFAULT_MACHINE = "hgx-h100"
#: Turns of `while` that a program of a kernel may take.
DEFAULT_STEP_LIMIT = 10_000_000


class Launch(NamedTuple):
    """A launch that is over: what ran, and how long in simulated time."""

    kernel: str
    grid: tuple[int, int, int]
    simulated_ps: int
    num_warps: int
    num_stages: int


class Loaded(threading.local):
    """A kernel that was read. What Rust holds belongs to a thread, so each reads its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.own = _Kernel(text)


class _Kernel:
    """A kernel that a thread read, and what its arguments are."""

    __slots__ = ("__weakref__", "core", "from_memory", "last", "name", "numbers", "plan", "pointers", "text", "written")

    def __init__(self, text: str) -> None:
        self.text = text
        self.core = _core.TritonKernel(text)
        self.name = self.core.name
        self.from_memory = self.core.uses_pointers_from_memory
        #: The kind of each argument: the element type of a pointer or of a descriptor (`tensordesc<fp16[32,64]>`),
        #: nothing of a number; and true if the kernel writes there.
        self.plan = [(*_pointed(kind), written) for kind, written in zip(self.core.arguments, self.core.written, strict=True)]
        #: The places of numbers, of pointers, and of pointers that the kernel writes through.
        self.numbers = [place for place, (element, _, _) in enumerate(self.plan) if element is None]
        self.pointers = [place for place, (element, _, _) in enumerate(self.plan) if element is not None]
        self.written = [place for place, (element, _, written) in enumerate(self.plan) if element is not None and written]
        #: The arguments of the last launch, if they were arrays of numpy that can be recognised: their identities, the deaths of arrays before it, and
        #: what was made of them.
        self.last: tuple[list[int], int, _Bound] | None = None

    def bind(self, arguments: Sequence[Any], data: bool) -> _Bound:
        """Turns arguments into what Rust takes."""
        last = self.last
        if last is not None and last[1] == _deaths[0] and last[0] == [id(arguments[place]) for place in self.pointers]:
            for place in self.written:
                if not arguments[place].flags.writeable:
                    break
            else:
                bound = last[2]
                for place in self.numbers:
                    bound.arguments[place] = arguments[place]
                return bound
        bound = _bind(self, arguments, data)
        pointers = [arguments[place] for place in self.pointers]
        known = not self.from_memory and remembers(pointers)
        self.last = ([id(pointer) for pointer in pointers], _deaths[0], bound) if known else None
        return bound


_deaths = deaths()


def _pointed(kind: str) -> tuple[str | None, bool]:
    if kind[0] == "*":
        return kind[1:], False
    return (kind[kind.index("<") + 1 : kind.index("[")], True) if kind[0] == "t" else (None, False)


class _Bound:
    """Arguments of one launch: what Rust takes, and the memories behind it."""

    __slots__ = ("_tables", "arguments", "places", "spans")

    def __init__(self) -> None:
        self.arguments: list[Any] = []
        self._tables: list[Span] = []
        #: Each memory of the host, and whether it is written.
        self.spans: list[tuple[_core.HostMemory, bool]] = []
        #: The number among them of the memory at an address.
        self.places: dict[int, int] = {}

    def memory(self, span: Span, kind: str, written: bool) -> int:
        """The number of a memory of the host."""
        if written and not span.writable:
            raise ArgumentError("a kernel writes to an array that is read-only")
        place = self.places.get(span.address)
        if place is None:
            self.places[span.address] = place = len(self.spans)
            self.spans.append((span.held(kind), written))
            if kind == "i64":
                self._tables.append(span)
            return place
        memory, was_written = self.spans[place]
        known, name = memory.dtype, DEVICE_TYPES[kind][0]
        if known != name:
            raise ArgumentError(f"one memory is an argument of two types, {known} and {name}: give the kernel one of them")
        if written and not was_written:
            self.spans[place] = (span.held(kind), True)
        return place

    def tables(self) -> list[npt.NDArray[Any]]:
        """The memories of numbers that may be addresses."""
        return [span.elements("uint8", 8) for span in self._tables]

    def key(self) -> tuple[Any, ...]:
        """The key of a launch's time: all numbers, the sizes of the memories, and the positions of the pointers in them."""
        sizes = tuple((memory.nbytes, memory.dtype) for memory, _ in self.spans)
        return sizes, tuple(_frozen(argument) for argument in self.arguments)


def _frozen(argument: Any) -> Any:
    return tuple(tuple(part) if type(part) is list else part for part in argument) if type(argument) is tuple else argument


class Device:
    """A SIP of a machine for kernels of Triton. :func:`use` makes one."""

    def __init__(self, machine: MachineSpec, step_limit: int, data: bool, **settings: Any) -> None:
        self.machine = machine
        self.data = data
        self.step_limit = step_limit
        #: The latest launches, as :class:`Launch` has them.
        self._launches: deque[tuple[Any, ...]] = deque(maxlen=4096)
        #: Simulated picoseconds of all launches so far, which events read.
        self.clock_ps = 0
        self._settings = settings
        self._contexts: dict[bool, Context] = {}
        #: Simulated picoseconds of launches that were only timed; those of kernels that look at numbers hold for one benchmark.
        self._times: dict[Any, int] = {}
        self._times_now: dict[Any, int] = {}
        #: The kernels that cannot be timed without numbers.
        self._need_data: weakref.WeakSet[_Kernel] = weakref.WeakSet()
        #: True while a launch is only timed.
        self.benchmarking = False
        self._sightings = 0
        self.estimating = False
        #: The results of torch's functions in the benchmark that is going on, and that benchmark.
        self._results = Results()
        self._benchmark: int | None = None
        #: The launches with numbers so far.
        self.runs = 0

    @property
    def launches(self) -> list[Launch]:
        """The latest launches, oldest first."""
        return [Launch(*launch) for launch in self._launches]

    @property
    def context(self) -> Context:
        """The context that kernels outside of ranks run in."""
        return self._context(self.data)

    def _context(self, data: bool) -> Context:
        if data not in self._contexts:
            settings = self._settings
            if data != self.data:
                # It only times launches: nobody asks for its report.
                settings = {**settings, "record": False, "critical_path": False}
            self._contexts[data] = Context(self.machine, data=data, **settings)
        return self._contexts[data]

    def begin_benchmark(self) -> None:
        """`do_bench` has run its function once, and will only look at the time now."""
        self._in_benchmark(sys._getframe(1))
        self._sightings = 2
        self.estimating = True

    def synchronize(self) -> None:
        """Launches are over when they return; `do_bench` ends with its second call."""
        if self._sightings:
            self._sightings -= 1
            if self._sightings == 0:
                self._forget(None)

    def results(self) -> Results | None:
        """The results of torch's functions in the benchmark that calls; ``None`` outside of one."""
        if not self._in_benchmark(sys._getframe(1)):
            return None
        self._results.runs = self.runs
        return self._results

    def _in_benchmark(self, frame: FrameType | None) -> bool:
        """True if a benchmark of Triton calls. What was kept for another one, which failed, is forgotten."""
        caller = _do_bench_above(frame)
        if caller is not None and id(caller) != self._benchmark:
            self._forget(id(caller))
        return caller is not None

    def _forget(self, benchmark: int | None) -> None:
        """Forgets what was kept for a benchmark; another one begins, or none."""
        self._benchmark = benchmark
        self._results.clear()
        self._times_now.clear()

    def _only_times(self) -> bool:
        return self.benchmarking or (self._sightings > 0 and self._in_benchmark(sys._getframe(1)))

    def launch(
        self, kernel: Loaded, grid: tuple[int, int, int], arguments: Sequence[Any], num_warps: int, num_stages: int
    ) -> None:
        """Runs a kernel to its end; memories of the host that it wrote are up to date then."""
        shape = (grid, num_stages, self.step_limit)
        fiber = getcurrent()
        if (type(fiber) is Fiber and fiber.rank is not None) or current_context() is not None:
            self._run_in_rank(kernel, arguments, shape)
            return
        own: _Kernel = kernel.own
        bound = own.bind(arguments, self.data)
        key = None
        if (self.benchmarking or self._sightings) and self._only_times():
            # Configurations that differ in warps alone are one kernel here.
            key = (own.text, shape, *bound.key())
            took = self._time(own, bound, key)
            if took is not None:
                self.clock_ps += took
                return
        context = self._contexts.get(self.data) or self.context
        took = context._core.run_triton(context._main_ranks(None)[0], own.core, bound.arguments, bound.spans, shape)
        self.runs += 1
        if key is None and own in self._need_data and self._in_benchmark(sys._getframe(1)):
            # The first call of a benchmark: the others will ask for its time.
            key = (own.text, shape, *bound.key())
        if key is not None and self._benchmark is not None:
            self._times_now[key] = took
        self.clock_ps += took
        self._launches.append((own.name, grid, took, num_warps, num_stages))

    def _run_in_rank(self, kernel: Loaded, arguments: Sequence[Any], shape: tuple[tuple[int, int, int], int, int]) -> None:
        """Runs a kernel on the SIP of the rank that launches it."""
        rank = current_rank()
        data = rank.has_data()
        own: _Kernel = kernel.own
        bound = own.bind(arguments, data)
        begun = rank.now()
        with_range = rank.range(own.name)
        try:
            work = rank.launch_triton(own.core, bound.arguments, bound.spans, shape)
            wait(work.wait())
        finally:
            with_range.close()
        self.clock_ps += rank.now() - begun
        self.runs += 1
        if data:
            work.copy_back()

    def _time(self, kernel: _Kernel, bound: _Bound, key: Any) -> int | None:
        """The duration of a launch, without numbers; ``None`` if it needs some. The same launch takes the same time."""
        took = self._times.get(key) or self._times_now.get(key)
        if took is None and kernel not in self._need_data:
            context = self._context(False)
            try:
                rank = context._main_ranks(None)[0]
                took = context._core.run_triton(rank, kernel.core, bound.arguments, bound.spans, key[1], not self.data)
            except (NoDataError, KernelError):
                # The kernel looks at numbers, or fails: the launch with numbers tells.
                if not self.data:
                    raise
                self._need_data.add(kernel)
                return None
            self._times[key] = took
        return took


def _bind(kernel: _Kernel, arguments: Sequence[Any], data: bool) -> _Bound:
    """Turns arguments into what Rust takes."""
    bound = _Bound()
    made = bound.arguments
    for argument, (element, is_descriptor, written) in zip(arguments, kernel.plan, strict=True):
        if element is None:
            made.append(argument)
        elif is_descriptor:
            tensor = _pointer(bound, argument.base, element, written)
            made.append((*tensor, list(argument.shape), list(argument.strides), argument.padding == "nan"))
        else:
            made.append(_pointer(bound, argument, element, written))
    if kernel.from_memory and data:
        for span in spans_of_tables(bound.tables()).values():
            if span.address not in bound.places:
                bound.memory(span, span.kind, span.writable)
    return bound


def _pointer(bound: _Bound, argument: Any, kind: str, written: bool) -> Any:
    if type(argument) is Tensor:
        core = argument._core
        return core, core.storage_offset * argument.dtype.itemsize
    span, address = placed(argument)
    if span.size == 0:
        return None
    return bound.memory(span, kind, written), address - span.address


def _do_bench_above(frame: FrameType | None) -> FrameType | None:
    """The benchmark of Triton that calls, if one does."""
    testing = sys.modules.get("triton.testing")
    code = getattr(getattr(testing, "do_bench", None), "__code__", None)
    while frame is not None and code is not None:
        if frame.f_code is code:
            return frame
        frame = frame.f_back
    return None


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
