"""Every operation between ranks, against numpy, and random programs of ranks, against the same programs in Rust."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import phalanx
import phalanx.distributed as dist
import pytest
from hypothesis import given, settings, strategies as st
from phalanx.errors import ArgumentError
from phalanx.multiprocessing import DesyncError, SpawnException

RANKS = 4
CONTEXT = phalanx.Context("quad-sip")


def spawn(program: Callable[[int], Any]) -> list[Any]:
    def worker(rank: int) -> Any:
        dist.init_process_group("phalanx", world_size=RANKS, rank=rank)
        return program(rank)

    return CONTEXT.spawn(worker)


def own(rank: int, count: int = 8) -> Any:
    return np.arange(count, dtype=np.float32) * (rank + 1)


@pytest.mark.parametrize(
    ("op", "combine"),
    [
        ("sum", np.sum), (dist.ReduceOp.MAX, np.max), (dist.ReduceOp.MIN, np.min), (dist.ReduceOp.PRODUCT, np.prod), (dist.ReduceOp.AVG, np.mean),
    ],
)
def test_all_reduce(op: str, combine: Any) -> None:
    def program(rank: int) -> Any:
        x = phalanx.tensor(own(rank))
        assert dist.all_reduce(x, op) is None
        return x.numpy()

    results = spawn(program)
    expected = combine([own(rank) for rank in range(RANKS)], axis=0)
    assert all(np.array_equal(result, expected) for result in results)


@given(st.integers(1, 3000), st.sampled_from(["f32", "f16", "bf16", "i32"]), st.integers(1, RANKS))
def test_all_reduce_of_any_size_and_type(count: int, dtype: str, ranks: int) -> None:
    def worker(rank: int) -> Any:
        dist.init_process_group()
        x = phalanx.full(count, rank + 1, dtype=dtype)
        work = dist.all_reduce(x, async_op=True)
        assert work is not None and work.wait() and work.is_completed()
        return x.numpy()

    for result in CONTEXT.spawn(worker, nprocs=ranks):
        assert (result == ranks * (ranks + 1) / 2).all()


def test_everything_else() -> None:
    stack = np.concatenate([own(rank) for rank in range(RANKS)])

    def program(rank: int) -> None:
        x = phalanx.tensor(own(rank))
        dist.reduce(x, dst=2)
        assert (x.numpy() == (own(0) * 10 if rank == 2 else own(rank))).all()
        x = phalanx.tensor(own(rank))
        dist.broadcast(x, src=3)
        assert (x.numpy() == own(3)).all()
        x, out = phalanx.tensor(own(rank)), phalanx.empty(8 * RANKS)
        dist.all_gather_into_tensor(out, x)
        assert (out.numpy() == stack).all()
        outs = [phalanx.empty(8) for _ in range(RANKS)]
        dist.all_gather(outs, x)
        assert all((part.numpy() == own(peer)).all() for peer, part in enumerate(outs))
        part = phalanx.empty(2)
        dist.reduce_scatter_tensor(part, x)
        assert (part.numpy() == own(0)[2 * rank : 2 * rank + 2] * 10).all()
        dist.scatter(part, [phalanx.full(2, peer) for peer in range(RANKS)] if rank == 1 else None, src=1)
        assert part.tolist() == [rank, rank]
        dist.scatter_tensor(part, phalanx.arange(8.0) if rank == 0 else None)
        assert part.tolist() == [2 * rank, 2 * rank + 1]
        outs = [phalanx.empty(8) for _ in range(RANKS)]
        dist.gather(x, outs if rank == 0 else None)
        assert rank or all((part.numpy() == own(peer)).all() for peer, part in enumerate(outs))
        dist.gather_tensor(x, out if rank == 3 else None, dst=3)
        got = phalanx.empty(8)
        dist.all_to_all_single(got, x)
        assert got.tolist() == [float(own(peer)[2 * rank + i]) for peer in range(RANKS) for i in range(2)]
        dist.barrier()

    spawn(program)


def test_uneven_all_to_all() -> None:
    def program(rank: int) -> Any:
        sizes = [(rank + peer) % 3 for peer in range(RANKS)]
        x = phalanx.tensor(np.repeat(np.arange(RANKS, dtype=np.float32), sizes) + 10 * rank)
        out = phalanx.empty(sum(sizes))
        dist.all_to_all_single(out, x, sizes, sizes)
        return out.tolist() == [10 * peer + rank for peer in range(RANKS) for _ in range(sizes[peer])]

    assert all(spawn(program))


def test_messages() -> None:
    def program(rank: int) -> Any:
        after, before = (rank + 1) % RANKS, (rank - 1) % RANKS
        x, y = phalanx.full(5, rank), phalanx.empty(5)
        ops = [dist.P2POp(dist.irecv, y, before, tag=7), dist.P2POp(dist.isend, x, after, tag=7)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert y.tolist() == [before] * 5
        if rank == 0:
            dist.send(x, 1)
        if rank == 1:
            assert dist.recv(y, 0) == 0
        return y.tolist()[0]

    assert spawn(program) == [3, 0, 1, 2]


def test_groups() -> None:
    def program(rank: int) -> Any:
        assert (dist.get_rank(), dist.get_world_size(), dist.is_initialized()) == (rank, RANKS, True)
        odd = dist.new_group([3, 1])
        x = phalanx.full(2, rank)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            dist.all_reduce(x, group=odd)
        assert len(seen) == (0 if rank % 2 else 1)
        assert (odd.ranks, odd.size()) == ([1, 3], 2)
        assert (dist.get_rank(odd), dist.get_world_size(odd)) == ((rank // 2, 2) if rank % 2 else (-1, -1))
        if rank % 2:
            dist.broadcast(x, group_src=1, group=odd)
        dist.destroy_process_group()
        assert not dist.is_initialized()
        return x.tolist()[0]

    assert spawn(program) == [0, 4, 2, 4]


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda: dist.init_process_group(), ValueError, "twice"),
        (lambda: dist.all_reduce([1.0]), TypeError, "Expected parameter `tensor`"),
        (lambda: dist.all_reduce(phalanx.zeros(2), "xor"), ArgumentError, "no reduction `xor`"),
        (lambda: dist.broadcast(phalanx.zeros(2)), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.broadcast(phalanx.zeros(2), 0, group_src=0), ValueError, "Can't specify both"),
        (lambda: dist.all_gather_into_tensor(phalanx.zeros(3), phalanx.zeros(2)), ValueError, "world_size times"),
        (lambda: dist.all_gather(phalanx.zeros(2), phalanx.zeros(2)), TypeError, "List"),
        (lambda: dist.new_group([0, 0]), ValueError, "duplicate"),
        (lambda: dist.new_group([9]), ValueError, "Rank 9 is out of range"),
        (lambda: dist.new_group(["a"]), TypeError, "sequence of integers"),
        (lambda: dist.send(phalanx.zeros(2), 0), ValueError, "Invalid destination rank"),
        (lambda: dist.P2POp(dist.send, phalanx.zeros(2), 1), ValueError, "Invalid ``op``"),
        (lambda: dist.all_reduce(phalanx.zeros(2), group=3), TypeError, "a group is"),
    ],
)
def test_wrong_calls_are_errors(use: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(SpawnException) as caught:
        spawn(lambda rank: use() if rank == 0 else None)
    with pytest.raises(error, match=words):
        raise caught.value.errors[0]


def test_before_init_is_an_error() -> None:
    with pytest.raises(ValueError, match="has not been initialized"):
        CONTEXT.run(lambda: dist.all_reduce(phalanx.zeros(2)))


def test_receiving_from_any_rank() -> None:
    def program(rank: int) -> Any:
        if rank:
            dist.send(phalanx.full(2, rank), 0)
            return None
        x = phalanx.empty(2)
        return sorted((dist.recv(x), x.tolist()[0]) for _ in range(RANKS - 1))

    assert spawn(program)[0] == [(rank, float(rank)) for rank in range(1, RANKS)]


def test_a_monitored_barrier_names_the_missing_ranks() -> None:
    import datetime

    spawn(lambda rank: dist.monitored_barrier(timeout=datetime.timedelta(seconds=1)))

    def late(rank: int) -> None:
        if rank == 2:
            phalanx.sleep(5e-3)
        dist.monitored_barrier(timeout=1e-3)

    with pytest.raises(SpawnException) as caught:
        spawn(late)
    assert isinstance(caught.value.errors[0], phalanx.errors.MissingRanksError)
    assert "rank 2 has not come within" in str(caught.value.errors[0])
    # A rank that has returned can no longer come: that is known at once.
    with pytest.raises(phalanx.errors.DesyncError, match="rank 2 returned without joining monitored_barrier"):
        spawn(lambda rank: None if rank == 2 else dist.monitored_barrier(timeout=1e-3))


def test_streams_and_events() -> None:
    @phalanx.kernel
    def nap(tl: Any, x: Any) -> None:
        tl.compute(5e-6)

    def program() -> None:
        first, second = phalanx.Stream("first"), phalanx.Stream("second")
        x, y = phalanx.zeros(64), phalanx.zeros(64)
        phalanx.synchronize()
        with first:
            work = nap[1](x)
        second.wait_stream(first)
        with second:
            y.fill_(1)
        event = second.record_event()
        work.wait()
        assert not event.query() and work.event().query()
        event.synchronize()
        second.synchronize()
        assert event.query() and y.tolist() == [1] * 64

    phalanx.Context("pair").run(program)


def test_a_loop_that_looks_whether_work_is_over_ends() -> None:
    context = phalanx.Context("pair")

    def worker(rank: int) -> tuple[int, int]:
        dist.init_process_group()
        x = phalanx.full(1000, rank + 1)
        work = dist.all_reduce(x, async_op=True)
        looks = 0
        while not work.is_completed():
            looks += 1
            assert looks < 10_000
        assert x.tolist() == [3.0] * 1000
        launched = phalanx.launch(lambda tl, x: tl.compute(1e-6), 1, x)
        more = 0
        while not launched.is_completed():
            more += 1
            assert more < 10_000
        return looks, more

    for looks, more in context.spawn(worker):
        assert looks > 0 and more > 0


def test_a_loop_in_vain_is_a_desync() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        if rank == 0:
            work = dist.all_reduce(phalanx.ones(4), async_op=True)
            while not work.is_completed():
                pass

    with pytest.raises(DesyncError, match="looking again and again"):
        phalanx.Context("pair").spawn(worker)


@pytest.mark.parametrize("op", ["BAND", "BOR", "BXOR", "PREMUL_SUM"])
def test_reductions_that_nobody_has_are_refused(op: str) -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(phalanx.ones(4), op=getattr(dist.ReduceOp, op))

    with pytest.raises(SpawnException, match=f"no reduction `{op.lower()}`: allowed are"):
        phalanx.Context("pair").spawn(worker)


TENSORS = 3
NUMBER = st.integers(0, TENSORS - 1)
PAIR = st.permutations(range(TENSORS)).map(lambda order: tuple(order[:2]))
STEPS = st.one_of(
    st.tuples(st.just("fill"), st.tuples(NUMBER, st.integers(0, 9))),
    st.tuples(st.sampled_from(["copy", "shift"]), PAIR),
    st.tuples(st.sampled_from(["sum", "max", "issue", "look"]), st.tuples(NUMBER)),
    st.tuples(st.just("broadcast"), st.tuples(NUMBER, st.integers(0, RANKS - 1))),
    st.tuples(st.just("barrier"), st.just(())),
    st.tuples(st.just("sleep"), st.tuples(st.integers(0, 3).map(lambda number: number * 700_000))),
)


async def scripted(rank: int, ranks: int, count: int, script: Any, finish: Callable[[Any], Awaitable[Any]]) -> list[list[float]]:
    """The program of a rank; ``finish`` waits for an operation."""
    dist.init_process_group()
    tensors = [phalanx.zeros(count) for _ in range(TENSORS)]
    seen: list[list[float]] = []
    for name, numbers in script:
        chosen = [tensors[number] for number in numbers[:2] if number < TENSORS]
        if name == "fill":
            chosen[0].fill_(numbers[1] + rank)
        elif name == "copy":
            chosen[0].copy_(chosen[1])
        elif name in ("sum", "max"):
            await finish(dist.all_reduce(chosen[0], dist.ReduceOp.SUM if name == "sum" else dist.ReduceOp.MAX, async_op=True))
        elif name == "issue":
            dist.all_reduce(chosen[0], async_op=True)
        elif name == "broadcast":
            await finish(dist.broadcast(chosen[0], numbers[1] % ranks, async_op=True))
        elif name == "shift":
            sent = dist.isend(chosen[0], (rank + 1) % ranks)
            received = dist.irecv(chosen[1], (rank - 1) % ranks)
            await finish(received)
            await finish(sent)
        elif name == "barrier":
            await finish(dist.barrier(async_op=True))
        elif name == "sleep":
            phalanx.sleep(numbers[0] * (rank + 1) * 1e-12)
        else:
            seen.append((await finish(chosen[0])).tolist())
    return seen


async def by_await(pending: Any) -> Any:
    return await pending.read() if isinstance(pending, phalanx.Tensor) else await pending


async def in_place(pending: Any) -> Any:
    return pending.numpy() if isinstance(pending, phalanx.Tensor) else pending.wait()


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=14), st.integers(1, 700), st.integers(2, RANKS))
def test_rank_programs_as_greenlets_as_coroutines_and_in_rust_are_the_same(script: Any, count: int, ranks: int) -> None:
    def outcome(run: Callable[[phalanx.Context], Any]) -> tuple[Any, str, int]:
        context = phalanx.Context("quad-sip", record=True)
        return run(context), context.report().op_log(), context.now_ps

    def worker(rank: int) -> Any:
        program = scripted(rank, ranks, count, script, in_place)
        # Nothing in it awaits: it runs to its end in one step, and suspends inside as a plain function does.
        with pytest.raises(StopIteration) as ended:
            program.send(None)
        return ended.value.value

    steps = [(name, list(numbers)) for name, numbers in script]
    native = outcome(lambda context: context._core.spawn_script(ranks, TENSORS, count, steps))
    assert outcome(lambda context: context.spawn(worker, nprocs=ranks)) == native
    awaited = outcome(lambda context: context.spawn(lambda rank: scripted(rank, ranks, count, script, by_await), nprocs=ranks))
    assert awaited == native
