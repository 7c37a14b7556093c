"""Launches after the first one, whose arguments are known, and the repeats of benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton", reason="triton is not installed")

import phalanx.triton  # noqa: E402
import triton_kernels as kernels  # noqa: E402
from phalanx import _core  # noqa: E402
from phalanx.errors import ArgumentError  # noqa: E402

pytestmark = pytest.mark.usefixtures("triton_device")


def add(x: Any, y: Any, out: Any, count: int) -> None:
    kernels.add[(triton.cdiv(count, 32),)](x, y, out, count, BLOCK=32)


def test_the_same_arrays_come_again_with_other_numbers() -> None:
    x, y, out = np.arange(64, dtype=np.float32), np.ones(64, np.float32), np.zeros(64, np.float32)
    add(x, y, out, 33)
    assert out.tolist() == [*(x + y)[:33], *[0.0] * 31]
    x *= 2
    add(x, y, out, 64)
    assert np.array_equal(out, x + y)
    add(y, x, x, 17)
    assert x.tolist() == [*(out[:17]), *(np.arange(17, 64, dtype=np.float32) * 2)]


def test_an_array_in_the_place_of_a_dead_one_is_another() -> None:
    y, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    for turn in range(50):
        x = np.full(64 + turn % 3, turn, np.float32)
        add(x, y, out, 64)
        assert out.tolist() == [turn + 1.0] * 64
        del x


def test_an_array_that_is_read_only_since_the_last_launch_is_refused() -> None:
    x, out = np.ones(32, np.float32), np.zeros(32, np.float32)
    add(x, x, out, 32)
    x.flags.writeable = False
    add(x, x, out, 32)
    assert out.tolist() == [2.0] * 32
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        add(x, x, out, 32)
    assert out.tolist() == [2.0] * 32


@pytest.mark.parametrize(("dtype", "kind"), [("f32", "float32"), ("i32", "int32"), ("bf16", "uint16"), ("i64", "uint8")])
def test_memory_of_the_host_has_a_type_and_a_size(dtype: str, kind: str) -> None:
    memory = _core.HostMemory(4096, np.zeros(16, kind), dtype)
    assert (memory.dtype, memory.nbytes) == (dtype, 16 * np.dtype(kind).itemsize)
    with pytest.raises(BufferError):
        _core.HostMemory(4096, np.zeros(16, "float64"), dtype)


def test_memory_of_the_host_does_not_end_within_an_element() -> None:
    with pytest.raises(ArgumentError, match="ends within an element"):
        _core.HostMemory(4096, np.zeros(12, "uint8"), "i64")


def test_a_benchmark_measures_once_however_long_it_may_take() -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    calls: list[int] = []

    def once() -> None:
        calls.append(1)
        add(x, x, out, 64)

    times = triton.testing.do_bench(once, warmup=1000, rep=10_000, return_mode="all")
    # One for numbers, five to estimate, one to warm up, one that is measured.
    assert (len(times), len(calls)) == (1, 8)
    assert triton.testing.do_bench(once, quantiles=[0.5, 0.2, 0.8]) == times * 3


def test_a_launch_that_is_only_timed_takes_the_time_of_one_that_is_reported() -> None:
    rows = np.random.default_rng(0).random((40, 100), np.float32)
    out = np.zeros_like(rows)

    def launch() -> None:
        kernels.softmax[(8,)](rows, out, 100, 100, 40, 100, BLOCK=128, STAGES=2)

    device = phalanx.triton.use("hgx-h100")
    timed_ms = triton.runtime.driver.active.get_benchmarker()(launch)
    assert not device.launches and not out.any()
    launch()
    assert device.launches[0].simulated_ps == round(timed_ms * 1e9)
    assert phalanx.triton.report().to_dict()["run"]["critical_path"]["lines"]


def test_a_product_of_torch_is_computed_once_in_a_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    device = triton.runtime.driver.active.get_active_torch_device()
    products, real = [], _core.product
    monkeypatch.setattr(_core, "product", lambda *given: (products.append(1), real(*given))[1])
    a, b = (torch.randn((32, 32), device=device).half() for _ in range(2))
    first = a @ b
    seen = []
    assert np.isnan(triton.testing.do_bench(lambda: seen.append(a @ b)))
    assert all(torch.equal(one, first) for one in seen) and len(products) == 2

    def changing() -> None:
        b.mul_(-1)
        seen.append(a @ b)

    seen.clear()
    triton.testing.do_bench(changing)
    for turn, one in enumerate(seen):
        assert torch.equal(one, -first if turn % 2 == 0 else first)
    # Outside of a benchmark nothing is kept.
    before = len(products)
    assert torch.equal(a @ b, a @ b) and len(products) == before + 2


def test_torch_computes_of_the_same_tensors_once_in_a_benchmark() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch.utils._python_dispatch import TorchDispatchMode

    triton.runtime.driver.active.get_active_torch_device()
    computed: list[str] = []

    class Computed(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            computed.append(function.__name__)
            return function(*args, **(kwargs or {}))

    def times(word: str, call: Callable[[], Any]) -> int:
        computed.clear()
        with Computed():
            assert np.isnan(triton.testing.do_bench(call))
        return sum(name.startswith(f"{word}.") for name in computed)

    x = torch.randn(1 << 16)
    expected = torch.exp(x)
    seen: list[Any] = []
    assert times("exp", lambda: seen.append(torch.exp(x) - x.exp())) == 1 and not any(one.any() for one in seen)
    assert times("max", lambda: seen.append(x.reshape(256, 256).max(1))) == 1 and all(torch.equal(one[0], seen[-1][0]) for one in seen[8:])
    # So is what is computed of results, while nobody holds them.
    assert times("sub", lambda: (torch.exp(x) - x.max()).sum()) == 1 and times("sum", lambda: (torch.exp(x) - x.max()).sum()) == 1
    # A caller may change its result: another caller's result stays, whether torch or numpy makes the change.
    seen.clear()
    assert times("exp", lambda: seen.append(torch.exp(x).mul_(2))) == 8 and all(torch.equal(one, 2 * expected) for one in seen)

    def changes() -> None:
        torch.exp(x).numpy()[:] = 0
        seen.append(torch.exp(x))

    seen.clear()
    times("exp", changes)
    assert all(torch.equal(one, expected) for one in seen)
    # Changed operands, random numbers and small tensors are computed every time.
    assert times("exp", lambda: x.add_(0).exp()) == 8
    seen.clear()
    times("randn", lambda: seen.append(torch.randn_like(x)))
    assert not any(torch.equal(seen[0], one) for one in seen[1:])
    small = torch.randn(8)
    assert times("exp", lambda: torch.exp(small)) == 8
    # Gradients add up.
    w = torch.randn(1 << 16, requires_grad=True)
    assert times("exp", lambda: torch.exp(w).sum().backward()) == 1
    assert torch.allclose(w.grad, 8 * torch.exp(w.detach()))


def test_torch_sees_what_kernels_wrote_in_a_benchmark() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    triton.runtime.driver.active.get_active_torch_device()
    x, out = torch.randn(1 << 16), torch.zeros(1 << 16)
    seen: list[Any] = []

    def call() -> None:
        seen.append(torch.exp(out))
        kernels.add[(64,)](x, x, out, 1 << 16, BLOCK=1024)
        seen.append(torch.exp(out))

    triton.testing.do_bench(call)
    assert torch.equal(seen[0], torch.ones(1 << 16)) and all(torch.equal(one, torch.exp(2 * x)) for one in seen[1:])
