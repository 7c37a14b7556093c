"""Spawning ranks, with the names of ``torch.multiprocessing``.

All ranks run in this process, one after another, in simulated time. ``finally`` blocks of ranks that are cancelled run.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ._context import Context, current_context
from ._machines import machine
from .errors import (
    DesyncError,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnException,
)

__all__ = [
    "DesyncError",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnException",
    "spawn",
    "start_processes",
]


class ProcessContext:
    """Ranks that were asked for with ``join=False``. They run in :meth:`join`: nothing advances before."""

    def __init__(self, run: Callable[[], None], nprocs: int) -> None:
        self._run: Callable[[], None] | None = run
        self._nprocs = nprocs

    def pids(self) -> list[int]:
        """The process of each rank: this one."""
        return [os.getpid()] * self._nprocs

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Runs the ranks to their end, the first time; returns True."""
        run, self._run = self._run, None
        if run is not None:
            run()
        return True


def warn_of_start_method(start_method: str) -> None:
    """Warns the caller of ``spawn`` that there is one way to start ranks."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=3,
        )


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    *,
    context: Context | None = None,
) -> ProcessContext | None:
    """Runs ``fn(rank, *args)`` for each of ``nprocs`` ranks.

    The ranks run on ``context``, on the context that was entered (``with Context(...):``), or on a new ``quad-sip`` with enough
    SIPs; :func:`phalanx.report` is the report afterwards. Returns ``None``; :meth:`phalanx.Context.spawn` returns the results.
    """

    def run() -> None:
        place = context or current_context()
        if place is None:
            default = machine()
            place = Context(default if nprocs <= default.sips else machine(system__sips__count=nprocs))
        place.spawn(fn, args, nprocs)

    if join:
        run()
        return None
    return ProcessContext(run, nprocs)


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    *,
    context: Context | None = None,
) -> ProcessContext | None:
    """The same as :func:`start_processes`.

    >>> import phalanx, phalanx.distributed as dist
    >>> def worker(rank, size):
    ...     dist.init_process_group()
    ...     x = phalanx.full(8, rank)
    ...     dist.all_reduce(x)
    ...     assert x.numpy().tolist() == [size * (size - 1) / 2] * 8
    >>> spawn(worker, args=(4,), nprocs=4)
    """
    warn_of_start_method(start_method)
    return start_processes(fn, args, nprocs, join, daemon, start_method, context=context)
