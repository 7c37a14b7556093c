"""Programs that look synchronous and suspend inside.

A rank's program and a kernel run in a *fiber*, a greenlet. An operation that must wait is a ``Pending`` of the Rust side; the
fiber hands it to its hub, the greenlet that drives the simulation, and goes on when the operation is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType, TracebackType
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from ._core import Pending, Rank

__all__ = ["Abort", "Fiber", "Pending", "awaiting", "begin", "current_fiber", "drivers", "getcurrent", "wait"]


class Abort(SystemExit):
    """Ends a program that is cancelled. It is no ``Exception``, so that programs do not catch it by mistake."""


class Fiber(greenlet):
    """A greenlet that runs one program after another."""

    hub: greenlet
    job: Callable[[], Any] | None = None
    rank: Rank | None = None
    on_abort: Callable[[BaseException], None] | None = None

    def run(self) -> None:
        while True:
            # The list is emptied by its receiver: nothing of a finished program stays alive here.
            self.hub.switch(self._perform())

    def _perform(self) -> list[Any]:
        job, self.job = self.job, None
        ended: list[Any] = [None, None]
        try:
            if job is not None:
                ended[0] = job()
        except Abort:
            pass
        except GreenletExit:
            raise
        except BaseException as error:
            ended[1] = error.with_traceback(_user_part(error.__traceback__))
        self.rank = None
        _idle.fibers.append(self)
        return ended

    def abort(self) -> Any:
        """Cancels the program: its ``finally`` blocks run."""
        on_abort, self.on_abort = self.on_abort, None
        answer = self.throw(Abort)
        if type(answer) is list:
            if answer[1] is not None and on_abort is not None:
                on_abort(answer[1])
            answer.clear()
        else:
            self.on_abort = on_abort
        return answer


def _user_part(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package at its beginning."""
    part = traceback
    while part is not None and part.tb_frame.f_globals.get("__package__") == __package__:
        part = part.tb_next
    return part or traceback


class _Idle(threading.local):
    """The fibers of a thread that wait for a program. Making one takes longer than a program of a few operations."""

    def __init__(self) -> None:
        self.fibers: list[Fiber] = []


_idle = _Idle()


def begin(
    job: Callable[[], Any],
    rank: Rank | None = None,
    on_abort: Callable[[BaseException], None] | None = None,
) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """Gives ``job`` to a fiber; returns the functions that resume it and that cancel it. Called in the hub."""
    idle = _idle.fibers
    fiber = idle.pop() if idle else Fiber()
    hub = getcurrent()
    if fiber.parent is not hub:
        fiber.parent = hub
    fiber.hub = hub
    fiber.job, fiber.rank, fiber.on_abort = job, rank, on_abort
    return fiber.switch, fiber.abort


def current_fiber() -> Fiber | None:
    """The fiber that runs, if one does."""
    fiber = getcurrent()
    return fiber if type(fiber) is Fiber else None


#: Ways to wait in a main program, latest last: each makes time pass until a ``Pending`` is over.
drivers: list[Callable[[Any], None]] = []


def wait(answer: Any) -> Any:
    """The result of an operation; suspends the program if that is not there yet."""
    if type(answer) is not Pending:
        return answer
    fiber = getcurrent()
    if type(fiber) is Fiber:
        fiber.hub.switch(answer)
    elif drivers:
        drivers[-1](answer)
    else:
        raise RuntimeError(
            "nobody can wait here: run the program with Context.run or multiprocessing.spawn, or enter a context (`with context:`)"
        )
    return answer.result()


def awaiting(answer: Any) -> Generator[Any, None, Any]:
    """The same for ``await``."""
    if type(answer) is not Pending:
        return answer
    yield answer
    return answer.result()


def finish(result: Any) -> Any:
    """The result of a program: that of its coroutine, if the program is an ``async def``."""
    if type(result) is CoroutineType:
        return _run_coroutine(result)
    return result


def _run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    resume: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            pending = resume(value)
        except StopIteration as stop:
            return stop.value
        try:
            if type(pending) is not Pending:
                raise RuntimeError(f"a rank can await operations of phalanx only, not {pending!r}")
            fiber = getcurrent()
            assert type(fiber) is Fiber
            fiber.hub.switch(pending)
            resume, value = coroutine.send, None
        except BaseException as error:
            resume, value = coroutine.throw, error
