"""The context of a kernel in its three ways, operands that do not fit, and views against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import phalanx
import pytest
from hypothesis import given, strategies as st
from phalanx._core import Tl
from phalanx._kernel import WaitingTl
from phalanx.errors import KernelError

MODES = ("greenlet", "recorded")


def run(kernel: Any, *args: Any, mode: str = "recorded", elements: int = 8) -> Any:
    """Runs a kernel on one PE with a tensor; returns its elements and the time."""
    context = phalanx.Context("pair")

    def program() -> Any:
        x = phalanx.arange(float(elements))
        phalanx.launch(kernel, 1, x, *args, mode=mode).wait()
        return x.numpy()

    return context.run(program), context.now_ps


def test_a_recorded_kernel_waits_only_after_a_look() -> None:
    kinds: list[Any] = []

    def kernel(tl: Any, x: Any) -> None:
        tile = tl.load(x)
        kinds.append(type(tl))
        assert tile.tl is tl, "a program has one context"
        seen = tile.tl.item(tile, 3)
        kinds.append((type(tl), seen))
        tl.store(x, tl.add(tile, tile) + 1.0)

    recorded, greenlet = run(kernel), run(kernel, mode="greenlet")
    assert (recorded[0] == np.arange(8) * 2 + 1).all() and recorded[1] == greenlet[1]
    assert kinds == [Tl, (WaitingTl, 3.0), WaitingTl, (WaitingTl, 3.0)]


@pytest.mark.parametrize("mode", MODES)
def test_operands_that_do_not_fit_raise_at_their_line_and_can_be_caught(mode: str) -> None:
    caught: list[str] = []

    def kernel(tl: Any, x: Any) -> None:
        tile = tl.load(x)
        tl.store(x, tl.add(tile, tile))
        try:
            tl.mul(tile, tl.load(x[:3]))
        except KernelError as error:
            caught.append(str(error))
        tl.store(x[:1], tl.load(x[1:2]))

    found, _ = run(kernel, mode=mode)
    assert found.tolist() == [2.0, 2.0, *range(4, 16, 2)]
    assert len(caught) == 1 and "mul" in caught[0] and "[8]" in caught[0] and "[3]" in caught[0]


def test_both_ways_end_at_one_time_when_operands_do_not_fit() -> None:
    def kernel(tl: Any, x: Any) -> None:
        tile = tl.load(x)
        tl.store(x, tl.add(tile, tile))
        try:
            tl.dot(tile, tile)
        except KernelError:
            pass
        tl.store(x, tl.load(x))

    assert run(kernel, mode="recorded")[1] == run(kernel, mode="greenlet")[1]


@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_that_catches_everything_goes_on(mode: str) -> None:
    def kernel(tl: Any, x: Any) -> None:
        tile = tl.load(x)
        try:
            tl.add(tile, tl.load(x[:2]))
        except:  # noqa: E722
            pass
        try:
            seen = tl.item(tile, 1)
        except KernelError:
            seen = -1.0
        tl.store(x, tl.full(8, seen))

    assert run(kernel, mode=mode)[0].tolist() == [1.0] * 8


@pytest.mark.parametrize("mode", MODES)
def test_an_unfit_operation_names_the_line_of_the_kernel(mode: str) -> None:
    def kernel(tl: Any, x: Any) -> None:
        tile = tl.load(x)
        tl.maximum(tile, tl.load(x[:5]))

    with pytest.raises(KernelError, match="does not fit") as caught:
        run(kernel, mode=mode)
    cause = caught.value.__cause__
    assert cause is not None and cause.__traceback__ is not None
    frames = [frame for frame in _frames(cause) if frame[0] == "kernel"]
    assert frames and frames[-1][1] == kernel.__code__.co_firstlineno + 2


def _frames(error: BaseException) -> list[tuple[str, int]]:
    found, at = [], error.__traceback__
    while at is not None:
        found.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return found


def test_contexts_tiles_and_queues_stay_in_their_program() -> None:
    kept: dict[str, Any] = {}

    def first(tl: Any, x: Any) -> None:
        kept.update(tl=tl, tile=tl.load(x), issued=tl.load_async(x))

    def second(tl: Any, x: Any) -> None:
        for act, words in (
            (lambda: kept["tl"].load(x), "is over"),
            (lambda: tl.neg(kept["tile"]), "belongs to another program"),
            (lambda: tl.wait(kept["issued"]), "belongs to another program"),
            (lambda: kept["tile"] + 1.0, "is over"),
        ):
            with pytest.raises(KernelError, match=words):
                act()

    run(first)
    run(second)
    with pytest.raises(KernelError, match="is over"):
        kept["tl"].barrier()
    assert kept["tile"].shape == (8,) and "f32[8]" in repr(kept["tile"])


def test_shapes_and_types_of_constants_by_every_name() -> None:
    def kernel(tl: Any, x: Any) -> None:
        for shape in (4, (4,), [4], np.int64(4)):
            assert tl.zeros(shape).shape == (4,)
        for dtype in ("f16", "float16", phalanx.f16, np.float16, np.dtype("float16"), "fp16"):
            assert tl.full((2, 2), 1, dtype).dtype == "f16" == tl.cast(tl.load(x), dtype).dtype
        assert tl.full(3, 2.5).dtype == "f32" and tl.zeros(()).shape == ()
        with pytest.raises(phalanx.errors.DTypeError, match="no element type `f17`"):
            tl.zeros(4, "f17")
        with pytest.raises((OverflowError, TypeError)):
            tl.zeros(-1)
        with pytest.raises(TypeError):
            tl.zeros(1.5)
        with pytest.raises(TypeError):
            tl.add(tl.load(x), 3)

    run(kernel)
    run(kernel, mode="greenlet")


INDICES = st.one_of(
    st.integers(-6, 5),
    st.builds(slice, st.one_of(st.none(), st.integers(-8, 8)), st.one_of(st.none(), st.integers(-8, 8)), st.one_of(st.none(), st.integers(1, 9))),
)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    st.lists(st.one_of(INDICES, st.just(Ellipsis)), min_size=1, max_size=5).map(tuple),
)
def test_parts_of_views_are_those_of_numpy(shape: tuple[int, ...], index: tuple[Any, ...]) -> None:
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    expected: Any = None
    refusal: Any = None
    try:
        expected = array[index]
    except IndexError as error:
        refusal = error
    found: dict[str, Any] = {}

    def kernel(tl: Any, x: Any, out: Any) -> None:
        if refusal is not None:
            with pytest.raises(IndexError):
                x[index]
            return
        part = x[index]
        assert part.shape == expected.shape
        if len(index) == 1:
            assert x[index[0]].shape == expected.shape
        if expected.size and expected.ndim:
            tl.store(out, tl.reshape(tl.load(part), expected.size))

    def program() -> None:
        out = phalanx.zeros(max(1, 0 if expected is None else int(np.size(expected))))
        phalanx.launch(kernel, 1, phalanx.from_numpy(array), out, replay=False).wait()
        found["out"] = out.numpy()

    phalanx.Context("pair").run(program)
    if refusal is None and expected.size and expected.ndim:
        assert (found["out"] == expected.reshape(-1)).all()


@pytest.mark.parametrize("grid", ["all", -1, (2, -1), 1.5, None.__class__])
def test_grids_that_are_none_are_named(grid: Any) -> None:
    context = phalanx.Context("pair")
    with pytest.raises(phalanx.errors.ArgumentError, match="a grid"):
        context.run(lambda: phalanx.launch(lambda tl, x: None, grid, phalanx.ones(4)).wait())
