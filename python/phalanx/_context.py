"""Contexts: a machine and the programs that run on it."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _core
from ._fibers import Abort, Fiber, begin, finish, getcurrent
from ._machines import MachineSpec, machine as read_machine
from .errors import ArgumentError, DesyncError, ProcessExitedException, SpawnException
from .report import Report

__all__ = ["Context", "current_context", "current_rank", "report"]

#: The contexts that were entered, latest last.
_entered: list[Context] = []
#: The context that ran last.
_last: Context | None = None
_open: weakref.WeakSet[Context] = weakref.WeakSet()


class Context:
    """A machine with its ranks.

    ``machine`` and the keywords for changes are those of :func:`phalanx.machine`. ``data=False`` simulates times without
    numbers; ``strict=False`` lets unwritten memory read as NaN; ``record=True`` keeps a log of every operation; ``threads`` is the
    number of threads that compute numbers; ``ccl`` is the path of a ``ccl.yaml``, or its contents as a dict.

    >>> import phalanx
    >>> context = phalanx.Context("pair")
    >>> context.spawn(lambda rank: float(phalanx.full(4, rank).numpy().sum()), nprocs=2)
    [0.0, 4.0]
    """

    def __init__(
        self,
        machine: str | os.PathLike[str] | Mapping[str, Any] | MachineSpec = "quad-sip",
        /,
        *,
        data: bool = True,
        strict: bool = True,
        record: bool = False,
        threads: int | None = None,
        ccl: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        self.machine = read_machine(machine, **changes)
        self._core = _core.Context(self.machine, data, strict, record, threads, _read_ccl(ccl))
        _open.add(self)

    def spawn(self, fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int | None = None) -> list[Any]:
        """Runs ``fn(rank, *args)`` for each of ``nprocs`` ranks (one a SIP, if not given); returns their results in order.

        If ranks fail, raises :class:`phalanx.multiprocessing.SpawnException`.
        """
        global _last
        if nprocs is None:
            nprocs = self.machine.sips
        if nprocs < 0:
            raise ArgumentError(f"spawn: {nprocs} ranks")
        _last = self
        if nprocs == 0:
            return []
        secondary: dict[int, BaseException] = {}

        def begin_rank(rank: _core.Rank) -> Callable[[], Any]:
            number = rank.rank

            def job() -> Any:
                try:
                    return finish(fn(number, *args))
                except Abort:
                    raise
                except SystemExit as leaving:
                    if leaving.code in (None, 0):
                        return None
                    raise

            return lambda: begin(job, rank, lambda error: secondary.__setitem__(number, error))

        results, failure = self._core.spawn(nprocs, begin_rank)
        if failure is None:
            assert results is not None
            return results
        raise _failed(failure, secondary)

    def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Runs ``fn(*args)`` as the program of the only rank; returns its result, or raises its exception."""
        try:
            return self.spawn(lambda _, *inner: fn(*inner), args, 1)[0]
        except SpawnException as error:
            if 0 not in error.errors:
                raise
            raised = error.errors[0]
        raise raised

    @property
    def now(self) -> float:
        """The simulated time, in seconds."""
        return self._core.now() / 1e12

    @property
    def now_ps(self) -> int:
        """The simulated time, in picoseconds."""
        return self._core.now()

    def report(self) -> Report:
        """A report of the run so far: where the time went."""
        return Report(self._core.report())

    def close(self) -> None:
        """Ends the context and what is left of its programs. Its tensors cannot be used any more."""
        if self in _entered:
            _entered.remove(self)
        self._core.close()

    def __enter__(self) -> Context:
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"at {self._core.now()} ps"
        return f"<phalanx.Context {self.machine.name} {state}>"


def _failed(failure: dict[str, Any], secondary: dict[int, BaseException]) -> BaseException:
    """The exception of a spawn that failed."""
    errors: dict[int, BaseException] = failure["errors"]
    for error in errors.values():
        if isinstance(error, KeyboardInterrupt):
            return error
    made: BaseException
    exits = {rank: error for rank, error in errors.items() if isinstance(error, SystemExit)}
    if errors and len(exits) == len(errors):
        rank = min(errors)
        code = exits[rank].code
        number = code if isinstance(code, int) else 1
        made = ProcessExitedException(f"process {rank} terminated with exit code {number}", rank, number)
    else:
        text = None if failure["desync"] is None else failure["text"]
        made = (SpawnException if text is None else DesyncError)(errors, text)
        made.cancelled = failure["cancelled"]
        made.secondary = secondary
    if errors:
        made.__cause__ = errors[min(errors)]
    return made


def _read_ccl(ccl: Any) -> tuple[str, str] | None:
    if ccl is None:
        return None
    if isinstance(ccl, Mapping):
        from ._machines import _yaml

        return "dict", "\n".join(_yaml(ccl, 0)) + "\n"
    path = os.fspath(ccl)
    with open(path, encoding="utf-8") as file:
        return path, file.read()


def current_context() -> Context | None:
    """The context that was entered last (``with context:``)."""
    return _entered[-1] if _entered else None


def current_rank() -> _core.Rank:
    """The rank whose program runs."""
    fiber = getcurrent()
    if type(fiber) is Fiber and fiber.rank is not None:
        return fiber.rank
    raise RuntimeError(
        "no rank runs here: make tensors in a program that Context.run or multiprocessing.spawn runs"
    )


def report() -> Report:
    """The report of the context that ran last."""
    if _last is None:
        raise RuntimeError("nothing has run yet")
    return _last.report()


@atexit.register
def _close_all() -> None:
    for context in list(_open):
        context._core.close()
