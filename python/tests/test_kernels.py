"""Kernels in Python: recorded, replayed and as greenlets, against native ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import phalanx
import pytest
from hypothesis import given, settings, strategies as st
from phalanx._context import current_rank
from phalanx.errors import ArgumentError, KernelError

ELEMENTS = 64
MODES = ("greenlet", "recorded")


def scripted(tl: Any, x: Any, y: Any, script: Any) -> None:
    """A kernel that performs a script; `launch_script` performs the same in Rust."""
    views, tiles, issued = (x, y), [], []
    for name, numbers in script:
        made = None
        if name in ("load", "begin"):
            arg, start, count = numbers
            view = views[arg][start : start + count]
            if name == "begin":
                issued.append(tl.load_async(view))
                continue
            made = tl.load(view)
        elif name == "wait":
            made = tl.wait(issued[numbers[0]])
            issued[numbers[0]] = None
        elif name == "store":
            arg, start, tile = numbers
            tl.store(views[arg][start : start + tiles[tile].shape[0]], tiles[tile])
            continue
        elif name == "full":
            made = tl.full(numbers[0], numbers[1])
        elif name in ("add", "mul", "maximum"):
            made = getattr(tl, name)(tiles[numbers[0]], tiles[numbers[1]])
        elif name in ("neg", "relu"):
            made = getattr(tl, name)(tiles[numbers[0]])
        elif name == "sum":
            made = tl.reshape(tl.sum(tiles[numbers[0]], 0), 1)
        elif name == "compute":
            tl.compute(numbers[0] * 1e-12)
            continue
        elif name == "barrier":
            tl.barrier()
            continue
        elif name == "free":
            tiles[numbers[0]] = None
            continue
        tiles.append(made)
        made = None


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, tuple[int, ...]]]:
    """A script whose steps fit."""
    script: list[tuple[str, tuple[int, ...]]] = []
    lengths: list[int | None] = []
    issued: list[int | None] = []
    for _ in range(draw(st.integers(1, 25))):
        live = [index for index, length in enumerate(lengths) if length is not None]
        waiting = [index for index, length in enumerate(issued) if length is not None]
        kinds = ["load", "begin", "full", "compute", "barrier"] + ["wait"] * bool(waiting)
        kinds += ["store", "unary", "sum", "binary", "binary", "free"] * bool(live)
        kind = draw(st.sampled_from(kinds))
        if kind in ("load", "begin"):
            count = draw(st.integers(1, 16))
            step = (kind, (draw(st.integers(0, 1)), draw(st.integers(0, ELEMENTS - count)), count))
            (lengths if kind == "load" else issued).append(count)
        elif kind == "wait":
            index = draw(st.sampled_from(waiting))
            step = ("wait", (index,))
            lengths.append(issued[index])
            issued[index] = None
        elif kind == "full":
            count = draw(st.integers(1, 16))
            step = ("full", (count, draw(st.integers(0, 9))))
            lengths.append(count)
        elif kind == "store":
            index = draw(st.sampled_from(live))
            step = ("store", (draw(st.integers(0, 1)), draw(st.integers(0, ELEMENTS - lengths[index])), index))
        elif kind == "unary":
            index = draw(st.sampled_from(live))
            step = (draw(st.sampled_from(["neg", "relu"])), (index,))
            lengths.append(lengths[index])
        elif kind == "sum":
            step = ("sum", (draw(st.sampled_from(live)),))
            lengths.append(1)
        elif kind == "binary":
            left = draw(st.sampled_from(live))
            fits = [index for index in live if lengths[index] in (1, lengths[left]) or lengths[left] == 1]
            right = draw(st.sampled_from(fits))
            step = (draw(st.sampled_from(["add", "mul", "maximum"])), (left, right))
            lengths.append(max(lengths[left], lengths[right]))
        elif kind == "free":
            index = draw(st.sampled_from(live))
            step = ("free", (index,))
            lengths[index] = None
        elif kind == "compute":
            step = ("compute", (draw(st.integers(0, 5000)),))
        else:
            step = ("barrier", ())
        script.append(step)
    return script


def outcome(launch: Callable[[Any, Any], phalanx.Work], times: int = 1) -> tuple[bytes, bytes, str, int]:
    """The numbers, the log of all operations and the time of a program that launches a kernel."""
    context = phalanx.Context("pair", record=True)

    def program() -> tuple[bytes, bytes]:
        x = phalanx.arange(float(ELEMENTS)) 
        y = phalanx.full(ELEMENTS, 0.5)
        for _ in range(times):
            launch(x, y)
        return x.numpy().tobytes(), y.numpy().tobytes()

    x, y = context.run(program)
    return x, y, context.report().op_log(), context.now_ps


@settings(max_examples=120)
@given(scripts(), st.integers(1, 4), st.integers(1, 3))
def test_greenlet_recorded_replayed_and_native_are_the_same(script: Any, pes: int, times: int) -> None:
    fixed = tuple(script)

    def native(x: phalanx.Tensor, y: phalanx.Tensor) -> Any:
        steps = [(name, list(numbers)) for name, numbers in fixed]
        return current_rank().launch_script(pes, [x._core, y._core], steps)

    def body(tl: Any, x: Any, y: Any) -> None:
        scripted(tl, x, y, fixed)

    body.__name__ = "script"
    expected = outcome(native, times)
    for mode in MODES:
        made = phalanx.kernel(body, mode=mode)
        assert outcome(lambda x, y, made=made: made[pes](x, y), times) == expected, mode


@phalanx.kernel(reads=["x", "y"])
def add(tl: Any, x: Any, y: Any, out: Any) -> None:
    start, count = tl.share(len(out))
    part = slice(start, start + count)
    tl.store(out[part], tl.load(x[part]) + tl.load(y[part]))


def test_a_list_is_replayed_with_other_tensors() -> None:
    def program() -> None:
        for number in range(5):
            x, y, out = phalanx.full(10, number), phalanx.arange(10.0), phalanx.empty(10)
            add[3](x, y, out).wait()
            assert out.tolist() == [number + index for index in range(10)]
        x, y, out = phalanx.full(11, 1), phalanx.arange(11.0), phalanx.empty(11)
        add[3](x, y, out=out)
        assert out.tolist() == [1 + index for index in range(11)]

    phalanx.Context("pair").run(program)
    assert phalanx.explain(add) == "kernel `add`: 3 programs recorded, 0 replayed, 0 went on as greenlets"
    phalanx.Context("pair").run(program)
    assert phalanx.explain(add) == "kernel `add`: 3 programs recorded, 3 replayed, 0 went on as greenlets"


SCALE = 2.0


def test_a_kernel_that_refers_to_something_that_changes_is_not_stale() -> None:
    global SCALE
    factors = [1.0]

    @phalanx.kernel
    def by_global(tl: Any, x: Any) -> None:
        tl.store(x, tl.load(x) * SCALE)

    @phalanx.kernel
    def by_list(tl: Any, x: Any) -> None:
        tl.store(x, tl.load(x) * factors[0])

    def program() -> list[float]:
        x = phalanx.ones(2)
        by_global[1](x)
        by_list[1](x)
        return x.tolist()

    context = phalanx.Context("pair")
    seen = []
    for SCALE, factors[0] in ((2.0, 3.0), (2.0, 5.0), (4.0, 5.0)):  # noqa: B020
        seen.append(context.run(program)[0])
    assert seen == [6.0, 10.0, 20.0]
    assert "`factors`" in phalanx.explain(by_list)


def test_looking_at_a_number_goes_on_as_a_greenlet_and_says_so() -> None:
    @phalanx.kernel
    def look(tl: Any, x: Any) -> None:
        tile = tl.load(x[0:4])
        tl.store(x[4:8], tile)
        if tl.item(tile, 3) > 2.5:
            tl.store(x[0:4], tile * 10.0)
        assert tl.now() > 0

    def program() -> list[float]:
        x = phalanx.arange(8.0)
        look[1](x)
        return x.tolist()

    times = []
    for mode in MODES:
        look.mode = mode
        context = phalanx.Context("pair")
        assert context.run(program) == [0, 10, 20, 30, 0, 1, 2, 3]
        times.append(context.now_ps)
    assert len(set(times)) == 1
    assert "0 programs recorded, 0 replayed, 1 went on as greenlets" in phalanx.explain(look)
    assert "tl.item looks at a number" in phalanx.explain(look)


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_of_a_kernel_is_the_cause_with_its_line(mode: str) -> None:
    @phalanx.kernel(mode=mode)
    def too_large(tl: Any, x: Any) -> None:
        tile = tl.load(x)
        big = tl.zeros((2048, 2048))
        tl.store(x, tile)
        del big

    @phalanx.kernel(mode=mode)
    def misfit(tl: Any, x: Any) -> None:
        tl.add(tl.load(x[0:2]), tl.load(x[0:3]))

    @phalanx.kernel(mode=mode)
    def own(tl: Any, x: Any) -> None:
        tl.load(x)
        raise LookupError("mine")

    @phalanx.kernel(mode=mode)
    def outside(tl: Any, x: Any) -> None:
        tl.load(x.block((60,), (8,)))
        tl.load(x[::3].below((99,)))

    expected = [
        (too_large, KernelError, "out of scratch", 2),
        (misfit, KernelError, "does not fit", 1),
        (own, LookupError, "mine", 2),
    ]
    for made, kind, words, line in expected:
        context = phalanx.Context("pair")

        def program(made: Any = made) -> None:
            made[2](phalanx.arange(64.0)).wait()

        with pytest.raises(KernelError, match=words) as caught:
            context.run(program)
        assert f"kernel `{made.__name__}` on sip0.cube0.pe0 failed at" in str(caught.value)
        cause = caught.value.__cause__
        assert isinstance(cause, kind) and cause.__traceback__ is not None
        assert cause.__traceback__.tb_lineno == made.fn.__code__.co_firstlineno + line + 1
        assert context.run(lambda: 1) == 1


def test_an_error_at_play_time_can_be_caught_in_the_kernel() -> None:
    @phalanx.kernel
    def careful(tl: Any, x: Any) -> None:
        tile = tl.load(x)
        try:
            tl.zeros((2048, 2048))
        except KernelError:
            tl.store(x, tile * 2.0)

    def program() -> list[float]:
        x = phalanx.ones(4)
        careful[1](x)
        return x.tolist()

    times = []
    for mode in MODES:
        careful.mode = mode
        context = phalanx.Context("pair")
        assert context.run(program) == [2.0] * 4
        times.append(context.now_ps)
    assert len(set(times)) == 1


@phalanx.kernel
def exchange(tl: Any, x: Any, out: Any) -> None:
    """Each of two PEs sends its half to the other one."""
    sip, cube, pe = tl.pe
    other = (sip, cube, 1 - pe)
    to, back = tl.sender(other, n_slots=2, slot_size=64), tl.receiver(other, n_slots=2, slot_size=64)
    half = len(x) // 2
    for step in range(0, half, 16):
        tl.send(to, tl.load(x[pe * half + step : pe * half + step + 16]))
        tl.store(out[pe * half + step : pe * half + step + 16], tl.recv(back, 16, "f32"))


def test_messages_between_pes() -> None:
    def program() -> list[float]:
        x, out = phalanx.arange(128.0), phalanx.empty(128)
        for _ in range(2):
            exchange[2](x, out)
        return out.tolist()

    times = []
    for mode in MODES:
        exchange.mode = mode
        context = phalanx.Context("pair", record=True)
        assert context.run(program) == [*range(64, 128), *range(64)]
        times.append((context.now_ps, context.report().op_log()))
    assert times[0] == times[1]


def test_matrix_products_overlap_and_match_numpy() -> None:
    @phalanx.kernel(reads=["a", "b"])
    def matmul(tl: Any, a: Any, b: Any, c: Any) -> None:
        size = 16
        steps = a.shape[1] // size
        rows, columns = c.shape[0] // size, c.shape[1] // size
        for number in range(tl.program_id, rows * columns, tl.num_programs):
            row, column = number // columns * size, number % columns * size
            def load(step: int) -> Any:
                return tl.load_pair_async(a.block((row, step * size), (size, size)), b.block((step * size, column), (size, size)))
            ahead, total = load(0), None
            for step in range(steps):
                left, right = tl.wait(ahead)
                ahead = load(step + 1) if step + 1 < steps else None
                total = tl.dot(left, right, total)
            tl.store(c.block((row, column), (size, size)), tl.cast(total, "f16"))

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (48, 32)).astype(np.float16), rng.integers(-3, 4, (32, 64)).astype(np.float16))

    def program() -> Any:
        c = phalanx.zeros(48, 64, dtype="f16")
        matmul[3](phalanx.tensor(a), phalanx.tensor(b), c)
        return c.numpy()

    times = []
    for mode in MODES:
        matmul.mode = mode
        context = phalanx.Context("pair")
        assert (context.run(program) == a.astype(np.float32) @ b.astype(np.float32)).all()
        times.append(context.now_ps)
    assert times[0] == times[1]


def test_other_operations_match_numpy() -> None:
    array = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)

    @phalanx.kernel
    def kernel(tl: Any, x: Any, rows: Any, out: Any) -> None:
        tile = tl.load(x)
        tl.store(rows, tl.sum(tile, 1))
        tl.store(out[0], tl.max(tile, 0))
        tl.store(out[1], tl.load(x[1, ::1].below((3,)), 9.0))
        positive = tl.gt(tile, tl.zeros((4, 6)))
        tl.store(out[2:6, 0:6], tl.select(positive, tile, -tile))
        with tl.range("exp"):
            tl.store(out[6:10], 1.0 / tl.exp(tile - 1))
        issued = tl.load_async(x)
        over = tl.is_over(issued)
        tl.compute(1e-3)
        assert not over and tl.is_over(issued)
        tl.wait(issued)
        tl.barrier()

    def program() -> Any:
        x, rows, out = phalanx.tensor(array), phalanx.empty(4), phalanx.zeros(10, 6)
        kernel[1](x, rows, out).wait()
        return rows.numpy(), out.numpy()

    rows, out = phalanx.Context("pair").run(program)
    assert np.allclose(rows, array.sum(1))
    assert (out[0] == array.max(0)).all()
    assert out[1].tolist() == [*array[1, :3].tolist(), 9, 9, 9]
    assert (out[2:6] == abs(array)).all()
    assert np.allclose(out[6:10], 1 / np.exp(array - 1), rtol=1e-5)


def test_a_cancelled_kernel_runs_its_finally() -> None:
    log: list[str] = []

    @phalanx.kernel
    def waits(tl: Any, x: Any) -> None:
        if tl.program_id == 0:
            tl.now()
            raise ValueError
        try:
            tl.now()
            tl.compute(1.0)
        finally:
            log.append("finally")

    with pytest.raises(KernelError):
        phalanx.Context("pair").run(lambda: waits[2](phalanx.ones(4)).wait())
    assert log == ["finally"]


def test_tiles_that_outlive_their_kernel_do_no_harm() -> None:
    kept: list[Any] = []

    @phalanx.kernel
    def keeps(tl: Any, x: Any) -> None:
        kept.append((tl, tl.load(x), tl.sender((0, 0, 1))))

    context = phalanx.Context("pair")
    context.run(lambda: keeps[1](phalanx.ones(4)).wait())
    tl, tile, _ = kept[0]
    with pytest.raises(KernelError, match="over"):
        tl.add(tile, tile)
    kept.clear()
    assert context.run(lambda: phalanx.ones(2).tolist()) == [1, 1]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x: add[0](x, x, x), "grid of 0 PEs"),
        (lambda x: add[99](x, x, x), "grid of 99 PEs"),
        (lambda x: add[1, 2, 3, 4](x, x, x), "one to three axes"),
        (lambda x: add[phalanx.Grid.cubes(9, 1)](x, x, x), "9 cubes by 1 PEs"),
        (lambda x: add[phalanx.Grid.on([(0, 0), (0, 0)])](x, x, x), "named twice"),
        (lambda x: phalanx.kernel(add.fn, reads=["z"]), "no parameter `z`"),
        (lambda x: phalanx.kernel(add.fn, mode="fast"), "no mode `fast`"),
    ],
)
def test_wrong_launches_are_errors(use: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        phalanx.Context("pair").run(lambda: use(phalanx.ones(4)))


def test_launch_takes_a_plain_function() -> None:
    def double(tl: Any, x: Any, by: float) -> None:
        tl.store(x, tl.load(x) * by)

    def program() -> list[float]:
        x = phalanx.ones(3)
        phalanx.launch(double, 1, x, 4.0)
        return x.tolist()

    assert phalanx.Context("pair").run(program) == [4, 4, 4]


def test_grids_choose_pes_and_take_more_programs_than_pes() -> None:
    @phalanx.kernel
    def mark(tl: Any, out: Any) -> None:
        column, row = tl.program_id_along(0), tl.program_id_along(1)
        tl.store(out[row : row + 1, column], tl.full(1, 10 * row + column))

    @phalanx.kernel
    def where(tl: Any, out: Any) -> None:
        number = tl.program_id
        tl.store(out[number : number + 1], tl.full(1, 10 * tl.pe[1] + tl.pe[2]))

    def program() -> Any:
        out = phalanx.zeros(3, 7)
        for _ in range(2):
            mark[7, 3](out)
        chosen = phalanx.zeros(2)
        where[phalanx.Grid.on([(1, 3), (0, 2)])](chosen)
        return out.numpy(), chosen.tolist()

    times = []
    for mode in MODES:
        mark.mode = where.mode = mode
        context = phalanx.Context("quad-sip")
        out, chosen = context.run(program)
        assert (out == [[10 * row + column for column in range(7)] for row in range(3)]).all()
        assert chosen == [13, 2]
        times.append(context.now_ps)
    assert times[0] == times[1]


def test_storing_to_what_is_only_read_is_an_error() -> None:
    @phalanx.kernel(reads=["x"])
    def wrong(tl: Any, x: Any) -> None:
        tl.store(x, tl.load(x))

    with pytest.raises(KernelError, match="which the launch declares as read") as caught:
        phalanx.Context("pair").run(lambda: wrong[1](phalanx.ones(4)).wait())
    assert caught.value.__cause__ is not None


def test_ctrl_c_in_a_kernel_is_a_keyboard_interrupt() -> None:
    @phalanx.kernel
    def interrupted(tl: Any, x: Any) -> None:
        tl.load(x)
        raise KeyboardInterrupt

    context = phalanx.Context("pair")
    with pytest.raises(KeyboardInterrupt):
        context.run(lambda: interrupted[1](phalanx.ones(4)).wait())
    assert context.run(lambda: 1) == 1


def test_kernels_and_contexts_of_two_threads() -> None:
    import threading

    found: list[Any] = []

    def use() -> None:
        def program() -> list[float]:
            x, y, out = phalanx.ones(4), phalanx.ones(4), phalanx.empty(4)
            for _ in range(2):
                add[2](x, y, out)
            return out.tolist()

        found.append(phalanx.Context("pair").run(program))

    use()
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [[2.0] * 4] * 2
