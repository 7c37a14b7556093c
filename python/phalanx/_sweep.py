"""Sweeps: a workload at many points."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _core
from ._machines import MachineSpec, machine as _machine

__all__ = ["SweepRow", "sweep"]

Machine = str | os.PathLike[str] | Mapping[str, Any] | MachineSpec


@dataclass(frozen=True)
class SweepRow:
    """A point of a sweep and its outcome: the simulated time in picoseconds, or the error of a point that cannot run."""

    point: dict[str, str]
    simulated_ps: int | None
    error: str | None


def sweep(
    workload: str,
    machine: Machine | list[Machine] = "quad-sip",
    *,
    values: Mapping[str, Any] | None = None,
    sample: int | None = None,
    seed: int = 0,
    data: bool = False,
    jobs: int | None = None,
) -> list[SweepRow]:
    """Runs a workload of ``phalanx run`` at many points, on all cores, and returns a row for each, in order.

    ``values`` has a list, or one value, for each name. A name with dots is a figure of the machine, others are parameters of the
    workload. Points are all combinations, the last name changes fastest; ``sample`` draws some of them. The rows are the same on
    any number of ``jobs``.

    >>> rows = sweep("ping", "bare", values={"bytes": ["16KiB", "64KiB"]})
    >>> [(row.point["bytes"], row.simulated_ps) for row in rows]
    [('16KiB', 628000), ('64KiB', 1012000)]
    """
    machines = [_machine(one) for one in (machine if isinstance(machine, list) else [machine])]
    axes = [(name, _texts(value)) for name, value in (values or {}).items()]
    rows = _core.run_sweep(workload, machines, axes, sample, seed, data, jobs)
    return [SweepRow(dict(point), time, error) for point, time, error in rows]


def _texts(value: Any) -> list[str]:
    """The values of a name as texts."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        texts = [str(one) for one in value]
        if texts:
            return texts
        raise ValueError("a name of a sweep needs a value")
    return [str(value)]
