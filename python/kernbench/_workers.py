"""Greenlets of ranks and of kernels: how they let others go on, and how they are ended."""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent, greenlet
from phalanx._fibers import Abort

__all__ = ["end", "is_main", "step_aside"]

#: Most waits of the ``finally`` blocks of a greenlet that is ended.
_MOST_WAITS = 1000


def is_main() -> bool:
    """True in the main program, which makes time pass; false in workers and kernels."""
    return getcurrent().parent is None


def step_aside(value: Any = None) -> None:
    """Lets the parent of this greenlet go on, until it switches back."""
    parent = getcurrent().parent
    if parent is None:
        raise RuntimeError("a worker waits whose parent has ended")
    parent.switch(value)


def end(worker: greenlet) -> BaseException | None:
    """Ends a greenlet: its ``finally`` blocks run, and a wait in one of them is ended too. Returns what they raised."""
    raised: BaseException | None = None
    for _ in range(_MOST_WAITS):
        if worker.dead:
            break
        try:
            worker.throw(Abort)
        except Abort:
            pass
        except BaseException as error:
            raised = error
    return raised
