"""Runs the programs of a kernel, each in a greenlet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Any

from greenlet import getcurrent, greenlet

from .._workers import end
from ..sim_engine.env import Env, Event, Timeout
from .tl import Tl

__all__ = ["KernelRunner"]


class KernelRunner:
    """Runs one kernel, on the PEs of one SIP. ``_parent`` is the greenlet that its programs switch to when they wait: the main one, always."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._parent: greenlet | None = None
        self.sip = 0

    def run(self, env: Env, kernel_fn: Callable[..., Any], kernel_args: Sequence[Any], num_programs: int) -> Generator[Event, Any, None]:
        """A process: yields an event whenever a program needs simulated time, one for each ``tl.delay``."""
        self._parent = getcurrent()
        programs = [self._program(env, kernel_fn, kernel_args, number, num_programs) for number in range(num_programs)]
        waiting: list[tuple[Event, greenlet]] = []
        try:
            for program in programs:
                self._resume(program, waiting)
            while waiting:
                found = _first(waiting)
                if found is None:
                    yield waiting[0][0] if len(waiting) == 1 else env.any_of(event for event, _ in waiting)
                    found = _first(waiting) or waiting[0]
                elif isinstance(found[0], Timeout):
                    # Its time came while another program had its turn.
                    yield found[0]
                waiting.remove(found)
                self._resume(found[1], waiting)
        finally:
            for program in programs:
                end(program)

    def _program(self, env: Env, fn: Callable[..., Any], args: Sequence[Any], number: int, count: int) -> greenlet:
        tl = Tl(env, number, count, self.sip)

        def body() -> None:
            _call(fn, tl, args)

        return greenlet(body, parent=self._parent)

    def _resume(self, program: greenlet, waiting: list[tuple[Event, greenlet]]) -> None:
        """Lets a program go on until it waits or ends."""
        if getcurrent() is not self._parent:
            raise RuntimeError("a kernel goes on in another greenlet than the one that started it")
        event = program.switch()
        if program.dead:
            return
        if not isinstance(event, Event):
            raise RuntimeError("a kernel waits with the methods of tl, not with those of a context")
        waiting.append((event, program))


def _first(waiting: list[tuple[Event, greenlet]]) -> tuple[Event, greenlet] | None:
    return next((entry for entry in waiting if entry[0].triggered), None)


def _call(fn: Callable[..., Any], tl: Tl, args: Sequence[Any]) -> None:
    """Calls a kernel; ``tl`` is its first argument, or the one of that name."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [parameter for parameter in parameters if parameter.name == "tl"]
    if named and parameters[0].name != "tl":
        fn(*args, tl=tl)
    else:
        fn(tl, *args)
