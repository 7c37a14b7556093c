"""The Python package: what one operation of a kernel costs, a ring written in Python beside SimPy, spawning, and moving numbers.

Every figure is CPU time of one process; the package is built and installed into the bench's own environment first.
"""

from __future__ import annotations

import resource
from pathlib import Path

from interpreter import python_with
from programs import BUILD_LIMIT_S, HERE, ROOT, Progress, cargo_program, run_checked, run_json
from report import Row

SUMMARY = "kernels and ranks in Python, against their limits, SimPy and numpy"

LIMIT = "its limit"

# The way of a kernel, must, goal: microseconds of one vector operation.
OPERATIONS = (("greenlet", 2.0, 1.2), ("recorded", 0.5, 0.3), ("replayed", 0.25, 0.15))


# The pools of processes beside workers.
POOLS = {"pool": "multiprocessing.Pool", "futures": "concurrent.futures", "joblib": "joblib"}


def run(quick: bool, progress: Progress) -> list[Row]:
    """Installs the package and measures."""
    python = python_with(HERE / "requirements.txt")
    progress.say("building and installing the package")
    run_checked([python, "-m", "pip", "install", "--quiet", str(ROOT)], limit_s=BUILD_LIMIT_S)
    progress.say("kernels, ranks and copies in Python")
    values = run_json([python, HERE / "python_costs.py", *(["--quick"] if quick else [])]).values
    rows = [
        Row(f"one vector operation, {way}", values[f"{way}_us"], must, LIMIT, "us", True, "ours", must=must, goal=goal)
        for way, must, goal in OPERATIONS
    ]
    rows.append(ring_row(python, 16 if quick else 64, values["ring_recorded_s"], progress))
    rows.append(ranks_row(values["all_reduce_ms"], quick, progress))
    spawns = "1 000 spawns" if quick else "10 000 spawns"
    for name, key, unit, must in (("objects", "spawn_objects_left", "", 100.0), ("memory", "spawn_growth_kib", "KiB", 1024.0)):
        rows.append(Row(f"{name} left by {spawns}, half failing", float(values[key]), must, LIMIT, unit, True, "ours", must=must))
    rows.append(task_row(python, quick, progress))
    copies = (
        ("numpy to tensor, 64 MiB", "to_tensor_ms", "plain_copy_ms", "one plain copy"),
        ("tensor to numpy, 64 MiB", "to_numpy_ms", "numpy_copy_ms", "one copy by numpy"),
    )
    for name, key, peer, peer_name in copies:
        # One copy, on a machine that is not alone.
        rows.append(Row(name, values[key], values[peer], peer_name, "ms", True, "ratio", must=0.5))
    return rows


def task_row(python: Path, quick: bool, progress: Progress) -> Row:
    """An empty Python task in a child, beside the best pool of processes."""
    costs = {}
    for kind in ("phalanx", *POOLS):
        progress.say(f"empty tasks in children: {kind}")
        values = run_json([python, HERE / "worker_costs.py", kind, *(["--quick"] if quick else [])]).values
        if "skipped" not in values:
            costs[kind] = float(values["cpu_us"])
    ours = costs.pop("phalanx")
    best = min(costs, key=lambda kind: costs[kind])
    return Row("an empty Python task in a child", ours, costs[best], POOLS[best], "us", True, "ratio", must=3.0, goal=10.0)


def ring_row(python: Path, ranks: int, ours: float, progress: Progress) -> Row:
    """A ring all-reduce whose kernel is Python, beside the same in SimPy with its kernels in greenlets."""
    progress.say(f"the ring on SimPy with greenlets, P={ranks}")
    peer = run_json([python, HERE / "simpy_ring.py", str(ranks), "--greenlets"]).values["cpu_s"]
    name = f"16 MiB ring, its kernel in Python, P={ranks}"
    return Row(name, ours, peer, "SimPy with greenlets", "s", True, "ratio", must=15.0, goal=40.0)


def ranks_row(ours_ms: float, quick: bool, progress: Progress) -> Row:
    """An all-reduce whose ranks are Python, beside the same with ranks in Rust."""
    progress.say("an all-reduce of 64 ranks in Rust")
    bench = cargo_program("ranks_bench", ROOT, ["--locked", "-p", "phalanx-torch", "--example", "ranks_bench"])
    rounds = 4 if quick else 10
    # The cost of the start of the program is left out.
    peer_ms = (cpu_of([bench, "ranks", "64", str(1 + rounds)]) - cpu_of([bench, "ranks", "64", "1"])) / rounds * 1e3
    # At most 1.25 times the time is a ratio of at least 0.8.
    return Row("16 MiB ring all-reduce, 64 Python ranks", ours_ms, peer_ms, "ranks in Rust", "ms", True, "ratio", must=0.8, goal=0.95)


def cpu_of(command: list[str | Path]) -> float:
    """The CPU time of a program, in seconds."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    run_checked(command)
    return spent() - before
