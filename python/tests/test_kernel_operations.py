"""Operations of kernels on whole numbers, 8-bit floats, whole tiles and lists of elements, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx


def computed(kernel: Any, arrays: list[np.ndarray[Any, Any]], shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """The values that a kernel on one PE stores into its last argument."""

    def program() -> Any:
        out = phalanx.zeros(shape, dtype=dtype)
        phalanx.kernel(kernel)[1](*[phalanx.from_numpy(array) for array in arrays], out).wait()
        return out.numpy()

    return phalanx.Context("pair").run(program)  # type: ignore[no-any-return]


WHOLE = ["i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"]
NUMPY = {name: np.dtype(("u" if name[0] == "u" else "") + "int" + name[1:]) for name in WHOLE}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_those_of_numpy(name: str) -> None:
    kind = NUMPY[name]
    rng = np.random.default_rng(3)
    a = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, 200, dtype=kind, endpoint=True)
    b = rng.integers(1, 7, 200).astype(kind)

    def kernel(tl: Any, x: Any, y: Any, out: Any) -> None:
        x, y = tl.load(x), tl.load(y)
        results = [x + y, x * y, tl.floordiv(x, y), tl.mod_(x, y), tl.and_(x, y), tl.or_(x, y), tl.xor(x, y), tl.shl(x, y), tl.shr(x, y), tl.not_(x)]
        for row, result in enumerate(results):
            tl.store(out[row], result)

    with np.errstate(over="ignore"):
        expected = [a + b, a * b, a // b, a % b, a & b, a | b, a ^ b, a << b, a >> b, ~a]
    np.testing.assert_array_equal(computed(kernel, [a, b], (10, 200), name), np.array(expected))


def test_types_go_to_the_device_and_back() -> None:
    def program() -> None:
        for name in ["f64", "i64", "i16", "i8", "u64", "u32", "u16", "u8"]:
            tensor = phalanx.tensor([1, 2, 100], dtype=name)
            assert tensor.numpy().dtype == phalanx.zeros(1, dtype=name).dtype.to_numpy()
            assert tensor.tolist() == [1, 2, 100]
        assert phalanx.tensor([0, 3, -1], dtype="bool").tolist() == [False, True, True]
        large = 2**63 - 3
        assert phalanx.from_numpy(np.array([large, -large])).tolist() == [large, -large]
        # Ties to even; the largest numbers stay.
        assert phalanx.tensor([1.0625, 1.1875, 500.0, -1e9], dtype="f8e4m3").tolist() == [1.0, 1.25, 448.0, -448.0]
        assert phalanx.tensor([1.125, 1.375, 1e9], dtype=phalanx.float8_e5m2).tolist() == [1.0, 1.5, 57344.0]

    phalanx.Context("pair").run(program)


def test_functions_are_close_to_numpy() -> None:
    x = np.linspace(0.1, 30, 300, dtype=np.float32)

    def kernel(tl: Any, x: Any, out: Any) -> None:
        tile = tl.load(x)
        two = tl.full(tile.shape, 2.0)
        for row, result in enumerate([tl.exp2(tile), tl.log2(tile), tl.rsqrt(tile), tl.sin(tile), tl.cos(tile), tl.floor(tile), tl.ceil(tile), tl.pow(tile, two)]):
            tl.store(out[row], result)

    got = computed(kernel, [x], (8, 300), "f32")
    wide = x.astype(np.float64)
    expected = [np.exp2(wide), np.log2(wide), 1 / np.sqrt(wide), np.sin(wide), np.cos(wide), np.floor(wide), np.ceil(wide), wide**2]
    np.testing.assert_allclose(got, np.array(expected), rtol=4e-7, atol=1e-7)


def test_whole_tiles_are_those_of_numpy() -> None:
    x = np.random.default_rng(5).integers(-50, 50, (4, 8)).astype(np.int32)

    def kernel(tl: Any, x: Any, out: Any) -> None:
        tile = tl.load(x)
        keep = [
            tile, tl.flip(tile, 0), tl.cumsum(tile, 1), tl.cumsum(tile, 0, reverse=True), tl.sort(tile), tl.sort(tile, 0, descending=True),
            tl.reshape(tl.trans(tile), (4, 8)), tl.broadcast_to(tl.max(tile, 1, keep_dims=True), (4, 8)),
            tl.broadcast_to(tl.sum(tile, keep_dims=True), (4, 8)), tl.broadcast_to(tl.expand_dims(tl.argmin(tile, 0), 0), (4, 8)),
            tl.gather(tile, tl.mod_(tile, tl.full(tile.shape, 8, dtype="i32")), 1), tl.where(tile, tile, tile),
        ]
        left, right = tl.split(tl.join(tile, tl.neg(tile)))
        keep += [left, right, tl.reshape(tl.cat(tl.load(x[0:2]), tl.load(x[2:4]), 0), (4, 8))]
        for row, result in enumerate(keep):
            tl.store(out[row], result)

    expected = [
        x, x[::-1], x.cumsum(1), x[::-1].cumsum(0)[::-1], np.sort(x), -np.sort(-x, 0), x.T.reshape(4, 8), np.broadcast_to(x.max(1, keepdims=True), (4, 8)),
        np.full((4, 8), x.sum()), np.broadcast_to(x.argmin(0), (4, 8)), np.take_along_axis(x, x % 8, 1), x, x, -x, x,
    ]
    np.testing.assert_array_equal(computed(kernel, [x], (len(expected), 4, 8), "i32"), np.array(expected))


def test_lists_and_atomic_operations() -> None:
    keys = np.array([3, 1, 3, 0, 7, 3], np.int64)

    def kernel(tl: Any, keys: Any, out: Any) -> None:
        offsets, ones = tl.load(keys), tl.full(6, 1, dtype="i32")
        before = tl.atomic_add(out, offsets, ones)
        tl.store(out[8:14], before)
        tl.store_at(out, [15, 14], tl.load_at(out, [3, 9, 99][:2], mask=[True, False], other=5))
        swapped = tl.atomic_cas(out, [16], tl.full(1, 0, dtype="i32"), tl.full(1, 9, dtype="i32"))
        tl.atomic_max(out, [17], tl.add(swapped, tl.full(1, 4, dtype="i32")))

    got = computed(kernel, [keys], (18,), "i32")
    assert got.tolist() == [1, 1, 0, 3, 0, 0, 0, 1, 0, 0, 1, 0, 0, 2, 5, 3, 9, 4]


def test_random_numbers_depend_on_seed_and_offset_alone() -> None:
    def kernel(tl: Any, out: Any) -> None:
        offsets = tl.arange(0, 64)
        tl.store(out[0], tl.rand(42, offsets))
        tl.store(out[1], tl.rand(42, tl.flip(offsets, 0)))
        tl.store(out[2], tl.randn(-1, offsets))

    got = computed(kernel, [], (3, 64), "f32")
    np.testing.assert_array_equal(got[0], got[1][::-1])
    assert ((got[0] >= 0) & (got[0] < 1)).all() and len(set(got[0].tolist())) == 64
    assert np.isfinite(got[2]).all()


def test_what_does_not_fit_is_said() -> None:
    def refused(kernel: Any) -> str:
        with pytest.raises(phalanx.errors.KernelError) as error:
            phalanx.Context("pair").run(lambda: phalanx.kernel(kernel)[1](phalanx.ones(8)).wait())
        return str(error.value.__cause__ or error.value)

    assert "bits are those of whole numbers" in refused(lambda tl, x: tl.xor(tl.load(x), tl.load(x)))
    assert "is not mapped" in refused(lambda tl, x: tl.load_at(x, [3, 99]))
    assert "it has 1 dimension" in refused(lambda tl, x: tl.flip(tl.load(x), 3))
