#!/usr/bin/env python3
"""The cost of an empty Python task in another process: `worker_costs.py phalanx|pool|futures|joblib [--quick]`.

Prints JSON: microseconds a task of many that are submitted one by one (CPU time of all processes together, and wall time), and of one
that is waited for. `{"skipped": ...}` where the package is not installed. Batches are left out: each task is sent by itself.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORKERS = 2


def nothing() -> None:
    """The task."""


def cpu_seconds(processes: list[int]) -> float:
    """CPU time of all threads of these processes and of this one."""
    spent = 0
    for process in [os.getpid(), *processes]:
        for thread in Path(f"/proc/{process}/task").iterdir():
            spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e9


def measure(wave: Callable[[int], Any], one: Callable[[], Any], processes: list[int], quick: bool) -> dict[str, float]:
    """Microseconds of a task: the best of three waves, and the median of single calls."""
    tasks, calls = (2000, 100) if quick else (10_000, 500)
    wave(200)
    costs = []
    for _ in range(3):
        cpu, wall = cpu_seconds(processes), time.perf_counter()
        wave(tasks)
        wall, cpu = time.perf_counter() - wall, cpu_seconds(processes) - cpu
        costs.append((cpu * 1e6 / tasks, wall * 1e6 / tasks))
    singles = []
    for _ in range(calls):
        begun = time.perf_counter()
        one()
        singles.append((time.perf_counter() - begun) * 1e6)
    return {"cpu_us": min(cpu for cpu, _ in costs), "wall_us": min(wall for _, wall in costs), "call_us": statistics.median(singles)}


def phalanx(quick: bool) -> dict[str, float]:
    """Sub workers of `phalanx.runtime`."""
    from phalanx import runtime

    with runtime.Worker([nothing], sub_workers=WORKERS) as worker:

        def wave(count: int) -> None:
            def graph(graph: runtime.Orchestrator) -> None:
                for _ in range(count):
                    graph.submit_sub(nothing)

            worker.run(graph)

        processes = [child.process for child in worker.startup.children]
        return measure(wave, lambda: worker.call(nothing), processes, quick)


def pool(quick: bool) -> dict[str, float]:
    """`multiprocessing.Pool`."""
    with multiprocessing.get_context("spawn").Pool(WORKERS) as workers:

        def wave(count: int) -> None:
            for result in [workers.apply_async(nothing) for _ in range(count)]:
                result.get()

        processes = [child.pid for child in multiprocessing.active_children() if child.pid]
        return measure(wave, lambda: workers.apply(nothing), processes, quick)


def futures(quick: bool) -> dict[str, float]:
    """`concurrent.futures.ProcessPoolExecutor`."""
    with concurrent.futures.ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as workers:
        concurrent.futures.wait([workers.submit(time.sleep, 0.05) for _ in range(4 * WORKERS)])
        processes = [child.pid for child in multiprocessing.active_children() if child.pid]

        def wave(count: int) -> None:
            concurrent.futures.wait([workers.submit(nothing) for _ in range(count)])

        return measure(wave, lambda: workers.submit(nothing).result(), processes, quick)


def joblib(quick: bool) -> dict[str, float]:
    """`joblib.Parallel` on its own processes."""
    from joblib import Parallel, delayed

    with Parallel(n_jobs=WORKERS, batch_size=1) as workers:
        processes = sorted({*workers(delayed(slow_number)() for _ in range(8 * WORKERS))})

        def wave(count: int) -> None:
            workers(delayed(nothing)() for _ in range(count))

        return measure(wave, lambda: workers([delayed(nothing)()]), processes, quick)


def slow_number() -> int:
    """The process that runs it; slow, so that every process runs one."""
    time.sleep(0.05)
    return os.getpid()


KINDS = {"phalanx": phalanx, "pool": pool, "futures": futures, "joblib": joblib}


def main(arguments: list[str]) -> None:
    """Measures one kind."""
    kind, *options = arguments
    try:
        found: dict[str, Any] = KINDS[kind]("--quick" in options)
    except ModuleNotFoundError as error:
        found = {"skipped": f"no Python package `{error.name}`"}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
