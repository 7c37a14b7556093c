"""Costs of a task by pattern and runtime, and how they are printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import report
from report import Row, number

OURS = "phalanx"  # `.threads().sub_workers(2)`, as the README shows it; what the ratios of the table refer to


@dataclass(frozen=True)
class Cost:
    """The full cost of one task."""

    pattern: str
    runtime: str
    threads: int
    ns_per_task: float


@dataclass(frozen=True)
class Costs:
    """All costs, the smallest useful task of each runtime, and what is said about them."""

    rows: Sequence[Cost]
    metg_ns: dict[str, float]
    verdicts: Sequence[Row] = ()
    notes: Sequence[str] = ()

    def find(self, pattern: str, runtime: str) -> float | None:
        """The cost in one pattern on one runtime, if it was measured."""
        return next((row.ns_per_task for row in self.rows if (row.pattern, row.runtime) == (pattern, runtime)), None)


def as_json(costs: Costs) -> str:
    """The costs as one JSON object."""
    return json.dumps({"rows": [asdict(row) for row in costs.rows], "metg_ns": costs.metg_ns}, indent=2)


def as_table(costs: Costs) -> str:
    """A line for each runtime, then what is judged, then the notes."""
    patterns = list(dict.fromkeys(row.pattern for row in costs.rows))
    runtimes = list(dict.fromkeys([*(row.runtime for row in costs.rows), *costs.metg_ns]))
    lines = [("ns per task (times ours)", *patterns, "METG(50 %)")]
    lines += [runtime_cells(costs, runtime, patterns) for runtime in runtimes]
    table = report.aligned(lines, to_the_right=range(1, len(lines[0])))
    return "\n\n".join([table, report.as_table(costs.verdicts), "\n".join(costs.notes)]).rstrip()


def runtime_cells(costs: Costs, runtime: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """One runtime as text."""
    cells = [ratio_text(costs.find(pattern, runtime), costs.find(pattern, OURS)) for pattern in patterns]
    return (runtime, *cells, ratio_text(costs.metg_ns.get(runtime), costs.metg_ns.get(OURS)))


def ratio_text(cost: float | None, ours: float | None) -> str:
    """A cost, and how many times ours it is."""
    if cost is None:
        return "-"
    return f"{number(cost)} ({number(cost / ours)}x)" if ours else number(cost)
