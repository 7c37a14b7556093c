"""Triton kernels as people write them who know GPUs, each against numpy."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import phalanx
import pytest

triton = pytest.importorskip("triton", reason="triton is not installed")

import phalanx.triton  # noqa: E402
import triton.language as tl  # noqa: E402
from phalanx.errors import PhalanxError  # noqa: E402

pytestmark = pytest.mark.usefixtures("triton_device")

Pair = namedtuple("Pair", ("source", "target"))


def numbers(*shape: int, kind: Any = np.float32) -> Any:
    return (np.random.default_rng(5).random(shape) + 0.1).astype(kind)


@triton.jit
def shifted(pair, by, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(pair[1] + i, tl.load(pair[0] + i) + by)


@pytest.mark.parametrize("make", [lambda x, y: (x, y), Pair])
def test_arrays_come_in_tuples(make: Any) -> None:
    x = numbers(16)
    out = np.zeros_like(x)
    shifted[(1,)](make(x, out), 2.0, N=16)
    assert np.array_equal(out, x + 2)
    whole = np.zeros(16, np.int32)
    shifted[(1,)](make(np.arange(16, dtype=np.int32), whole), 1, N=16)
    assert np.array_equal(whole, np.arange(16) + 1)


@triton.jit
def counted(x, out, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


def test_a_histogram() -> None:
    x, out = np.random.default_rng(1).integers(0, 16, 128).astype(np.int32), np.zeros(16, np.int32)
    counted[(1,)](x, out, N=128, BINS=16)
    assert np.array_equal(out, np.bincount(x, minlength=16))


@triton.jit
def scanned(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.cumprod(v, 0))
    tl.store(out + N + i, tl.cumsum(v, 0, reverse=True))
    tl.store(out + 2 * N + i, tl.flip(v))
    tl.store(out + 3 * N + tl.arange(0, 4), tl.topk(v, 4))


def test_scans_flips_and_the_largest() -> None:
    x, out = numbers(32), np.zeros(3 * 32 + 4, np.float32)
    scanned[(1,)](x, out, N=32)
    expected = [np.cumprod(x), np.cumsum(x[::-1])[::-1], x[::-1], np.sort(x)[::-1][:4]]
    np.testing.assert_allclose(out, np.concatenate(expected), rtol=1e-4)


@triton.jit
def interleaved(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    both = tl.interleave(tl.load(x + i), tl.load(x + i) + 1)
    left, right = tl.split(tl.reshape(both, (N, 2)))
    tl.store(out + tl.arange(0, 2 * N), both)
    tl.store(out + 2 * N + i, left * right)


def test_tiles_are_interleaved_and_split() -> None:
    x, out = numbers(16), np.zeros(48, np.float32)
    interleaved[(1,)](x, out, N=16)
    assert np.array_equal(out[:32:2], x) and np.array_equal(out[1:32:2], x + 1) and np.array_equal(out[32:], x * (x + 1))


@triton.jit
def optional(x, bias, out, N: tl.constexpr, ACTIVATION: tl.constexpr):
    i = tl.arange(0, N)
    if tl.program_id(0) >= 1:
        return
    v = tl.load(x + i)
    if bias is not None:
        v += tl.load(bias + i)
    if ACTIVATION == "relu":
        v = tl.maximum(v, 0)
    tl.store(out + i, v)


def test_nothing_words_and_early_returns() -> None:
    x = numbers(16) - 0.5
    out = np.zeros_like(x)
    optional[(3,)](x, None, out, N=16, ACTIVATION="relu")
    assert np.array_equal(out, np.maximum(x, 0))
    optional[(3,)](x, x, out, N=16, ACTIVATION="none")
    assert np.array_equal(out, x + x)


@triton.jit
def turned(x, out, M, N, TILE: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[TILE, TILE])
    target = tl.make_tensor_descriptor(out, shape=[N, M], strides=[M, 1], block_shape=[TILE, TILE])
    i, j = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    target.store([j, i], source.load([i, j]).T)


def test_descriptors_transpose_a_matrix_that_tiles_do_not_divide() -> None:
    x, out = numbers(40, 24), np.zeros((24, 40), np.float32)
    turned[(3, 2)](x, out, 40, 24, TILE=16)
    assert np.array_equal(out, x.T)


@triton.jit
def whole_product(a, b, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j)))


def test_a_product_of_small_whole_numbers() -> None:
    a, b = (np.random.default_rng(seed).integers(-8, 8, (32, 32)).astype(np.int8) for seed in (1, 2))
    out = np.zeros((32, 32), np.int32)
    whole_product[(1,)](a, b, out, N=32)
    assert np.array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


@triton.jit
def swizzled(out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), M, N, 2)
    tl.store(out + i * N + j, tl.program_id(0) * N + tl.program_id(1))


def test_programs_in_swizzled_order() -> None:
    out = np.full((4, 4), -1, np.int32)
    swizzled[(4, 4)](out, M=4, N=4)
    assert sorted(out.ravel()) == list(range(16))


@triton.jit
def assembled(x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + i)], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(x + i, v)


def test_what_no_machine_of_ours_has_is_named_with_its_line() -> None:
    with pytest.raises(Exception, match=r"test_triton_outsiders.py:\d+: .*inline_asm.*not supported"):
        assembled[(1,)](numbers(16), N=16)


@triton.jit
def product_of_8_bits(a, c, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    half = tl.load(a + at).to(tl.float8e5)
    tl.store(c + at, tl.dot(half, half))


def test_a_product_of_8_bits_needs_a_machine_that_has_it() -> None:
    a, c = np.eye(32, dtype=np.float32) * 2, np.zeros((32, 32), np.float32)
    phalanx.triton.use("hgx-a100")
    with pytest.raises(PhalanxError, match=r"test_triton_outsiders.py:\d+: .*f8"):
        product_of_8_bits[(1,)](a, c, N=32)
    phalanx.triton.use("hgx-h100")
    product_of_8_bits[(1,)](a, c, N=32)
    assert np.array_equal(c, a * 2)
