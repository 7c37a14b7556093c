"""The comparisons the bench knows, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from programs import Progress
from report import Row

from . import ranks, sim


@dataclass(frozen=True)
class Suite:
    """A comparison: what it is about, and how to run it (quick or not)."""

    summary: str
    run: Callable[[bool, Progress], list[Row]]


SUITES = {"sim": Suite(sim.SUMMARY, sim.run), "ranks": Suite(ranks.SUMMARY, ranks.run)}
