"""METG(50 %): the smallest task that keeps half of the peak rate of all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

ITERATIONS = tuple(1 << power for power in range(4, 17))
HALF = 0.5


@dataclass(frozen=True)
class Point:
    """The size of the tasks of a run, all overhead included, and the share of the peak that they reached."""

    granularity_ns: float
    efficiency: float


def point(iterations: int, ns_per_task: float, threads: int, peak_per_s: float) -> Point:
    """A run of tasks with `iterations` each."""
    return Point(ns_per_task * threads, iterations * 1e9 / ns_per_task / peak_per_s)


def sweep(measure: Callable[[int], Point | None], iterations: Iterable[int] = ITERATIONS) -> float | None:
    """Grows the tasks until they reach half of the peak; runs that do not count are left out."""
    below: Point | None = None
    for count in iterations:
        found = measure(count)
        if found is None:
            continue
        if found.efficiency >= HALF:
            return crossing(below, found)
        below = found
    return None


def crossing(below: Point | None, above: Point) -> float:
    """The granularity at half of the peak, between two points on a logarithmic scale."""
    if below is None:
        return above.granularity_ns
    share = (HALF - below.efficiency) / (above.efficiency - below.efficiency)
    low, high = math.log(below.granularity_ns), math.log(above.granularity_ns)
    return math.exp(low + share * (high - low))
