#!/usr/bin/env python3
"""The costs of the Python package: CPU time of one vector operation in each way of a kernel, of a ring written in Python, of spawning
ranks, and of moving numbers. Prints one JSON object. Runs with the package installed.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import phalanx
import phalanx.distributed as dist
import phalanx.multiprocessing as mp
from phalanx._context import current_rank

OPERATIONS = 20_000
RING_BYTES, SLOT = 16 << 20, 16 << 10


def cpu(act: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time of some repeats, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.process_time()
        act()
        best = min(best, time.process_time() - begun)
    return best


def chain(tl: Any, x: Any, count: int) -> None:
    tile = tl.load(x)
    for _ in range(count):
        tile = tl.add(tile, tile)
    tl.store(x, tile)


def operation_costs() -> dict[str, float]:
    """Microseconds of one vector operation: greenlet, recorded, replayed, native."""
    script = [("load", [0, 0, 64])]
    for index in range(OPERATIONS):
        script += [("add", [index, index]), ("free", [index])]
    costs = {}

    def timed(launch: Callable[[Any, int], Any]) -> float:
        context = phalanx.Context("pair", data=False)

        def program(count: int) -> None:
            launch(phalanx.ones(64), count).wait()

        context.run(program, 10)
        whole, start = cpu(lambda: context.run(program, OPERATIONS)), cpu(lambda: context.run(program, 10))
        return (whole - start) / OPERATIONS * 1e6

    for mode, replay in (("greenlet", False), ("recorded", False), ("recorded", True)):
        made = phalanx.kernel(chain, mode=mode, replay=replay)
        name = "replayed" if replay else mode
        costs[f"{name}_us"] = timed(lambda x, count, made=made: made[1](x, count))
    costs["native_us"] = timed(lambda x, count: phalanx.Work(current_rank().launch_script(1, [x._core], script[: 1 + 2 * count])))
    return costs


@phalanx.kernel
def ring(tl: Any, x: Any, ranks: int, chunk: int) -> None:
    """A ring all-reduce over queues of four slots, as `simpy_ring.py` has it."""
    me = tl.pe[0]
    to, back = tl.sender(((me + 1) % ranks, 0, 0)), tl.receiver(((me - 1) % ranks, 0, 0))
    part = len(x) // ranks
    for step in range(2 * (ranks - 1)):
        out, into = (me - step) % ranks * part, (me - step - 1) % ranks * part
        for at in range(0, part, chunk):
            tl.send_async(to, tl.load(x[out + at : out + at + chunk]))
            tile = tl.recv(back, chunk, "f32")
            if step < ranks - 1:
                tile = tl.add(tile, tl.load(x[into + at : into + at + chunk]))
            tl.store_async(x[into + at : into + at + chunk], tile)


def ring_cost(ranks: int) -> dict[str, float]:
    """Seconds of a ring all-reduce of 16 MiB whose kernel is Python: recorded, and replayed."""
    context = phalanx.Context("bare", data=False, system__sips__count=ranks)
    elements = RING_BYTES // 4

    def worker(rank: int) -> None:
        ring[1](phalanx.empty(elements), ranks, SLOT // 4).wait()

    first = cpu(lambda: context.spawn(worker), 1)
    again = cpu(lambda: context.spawn(worker), 2)
    return {"ring_recorded_s": first, "ring_replayed_s": again}


def all_reduce_cost() -> dict[str, float]:
    """Milliseconds of a ring all-reduce of 16 MiB by 64 ranks in Python, a context each time."""
    machine = phalanx.machine("bare", system__sips__count=64)

    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(phalanx.empty(RING_BYTES // 4))

    def act() -> None:
        phalanx.Context(machine, data=False, ccl={"defaults": {"algorithm": "ring"}}).spawn(worker)

    act()
    return {"all_reduce_ms": cpu(act, 10) * 1e3}


def spawn_costs(count: int) -> dict[str, float]:
    """Microseconds of a spawn of four ranks, half of them failing, and what is left behind."""
    context = phalanx.Context("quad-sip")

    def worker(rank: int, fails: bool) -> None:
        if fails and rank == 1:
            raise ValueError(rank)

    def spawns(number: int) -> None:
        for index in range(number):
            try:
                context.spawn(worker, (index % 2 == 0,))
            except mp.SpawnException:
                pass

    spawns(200)
    gc.collect()
    objects, memory = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = cpu(lambda: spawns(count), 1)
    gc.collect()
    return {
        "spawn_us": spent / count * 1e6,
        "spawn_objects_left": len(gc.get_objects()) - objects,
        "spawn_growth_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory,
    }


def copy_costs() -> dict[str, float]:
    """Milliseconds of 64 MiB from numpy to a tensor and back, the least of some, beside one copy: to new memory of the allocator, and to a new
    array, which numpy asks large pages for."""
    array = np.ones(16 << 20, np.float32)
    context = phalanx.Context("pair", threads=1)
    there, back = [], []

    def program() -> None:
        begun = time.process_time()
        x = phalanx.from_numpy(array)
        there.append(time.process_time() - begun)
        x.ready()
        begun = time.process_time()
        x.numpy()
        back.append(time.process_time() - begun)

    for _ in range(8):
        context.run(program)
    return {
        "to_tensor_ms": min(there) * 1e3,
        "to_numpy_ms": min(back) * 1e3,
        "plain_copy_ms": cpu(array.tobytes, 8) * 1e3,
        "numpy_copy_ms": cpu(array.copy, 8) * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    values = operation_costs()
    values.update(ring_cost(16 if quick else 64))
    values.update(all_reduce_cost())
    values.update(spawn_costs(1000 if quick else 10_000))
    values.update(copy_costs())
    print(json.dumps(values))


if __name__ == "__main__":
    main()
