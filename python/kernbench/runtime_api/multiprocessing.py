"""Spawning ranks: greenlets that the main program resumes in rounds, and the draining of what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from greenlet import greenlet
from phalanx import errors as _errors
from phalanx._context import _failed
from phalanx.errors import ProcessException, ProcessExitedException, ProcessRaisedException, SpawnException
from phalanx.multiprocessing import ProcessContext, warn_of_start_method

from .._workers import end, is_main

if TYPE_CHECKING:
    from .context import RuntimeContext

__all__ = [
    "DesyncError", "Multiprocessing", "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnException",
    "spawn",
]


class DesyncError(_errors.DesyncError, RuntimeError):
    """The ranks wait for what no rank will do: the text says which rank is in which operation, and which have returned."""


def _drain_pending(ctx: RuntimeContext) -> None:
    """Makes time pass until no worker's wait is put off, and runs the collectives that all ranks have joined. Only the main program may."""
    if not is_main():
        raise RuntimeError("_drain_pending: only the main program makes time pass")
    ctx._drain_waits()
    while ctx.distributed._run_ready():
        ctx._drain_waits()


class _Spawn:
    """One spawn: its ranks, and what became of them."""

    def __init__(self, ctx: RuntimeContext, fn: Callable[..., Any], args: Sequence[Any], nprocs: int) -> None:
        self.ctx = ctx
        self.nprocs = nprocs
        self.live: dict[int, greenlet] = {}
        self.errors: dict[int, BaseException] = {}
        self.secondary: dict[int, BaseException] = {}
        self.cancelled: list[int] = []
        bound = ctx.distributed._rank_by_greenlet
        for rank in range(nprocs):
            worker = greenlet(partial(fn, rank, *args))
            bound[worker] = rank
            self.live[rank] = worker

    def run(self) -> None:
        """Resumes every rank once in a round, in order, and drains, until all have ended or one has failed."""
        ctx, before = self.ctx, None
        while self.live:
            state = (ctx.engine.completions, len(self.live), ctx.distributed._runs, len(ctx.distributed._pending_collectives))
            if state == before:
                raise self.desync()
            before = state
            for rank, worker in list(self.live.items()):
                self.resume(rank, worker)
            if self.errors:
                return
            if self.live:
                _drain_pending(ctx)

    def resume(self, rank: int, worker: greenlet) -> None:
        try:
            worker.switch()
        except KeyboardInterrupt:
            self.ended(rank, worker)
            raise
        except SystemExit as leaving:
            if leaving.code not in (None, 0):
                self.errors[rank] = leaving
        except BaseException as error:
            self.errors[rank] = error
        if worker.dead:
            self.ended(rank, worker)

    def ended(self, rank: int, worker: greenlet) -> None:
        self.live.pop(rank, None)
        self.ctx.distributed._rank_by_greenlet.pop(worker, None)

    def abort(self) -> None:
        """Ends the ranks that are left: their ``finally`` blocks run."""
        for rank, worker in list(self.live.items()):
            self.cancelled.append(rank)
            raised = end(worker)
            if raised is not None:
                self.secondary[rank] = raised
            self.ended(rank, worker)

    def desync(self) -> DesyncError:
        joined = {entry.rank: entry for entry in self.ctx.distributed._pending_collectives}
        waits = self.ctx._pending_worker_waits
        lines, stuck = [], {}
        for rank in range(self.nprocs):
            if rank in joined:
                missing = [other for other in joined[rank].members if other not in joined]
                text = f"rank {rank} is in {joined[rank].describe()}, which ranks {missing} have not joined"
                stuck[rank] = RuntimeError(text)
            elif rank in self.live:
                text = f"rank {rank} waits for what nobody will do" + (f" ({', '.join(map(repr, waits[:4]))})" if waits else "")
                stuck[rank] = RuntimeError(text)
            else:
                text = f"rank {rank} has returned"
            lines.append(text)
        made = DesyncError(dict[int, BaseException](stuck), "the ranks wait for each other:\n  " + "\n  ".join(lines) + self.ctx.engine.env._waiters())
        made.cancelled = sorted(self.live)
        return made


class Multiprocessing:
    """The names of ``torch.multiprocessing``, of one context."""

    SpawnException = SpawnException

    def __init__(self, ctx: RuntimeContext) -> None:
        self._ctx = ctx

    def spawn(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> ProcessContext | None:
        """Runs ``fn(rank, *args)`` for each of ``nprocs`` ranks, which may be more than the SIPs of the spec.

        If ranks fail, the others are cancelled and :class:`SpawnException` is raised. With ``join=False`` nothing runs before ``join()``.
        """
        warn_of_start_method(start_method)
        run = partial(self._run, fn, tuple(args), int(nprocs))
        if join:
            run()
            return None
        return ProcessContext(run, nprocs)

    def _run(self, fn: Callable[..., Any], args: Sequence[Any], nprocs: int) -> None:
        ctx = self._ctx
        if not is_main():
            raise RuntimeError("spawn: only the main program spawns ranks")
        if nprocs < 0:
            raise ValueError(f"spawn: {nprocs} ranks")
        if nprocs == 0:
            return
        ctx.engine._ensure(nprocs)
        outer, kept = ctx.distributed._world, list(ctx.engine.env._processes)
        ctx.distributed._world = nprocs
        spawned = _Spawn(ctx, fn, args, nprocs)
        has_failed = True
        try:
            spawned.run()
            has_failed = bool(spawned.errors)
        finally:
            spawned.abort()
            if has_failed:
                ctx._clear()
                ctx.engine.env._cancel(kept)
            for rank in range(nprocs):
                ctx.distributed._initialized.discard(rank)
                ctx.distributed._parallel.pop(rank, None)
            ctx.distributed._world = outer
        if spawned.errors:
            failure = {"errors": spawned.errors, "cancelled": spawned.cancelled, "desync": None, "text": None}
            raise _failed(failure, spawned.secondary)


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """The same on the context that was entered or made last."""
    from .context import current_context

    return current_context().multiprocessing.spawn(fn, args, nprocs, join, daemon, start_method)
