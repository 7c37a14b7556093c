#!/usr/bin/env python3
"""The time that numpy takes for the two pieces of math that a ring and a GEMM kernel repeat.

Adds one 16 KiB slot of f16 to another, and multiplies two 128 x 128 f16 matrices as numpy users
do: cast both to f32, then `@`, on one thread. Prints one JSON object: slot_add_us, dot_us.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read when numpy is imported

import numpy  # noqa: E402

SLOT_ELEMENTS = (16 << 10) // 2
SIDE = 128
BATCH_S = 0.002
BATCHES = 150


def batch_size(work: Callable[[], object]) -> int:
    """The number of calls that fill one batch, so that the clock's own cost does not count."""
    work()
    start = time.perf_counter()
    work()
    return max(1, round(BATCH_S / (time.perf_counter() - start)))


def median_us(work: Callable[[], object]) -> float:
    """The median over batches of the CPU time of one call."""
    calls = batch_size(work)
    samples = []
    for _ in range(BATCHES):
        start = time.process_time()
        for _ in range(calls):
            work()
        samples.append((time.process_time() - start) / calls)
    return statistics.median(samples) * 1e6


def slot_add_us(rng: numpy.random.Generator) -> float:
    """The sum of two f16 slots, into a third that is there already."""
    left, right = (rng.uniform(-1, 1, SLOT_ELEMENTS).astype(numpy.float16) for _ in range(2))
    total = numpy.empty_like(left)
    return median_us(lambda: numpy.add(left, right, out=total))


def dot_us(rng: numpy.random.Generator) -> float:
    """The f32 product of two f16 matrices."""
    left, right = (rng.uniform(-1, 1, (SIDE, SIDE)).astype(numpy.float16) for _ in range(2))
    return median_us(lambda: left.astype(numpy.float32) @ right.astype(numpy.float32))


def main() -> None:
    """Prints the medians."""
    rng = numpy.random.default_rng(2)
    print(json.dumps({"slot_add_us": slot_add_us(rng), "dot_us": dot_us(rng)}))


if __name__ == "__main__":
    main()
