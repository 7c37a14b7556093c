"""Times Triton kernels, on Triton's interpreter or on the plugin: ``python triton_costs.py interpreter|phalanx [--quick]``.

Prints one JSON object: CPU seconds of one launch after the first for each case, and for the plugin the cost of a launch and of
autotuning. The environment chooses the backend: ``TRITON_INTERPRET=1``, or ``TRITON_DEFAULT_BACKEND=phalanx``. No torch is needed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

warnings.simplefilter("ignore")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))

import triton  # noqa: E402
import triton_kernels as kernels  # noqa: E402
from triton_worker import HostTensor  # noqa: E402

Array = Any


def cases(interpreted: bool, quick: bool) -> dict[str, tuple[Callable[[], None], Array, Array]]:
    """A launch, its result, and what the result should be, by name."""
    rng = np.random.default_rng(0)

    def give(array: Array) -> Any:
        return HostTensor(array, array.dtype.name) if interpreted else array

    made = {}
    x, y = rng.random(98_432, np.float32), rng.random(98_432, np.float32)
    z = np.zeros_like(x)
    grid = (-(-len(x) // 1024),)
    made["vector add 98 432"] = (lambda: kernels.add[grid](give(x), give(y), give(z), len(x), BLOCK=1024), z, x + y)

    rows = 128 if quick else 1823
    s = rng.standard_normal((rows, 781)).astype(np.float32)
    t = np.zeros_like(s)
    e = np.exp(s - s.max(1, keepdims=True))
    made[f"softmax {rows}x781"] = (
        lambda: kernels.softmax[(min(rows, 264),)](give(s), give(t), 781, 781, rows, 781, BLOCK=1024, STAGES=2), t, e / e.sum(1, keepdims=True),
    )  # fmt: skip

    n = 512
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    c = np.zeros((n, n), np.float16)
    tiles = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8, "LEAKY": False}
    made["matmul f16 512^3"] = (
        lambda: kernels.matmul[(16,)](give(a), give(b), give(c), n, n, n, n, 1, n, 1, n, 1, **tiles), c, a.astype(np.float32) @ b.astype(np.float32),
    )  # fmt: skip

    heads, length, depth = (2, 256, 64) if quick else (8, 1024, 64)
    q, k, v = (rng.standard_normal((heads * length, depth)).astype(np.float16) for _ in range(3))
    out, tops = np.zeros_like(q), np.zeros(heads * length, np.float32)
    sizes = {"LENGTH": length, "DEPTH": depth, "BLOCK_M": 128, "BLOCK_N": 64, "CAUSAL": False}
    made[f"attention 1x{heads}x{length}x{depth}"] = (
        lambda: kernels.attention[(length // 128, heads)](give(q), give(k), give(v), give(out), give(tops), 0.125, heads, **sizes), out, attended(q, k, v, heads),
    )  # fmt: skip
    return made


def attended(q: Array, k: Array, v: Array, heads: int) -> Array:
    q, k, v = (x.astype(np.float32).reshape(heads, -1, x.shape[1]) for x in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).reshape(-1, q.shape[-1])


def cpu_of(call: Callable[[], Any], repeat: int) -> float:
    """CPU seconds of one call, the median."""
    times = []
    for _ in range(repeat):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return sorted(times)[len(times) // 2]


def tiny(values: dict[str, Any], quick: bool) -> None:
    """A launch after the first."""
    x = np.zeros(32, np.float32)
    count = 200 if quick else 2000

    def launches() -> None:
        for _ in range(count):
            kernels.add[(1,)](x, x, x, 32, BLOCK=32)

    launches()
    values["launch_us"] = cpu_of(launches, 5) / count * 1e6


def tuned(values: dict[str, Any]) -> None:
    """Autotuning of the product over 8 configurations, without numbers, compilation included."""
    import phalanx.triton

    phalanx.triton.use("hgx-h100", data=False)
    configs = [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}, num_stages=s)
        for m, n, k, s in ((128, 256, 64, 3), (64, 256, 32, 4), (128, 128, 32, 4), (128, 64, 32, 4), (64, 128, 32, 4), (128, 32, 32, 4), (64, 32, 32, 5), (32, 64, 32, 5))
    ]
    tuner = triton.autotune(configs, key=["M", "N", "K"])(kernels.matmul)
    n = 1024
    a, b, c = (np.zeros((n, n), np.float16) for _ in range(3))

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(n, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    # Loading Triton's compiler takes seconds of its own, once a process.
    kernels.matmul[(1,)](a, b, c, n, n, n, n, 1, n, 1, n, 1, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, GROUP=1, LEAKY=False)
    begun = time.process_time()
    tuner[grid](a, b, c, n, n, n, n, 1, n, 1, n, 1, LEAKY=False)
    values["autotune_s"] = time.process_time() - begun
    values["autotune_best"] = str(tuner.best_config)


def main() -> None:
    interpreted, quick = sys.argv[1] == "interpreter", "--quick" in sys.argv
    values: dict[str, Any] = {}
    for name, (call, got, expected) in cases(interpreted, quick).items():
        call()
        error = float(np.abs(got.astype(np.float32) - expected).max() / np.abs(expected).max())
        if error > 5e-3:
            raise SystemExit(f"{name}: wrong by {error}")
        values[name] = cpu_of(call, 1 if interpreted else 5)
    if not interpreted:
        tiny(values, quick)
        tuned(values)
    print(json.dumps(values))


if __name__ == "__main__":
    main()
