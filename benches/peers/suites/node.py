"""Workers that are processes: tasks, calls, groups, starting, idling and dying, beside what no runtime can beat.

Ours, the floors and the peers are measured in turns, in one run. Every bar is on our own value; the rows against floors and
peers are ratios without a bar, except where the floor is the bar.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import report
from interpreter import base_python
from programs import HERE, ROOT, BenchError, Outcome, Progress, cargo_program, field, given_program, run_json
from report import Row, row_object

SUMMARY = "workers that are processes, against the machine's limits and Python's process pools"
BENCH_VARIABLE = "PHALANX_NODE_BENCH"

LIMIT = "its limit"
PEERS = ("process-pool", "ray", "dask")
ROUNDS = 3

# Title, the name of ours, true if less is better, must, goal.
BARS = (
    ("no-op task, independent, 1-4 children", "independent_us", True, 2.0, 0.2),
    ("task in a chain, one child", "chain_us", True, 5.0, 0.5),
    ("one task, run end to end", "run_one_us", True, 20.0, 5.0),
    ("group of 2", "group2_us", True, 40.0, 20.0),
    ("group of 8", "group8_us", True, 400.0, 100.0),
    ("8 children, no-op tasks a second", "noop8_per_s", False, 0.5e6, 2e6),
    ("8 children, tasks of 16 us, of the ideal", "share16_percent", False, 60.0, 80.0),
    ("8 idle children and their parent", "idle_cpu_percent", True, 1.0, 0.1),
    ("a million tasks, memory of all", "million_rss_mib", True, 64.0, 16.0),
    ("init of 8 children", "init8_ms", True, 150.0, None),
    ("close", "close_ms", True, 50.0, 5.0),
    ("kill -9 until the caller knows", "kill_notice_ms", True, 20.0, 0.16),
    ("kill -9 of a child of 1 GiB", "kill_notice_1gib_ms", True, 20.0, 0.16),
)

# Title, the name of ours, the name and the words of the floor.
FLOORS = (
    ("task in a chain, one child", "chain_us", "raw_spin_us", "a word, spinning"),
    ("task in a chain, one child", "chain_us", "raw_yield_us", "a word, yielding"),
    ("one task, run end to end", "run_one_us", "raw_spin_us", "a word, spinning"),
    ("one task, run end to end", "run_one_us", "raw_yield_us", "a word, yielding"),
    ("one task, run end to end", "run_one_us", "raw_futex_us", "a word, sleeping"),
    ("one child until it is ready", "spawn_ms", "spawn_self_ms", "posix_spawn of the same"),
    ("one child until it is ready", "spawn_ms", "spawn_true_ms", "posix_spawn of true"),
    ("init of 8 children", "init8_ms", "spawn8_ms", "8 posix_spawn of the same"),
)

# Title, the name of ours, the name of the peer's.
COMPARED = (
    ("no-op task, independent", "independent2_us", "independent_us"),
    ("one task, run end to end", "run_one_us", "run_one_us"),
    ("init of 8 children", "init8_ms", "init8_ms"),
    ("kill -9 until the caller knows", "kill_notice_ms", "kill_notice_ms"),
)


class Programs(Protocol):
    """The programs of the suite; each call is one process."""

    def ours(self) -> Outcome: ...
    def peer(self, name: str) -> Outcome: ...


class BuiltPrograms:
    """The real programs."""

    def __init__(self, quick: bool, progress: Progress) -> None:
        progress.say("building node_bench")
        self.options = ["--quick"] if quick else []
        self.bench = given_program(BENCH_VARIABLE) or build_bench()
        self.python = base_python()

    def ours(self) -> Outcome:
        return run_json([self.bench, *self.options])

    def peer(self, name: str) -> Outcome:
        return run_json([self.python, HERE / "process_pools.py", name, *self.options])


def build_bench() -> Path:
    """Builds our side of the comparison."""
    try:
        return cargo_program("node_bench", ROOT, ["-p", "phalanx-runtime", "--example", "node_bench"])
    except BenchError as error:
        hint = f"hint: `{BENCH_VARIABLE}` can name a `node_bench` that is built already"
        raise BenchError(f"{error}\n{hint}") from error


@dataclass(frozen=True)
class Found:
    """All figures of ours and of the floors, and what is said about them."""

    figures: Figures
    verdicts: Sequence[Row]


def as_json(found: Found) -> str:
    """The figures and the verdicts as one JSON object."""
    figures = found.figures
    rows = [{"measure": name, "value": figures.value(name), "unit": figures.unit(name)} for name in figures.names()]
    return json.dumps({"rows": rows, "verdicts": [row_object(row) for row in found.verdicts]}, indent=2)


def as_table(found: Found) -> str:
    """The verdicts as aligned text."""
    return report.as_table(found.verdicts)


def run(quick: bool, progress: Progress) -> Found:
    """Builds what is needed and measures everything."""
    return measure(BuiltPrograms(quick, progress), 1 if quick else ROUNDS, progress)


def measure(programs: Programs, rounds: int, progress: Progress) -> Found:
    """Every figure, the median of the rounds, with the verdicts on ours."""
    progress.note(f"load average before the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    ours: list[dict[str, tuple[float, str]]] = []
    theirs: dict[str, list[dict[str, float]]] = {name: [] for name in PEERS}
    for number in range(rounds):
        progress.say(f"round {number + 1} of {rounds}, ours")
        ours.append({row["measure"]: (row["value"], row["unit"]) for row in field(programs.ours(), "rows")})
        for name in PEERS:
            progress.say(f"round {number + 1} of {rounds}, {name}")
            values = programs.peer(name).values
            if "skipped" in values:
                if number == 0:
                    progress.note(f"skipped: {values['skipped']}")
                continue
            theirs[name].append(values)
    figures = Figures(ours)
    return Found(figures, judge(figures, {name: found for name, found in theirs.items() if found}))


class Figures:
    """The medians of ours."""

    def __init__(self, rounds: Sequence[dict[str, tuple[float, str]]]) -> None:
        self.rounds = rounds

    def names(self) -> Sequence[str]:
        """The names of the measurements, in order."""
        return list(self.rounds[0])

    def value(self, name: str) -> float:
        """One figure, which has to be there."""
        try:
            return statistics.median(found[name][0] for found in self.rounds)
        except KeyError as error:
            raise BenchError(f"node_bench printed no `{name}`") from error

    def unit(self, name: str) -> str:
        """Its unit."""
        return self.rounds[0][name][1]


def judge(ours: Figures, theirs: dict[str, list[dict[str, float]]]) -> list[Row]:
    """First what must hold, then the floors, then the peers."""
    rows = [
        Row(what, ours.value(name), must, LIMIT, ours.unit(name), lower, "ours", must=must, goal=goal)
        for what, name, lower, must, goal in BARS
    ]
    # Less than nothing is measured when the machine was busier during the floor.
    above = max(ours.value("init8_ms") - ours.value("spawn8_ms"), 0.01)
    rows.append(Row("init of 8 children, above exec", above, 5.0, LIMIT, "ms", True, "ours", goal=5.0))
    rows += [
        Row(what, ours.value(name), ours.value(floor), words, ours.unit(name), True, "ratio")
        for what, name, floor, words in FLOORS
    ]
    for peer, found in theirs.items():
        for what, name, measured in COMPARED:
            values = [values[measured] for values in found if measured in values]
            if values:
                median = statistics.median(values)
                rows.append(Row(what, ours.value(name), median, peer, ours.unit(name), True, "ratio"))
    return rows
