"""Graphs: calls, the orchestrator that takes them, and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import _core
from ._dtypes import name_of
from ._errors import WorkerError
from ._functions import Known

__all__ = ["ANY", "Call", "Finished", "Orchestrator", "RunHandle", "pack", "unpack"]

_SUB = -1
#: As a target: any chip or worker of the next level that is free.
ANY = -2


def pack(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[_core.SharedArgument], bytes | None]:
    """Separates tensors from values; the values, and where the tensors go, as bytes."""
    tensors: list[_core.SharedArgument] = []
    places: list[int] = []
    values: list[Any] = []
    for index, value in enumerate([*args, *kwargs.values()] if kwargs else args):
        if type(value) is _core.SharedArgument:
            places.append(index)
            tensors.append(value)
        elif type(value) is _core.SharedTensor:
            raise WorkerError(f"say what the task does with argument {index}: `.input()`, `.output()` or `.in_out()` of the tensor")
        else:
            values.append(value)
    if not values and not kwargs:
        return tensors, None
    import pickle

    return tensors, pickle.dumps((places, values, tuple(kwargs)), 5)


def unpack(blob: bytes, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Puts tensors and values together again."""
    import pickle

    places, values, keys = pickle.loads(blob)
    everything = list(values)
    for place, tensor in zip(places, tensors):
        everything.insert(place, tensor)
    if not keys:
        return everything, {}
    first = len(everything) - len(keys)
    return everything[:first], dict(zip(keys, everything[first:]))


class Call:
    """A call of a function, with its order and its manners; methods return the call itself.

    >>> from phalanx.runtime import Call
    >>> Call("numpy:add", 1, 2).named("sum 3").idempotent()
    Call(numpy:add, named 'sum 3')
    """

    __slots__ = ("_args", "_function", "_kwargs", "_manners")

    def __init__(self, function: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._manners: dict[str, Any] = {
            "after": [], "domains": [], "priority": 0, "name": None, "expected": None, "unordered": False, "idempotent": False,
        }

    def after(self, *tasks: _core.SubmittedTask) -> Call:
        """Makes the task wait for the end of these tasks."""
        self._manners["after"].extend(tasks)
        return self

    def domain(self, domain: _core.RuntimeDomain) -> Call:
        """Makes the task a rank of this domain: the rank of the chip that runs it."""
        self._manners["domains"].append(domain)
        return self

    def named(self, name: str) -> Call:
        """Gives the task a name, which errors and timelines show beside that of its function."""
        self._manners["name"] = name
        return self

    def priority(self, priority: int) -> Call:
        """Lets the task start ahead of ready tasks with a lower priority, 0 to 255."""
        self._manners["priority"] = priority
        return self

    def expected(self, seconds: float) -> Call:
        """Sets the expected length of the task; it is not reported as stuck before that."""
        self._manners["expected"] = seconds
        return self

    def unordered(self) -> Call:
        """Leaves out inferred dependencies: the task waits only for :meth:`after`."""
        self._manners["unordered"] = True
        return self

    def idempotent(self) -> Call:
        """Lets the task run again from the beginning if its process is lost (``Worker(restart=True)``)."""
        self._manners["idempotent"] = True
        return self

    def __repr__(self) -> str:
        function = self._function
        name = function if isinstance(function, str) else getattr(function, "__qualname__", repr(function))
        named = self._manners["name"]
        return f"Call({name}, named {named!r})" if named else f"Call({name})"

    def _lower(self, known: Known) -> _core.RuntimeCall:
        tensors, blob = pack(self._args, self._kwargs)
        return _core.RuntimeCall(known[self._function], tensors, blob, self._manners)


class Finished(NamedTuple):
    """The end of a run: counts of tasks, durations in nanoseconds, simulated time in picoseconds."""

    #: Tasks that were submitted.
    tasks: int
    #: Tasks that ended well.
    completed: int
    #: The sum of the lengths of all tasks.
    work_ns: int
    #: The longest chain of tasks.
    critical_ns: int
    #: Pairs of accesses that were left unordered on request.
    unordered: int
    #: The sum of the simulated times of all tasks.
    simulated_ps: int


class RunHandle:
    """A run that was submitted; it goes on also if nobody waits for it."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.RuntimeRun) -> None:
        self._core = core

    def wait(self, timeout: float | None = None) -> Finished:
        """Waits until it is over; raises :class:`RunError` if it failed. After ``timeout`` seconds :class:`WaitTimeoutError`."""
        return Finished(*self._core.wait(timeout))

    @property
    def done(self) -> bool:
        """True if :meth:`wait` would return at once."""
        return self._core.done

    def cancel(self) -> None:
        """Tasks that have not begun never begin; tasks that have begun run to their end."""
        self._core.cancel()


class Orchestrator:
    """Builds the graph of one run: the argument of a graph's code.

    A task is a :class:`Call`, or a function and its arguments. Tensors say what the task does with them (``x.input()``,
    ``x.output()``, ``x.in_out()``); other values are pickled, a mebibyte at most.
    """

    __slots__ = ("_core", "_known")

    def __init__(self, core: _core.RuntimeGraph, known: Known) -> None:
        self._core = core
        self._known = known

    @property
    def chips(self) -> int:
        """The number of workers of the next level."""
        return self._core.chips

    def submit_sub(self, call: Call | Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> _core.SubmittedTask:
        """Sends a task to any sub worker."""
        return self._submit(_SUB, call, args, kwargs)

    def submit_next_level(
        self, target: int, call: Call | Callable[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> _core.SubmittedTask:
        """Sends a task to the chip or worker with this number, or to :data:`ANY` that is free."""
        if target < 0 and target != ANY:
            raise WorkerError(f"there is no chip {target}: this worker has {self.chips}, counted from 0")
        return self._submit(target, call, args, kwargs)

    def _submit(self, target: int, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _core.SubmittedTask:
        if type(call) is Call:
            if args or kwargs:
                raise WorkerError("the arguments of a task are given to its `Call`")
            return self._core.submit_call(target, call._lower(self._known))
        function = self._known[call]
        if not args and not kwargs:
            return self._core.submit(target, function, args)
        tensors, blob = pack(args, kwargs)
        return self._core.submit(target, function, tensors, blob)

    def submit_sub_group(self, calls: Iterable[Call]) -> _core.SubmittedTask:
        """Starts each call on another sub worker, all at once; the group ends when all have ended."""
        return self._core.submit_group(None, [call._lower(self._known) for call in calls])

    def submit_next_level_group(self, calls: Iterable[tuple[int, Call]]) -> _core.SubmittedTask:
        """Starts one call on each of these chips, all at once; the group ends when all have ended."""
        pairs = list(calls)
        return self._core.submit_group([chip for chip, _ in pairs], [call._lower(self._known) for _, call in pairs])

    def alloc(self, shape: int | Sequence[int], dtype: Any = "f32") -> _core.SharedTensor:
        """Allocates a tensor that goes when its scope is closed and nobody names it."""
        return self._core.alloc(name_of(dtype), shape_of(shape))

    @contextmanager
    def scope(self, label: str = "scope", *, manual: bool = False) -> Iterator[Orchestrator]:
        """A scope: what it allocates goes with it. A ``manual`` scope infers no dependencies; only :meth:`Call.after` orders its tasks."""
        self._core.open_scope(label, manual)
        try:
            yield self
        finally:
            self._core.close_scope()

    def flush(self) -> None:
        """Shows workers all that was submitted, before the code of the graph waits for something itself."""
        self._core.flush()

    def allocate_domain(
        self,
        name: str,
        chips: Sequence[int],
        buffers: dict[str, tuple[Any, int | Sequence[int]]],
        *,
        window: int | None = None,
        signals: int = 0,
    ) -> _core.RuntimeDomain:
        """Makes a domain: zeroed windows of one size on some chips, whose order gives the ranks.

        ``buffers`` maps names to element type and shape; ``signals`` is the number of cells that each rank has in each window.
        ``window`` is the size of each window in bytes, by default what the buffers need.
        """
        import math

        from ._dtypes import to_numpy

        parts = [(key, name_of(dtype), shape_of(shape)) for key, (dtype, shape) in buffers.items()]
        if window is None:
            # A type that does not exist is refused below, with words.
            sizes = (1 if part[1] not in _sizes() else to_numpy(part[1]).itemsize for part in parts)
            window = sum(size * math.prod(part[2]) for size, part in zip(sizes, parts))
        return self._core.allocate_domain(name, list(chips), window, parts, signals)


def _sizes() -> dict[str, str]:
    from ._dtypes import NUMPY

    return NUMPY


def shape_of(shape: int | Sequence[int]) -> list[int]:
    """A shape as a list."""
    return [shape] if isinstance(shape, int) else [int(length) for length in shape]
