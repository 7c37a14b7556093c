"""The pools of processes of Python, Ray and Dask: prints what tasks, calls, starting and dying cost there as JSON.

`process_pools.py process-pool|ray|dask [--quick]`; prints `{"skipped": ...}` where the package is not installed.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any

WORKERS = 2


def nothing(_: int = 0) -> None:
    """The task."""


def number() -> int:
    """The process that runs it."""
    return os.getpid()


def hang() -> None:
    """Never returns."""
    while True:
        time.sleep(60)


def median_of(repeats: int, measure: Callable[[], float]) -> float:
    """The median of so many."""
    return statistics.median(measure() for _ in range(repeats))


def seconds(work: Callable[[], Any]) -> float:
    """The duration of `work`."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def start_pool(workers: int) -> ProcessPoolExecutor:
    """A pool whose processes run."""
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("forkserver"))
    concurrent.futures.wait([pool.submit(time.sleep, 0.005) for _ in range(4 * workers)])
    return pool


def costs(pool: Executor, tasks: int, calls: int) -> dict[str, float]:
    """The costs of tasks and calls."""
    wave = seconds(lambda: concurrent.futures.wait([pool.submit(nothing) for _ in range(tasks)]))
    one = median_of(calls, lambda: seconds(lambda: pool.submit(nothing).result()))
    return {"independent_us": wave * 1e6 / tasks, "run_one_us": one * 1e6}


def notice_s(hanging: Future[None], victim: int) -> float:
    """From the death of who runs a task until the caller knows."""
    time.sleep(0.05)
    start = time.perf_counter()
    os.kill(victim, signal.SIGKILL)
    error = hanging.exception(timeout=30)
    took = time.perf_counter() - start
    assert error is not None
    return took


def process_pool(quick: bool) -> dict[str, float]:
    """`concurrent.futures.ProcessPoolExecutor`."""
    with start_pool(WORKERS) as pool:
        found = costs(pool, 1000 if quick else 5000, 100 if quick else 500)

    def init() -> float:
        start = time.perf_counter()
        pool = start_pool(8)
        took = time.perf_counter() - start
        pool.shutdown()
        return took

    def kill() -> float:
        with start_pool(1) as pool:
            victim = pool.submit(number).result()
            return notice_s(pool.submit(hang), victim)

    found["init8_ms"] = 1e3 * median_of(3, init)
    found["kill_notice_ms"] = 1e3 * median_of(3 if quick else 5, kill)
    return found


def ray_tasks(quick: bool) -> dict[str, float]:
    """Tasks of Ray."""
    import ray

    ray.init(num_cpus=WORKERS, logging_level="ERROR", include_dashboard=False)
    task = ray.remote(nothing)
    ray.get([task.remote() for _ in range(100)])
    tasks, calls = (500, 50) if quick else (5000, 200)
    wave = seconds(lambda: ray.get([task.remote() for _ in range(tasks)]))
    one = median_of(calls, lambda: seconds(lambda: ray.get(task.remote())))
    ray.shutdown()
    return {"independent_us": wave * 1e6 / tasks, "run_one_us": one * 1e6}


def dask_tasks(quick: bool) -> dict[str, float]:
    """Tasks of Dask."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        tasks, calls = (500, 50) if quick else (3000, 200)
        client.gather(client.map(nothing, range(100), pure=False))
        wave = seconds(lambda: client.gather(client.map(nothing, range(tasks), pure=False)))
        one = median_of(calls, lambda: seconds(lambda: client.submit(nothing, pure=False).result()))
    return {"independent_us": wave * 1e6 / tasks, "run_one_us": one * 1e6}


KINDS = {"process-pool": process_pool, "ray": ray_tasks, "dask": dask_tasks}


def main(arguments: list[str]) -> None:
    """Measures one kind."""
    kind, *options = arguments
    try:
        found: dict[str, Any] = KINDS[kind]("--quick" in options)
    except ModuleNotFoundError as error:
        found = {"skipped": f"{kind} is not installed (no Python package `{error.name}`)"}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
