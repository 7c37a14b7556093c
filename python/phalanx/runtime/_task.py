"""The view of a task's function: the task, its domains, and arguments that are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from ._dtypes import to_numpy
from ._errors import WorkerError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["Chip", "Copied", "DomainView", "Task", "current_task"]


def current_task() -> Task:
    """The task that runs in this process; an error outside of a task."""
    core = _core.current_task()
    if core is None:
        raise WorkerError("no task runs here: `current_task` is for functions that a worker runs")
    return Task(core)


class Task:
    """A task while it runs."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.RunningTask) -> None:
        self._core = core

    @property
    def member(self) -> int:
        """Its number in its group, from 0."""
        return self._core.member

    @property
    def members(self) -> int:
        """The number of members of its group; 1 if it is no group."""
        return self._core.members

    @property
    def device(self) -> Any:
        """The result of this chip's bootstrap; ``None`` on other workers."""
        return self._core.device

    def domain(self, index: int = 0) -> DomainView:
        """One of its domains, in the order of :meth:`Call.domain`."""
        return DomainView(self._core.domain(index))

    def progress(self) -> None:
        """Says that a long task moves, so that the watchdog does not take it for stuck."""
        self._core.progress()

    def simulated(self, picoseconds: int) -> None:
        """Adds to the simulated time that the task reports."""
        self._core.simulated(picoseconds)


class DomainView:
    """A domain, seen by one of its ranks while its task runs."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.TaskDomain) -> None:
        self._core = core

    @property
    def name(self) -> str:
        """The name of the domain."""
        return self._core.name

    @property
    def rank(self) -> int:
        """The rank of this chip."""
        return self._core.rank

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self._core.ranks

    def put(self, peer: int, buffer: str, elements: Any, offset: int = 0) -> None:
        """Writes elements into a buffer of a peer, from element ``offset`` on."""
        import numpy as np

        dtype = to_numpy(self._core.layout(buffer)[0])
        bytes_ = np.ascontiguousarray(elements, dtype).tobytes()
        self._core.put(peer, buffer, offset * dtype.itemsize, bytes_)

    def get(self, peer: int, buffer: str, offset: int = 0, count: int | None = None) -> Array:
        """Reads ``count`` elements of a buffer of a peer from element ``offset`` on; all that follow if there is no count."""
        import math

        import numpy as np

        name, shape = self._core.layout(buffer)
        dtype = to_numpy(name)
        count = math.prod(shape) - offset if count is None else count
        found = self._core.get(peer, buffer, offset * dtype.itemsize, max(count, 0) * dtype.itemsize)
        return np.frombuffer(found, dtype)

    def read(self, buffer: str) -> Array:
        """A copy of a buffer of this rank's own window."""
        return self.get(self.rank, buffer).reshape(self._core.layout(buffer)[1])

    def write(self, buffer: str, elements: Any, offset: int = 0) -> None:
        """Sets elements of a buffer of this rank's own window."""
        self.put(self.rank, buffer, elements, offset)

    def notify(self, peer: int, cell: int, value: int) -> None:
        """Sets this rank's cell in the window of a peer, after all that was put before; it cannot go back."""
        self._core.notify(peer, cell, value)

    def notify_add(self, peer: int, cell: int, amount: int = 1) -> None:
        """Adds to this rank's cell in the window of a peer."""
        self._core.notify_add(peer, cell, amount)

    def test(self, peer: int, cell: int) -> int:
        """The value of a peer's cell in this rank's window."""
        return self._core.test(peer, cell)

    def wait(self, peer: int, cell: int, value: int, timeout: float) -> int:
        """Waits until a peer's cell in this rank's window holds at least ``value``, at most ``timeout`` seconds."""
        return self._core.wait(peer, cell, value, timeout)

    def barrier(self, timeout: float) -> None:
        """Waits until all ranks have come as often as this one, at most ``timeout`` seconds."""
        self._core.barrier(timeout)


class Copied:
    """An argument that other tasks may change meanwhile (``no_dep``, or in a window): it is read and written by copies."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.CopiedArgument) -> None:
        self._core = core

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._core.shape

    @property
    def dtype(self) -> str:
        """The element type."""
        return self._core.dtype

    def read(self) -> Array:
        """A copy of its elements."""
        import numpy as np

        return np.frombuffer(self._core.read(), to_numpy(self.dtype)).reshape(self.shape)

    def write(self, elements: Any) -> None:
        """Sets its elements."""
        import numpy as np

        dense = np.broadcast_to(np.asarray(elements, to_numpy(self.dtype)), self.shape)
        self._core.write(dense.tobytes())


class Chip:
    """A chip while its bootstrap sets it up; what the bootstrap returns is the device of its tasks."""

    def __init__(self, device_id: int, rank: int, nranks: int, window_bytes: int, setting: Any) -> None:
        #: The number of its device.
        self.device_id = device_id
        #: Its rank among the chips, from 0.
        self.rank = rank
        #: The number of chips.
        self.nranks = nranks
        #: The bytes of its window.
        self.window_bytes = window_bytes
        #: The value of ``Worker(setting=...)``.
        self.setting = setting
        #: A number that the parent finds in :class:`ChipContext`.
        self.context = 0
        self._named: list[tuple[str, int, bytes | None]] = []

    def buffer(self, name: str, first: Any) -> None:
        """Cuts a buffer out of the window: ``first`` is its number of bytes, or an array with its first elements."""
        import numpy as np

        if isinstance(first, int):
            self._named.append((name, first, None))
        else:
            bytes_ = np.ascontiguousarray(first).tobytes()
            self._named.append((name, len(bytes_), bytes_))
