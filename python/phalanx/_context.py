"""Contexts: a machine and the programs that run on it."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import _core, _progress
from ._fibers import Abort, Fiber, begin, drivers, finish, getcurrent
from ._machines import MachineSpec, machine as read_machine
from .errors import ArgumentError, DesyncError, ProcessExitedException, SpawnException
from .report import Report

if TYPE_CHECKING:
    from ._tensor import Tensor, Work

__all__ = ["Context", "current_context", "current_rank", "report"]

#: The contexts that were entered, latest last.
_entered: list[Context] = []
#: The context that ran last.
_last: Context | None = None
_open: weakref.WeakSet[Context] = weakref.WeakSet()
#: The algorithms of collectives of the program, by name.
algorithms: dict[str, _core.Algorithm] = {}


class Context:
    """A machine with its ranks.

    ``machine`` and the keywords for changes are those of :func:`phalanx.machine`. ``data=False`` simulates times without
    numbers; ``strict=False`` lets unwritten memory read as NaN; ``record=True`` keeps a log of every operation;
    ``critical_path=False`` leaves the critical path out of the report, which takes less time and memory on large machines;
    ``threads`` is the number of threads that compute numbers; ``ccl`` is the path of a ``ccl.yaml``, or its contents as a
    dict. Runs of more than half a second show their progress on a terminal and in a notebook, unless ``progress=False``.

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
        critical_path: bool = True,
        threads: int | None = None,
        ccl: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        progress: bool | None = None,
        **changes: Any,
    ) -> None:
        self.machine = read_machine(machine, **changes)
        shown = _progress.shower(progress)
        settings = {
            "data": data,
            "strict": strict,
            "record": record,
            "critical_path": critical_path,
            "threads": threads,
            "ccl": _read_ccl(ccl),
        }
        self._core = _core.Context(self.machine, settings, list(algorithms.values()), shown)
        self._ranks: list[_core.Rank] | None = None
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
        # The ranks of the main program begin anew.
        self._ranks = None
        secondary: dict[int, BaseException] = {}
        interrupts: list[KeyboardInterrupt] = []

        def begin_rank(rank: _core.Rank) -> Callable[[], Any]:
            number = rank.rank

            def job() -> Any:
                # One Ctrl-C is enough for ranks that have not begun.
                if interrupts:
                    raise KeyboardInterrupt
                try:
                    return finish(fn(number, *args))
                except Abort:
                    raise
                except KeyboardInterrupt as interrupt:
                    interrupts.append(interrupt)
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

    def drive_until(self, work: Work | Tensor) -> None:
        """Makes time pass until an operation of the main program is over, or all that write a tensor are; raises its error."""
        from ._tensor import Tensor

        with self._used():
            if isinstance(work, Tensor):
                work.ready()
            else:
                work.wait()

    def drive_to(self, seconds: float) -> bool:
        """Makes time pass until this simulated time; False if nothing is left to do before it."""
        return self._core.drive_to(round(seconds * 1e12))

    def drain(self) -> None:
        """Makes time pass until nothing is left to do. What waits for something that nobody asked for stays open."""
        self._core.drain()

    def clear(self) -> None:
        """Cancels everything that is under way. Tensors and time stay."""
        self._core.clear()

    def use(self) -> Context:
        """Makes this the context of the main program, as in ``with context:``, until it is closed: for notebooks."""
        if self not in _entered:
            _entered.append(self)
            drivers.append(self._drive)
        return self

    def as_rank(self, rank: int = 0, world_size: int | None = None) -> _AsRank:
        """Lets the main program be a rank: ``with context.as_rank(1, 2): ...``.

        In ``with context:`` it is the only rank. With several, it plays one after the other; time passes only where it waits.
        """
        return _AsRank(self, rank, world_size)

    def _main_ranks(self, count: int | None) -> list[_core.Rank]:
        if self._ranks is None or (count is not None and len(self._ranks) != count):
            self._ranks = self._core.ranks(1 if count is None else count)
        return self._ranks

    def _drive(self, pending: _core.Pending) -> None:
        global _last
        _last = self
        self._core.drive(current_rank(), pending)

    def _used(self) -> _Used:
        return _Used(self)

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
            drivers.remove(self._drive)
        self._core.close()

    def __enter__(self) -> Context:
        return self.use()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"at {self._core.now()} ps"
        return f"<phalanx.Context {self.machine.name} {state}>"


class _Used:
    """Makes a context the one that waits, for a while."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        _entered.append(self._context)
        drivers.append(self._context._drive)

    def __exit__(self, *_: object) -> None:
        _entered.pop()
        drivers.pop()


class _AsRank(_Used):
    """Makes the main program one of several ranks, for a while."""

    def __init__(self, context: Context, rank: int, world_size: int | None) -> None:
        super().__init__(context)
        if world_size is None and context._ranks is not None:
            world_size = len(context._ranks)
        ranks = context._main_ranks(world_size)
        if not 0 <= rank < len(ranks):
            raise ArgumentError(f"as_rank: there is no rank {rank} of {len(ranks)}")
        self._rank = ranks[rank]

    def __enter__(self) -> None:
        super().__enter__()
        _playing.append(self._rank)

    def __exit__(self, *_: object) -> None:
        _playing.pop()
        super().__exit__()


#: The ranks that the main program plays, latest last.
_playing: list[_core.Rank] = []


def _failed(failure: dict[str, Any], secondary: dict[int, BaseException]) -> BaseException:
    """The exception of a spawn that failed."""
    errors: dict[int, BaseException] = failure["errors"]
    for error in errors.values():
        # Ctrl-C in the Python code of a rank, or of a kernel that the rank waits for.
        for raised in (error, error.__cause__):
            if isinstance(raised, KeyboardInterrupt):
                return raised
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
    if type(fiber) is not Fiber:
        if _playing:
            return _playing[-1]
        if _entered:
            return _entered[-1]._main_ranks(None)[0]
    raise RuntimeError(
        "no rank runs here: use tensors in a program that Context.run or multiprocessing.spawn runs, or enter a context (`with context:`)"
    )


def report() -> Report:
    """The report of the context that ran last."""
    if _last is None:
        raise RuntimeError("nothing has run yet")
    return _last.report()


@atexit.register
def _close_all() -> None:
    for context in list(_open):
        # The contexts of other threads end with the process.
        with suppress(RuntimeError):
            context._core.close()
