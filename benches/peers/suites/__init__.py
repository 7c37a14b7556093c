"""The comparisons the bench knows, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import costs
import report
from programs import Progress

from . import engine, node, python, ranks, scale, sim, triton


@dataclass(frozen=True)
class Suite:
    """A comparison: what it is about, how to run it (quick or not), and how to print what it found."""

    summary: str
    run: Callable[[bool, Progress], Any]
    as_json: Callable[[Any], str] = report.as_json
    as_table: Callable[[Any], str] = report.as_table


SUITES = {
    "sim": Suite(sim.SUMMARY, sim.run),
    "ranks": Suite(ranks.SUMMARY, ranks.run),
    "engine": Suite(engine.SUMMARY, engine.run, costs.as_json, costs.as_table),
    "node": Suite(node.SUMMARY, node.run, node.as_json, node.as_table),
    "python": Suite(python.SUMMARY, python.run),
    "triton": Suite(triton.SUMMARY, triton.run),
    "scale": Suite(scale.SUMMARY, scale.run),
}
