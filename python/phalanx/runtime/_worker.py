"""Workers: processes that run tasks, and the memory that they share."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _core
from . import _loading
from ._dtypes import name_of, to_numpy
from ._errors import CloseError, WorkerError
from ._functions import Known, describe, main_program, registered
from ._graph import Finished, Orchestrator, RunHandle, shape_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Budgets", "ChildStart", "ChipContext", "Lost", "Startup", "Worker", "WorkerSpec"]

#: Seconds for children to leave after Ctrl-C.
_INTERRUPTED = 0.1
_open: weakref.WeakSet[Worker] = weakref.WeakSet()


class Budgets(NamedTuple):
    """Time limits of a worker in seconds, from the inside out. An inner limit must fire before the limits around it."""

    #: Longest time in which nothing runs and nothing changes.
    progress: float = 10.0
    #: Longest time in which a worker that has a task shows no progress.
    operation: float = 45.0
    #: Longest wait for a run.
    wait: float = 50.0
    #: Longest time until all workers are ready.
    startup: float = 300.0
    #: Longest life of the program around the worker.
    harness: float = 600.0
    #: Least time between ``progress`` and ``wait``.
    guard: float = 1.5


class WorkerSpec(NamedTuple):
    """The settings of a worker; ``workers`` of another worker are made by them.

    ``ring`` is the most tasks that are live at a time, and the bytes that they allocate; ``memory`` the bytes for tensors;
    ``window`` the bytes of each chip's window; ``runs`` the most unfinished runs; ``depth`` the tasks that a worker is sent ahead.
    """

    chips: int = 0
    sub_workers: int = 0
    workers: Sequence[WorkerSpec] = ()
    memory: int = 1 << 30
    ring: tuple[int, int] = (1024, 1 << 28)
    runs: int = 2
    depth: int = 16
    window: int = 0
    device_ids: Sequence[int] | None = None
    budgets: Budgets | None = None
    close_within: float = 10.0
    recording: bool = False
    restart: bool = False
    level: int | None = None

    def _settings(self) -> dict[str, Any]:
        return {
            "chips": self.chips,
            "sub_workers": self.sub_workers,
            "workers": [worker._settings() for worker in self.workers],
            "memory": self.memory,
            "slots": self.ring[0],
            "slabs": self.ring[1],
            "runs": self.runs,
            "depth": self.depth,
            "window": self.window,
            "device_ids": None if self.device_ids is None else list(self.device_ids),
            "budgets": None if self.budgets is None else tuple(self.budgets),
            "close_within": self.close_within,
            "recording": self.recording,
            "restart": self.restart,
            "level": self.level,
        }


class ChildStart(NamedTuple):
    """The start of one child; times in seconds from the first spawn on."""

    name: str
    process: int
    spawned: float
    began: float | None
    ready: float | None
    #: The processes below it, if it has workers of its own.
    descendants: list[int]


class Startup(NamedTuple):
    """The start of a worker's children, chips first, and the seconds until all were ready."""

    children: list[ChildStart]
    total: float


class Lost(NamedTuple):
    """A worker whose process is gone, and how it ended."""

    worker: str
    words: str


class ChipContext(NamedTuple):
    """A chip that is ready."""

    device_id: int
    rank: int
    nranks: int
    #: The number that the bootstrap set.
    context: int
    window_bytes: int
    #: The parts of its window that have a name.
    buffers: dict[str, _core.SharedBuffer]


class Worker:
    """Sub workers and chips, each a process that runs Python functions as tasks.

    ``functions`` are the functions of its tasks, or their names (``package.module:function``); without a list, all functions that
    were declared with :func:`task` and :func:`graph`. Children are interpreters of their own, executed and not forked. They load the
    modules of the functions, and stop loading the script that runs where it makes its first worker; so a script needs no
    ``if __name__ == "__main__"``.

    ``bootstrap(chip)`` sets each chip up before anything is sent to it (:class:`Chip`), and ``setting`` is any value for it. The
    other settings are those of :class:`WorkerSpec`. With ``restart=True`` a lost process is replaced; tasks that are
    ``idempotent`` run again.

    >>> from phalanx import runtime
    >>> with runtime.Worker(["numpy:multiply"], sub_workers=2) as worker:
    ...     x, y = worker.from_numpy([1.0, 2.0, 3.0, 4.0]), worker.tensor(4, "f64")
    ...     def graph(graph):
    ...         for part in (slice(0, 2), slice(2, 4)):
    ...             graph.submit_sub("numpy:multiply", x[part].input(), 10, y[part].output())
    ...     finished = worker.run(graph)
    ...     finished.completed, worker.read(y).tolist()
    (2, [10.0, 20.0, 30.0, 40.0])
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., Any] | str] | None = None,
        /,
        *,
        bootstrap: Callable[..., Any] | str | None = None,
        setting: Any = None,
        **settings: Any,
    ) -> None:
        if _loading.is_loading:
            raise _loading.Reached
        import pickle

        spec = WorkerSpec(**settings)
        given = list(functions) if functions is not None else registered()
        descriptions = [describe(function) for function in given]
        first = None if bootstrap is None else describe(bootstrap)[0]
        names = [name for name, *_ in descriptions] + ([first] if first else [])
        main = main_program() if any(name.startswith("__main__:") for name in names) else None
        told = {
            "path": sys.path, "argv": sys.argv, "main": main, "functions": descriptions, "bootstrap": first,
            "setting": pickle.dumps(setting),
        }
        cores = [_core.Function(*description) for description in descriptions]
        self._known = Known(zip(given, cores))
        command = _loading.command()
        self._core = _core.RuntimeWorker(spec._settings(), cores, first is not None, pickle.dumps(told), command)
        _open.add(self)

    def run(self, graph: Callable[[Orchestrator], Any], /, label: str | None = None) -> Finished:
        """Builds a graph with ``graph(orchestrator)`` and waits for its run; raises :class:`RunError` if a task failed."""
        handle = self.submit(graph, label)
        try:
            return handle.wait()
        except KeyboardInterrupt:
            handle.cancel()
            raise

    def submit(self, graph: Callable[[Orchestrator], Any], /, label: str | None = None) -> RunHandle:
        """Builds a graph, here and now; its tasks run meanwhile and afterwards.

        If ``graph`` raises, what it has submitted is cancelled, and the exception is raised here.
        """
        core = self._core.open(label if label is not None else getattr(graph, "__name__", "run"))
        try:
            graph(Orchestrator(core, self._known))
        except BaseException as error:
            core.finish(f"the code of the graph raised {type(error).__name__}: {error}")
            raise
        run = core.finish(None)
        assert run is not None, "a run of its own has a handle"
        return RunHandle(run)

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Finished:
        """Runs one task on any sub worker and waits for it."""
        return self.run(lambda graph: graph.submit_sub(function, *args, **kwargs), "call")

    def tensor(self, shape: int | Sequence[int], dtype: Any = "f32") -> _core.SharedTensor:
        """Allocates a zeroed tensor that all workers share."""
        return self._core.tensor(name_of(dtype), shape_of(shape))

    def buffer(self, size: int) -> _core.SharedBuffer:
        """Allocates zeroed bytes that all workers share."""
        return self._core.buffer(size)

    def from_numpy(self, array: Any) -> _core.SharedTensor:
        """Allocates a tensor with a copy of an array."""
        import numpy as np

        array = np.asarray(array)
        tensor = self.tensor(array.shape, array.dtype)
        self.write(tensor, array)
        return tensor

    def read(self, tensor: _core.SharedTensor) -> np.ndarray[Any, Any]:
        """A copy of the elements of a tensor without gaps, which no unfinished run names. bf16 comes as its bits, ``uint16``."""
        return self._array(tensor, self._core.read(tensor, True))

    def read_unordered(self, tensor: _core.SharedTensor) -> np.ndarray[Any, Any]:
        """The same while runs may change it: some elements may be of before, some of after what tasks do."""
        return self._array(tensor, self._core.read(tensor, False))

    def write(self, tensor: _core.SharedTensor, array: Any) -> None:
        """Sets the elements of a tensor without gaps, which no unfinished run names; one element sets all."""
        self._core.write(tensor, _bytes(tensor, array), True)

    def write_unordered(self, tensor: _core.SharedTensor, array: Any) -> None:
        """Sets the elements of a tensor that a running task has as ``no_dep``: how to talk to a task that runs."""
        self._core.write(tensor, _bytes(tensor, array), False)

    @staticmethod
    def _array(tensor: _core.SharedTensor, found: bytearray) -> np.ndarray[Any, Any]:
        import numpy as np

        return np.frombuffer(found, to_numpy(tensor.dtype)).reshape(tensor.shape)

    @property
    def level(self) -> int:
        """The number of its level."""
        return self._core.level

    @property
    def startup(self) -> Startup:
        """The start of its children."""
        children, total = self._core.startup()
        return Startup([ChildStart(*child) for child in children], total)

    @property
    def chip_contexts(self) -> list[ChipContext]:
        """The reports of the chips, in the order of their ranks."""
        return [ChipContext(*chip) for chip in self._core.chip_contexts()]

    @property
    def lost(self) -> list[Lost]:
        """Workers that are gone although nobody told them to leave."""
        return [Lost(*one) for one in self._core.lost()]

    @property
    def replaced(self) -> list[Lost]:
        """Workers that were lost and replaced (``restart=True``), the last first."""
        return [Lost(*one) for one in self._core.replaced()]

    def stats(self) -> dict[str, int]:
        """The worker's present load: tasks, free bytes of the ring, buffers, running and queued tasks, runs."""
        return self._core.stats()

    def timeline(self) -> dict[str, Any]:
        """Runs and tasks since the last call, with times in nanoseconds on one clock; empty without ``recording=True``."""
        return self._core.timeline()

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._core.closed

    def close(self, within: float | None = None) -> None:
        """Ends all processes: runs that are not over are waited for, then everybody leaves.

        Those that have not left after ``within`` seconds (``close_within`` of the settings, at most) are killed, and
        :class:`CloseError` names them. Closing again does nothing.
        """
        _open.discard(self)
        self._core.close(within)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
            return
        # The exception of the block is what counts.
        with suppress(CloseError):
            self.close(_INTERRUPTED if issubclass(kind, KeyboardInterrupt) else None)

    def __repr__(self) -> str:
        if self.closed:
            return "Worker(closed)"
        names = ", ".join(child.name for child in self.startup.children)
        return f"Worker(level {self.level}: {names})"


def _bytes(tensor: _core.SharedTensor, array: Any) -> bytes:
    import numpy as np

    given = np.asarray(array, to_numpy(tensor.dtype))
    try:
        return np.broadcast_to(given, tensor.shape).tobytes()
    except ValueError:
        raise WorkerError(f"an array of shape {given.shape} was given for a tensor of {tensor.shape}") from None


@atexit.register
def _close_all() -> None:
    for worker in list(_open):
        with suppress(CloseError):
            worker.close()
