"""The task engine against OpenMP, Taskflow, oneTBB and StarPU: the same graphs of tasks that do nothing.

Ours and the peers take turns, so that a slow minute of the machine hits both; every value is a
median. The order in which a peer runs the tasks is checked before its cost counts.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import metg
import steady
from costs import OURS, Cost, Costs
from native import Missing, Native
from programs import HERE, ROOT, BenchError, Outcome, Progress, cargo_program, field, given_program, run_json
from report import Row

SUMMARY = "the task engine against OpenMP, Taskflow, oneTBB and StarPU"
BENCH_VARIABLE = "PHALANX_ENGINE_BENCH"

PATTERNS = ("independent", "chain", "stencil", "wavefront", "random")
THREADS = 2
INLINE = "phalanx-inline"
STATIC = "static"
METG_PEER = "onetbb"
LIMIT = "its limit"
QUIET_LOAD = 0.7

SOURCES = HERE / "engine"
FLOOR = Native(STATIC, SOURCES / "floor.cpp", "g++")
PEERS = (
    Native("openmp-gcc", SOURCES / "openmp.cpp", "g++", "omp.h", flags=("-fopenmp",)),
    Native("openmp-clang", SOURCES / "openmp.cpp", "clang libomp-dev", "omp.h", "clang++", ("-fopenmp",)),
    Native("taskflow-dynamic", SOURCES / "taskflow_dynamic.cpp", "libtaskflow-cpp-dev", "taskflow/taskflow.hpp"),
    Native("taskflow-graph", SOURCES / "taskflow_graph.cpp", "libtaskflow-cpp-dev", "taskflow/taskflow.hpp"),
    Native("onetbb", SOURCES / "onetbb.cpp", "libtbb-dev", "tbb/flow_graph.h", flags=("-ltbb",)),
    Native("starpu", SOURCES / "starpu.cpp", "libstarpu-dev pkg-config", "starpu.h", pkg_config="libstarpu"),
)


@dataclass(frozen=True)
class Plan:
    """The amount of work of a suite."""

    rounds: int
    repeats: int  # of one program
    tasks: int
    steps: int  # of METG


FULL = Plan(rounds=3, repeats=3, tasks=50_000, steps=2_000)
QUICK = Plan(rounds=1, repeats=1, tasks=10_000, steps=500)
# libgomp's cost of a task grows with the tasks that wait for the same address.
FEWER_TASKS = {("openmp-gcc", "stencil"): 5_000}


class Programs(Protocol):
    """The programs of the suite; each call is one process."""

    @property
    def peers(self) -> Sequence[str]: ...
    def ours(self) -> Outcome: ...
    def peer(self, name: str, *arguments: str) -> Outcome: ...
    def floor(self, *arguments: str) -> Outcome: ...


class BuiltPrograms:
    """The real programs. Ours comes first: without it there is nothing to compare."""

    def __init__(self, progress: Progress) -> None:
        progress.say("building engine_bench")
        self.bench = given_program(BENCH_VARIABLE) or build_bench()
        self.built = dict(build_peers(progress))
        try:
            self.floor_path = FLOOR.build()
        except Missing as error:
            raise BenchError("the peers need a C++ compiler: `g++` on Debian") from error

    @property
    def peers(self) -> Sequence[str]:
        return list(self.built)

    def ours(self) -> Outcome:
        return run_json([self.bench])

    def peer(self, name: str, *arguments: str) -> Outcome:
        return run_json([self.built[name], *arguments])

    def floor(self, *arguments: str) -> Outcome:
        return run_json([self.floor_path, *arguments])


def build_bench() -> Path:
    """Builds our side of the comparison."""
    try:
        return cargo_program("engine_bench", ROOT, ["-p", "phalanx-runtime", "--example", "engine_bench"])
    except BenchError as error:
        hint = f"hint: `{BENCH_VARIABLE}` can name an `engine_bench` that is built already"
        raise BenchError(f"{error}\n{hint}") from error


def build_peers(progress: Progress) -> Iterator[tuple[str, Path]]:
    """The peers that are installed; a word for each that is not."""
    for peer in PEERS:
        progress.say(f"building {peer.name}")
        try:
            yield peer.name, peer.build()
        except Missing as error:
            progress.note(f"skipped: {error}")


def run(quick: bool, progress: Progress) -> Costs:
    """Builds what is needed and measures everything."""
    return measure(BuiltPrograms(progress), QUICK if quick else FULL, progress)


def measure(programs: Programs, plan: Plan, progress: Progress) -> Costs:
    """Every cost, with the verdicts on ours."""
    load = os.getloadavg()[0]
    bench = Bench(programs, plan, progress)
    bench.check_peers()
    for number in range(plan.rounds):
        bench.round(f"round {number + 1} of {plan.rounds}")
    costs = Costs(bench.rows(), bench.metg_medians())
    return replace(costs, verdicts=judge(costs), notes=[bench.steady.note(), load_note(load)])


class Bench:
    """Runs the programs in turns and collects what counts."""

    def __init__(self, programs: Programs, plan: Plan, progress: Progress) -> None:
        self.programs = programs
        self.plan = plan
        self.progress = progress
        self.costs: dict[tuple[str, str, int], list[float]] = {}
        self.metg: dict[str, list[float]] = {}
        progress.say("measuring the cache-line round trip and the peak")
        self.steady = steady.Steady(self.line_ns, steady.told_bounds(os.environ))
        self.peak_per_s = positive(programs.floor("peak", *options(threads=THREADS)), "iterations_per_s")

    def line_ns(self) -> float:
        """The round trip of a cache line between two cores, now."""
        return positive(self.programs.floor("line"), "line_ns")

    def check_peers(self) -> None:
        """Every peer keeps the order of every pattern."""
        for peer in self.programs.peers:
            for pattern in PATTERNS:
                self.progress.say(f"checking {peer}, {pattern}")
                arguments = options(threads=THREADS, tasks=self.tasks(peer, pattern))
                if self.programs.peer(peer, pattern, *arguments, "--check").values.get("violations") != 0:
                    raise BenchError(f"{peer} runs the tasks of `{pattern}` out of order")

    def round(self, name: str) -> None:
        """Ours and each peer once."""
        self.progress.say(f"{name}, ours")
        self.take_ours()
        for peer in self.programs.peers:
            for pattern in PATTERNS:
                self.progress.say(f"{name}, {peer}, {pattern}")
                self.take_peer(peer, pattern)
        for runtime in (STATIC, *self.programs.peers):
            self.progress.say(f"{name}, {runtime}, METG")
            self.take_metg(runtime)

    def take_ours(self) -> None:
        """All that our program measures."""
        outcome = self.steady.run(self.programs.ours)
        if outcome is None:
            # Without ours there is nothing to compare: better a figure with a word than none.
            self.progress.note(f"ours was measured while the machine moved: {self.steady.note()}")
            outcome = self.programs.ours()
        for row in field(outcome, "rows"):
            self.add(Cost(row["pattern"], row["runtime"], row["threads"], row["ns_per_task"]))
        for runtime, ns in field(outcome, "metg_ns").items():
            self.add_metg(runtime, ns)

    def take_peer(self, peer: str, pattern: str) -> None:
        """One pattern on one peer."""
        arguments = options(threads=THREADS, tasks=self.tasks(peer, pattern), repeats=self.plan.repeats)
        outcome = self.steady.run(lambda: self.programs.peer(peer, pattern, *arguments))
        if outcome is None:
            self.progress.note(f"dropped: {peer}, {pattern}: {self.steady.note()}")
            return
        self.add(Cost(pattern, peer, THREADS, positive(outcome, "ns_per_task")))

    def take_metg(self, runtime: str) -> None:
        """The smallest useful task of one peer, or of the static schedule."""
        self.add_metg(runtime, metg.sweep(lambda iterations: self.metg_point(runtime, iterations)))

    def add_metg(self, runtime: str, found: float | None) -> None:
        """One more METG; a word if there is none."""
        if found is None:
            self.progress.note(f"no METG of {runtime}: it never kept half of the peak")
            return
        self.metg.setdefault(runtime, []).append(found)

    def metg_point(self, runtime: str, iterations: int) -> metg.Point | None:
        """One size of task; as wide as there are cores."""
        plan = self.plan
        sizes = options(threads=THREADS, width=THREADS, iterations=iterations, steps=plan.steps, repeats=plan.repeats)
        program = self.programs.floor if runtime == STATIC else partial(self.programs.peer, runtime)
        outcome = self.steady.run(lambda: program("metg", *sizes))
        if outcome is None:
            return None
        return metg.point(iterations, positive(outcome, "ns_per_task"), THREADS, self.peak_per_s)

    def tasks(self, peer: str, pattern: str) -> int:
        """The number of tasks to run."""
        return min(self.plan.tasks, FEWER_TASKS.get((peer, pattern), self.plan.tasks))

    def add(self, cost: Cost) -> None:
        """One more sample."""
        self.costs.setdefault((cost.pattern, cost.runtime, cost.threads), []).append(cost.ns_per_task)

    def rows(self) -> list[Cost]:
        """The median of each cost."""
        return [Cost(*key, statistics.median(samples)) for key, samples in self.costs.items()]

    def metg_medians(self) -> dict[str, float]:
        """The median METG of each runtime."""
        return {runtime: statistics.median(samples) for runtime, samples in self.metg.items()}


def load_note(load: float) -> str:
    """The load of the machine when the suite started: two threads that share their cores measure the scheduler."""
    advice = "" if load < QUIET_LOAD else ": not a quiet machine, do not trust these figures"
    return f"load average before the run {load:.1f}{advice}"


def judge(costs: Costs) -> list[Row]:
    """The rows with their bars and goals; a peer that was not measured is not judged."""
    rows = []
    for pattern in PATTERNS:
        inline = find_ours(costs, pattern, INLINE)
        must = 400.0 if pattern == "random" else 250.0
        rows.append(Row(f"inline, {pattern}", inline, must, LIMIT, "ns", True, "ours", must=must, goal=100.0))
    for peer in ("openmp-gcc", "openmp-clang", "starpu"):
        rows += [row for pattern in PATTERNS if (row := threads_row(costs, pattern, peer))]
    ours, theirs = costs.metg_ns.get(OURS), costs.metg_ns.get(METG_PEER)
    if ours and theirs:
        rows.append(Row("METG(50 %)", ours, theirs, METG_PEER, "ns", True, "ratio", must=1 / 2, goal=1.0))
    return rows


def threads_row(costs: Costs, pattern: str, peer: str) -> Row | None:
    """Our threads against one peer."""
    hard = pattern in ("stencil", "wavefront", "random")
    must, goal = {
        "openmp-gcc": (1.0 if hard else None, 1.0),
        "openmp-clang": (1.0, 2.0),
        "starpu": (4.0, 10.0),
    }[peer]
    theirs = costs.find(pattern, peer)
    if theirs is None:
        return None
    ours = find_ours(costs, pattern, OURS)
    return Row(f"task, {pattern}", ours, theirs, peer, "ns", True, "ratio", must=must, goal=goal)


def find_ours(costs: Costs, pattern: str, runtime: str) -> float:
    """A cost of ours, which has to be there."""
    cost = costs.find(pattern, runtime)
    if not cost:
        raise BenchError(f"engine_bench printed no cost of `{pattern}` on `{runtime}`")
    return cost


def options(**values: int) -> list[str]:
    """Options of a program: `--tasks 50000`."""
    return [text for name, value in values.items() for text in (f"--{name}", str(value))]


def positive(outcome: Outcome, name: str) -> float:
    """A value that must be above zero."""
    value = field(outcome, name)
    if not value > 0:
        raise BenchError(f"`{name}` must be positive, not {value}")
    return float(value)
