"""The exceptions of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import PhalanxError

__all__ = [
    "CloseError",
    "ClosedError",
    "FunctionError",
    "RunError",
    "SharedMemoryError",
    "StartError",
    "TaskFailure",
    "WaitTimeoutError",
    "WorkerError",
]


class WorkerError(PhalanxError, RuntimeError):
    """An error of a worker: something was refused, and nothing of it remains."""


class FunctionError(WorkerError, ValueError):
    """A function that children cannot find."""


class StartError(WorkerError):
    """A child could not start. None is left; the text has the child's own words."""


class CloseError(WorkerError):
    """Children did not leave in time, and were ended by force."""


class ClosedError(WorkerError):
    """The worker is closed."""


class SharedMemoryError(WorkerError, MemoryError):
    """No room in the memory that workers share."""


class WaitTimeoutError(WorkerError, TimeoutError):
    """A wait is over and the run is not: it goes on, and can be waited for again."""


class TaskFailure(NamedTuple):
    """A task that failed, and where; ``words`` has the child's traceback, or how its process ended."""

    task: str
    member: int
    name: str | None
    function: str
    worker: str
    words: str


class RunError(WorkerError):
    """A run failed: the text is its first failure. ``failures`` lists every task that failed by itself.

    ``tasks`` and ``completed`` count the tasks that were submitted and those that ended well. ``stall`` names the kind of stall
    if the watchdog ended the run.
    """

    def __init__(
        self,
        text: str,
        failures: Sequence[tuple[str, int, str | None, str, str, str]] = (),
        counts: tuple[int, int] = (0, 0),
        stall: str | None = None,
    ) -> None:
        super().__init__(text)
        self.failures = [TaskFailure(*failure) for failure in failures]
        self.tasks, self.completed = counts
        self.stall = stall
