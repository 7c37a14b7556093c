"""Many runs and large ones: the tuner, tables of collectives, sweeps, machines of many SIPs, and threads.

Most rows are judged by our own value. Times of rows with a must in wall time need quiet cores; `--quick`
takes smaller cases, which have no must of their own.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from programs import ROOT, BenchError, Progress, cargo_program, given_program, run_checked
from report import Row

SUMMARY = "the tuner, tables of collectives, sweeps and large machines"
PROGRAM_VARIABLE = "PHALANX_SCALE_PROGRAM"
CACHE_VARIABLE = "PHALANX_CACHE"

LIMIT = "its limit"
ONE_CORE = "one core"
ONE_THREAD = "one thread"
SMALLER = "half the ranks"


@dataclass(frozen=True)
class Took:
    """The times and the memory of a command, its children included."""

    wall_s: float
    cpu_s: float
    peak_mb: float


Run = Callable[[Sequence[str | Path], Mapping[str, str]], Took]


def run(quick: bool, progress: Progress) -> list[Row]:
    """Builds what is needed and measures."""
    progress.say("building phalanx")
    phalanx = given_program(PROGRAM_VARIABLE) or cargo_program("phalanx", ROOT, ["--locked", "-p", "phalanx-cli"])
    rows: list[Row] = []
    for measure in (mlp_rows, table_rows, growth_rows, large_rows, sweep_rows, shard_rows):
        rows.extend(measure(phalanx, quick, progress, took))
    return rows


def mlp_rows(phalanx: Path, quick: bool, progress: Progress, run: Run) -> list[Row]:
    """`run tp-mlp` with 64 ranks: the first time, when the tuner has tried nothing, and the second."""
    hidden, tokens = ("1024", "512") if quick else ("4096", "2048")
    sizes = ["-p", f"hidden={hidden}", "-p", f"tokens={tokens}", "--data", "off", "--advice", "off"]
    command = [phalanx, "run", "tp-mlp", "--machine", "pod-64", *sizes]
    first, second = twice(command, run, progress, "tp-mlp on pod-64")
    name = f"tp-mlp pod-64, hidden {hidden}, {tokens} tokens"
    return [
        own(f"{name}, first time, wall", first.wall_s, 1.5, "s", goal=0.7, judged=not quick),
        own(f"{name}, first time, CPU", first.cpu_s, 3.0, "s", judged=False),
        own(f"{name}, second time, wall", second.wall_s, 1.5, "s", judged=False),
        own(f"{name}, second time, CPU", second.cpu_s, 1.5, "s", judged=False),
    ]


def table_rows(phalanx: Path, quick: bool, progress: Progress, run: Run) -> list[Row]:
    """`ccl all_reduce` over all sizes, the first time and the second."""
    most = "1M" if quick else "1G"
    command = [phalanx, "ccl", "all_reduce", "-b", "1K", "-e", most, "-f", "2", "--machine", "pod-64"]
    first, second = twice(command, run, progress, f"ccl all_reduce 1K..{most} on pod-64")
    name = f"ccl all_reduce 1K..{most}, pod-64"
    return [
        own(f"{name}, first time, wall", first.wall_s, 30.0, "s", goal=10.0, judged=not quick),
        own(f"{name}, first time, CPU", first.cpu_s, 60.0, "s", judged=False),
        own(f"{name}, second time, wall", second.wall_s, 0.1, "s", judged=not quick),
    ]


def growth_rows(phalanx: Path, quick: bool, progress: Progress, run: Run) -> list[Row]:
    """`all-reduce` with `auto`: what twice the ranks cost, the tuner included."""
    largest = 64 if quick else 256
    took_of = {}
    for ranks in (largest // 2, largest):
        progress.say(f"all-reduce with auto, {ranks} ranks")
        machine = ["--machine", "pod-64", "--set", f"system.sips.count={ranks}"]
        command = [phalanx, "run", "all-reduce", *machine, "--data", "off", "--advice", "off", "--no-cache"]
        took_of[ranks] = run(command, {}).cpu_s
    name = f"all-reduce with auto, {largest} ranks over {largest // 2}, CPU"
    return [own(name, took_of[largest] / took_of[largest // 2], 4.0, "x", judged=False, beside=SMALLER)]


def large_rows(phalanx: Path, quick: bool, progress: Progress, run: Run) -> list[Row]:
    """4 KiB on very many SIPs: by recursive doubling behind one switch and in two levels, and by `two_level`."""
    sips, side = (1024, 32) if quick else (16384, 128)
    node = f"system.levels=[{{name: node, count: {side}, topology: switch, nics: 8, "
    node += "link: {bandwidth: 16 GB/s, latency: 5 us}}]"
    flat = ["--set", f"system.sips.count={sips}"]
    levels = ["--set", f"system.sips.count={side}", "--set", node]
    cases = (
        ("one switch", flat, "recursive_doubling"),
        ("two levels", levels, "recursive_doubling"),
        ("two levels", levels, "two_level"),
    )
    rows = []
    for name, machine, algorithm in cases:
        words = algorithm.replace("_", " ")
        progress.say(f"{words} on {sips} SIPs, {name}")
        switch = ["--machine", "bare", "--set", "system.sips.topology=switch", *machine]
        parameters = ["-p", "bytes=4KiB", "-p", f"algorithm={algorithm}", "--data", "off", "--advice", "off"]
        found = run([phalanx, "run", "all-reduce", *switch, *parameters, "--no-cache"], {})
        title = f"{sips} SIPs, 4 KiB {words}, {name}"
        rows.append(own(f"{title}, wall", found.wall_s, 60.0, "s", goal=15.0, judged=not quick))
        rows.append(own(f"{title}, memory a SIP", found.peak_mb / sips, 0.1, "MB", judged=not quick))
    return rows


def sweep_rows(phalanx: Path, quick: bool, progress: Progress, run: Run) -> list[Row]:
    """A sweep of many short points on two cores and on one."""
    points = 100 if quick else 1000
    # A size of about 10 ms a point; the seed changes nothing, and makes points of one size.
    grid = ["-p", f"seed=0..{points - 1}:+1", "-p", "bytes=16MiB", "-p", "algorithm=ring", "--set", "system.sips.count=16"]
    walls = {}
    for jobs in (1, 2):
        progress.say(f"a sweep of {points} points, {jobs} at a time")
        command = [phalanx, "sweep", "run", "all-reduce", "--machine", "bare", *grid, "--data", "off"]
        walls[jobs] = run([*command, "--jobs", str(jobs), "--no-cache"], {}).wall_s
    name = f"sweep of {points} points, two cores"
    must = 1.9 if not quick else None
    return [Row(name, walls[2], walls[1], ONE_CORE, "s", True, "ratio", must=must)]


def shard_rows(phalanx: Path, quick: bool, progress: Progress, run: Run) -> list[Row]:
    """One run on two threads and on one. `auto` is what the program takes by itself, and must not lose."""
    tokens = "512" if quick else "2048"
    sizes = ["-p", "hidden=4096", "-p", f"tokens={tokens}"]
    # The ring of the suite `sim`: what a program does before and after a run counts for little.
    size = "1MiB" if quick else "16MiB"
    ring = ["ring", "--machine", "bare", "--set", "system.sips.count=256", "-p", f"bytes={size}"]
    runs = {"ring of 256": ring, f"tp-mlp pod-64, {tokens} tokens": ["tp-mlp", "--machine", "pod-64", *sizes]}
    rows = []
    for name, arguments in runs.items():
        with tempfile.TemporaryDirectory() as cache:
            command = [phalanx, "run", *arguments, "--data", "off", "--advice", "off"]
            # The first run keeps what the tuner has found: the others are the main run alone.
            progress.say(f"{name}, for the tuner")
            run(command, {CACHE_VARIABLE: cache})
            walls: dict[str, float] = {}
            # In turns, since other programs may come and go; the least of each.
            for _ in range(1 if quick else 5):
                for shards in ("1", "2", "auto"):
                    progress.say(f"{name}, shards {shards}")
                    wall_s = run([*command, "--shards", shards], {CACHE_VARIABLE: cache}).wall_s
                    walls[shards] = min(wall_s, walls.get(shards, wall_s))
        two, auto = (1.5, 0.95) if not quick else (None, None)
        goal = 1.8 if not quick else None
        rows.append(Row(f"{name}, two threads", walls["2"], walls["1"], ONE_THREAD, "s", True, "ratio", must=two, goal=goal))
        rows.append(Row(f"{name}, threads by `auto`", walls["auto"], walls["1"], ONE_THREAD, "s", True, "ratio", must=auto))
    return rows


def own(
    measure: str,
    ours: float,
    must: float,
    unit: str,
    *,
    goal: float | None = None,
    judged: bool = True,
    beside: str = LIMIT,
) -> Row:
    """A row that is judged by our own value, or by nothing."""
    bars = (must, goal) if judged else (None, None)
    return Row(measure, ours, must, beside, unit, True, "ours", must=bars[0], goal=bars[1])


def twice(command: Sequence[str | Path], run: Run, progress: Progress, name: str) -> tuple[Took, Took]:
    """Runs a command with an empty cache, and again with what the first run has kept."""
    with tempfile.TemporaryDirectory() as cache:
        progress.say(f"{name}, first time")
        first = run(command, {CACHE_VARIABLE: cache})
        progress.say(f"{name}, second time")
        return first, run(command, {CACHE_VARIABLE: cache})


def took(command: Sequence[str | Path], environment: Mapping[str, str]) -> Took:
    """Runs a program to its end; `/usr/bin/time` is not everywhere, so the kernel's account of children is read."""
    # The peak of children never falls: a child of its own asks for the peak of one command alone.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    peak = peak_of(command, environment)
    wall_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall_s, cpu_s, peak)


ASK_PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def peak_of(command: Sequence[str | Path], environment: Mapping[str, str]) -> float:
    """Runs a command in a process between; returns its peak of memory in MB."""
    finished = run_checked([sys.executable, "-c", ASK_PEAK, *command], environment={**os.environ, **environment})
    try:
        return int(finished.stdout) * 1024 / 1e6
    except ValueError:
        raise BenchError(f"no peak of memory: {finished.stdout[:200]!r}") from None
