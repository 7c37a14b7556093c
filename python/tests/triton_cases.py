"""Cases for the kernels of ``triton_kernels.py``: arguments drawn from a seed, and how near two results must be."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
KERNELS = str(HERE / "triton_kernels.py")

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """One launch. ``types`` names the types of arrays that numpy does not have; ``tolerance`` 0 means bit by bit."""

    kernel: str
    grid: tuple[int, ...]
    arguments: list[Any]
    constants: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0
    types: list[str | None] = field(default_factory=list)
    file: str = KERNELS

    def __post_init__(self) -> None:
        if not self.types:
            self.types = [None] * len(self.arguments)

    def __str__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in self.arguments)
        return f"{self.kernel}{list(self.grid)}({shapes}, {self.constants})"


def run_cases(cases: list[Case], backend: str, timeout: float = 900.0, **environment: str) -> list[Any]:
    """The results of cases in a child process: ``backend`` is ``interpreter`` or ``phalanx``."""
    with tempfile.TemporaryDirectory() as directory:
        given, got = Path(directory, "cases"), Path(directory, "results")
        given.write_bytes(pickle.dumps(cases))
        chosen = {"TRITON_INTERPRET": "1"} if backend == "interpreter" else {"TRITON_DEFAULT_BACKEND": "phalanx"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "PHALANX_"))}
        cache = {"TRITON_CACHE_DIR": os.environ.get("TRITON_CACHE_DIR", str(Path(directory, "cache")))}
        done = subprocess.run(
            [sys.executable, str(HERE / "triton_worker.py"), str(given), str(got)],
            env={**kept, **cache, **chosen, **environment}, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise AssertionError(f"the {backend} failed:\n{done.stdout}{done.stderr}")
        return list(pickle.loads(got.read_bytes()))


def difference(case: Case, expected: Any, got: Any) -> str | None:
    """The first difference, in words; ``None`` if there is none."""
    if isinstance(expected, str) or isinstance(got, str):
        side = "the interpreter" if isinstance(expected, str) else "phalanx"
        return f"{case}: {side} failed:\n{expected if isinstance(expected, str) else got}"
    for place, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        if case.tolerance == 0.0 or wanted.dtype.kind in "iub":
            same = _bits(wanted) == _bits(found)
            if wanted.dtype.kind == "f":
                same |= np.isnan(wanted) & np.isnan(found)
        else:
            left, right = wanted.astype(np.float64), found.astype(np.float64)
            scale = float(np.max(np.abs(left[np.isfinite(left)]), initial=1.0))
            same = (left == right) | (np.isnan(left) & np.isnan(right)) | (np.abs(left - right) <= case.tolerance * scale)
        if not same.all():
            at = tuple(int(axis[0]) for axis in np.nonzero(~same))
            count = int((~same).sum())
            return f"{case}: array {place} differs in {count} of {same.size} elements, first at {at}: {wanted[at]!r} expected, {found[at]!r} found"
    return None


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array


def _ceil(number: int, by: int) -> int:
    return -(-number // by)


def _two(rng: np.random.Generator, low: int, high: int) -> int:
    """A power of two."""
    return 1 << int(rng.integers(low, high + 1))


def all_cases(rounds: int = 2, seed: int = 16) -> list[Case]:
    """Every kernel, with arguments of ``rounds`` draws."""
    rng = np.random.default_rng(seed)
    return [case for _ in range(rounds) for make in MAKERS for case in make(rng)]


def _normal(rng: np.random.Generator, *shape: int, kind: Any = np.float32) -> Array:
    return rng.standard_normal(shape).astype(kind)


def _whole(rng: np.random.Generator, low: int, high: int, *shape: int, kind: Any = np.int32) -> Array:
    return rng.integers(low, high, shape).astype(kind)


def elements(rng: np.random.Generator) -> Iterator[Case]:
    for kind in (np.float32, np.float16, np.int32, np.int64, np.int8):
        count, block = int(rng.integers(1, 3000)), _two(rng, 5, 10)
        made = _normal if np.dtype(kind).kind == "f" else (lambda rng, n, kind: _whole(rng, -100, 100, n, kind=kind))
        x, y = made(rng, count, kind=kind), made(rng, count, kind=kind)
        yield Case("add", (_ceil(count, block),), [x, y, np.zeros_like(x), count], {"BLOCK": block})
    count = int(rng.integers(1, 1000))
    x = _normal(rng, count)
    yield Case("functions", (_ceil(count, 256),), [x, np.zeros_like(x), count], {"BLOCK": 256}, 1e-5)
    for kind in (np.int32, np.int64):
        a, b = _whole(rng, -10000, 10000, count, kind=kind), _whole(rng, 1, 500, count, kind=kind)
        yield Case("whole_numbers", (_ceil(count, 128),), [a, b, np.zeros_like(a), count], {"BLOCK": 128})
    a, b = _whole(rng, 0, 2**32, count, kind=np.uint32), _whole(rng, 1, 2**32, count, kind=np.uint32)
    yield Case("whole_numbers", (_ceil(count, 128),), [a, b, np.zeros_like(a), count], {"BLOCK": 128})
    x = np.clip(_normal(rng, count) * 50, -120, 120).astype(np.float32)
    outs = [np.zeros(count, kind) for kind in (np.float16, np.float32, np.int8, np.int64, np.int32)]
    # The interpreter cuts off where bf16 and 8-bit floats are rounded: tests of their own look at these.
    yield Case("casts", (_ceil(count, 64),), [x, *outs, count], {"BLOCK": 64, "BRAIN": False})
    yield Case("drop", (_ceil(count, 256),), [x, np.zeros_like(x), 0.7, int(rng.integers(1, 1 << 30)), count], {"BLOCK": 256})
    yield Case("noise", (_ceil(count, 256),), [np.zeros_like(x), np.zeros(count, np.int32), int(rng.integers(1, 1 << 30)), count], {"BLOCK": 256}, 1e-5)


def rows(rng: np.random.Generator) -> Iterator[Case]:
    height, width = int(rng.integers(1, 40)), int(rng.integers(2, 500))
    x = _normal(rng, height, width)
    block = 1 << (width - 1).bit_length()
    yield Case("softmax", (min(8, height),), [x, np.zeros_like(x), width, width, height, width], {"BLOCK": block, "STAGES": 2}, 1e-5)
    yield Case("moments", (height,), [x, np.zeros(height, np.float32), np.zeros(height, np.float32), width], {"BLOCK": block}, 1e-5)
    wide = int(rng.integers(33, 64))
    y = _normal(rng, 16, wide)
    outs = [np.zeros(64, np.float32), np.zeros(16, np.float32), np.zeros(16, np.float32), np.zeros(16, np.int32), np.zeros(1, np.float32)]
    yield Case("reductions", (1,), [y, *outs, wide], {"BLOCK_M": 16, "BLOCK_N": 64}, 1e-5)
    h = _normal(rng, height, width, kind=np.float16)
    weight, bias = _normal(rng, width, kind=np.float16), _normal(rng, width, kind=np.float16)
    mean, rstd = np.zeros(height, np.float32), np.zeros(height, np.float32)
    yield Case("layer_norm", (height,), [h, np.zeros_like(h), weight, bias, mean, rstd, width, width, 1e-5], {"BLOCK": 128}, 2e-3)
    f = h.astype(np.float32)
    mean, rstd = f.mean(1).astype(np.float32), (1 / np.sqrt(f.var(1) + 1e-5)).astype(np.float32)
    parts = [np.zeros((4, width), np.float32) for _ in range(2)]
    yield Case(
        "layer_norm_backward", (height,),
        [np.zeros_like(h), _normal(rng, height, width, kind=np.float16), *parts, h, weight.astype(np.float32), mean, rstd, np.zeros(8, np.int32), width, width],
        {"GROUPS": 4, "BLOCK": block}, 2e-3,
    )  # fmt: skip
    yield Case("sum_of_parts", (_ceil(width, 32),), [x, np.zeros(width, np.float32), height, width], {"BLOCK_M": 8, "BLOCK_N": 32}, 1e-5)


def matrices(rng: np.random.Generator) -> Iterator[Case]:
    m, n, k = (int(rng.integers(10, 150)) for _ in range(3))
    for kind, out, tolerance in ((np.float16, np.float16, 2e-3), (np.float32, np.float32, 2e-3)):
        a, b = _normal(rng, m, k, kind=kind), _normal(rng, n, k, kind=kind)
        sizes = {"BLOCK_M": _two(rng, 4, 6), "BLOCK_N": _two(rng, 4, 6), "BLOCK_K": _two(rng, 4, 5), "GROUP": int(rng.integers(1, 5)), "LEAKY": bool(rng.integers(2))}
        grid = (_ceil(m, sizes["BLOCK_M"]) * _ceil(n, sizes["BLOCK_N"]),)
        # The second operand is a transposed view: columns are far apart.
        yield Case("matmul", grid, [a, b, np.zeros((m, n), out), m, n, k, k, 1, 1, k, n, 1], sizes, tolerance)
    m, n, k = 64, 96, 160
    a, b = _normal(rng, m, k, kind=np.float16), _normal(rng, k, n, kind=np.float16)
    sizes = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
    yield Case("matmul_by_descriptor", (2, 3), [a, b, np.zeros((m, n), np.float16), m, n, k], sizes, 2e-3)
    m, n, k = (int(rng.integers(10, 100)) for _ in range(3))
    a, b = _normal(rng, m, k), _normal(rng, k, n)
    yield Case("matmul_persistent", (3,), [a, b, np.zeros((m, n), np.float32), m, n, k], {**sizes, "PROGRAMS": 3}, 1e-4)
    a, b = _whole(rng, -100, 100, 16, 32, kind=np.int8), _whole(rng, -100, 100, 32, 16, kind=np.int8)
    yield Case("small_dot", (1,), [a, b, np.zeros((16, 16), np.int32)], {"M": 16, "N": 16, "K": 32})
    a, b = _normal(rng, 2, 16, 32, kind=np.float16), _normal(rng, 2, 32, 16, kind=np.float16)
    yield Case("batched_dot", (1,), [a, b, np.zeros((2, 16, 16), np.float32)], {"B": 2, "M": 16, "N": 16, "K": 32}, 1e-4)


    for left, right in (("e4m3", "e5m2"), ("e2m1", "e4m3"), ("e5m2", "e2m1"), ("bf16", "e2m1")):
        m, n, k = 16, 32, 64
        # Exponents of 8 bits that are not all set; scales near one.
        small = {"e2m1": (1, 256), "e4m3": (8, 120), "e5m2": (16, 100), "bf16": (1, 256)}

        def made(kind: str, rows: int, columns: int) -> Array:
            if kind == "bf16":
                return (_normal(rng, rows, columns).view(np.uint32) >> 16).astype(np.uint16)
            return _whole(rng, *small[kind], rows, columns, kind=np.uint8)

        a = made(left, m, k // 2 if left == "e2m1" else k)
        b = made(right, k // 2 if right == "e2m1" else k, n)
        scales = [_whole(rng, 122, 132, rows, k // 32, kind=np.uint8) for rows in (m, n)]
        sizes = {"M": m, "N": n, "K": k, "LEFT": left, "RIGHT": right, "BOTH": left != "bf16"}
        types = ["bfloat16" if left == "bf16" else None, None, None, None, None]
        yield Case("scaled_dot", (1,), [a, scales[0], b, scales[1], np.zeros((m, n), np.float32)], sizes, 1e-5, types)


def attention(rng: np.random.Generator) -> Iterator[Case]:
    heads, length, depth = int(rng.integers(1, 4)), 64 * int(rng.integers(1, 3)), 32
    q, k, v, grad = (_normal(rng, heads * length, depth, kind=np.float16) for _ in range(4))
    for causal in (False, True):
        out, tops = np.zeros_like(q), np.zeros(heads * length, np.float32)
        sizes = {"LENGTH": length, "DEPTH": depth, "BLOCK_M": 32, "BLOCK_N": 16, "CAUSAL": causal}
        yield Case("attention", (length // 32, heads), [q, k, v, out, tops, 0.2, heads], sizes, 3e-3)
        grads = [np.zeros_like(q) for _ in range(3)]
        level = (8 + rng.random(heads * length)).astype(np.float32)
        deltas = _normal(rng, heads * length)
        sizes = {"BLOCK_M": 16, "BLOCK_N": 32, "DEPTH": depth, "CAUSAL": causal}
        yield Case("attention_backward", (length // 32, 1, heads), [q, k, v, grad, *grads, level, deltas, 0.2, length], sizes, 4e-3)
    yield Case("attention_deltas", (length // 32, heads), [q, grad, np.zeros(heads * length, np.float32), length], {"BLOCK": 32, "DEPTH": depth}, 1e-4)


def shapes(rng: np.random.Generator) -> Iterator[Case]:
    height, width = int(rng.integers(1, 6)), int(rng.integers(2, 200))
    x = _normal(rng, height, width)
    yield Case("scans", (height,), [x, np.zeros_like(x), np.zeros_like(x), width], {"BLOCK": 256}, 1e-4)
    yield Case("last_set", (1,), [_normal(rng, 128), _whole(rng, 0, 2, 128), np.zeros(128, np.float32)], {"BLOCK": 128})
    y = _normal(rng, 3, 64)
    yield Case("sorted_rows", (3,), [y, np.zeros_like(y), np.zeros((3, 4), np.float32)], {"BLOCK": 64, "TOP": 4})
    z = _normal(rng, 128)
    yield Case("shapes", (1,), [z, np.zeros_like(z), np.zeros(256, np.float32), np.zeros_like(z)], {"BLOCK": 128})
    yield Case("picked", (1,), [_normal(rng, 16, 32), _whole(rng, 0, 32, 16, 32), np.zeros((16, 32), np.float32)], {"BLOCK_M": 16, "BLOCK_N": 32})
    count = int(rng.integers(1, 1000))
    yield Case("counted", (_ceil(count, 256),), [_whole(rng, 0, 16, count), np.zeros(16, np.int32), count], {"BLOCK": 256, "BINS": 16})
    table, known = _normal(rng, 50, 64), int(rng.integers(1, 100))
    yield Case("looked_up", (_ceil(known, 32),), [table, _whole(rng, -5, 60, known, kind=np.int64), np.zeros((known, 64), np.float32), known, 50], {"BLOCK": 32, "WIDTH": 64})
    tall, broad = int(rng.integers(1, 70)), int(rng.integers(1, 70))
    w = _normal(rng, tall, broad)
    yield Case("cut_up", (_ceil(broad, 16), _ceil(tall, 32)), [w, np.zeros((broad, tall), np.float32), tall, broad, broad, 1], {"BLOCK_M": 32, "BLOCK_N": 16})


def control(rng: np.random.Generator) -> Iterator[Case]:
    x = _normal(rng, 8, 64)
    x[3] = -np.abs(x[3])
    yield Case("leaves_early", (8,), [x, np.ones_like(x), int(rng.integers(1, 9))], {"BLOCK": 64})
    yield Case("rows_up_to", (1,), [_normal(rng, 9, 32), _whole(rng, 0, 10, 1), np.zeros(32, np.float32)], {"BLOCK": 32}, 1e-5)
    yield Case("collatz", (8,), [_whole(rng, 1, 1000, 8), np.zeros(8, np.int32)], {"BLOCK": 1})
    yield Case("calls", (1,), [_normal(rng, 128), np.zeros(128, np.float32)], {"BLOCK": 128}, 1e-6)
    count = int(rng.integers(1, 1000))
    outs = [np.zeros(9, np.int32), np.full(8, -1000, np.int32), np.full(8, 100000, np.int32), np.array([0, 0, -1], np.int32)]
    # The order of programs is the machine's: what each saw before is compared as a set, by the test.
    yield Case("atomics", (1,), [_whole(rng, 1, 500, min(count, 128)), *outs, np.zeros(1, np.int32), min(count, 128)], {"BLOCK": 128})
    yield Case("three_axes", (3, 4, 5), [np.zeros(60, np.int32)], {"WIDTH": 1, "DEPTH": 1})
    y = _normal(rng, 4, 200)
    yield Case("wide_offsets", (4,), [y, np.zeros_like(y), 200], {"BLOCK": 128})


MAKERS = [elements, rows, matrices, attention, shapes, control]
