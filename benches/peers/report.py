"""Rows of a comparison, and how they are judged and printed."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal

HEADER = ("measure", "ours", "peer", "ratio", "must", "goal", "verdict")


@dataclass(frozen=True)
class Row:
    """One measure, ours and a peer's, in the same unit.

    `must` and `goal` bound either the ratio or our own value, as `judged` says.
    """

    measure: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    lower_is_better: bool
    judged: Literal["ratio", "ours"]
    must: float | None = None
    goal: float | None = None

    @property
    def ratio(self) -> float:
        """The factor by which ours is better than the peer; infinite beside nothing."""
        better, worse = (self.peer, self.ours) if self.lower_is_better else (self.ours, self.peer)
        return better / worse if worse > 0 else math.inf

    @property
    def verdict(self) -> str:
        """`goal` or `must` when reached, `missed` when the must is not, `below goal` when there is no must."""
        if self.goal is not None and self.reaches(self.goal):
            return "goal"
        if self.must is None:
            return "below goal" if self.goal is not None else "-"
        return "must" if self.reaches(self.must) else "missed"

    def reaches(self, bar: float) -> bool:
        """True if the judged value is as good as `bar`."""
        if self.judged == "ratio":
            return self.ratio >= bar
        return self.ours <= bar if self.lower_is_better else self.ours >= bar

    def bar_text(self, bar: float | None) -> str:
        """A bound with its direction: `>= 100x` on the ratio, `<= 500 ms` on our value."""
        if bar is None:
            return "-"
        if self.judged == "ratio":
            return f">= {bar:.4g}x"
        return f"{'<=' if self.lower_is_better else '>='} {bar:g} {self.unit}"


def as_json(rows: Sequence[Row]) -> str:
    """The rows as one JSON object."""
    return json.dumps({"rows": [row_object(row) for row in rows]}, indent=2)


def row_object(row: Row) -> dict[str, object]:
    """One row for JSON."""
    return {
        "measure": row.measure,
        "ours": row.ours,
        "peer": row.peer,
        "peer_name": row.peer_name,
        "unit": row.unit,
        "ratio": row.ratio if math.isfinite(row.ratio) else None,
        "must": row.must,
        "goal": row.goal,
        "judged": row.judged,
        "verdict": row.verdict,
    }


def as_table(rows: Sequence[Row]) -> str:
    """The rows as aligned text: words to the left, numbers to the right."""
    numbers = [HEADER.index(name) for name in ("ours", "ratio", "must", "goal")]
    return aligned([HEADER, *(row_cells(row) for row in rows)], to_the_right=numbers)


def aligned(lines: Sequence[Sequence[str]], to_the_right: Container[int]) -> str:
    """Lines of cells as columns; those in `to_the_right` end together, the others start together."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(table_line(line, widths, to_the_right) for line in lines)


def table_line(cells: Sequence[str], widths: Sequence[int], to_the_right: Container[int]) -> str:
    """One line of a table."""
    padded = (
        cell.rjust(width) if column in to_the_right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def row_cells(row: Row) -> tuple[str, ...]:
    """One row as text."""
    return (
        row.measure,
        f"{number(row.ours)} {row.unit}",
        f"{number(row.peer)} {row.unit} ({row.peer_name})",
        f"{number(row.ratio)}x",
        row.bar_text(row.must),
        row.bar_text(row.goal),
        row.verdict,
    )


def number(value: float) -> str:
    """Three significant digits or a little more, never an exponent."""
    if math.isinf(value):
        return "inf"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits}f}"
