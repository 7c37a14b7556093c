"""The engine: operations that take simulated time, and the machine that they run on."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from types import GeneratorType
from typing import Any, NamedTuple

import phalanx

from .._workers import is_main
from .env import Env, Event
from .units import Units

__all__ = ["GraphEngine", "Handle", "Op"]


class Op(NamedTuple):
    """A line of the log: an operation, and its times in nanoseconds."""

    kind: str
    start: float
    end: float
    rank: int | None = None
    what: str = ""


class Handle:
    """An operation that was submitted."""

    def __init__(self, engine: GraphEngine, kind: str, number: int) -> None:
        self._engine = engine
        self.kind = kind
        self.number = number
        self.end = Event(engine.env, f"{kind} {number}")
        self.result: Any = None
        self.error: BaseException | None = None
        #: True if nothing could lead to its end when it was last driven.
        self._stuck = False

    @property
    def done(self) -> bool:
        """True if it is over."""
        return self.end.triggered

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number}, {'over' if self.done else 'open'}>"


class GraphEngine:
    """Runs operations in simulated time.

    ``topology_obj`` has a mapping ``spec``, such as ``{"system": {"sips": {"count": 2}}, "sip": {"cubes": 1, "pes_per_cube": 1}}``; the other
    figures are those of the machine ``quad-sip``. ``enable_data=False`` gives times without numbers. ``op_log`` lists the operations that are
    over, in their order.
    """

    def __init__(self, topology_obj: Any = None, enable_data: bool = True) -> None:
        self.topology_obj = topology_obj
        self.enable_data = enable_data
        self.spec = _spec(topology_obj)
        self.op_log: list[Op] = []
        self.completions = 0
        self._handles = 0
        self._tensors: weakref.WeakSet[Any] = weakref.WeakSet()
        self._units = Units()
        self._open(_sips(self.spec))
        self.env = Env(self)

    def _open(self, sips: int, ccl: Mapping[str, Any] | None = None) -> None:
        self._ccl = ccl
        self._context = phalanx.Context(_machine(self.spec, sips), data=self.enable_data, progress=False, ccl=ccl)
        self._ranks = self._context._core.ranks(sips)
        self._groups: dict[tuple[int, ...], list[Any]] = {}

    @property
    def machine(self) -> phalanx.MachineSpec:
        """The simulated machine."""
        return self._context.machine

    def _rank(self, rank: int) -> Any:
        """Phalanx's rank of a SIP; makes room for it."""
        self._ensure(rank + 1)
        return self._ranks[rank]

    def _ensure(self, sips: int) -> None:
        """Makes the machine large enough."""
        if sips > len(self._ranks):
            self._reopen(sips, self._ccl)

    def _use_ccl(self, settings: Mapping[str, Any]) -> None:
        """Uses these settings of Phalanx's collectives."""
        keys = ("n_slots", "slot_size", "buffer_kind", "backpressure", "vc_chunk_size", "ipcq_credit_size_bytes")
        ccl = {"defaults": {"algorithm": settings["module"], **{key: settings[key] for key in keys}}}
        if ccl != self._ccl:
            self._reopen(len(self._ranks), ccl)

    def _reopen(self, sips: int, ccl: Mapping[str, Any] | None) -> None:
        """Goes on with another machine: tensors and the time stay."""
        self.env._settle()
        now, tensors = self._context.now_ps, list(self._tensors)
        before = self._context
        self._open(sips, ccl)
        for tensor in tensors:
            tensor._move(self._ranks[tensor.rank])
        if now:
            rank = self._ranks[0]
            self._context._core.drive(rank, rank.sleep(now - self._context.now_ps))
        before.close()

    def submit(self, kind: str, cost: float | Event = 0, fn: Callable[[], Any] | None = None, *, rank: int | None = None, what: str = "") -> Handle:
        """Begins an operation: after ``cost`` nanoseconds, or an event, it calls ``fn``; what that yields is waited for too."""
        self._handles += 1
        handle = Handle(self, kind, self._handles)
        name = f"{kind} {handle.number}" + (f" of rank {rank}" if rank is not None else "")
        self.env.process(self._perform(handle, cost, fn, rank, what), name)
        return handle

    def _perform(self, handle: Handle, cost: Any, fn: Callable[[], Any] | None, rank: int | None, what: str) -> Any:
        start = self.env.now
        try:
            yield cost if isinstance(cost, Event) else self.env.timeout(cost)
            result = fn() if fn is not None else None
            if isinstance(result, GeneratorType):
                result = yield from result
            handle.result = result
        except GeneratorExit:
            raise
        except BaseException as error:
            handle.error = error
        self.op_log.append(Op(handle.kind, start, self.env.now, rank, what))
        self.completions += 1
        handle.end.succeed()

    def wait(self, h: Handle) -> Any:
        """Makes time pass until an operation is over; raises its error, returns its result. Only the main program may."""
        if not is_main():
            raise RuntimeError("only the main program drives the engine: a worker waits with ctx.wait")
        self.env._drive(h.end)
        if h.error is not None:
            raise h.error
        return h.result


def _spec(topology: Any) -> Mapping[str, Any]:
    for _ in range(3):
        if isinstance(topology, Mapping):
            return topology
        found = getattr(topology, "spec", None)
        topology = getattr(topology, "topology_obj", None) if found is None else found
    return {}


def _count(value: Any, default: int) -> int:
    """A number of parts: itself, the ``count`` of a section, or its rows by its columns."""
    if isinstance(value, Mapping):
        if "count" in value:
            return _count(value["count"], default)
        for across, down in (("columns", "rows"), ("w", "h"), ("cols", "rows")):
            if across in value or down in value:
                return _count(value.get(across), 1) * _count(value.get(down), 1)
        return default
    return default if value is None else int(value)


def _sips(spec: Mapping[str, Any]) -> int:
    system = spec.get("system") or {}
    return max(1, _count((system.get("sips") if isinstance(system, Mapping) else None), 1))


def _machine(spec: Mapping[str, Any], sips: int) -> phalanx.MachineSpec:
    if "pe" in spec and "cube" in spec:
        return phalanx.machine(spec, system__sips__count=sips)
    sip = spec.get("sip") or {}
    cubes = _count(sip.get("cubes", sip.get("cube_mesh")), 1)
    pes = _count(sip.get("pes_per_cube", spec.get("pes_per_cube")), 1)
    changes = {"system.sips.count": sips, "sip.cubes.rows": 1, "sip.cubes.columns": cubes, "cube.pes.rows": 1, "cube.pes.columns": pes}
    return phalanx.machine("quad-sip", **changes)
