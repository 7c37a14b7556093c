"""Tensors against numpy: types, views, indexing, reading and writing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import phalanx
import pytest
from hypothesis import given, strategies as st
from phalanx.errors import ArgumentError

CONTEXT = phalanx.Context("pair")


def run(program: Callable[[], Any]) -> Any:
    return CONTEXT.run(program)


SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A basic index of an array of this shape."""
    parts: list[Any] = []
    count = draw(st.integers(0, len(shape)))
    from_the_end = draw(st.booleans())
    for dim in shape[len(shape) - count :] if from_the_end else shape[:count]:
        kind = draw(st.integers(0, 2))
        if kind == 0 and dim > 0:
            parts.append(draw(st.integers(-dim, dim - 1)))
        else:
            bound = st.none() | st.integers(-dim - 1, dim + 1)
            parts.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3))))
        if draw(st.integers(0, 5)) == 0:
            parts.append(None)
    return (Ellipsis, *parts) if from_the_end else tuple(parts)


@given(st.data())
def test_indexing_is_numpys(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    index = data.draw(indices(shape))
    expected = array[index]
    got = run(lambda: phalanx.tensor(array)[index].numpy())
    assert got.shape == expected.shape
    assert (got == expected).all()


@given(st.data())
def test_writing_a_part_is_numpys(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    index = data.draw(indices(shape))
    number = data.draw(st.integers(-100, -1))
    whole = data.draw(st.booleans())
    expected = array.copy()
    value: Any = number if whole else np.full(array[index].shape, number, np.float32)
    expected[index] = value

    def program() -> Any:
        x = phalanx.tensor(array)
        x[index] = value
        return x.numpy()

    assert (run(program) == expected).all()


@given(st.data())
def test_views_of_views_are_numpys(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3).map(tuple))
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    first = data.draw(indices(shape))
    one = array[first]
    second = data.draw(indices(one.shape))

    def program() -> Any:
        x = phalanx.tensor(array)[first]
        assert x.T.numpy().tolist() == one.T.tolist()
        assert x.contiguous().numpy().tolist() == one.tolist()
        assert x.numel() == one.size and x.shape == one.shape
        return x[second].numpy()

    got = run(program)
    assert got.shape == one[second].shape and (got == one[second]).all()


@given(st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=20))
def test_floats_round_as_numpy_rounds(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    f32, f16, bf16 = run(lambda: [phalanx.tensor(array, dtype=dtype).numpy() for dtype in ("f32", "f16", "bf16")])
    assert f32.tobytes() == array.tobytes()
    assert f16.dtype == np.float16
    assert np.array_equal(f16, half, equal_nan=True)
    # A bf16 is the nearest of its two neighbours: the upper half of an f32, and the next.
    below = (array.view(np.uint32) & 0xFFFF0000).view(np.float32)
    finite = np.isfinite(array) & np.isfinite(bf16)
    assert np.array_equal(np.isnan(bf16), np.isnan(array))
    assert (abs(bf16[finite].astype(np.float64) - array[finite]) <= abs(below[finite].astype(np.float64) - array[finite])).all()


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_whole_numbers_stay(numbers: list[int]) -> None:
    assert run(lambda: phalanx.tensor(numbers, dtype="i32").tolist()) == numbers


def test_types_of_arrays_and_names() -> None:
    def program() -> list[str]:
        arrays = [np.zeros(2, kind) for kind in (np.float64, np.float32, np.float16, np.int32, np.int64)]
        return [str(phalanx.tensor(array).dtype) for array in arrays] + [str(phalanx.zeros(2, dtype=np.float16).dtype)]

    assert run(program) == ["f32", "f32", "f16", "i32", "i32", "f16"]


def test_constructors() -> None:
    def program() -> None:
        assert phalanx.zeros(2, 3).shape == phalanx.zeros((2, 3)).shape == (2, 3)
        assert phalanx.ones(2).tolist() == [1, 1]
        assert phalanx.full((2, 1), 7).tolist() == [[7], [7]]
        assert phalanx.full(3, 2.5, dtype="bf16").tolist() == [2.5] * 3
        assert phalanx.arange(4).tolist() == [0, 1, 2, 3]
        assert phalanx.arange(1, 2, 0.25).tolist() == [1, 1.25, 1.5, 1.75]
        phalanx.manual_seed(3)
        first = phalanx.rand(8).tolist()
        phalanx.manual_seed(3)
        assert phalanx.rand(8).tolist() == first
        assert phalanx.randn(4).clone().shape == (4,)
        assert phalanx.tensor(5).item() == 5 == int(phalanx.tensor(5)) == float(phalanx.tensor(5))
        assert len(phalanx.zeros(3, 2)) == 3 and [part.shape for part in phalanx.zeros(3, 2)] == [(2,)] * 3
        assert bool(phalanx.tensor(1.0)) and phalanx.zeros(2, 2).size(0) == 2
        assert [part.tolist() for part in phalanx.arange(4).chunk(2)] == [[0, 1], [2, 3]]

    run(program)


def test_placements_change_where_and_not_what() -> None:
    def program() -> None:
        array = np.arange(64, dtype=np.float32).reshape(8, 8)
        for cube in ("replicate", "row_wise", "column_wise"):
            x = phalanx.tensor(array, dp=phalanx.DPPolicy(cube=cube, num_cubes=2))
            assert (x.numpy() == array).all()
        with pytest.raises(ArgumentError, match="num_cubes is 99"):
            phalanx.zeros(4, dp=phalanx.DPPolicy(num_cubes=99))
        with pytest.raises(ArgumentError, match="no spread `rows`"):
            phalanx.zeros(4, dp=phalanx.DPPolicy(cube="rows"))

    phalanx.Context("quad-sip").run(program)


def test_arrays_dlpack_and_printing() -> None:
    def program() -> None:
        x = phalanx.arange(6.0).reshape(2, 3)
        assert np.asarray(x).dtype == np.float32
        assert np.asarray(x, dtype=np.int64).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert np.from_dlpack(x).tolist() == x.tolist()
        assert phalanx.from_dlpack(np.arange(3, dtype=np.float32)).tolist() == [0, 1, 2]
        assert phalanx.from_numpy(np.arange(3, dtype=np.int32)).dtype is phalanx.i32
        assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], dtype=f32, rank=0)"
        with pytest.raises(ValueError, match="copy"):
            np.asarray(x, copy=False)

    run(program)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda x: x[5], IndexError, "out of range"),
        (lambda x: x[0, 0, 0], IndexError, "too many indices"),
        (lambda x: x[::-1], ArgumentError, "positive step"),
        (lambda x: x["a"], IndexError, "whole numbers"),
        (lambda x: x.reshape(5), ArgumentError, "another number of elements"),
        (lambda x: x.T.reshape(6), ArgumentError, "contiguous"),
        (lambda x: x.item(), ArgumentError, "has 6 elements"),
        (lambda x: x.copy_(np.zeros(3)), ArgumentError, "cannot take"),
        (lambda x: phalanx.zeros(-1), ArgumentError, "-1 elements"),
        (lambda x: phalanx.empty(4).numpy(), phalanx.PhalanxError, "unwritten|never written|not written"),
    ],
)
def test_wrong_uses_are_errors(use: Callable[[phalanx.Tensor], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(lambda: use(phalanx.arange(6.0).reshape(2, 3)))


@pytest.mark.parametrize("index", [[0, 1], np.array([True, False, True]), np.array([0, 2]), 1.5, "a"])
def test_indices_that_choose_elements_one_by_one_are_refused(index: Any) -> None:
    with pytest.raises(IndexError, match="a tensor is indexed by whole numbers, slices, None and"):
        phalanx.Context("pair").run(lambda: phalanx.arange(3.0)[index])


def test_masked_arrays_are_refused_with_what_to_do() -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with phalanx.Context("pair"):
        for make in (phalanx.tensor, phalanx.from_numpy):
            with pytest.raises(ArgumentError, match="filled"):
                make(masked)
        assert phalanx.from_numpy(masked.filled(0.0)).numpy().tolist() == [1.0, 0.0]
