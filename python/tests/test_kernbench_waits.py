"""kernbench: workers put their waits off, one driver makes time pass, and host reads wait for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from greenlet import getcurrent, greenlet
from kernbench.policy.placement.dp import DPPolicy
from kernbench.runtime_api.multiprocessing import SpawnException, _drain_pending
from kernbench.runtime_api.tensor import _HOST_READ_BARRIERS, Tensor
from kernbench.triton_emu.kernel_runner import KernelRunner
from phalanx.errors import NoDataError, StuckError

from kernbench_fixtures import context

ONE = DPPolicy(cube="replicate", pe="replicate", num_cubes=1, num_pes=1)


def test_a_fresh_context_waits_for_nothing() -> None:
    with context() as ctx:
        assert ctx._pending_worker_waits == [] and isinstance(ctx._pending_worker_waits, list)
        assert not ctx._completed and ctx.distributed._pending_collectives == []


def test_main_waits_at_once_and_drives() -> None:
    ctx = context()
    handle = ctx.engine.submit("op", 25)
    assert handle not in ctx._completed
    ctx.wait(handle)
    assert handle in ctx._completed and ctx.engine.env.now == 25 and ctx._pending_worker_waits == []


def test_a_worker_puts_its_wait_off_through_a_replaced_wait() -> None:
    ctx = context()
    seen: list[tuple[str, Any]] = []
    original = ctx.wait

    def spy(h: Any, *, _meta: Any = None) -> Any:
        seen.append(("before", h))
        assert getcurrent().parent is not None
        result = original(h, _meta=_meta)
        seen.append(("after", h in ctx._completed))
        return result

    ctx.wait = spy  # type: ignore[method-assign]
    made: list[Tensor] = []
    worker = greenlet(lambda: made.append(ctx.zeros((8,), dtype="f16", dp=ONE, name="x")))
    worker.switch()
    assert not worker.dead and ctx._pending_worker_waits == [seen[0][1]]
    rounds = 0
    while not worker.dead:
        rounds += 1
        _drain_pending(ctx)
        assert ctx._pending_worker_waits == []
        worker.switch()
    assert 2 <= rounds < 20, "the memory is mapped, then written"
    assert [what for what in seen if what[0] == "after"] == [("after", True)] * 2
    assert made[0].numpy().tolist() == [0.0] * 8


def test_a_resumed_worker_that_was_not_drained_waits_on() -> None:
    ctx = context()
    handle = ctx.engine.submit("op", 5)
    worker = greenlet(lambda: ctx.wait(handle))
    for _ in range(3):
        worker.switch()
        assert not worker.dead and ctx._pending_worker_waits == [handle]
    _drain_pending(ctx)
    worker.switch()
    assert worker.dead


def test_workers_resume_after_one_drain() -> None:
    ctx = context()
    workers = [greenlet(lambda: ctx.zeros((4,), dp=ONE)) for _ in range(2)]
    for worker in workers:
        worker.switch()
    assert not any(worker.dead for worker in workers) and len(ctx._pending_worker_waits) >= 2
    rounds = 0
    while not all(worker.dead for worker in workers):
        rounds += 1
        _drain_pending(ctx)
        for worker in workers:
            if not worker.dead:
                worker.switch()
    assert rounds < 20


def test_nested_workers_wait_through_their_parents() -> None:
    ctx = context()
    order: list[str] = []

    def inner() -> None:
        ctx.wait(ctx.engine.submit("inner", 5))
        order.append("inner")

    def outer() -> None:
        below = greenlet(inner)
        while not below.dead:
            below.switch()
            if not below.dead:
                parent = getcurrent().parent
                assert parent is not None
                parent.switch()
        ctx.wait(ctx.engine.submit("outer", 5))
        order.append("outer")

    worker = greenlet(outer)
    while not worker.dead:
        worker.switch()
        _drain_pending(ctx)
    assert order == ["inner", "outer"] and ctx.engine.env.now == 10


def test_a_completed_wait_neither_yields_nor_drives() -> None:
    ctx = context()
    ctx.zeros((4,))
    handle = next(iter(ctx._completed))
    calls: list[Any] = []
    drive = ctx.engine.wait
    ctx.engine.wait = lambda h: (calls.append(h), drive(h))[1]  # type: ignore[method-assign]
    ctx.wait(handle)
    ctx.wait(handle)
    worker = greenlet(lambda: ctx.wait(handle))
    worker.switch()
    assert worker.dead and calls == []


def test_a_shared_handle_is_driven_once() -> None:
    ctx = context()
    calls: list[Any] = []
    drive = ctx.engine.wait
    ctx.engine.wait = lambda h: (calls.append(h), drive(h))[1]  # type: ignore[method-assign]
    handle = ctx.engine.submit("op", 5)
    workers = [greenlet(lambda: ctx.wait(handle)) for _ in range(3)]
    for worker in workers:
        worker.switch()
    _drain_pending(ctx)
    for worker in workers:
        worker.switch()
    assert calls == [handle] and all(worker.dead for worker in workers)


def test_a_drain_goes_on_until_nothing_is_put_off() -> None:
    ctx = context()
    handles = [ctx.engine.submit("op", cost) for cost in (1, 2, 3)]
    drive = ctx.engine.wait

    def wait(h: Any) -> Any:
        later = [handle for handle in handles if handle not in (*ctx._pending_worker_waits, h) and not handle.done]
        ctx._pending_worker_waits.extend(later)
        return drive(h)

    ctx.engine.wait = wait  # type: ignore[method-assign]
    ctx._pending_worker_waits.append(handles[0])
    _drain_pending(ctx)
    assert ctx._pending_worker_waits == [] and all(handle in ctx._completed for handle in handles)


def test_only_the_main_program_drives() -> None:
    ctx = context()
    handle = ctx.engine.submit("op", 5)
    for act in (lambda: ctx.engine.wait(handle), lambda: _drain_pending(ctx), lambda: ctx.multiprocessing.spawn(print)):
        with pytest.raises(RuntimeError, match="only the main program"):
            greenlet(act).switch()
    assert handle not in ctx._completed


def test_the_error_of_an_operation_is_raised_where_it_is_waited_for() -> None:
    ctx = context()

    def fail() -> None:
        raise ValueError("bad")

    caught: list[BaseException] = []

    def work() -> None:
        try:
            ctx.wait(ctx.engine.submit("op", 5, fail))
        except ValueError as error:
            caught.append(error)

    worker = greenlet(work)
    worker.switch()
    _drain_pending(ctx)
    worker.switch()
    assert str(caught[0]) == "bad"
    with pytest.raises(ValueError, match="bad"):
        ctx.wait(ctx.engine.submit("op", 5, fail))


def test_a_wait_that_cannot_end_says_who_waits() -> None:
    ctx = context()
    from kernbench.ccl.algorithms.ring_allreduce import Ipcq

    queue = Ipcq(ctx.engine.env, 2, 64, 0)
    with pytest.raises(StuckError, match="waits for a message"):
        ctx.launch(lambda tl: tl.recv(queue))


@pytest.mark.parametrize("read", ["numpy", "data", "__getitem__", "__repr__", "__array__", "tolist", "__iter__"])
def test_a_read_in_main_lets_waits_of_workers_end(read: str) -> None:
    ctx = context()
    tensor = ctx.zeros((4,)).copy_(np.arange(4))
    handle = ctx.engine.submit("op", 100)
    worker = greenlet(lambda: ctx.wait(handle))
    worker.switch()
    found = getattr(tensor, read)
    if read != "data":
        assert handle not in ctx._completed
        found = found(2) if read == "__getitem__" else found()
    assert handle in ctx._completed and ctx._pending_worker_waits == []
    assert found is not None


def test_a_read_in_a_worker_waits_for_the_waits_of_others_and_not_for_time() -> None:
    ctx = context()
    tensor = ctx.zeros((4,))
    handle = ctx.engine.submit("op", 100)
    other = greenlet(lambda: ctx.wait(handle))
    seen: list[Any] = []
    reader = greenlet(lambda: seen.append(tensor.numpy()))
    other.switch()
    for _ in range(2):
        reader.switch()
        assert not seen, "a wait of another worker is put off"
    _drain_pending(ctx)
    now = ctx.engine.env.now
    reader.switch()
    assert reader.dead and seen[0].tolist() == [0.0] * 4 and ctx.engine.env.now == now
    quick = greenlet(lambda: seen.append(tensor[1]))
    quick.switch()
    assert quick.dead, "with nothing put off, a read does not wait"


def test_the_set_of_reads_is_closed() -> None:
    assert _HOST_READ_BARRIERS == {"numpy", "data", "__getitem__", "__repr__"}
    assert all(hasattr(Tensor, name) for name in _HOST_READ_BARRIERS)


def test_copying_has_a_barrier_on_its_source_only() -> None:
    ctx = context()
    source, target = ctx.zeros((4,)).copy_(np.arange(4)), ctx.zeros((4,))
    handle = ctx.engine.submit("op", 100)
    waiting = greenlet(lambda: ctx.wait(handle))
    waiting.switch()
    writer = greenlet(lambda: target.copy_(np.ones(4)))
    writer.switch()
    assert handle not in ctx._completed and len(ctx._pending_worker_waits) == 2, "the write was asked for at once"
    copier = greenlet(lambda: target.copy_(source))
    copier.switch()
    assert len(ctx._pending_worker_waits) == 2, "the read of the source waits first"
    while not copier.dead or not writer.dead:
        _drain_pending(ctx)
        for worker in (writer, copier):
            if not worker.dead:
                worker.switch()
    assert target.numpy().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_kernels_start_in_main_and_yield_once_for_each_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context()
    original = KernelRunner.run
    parents: list[Any] = []
    counts: list[int] = []

    def counted(self: KernelRunner, env: Any, fn: Any, args: Any, programs: int) -> Any:
        count = 0
        for event in original(self, env, fn, args, programs):
            if not count:
                parents.append(self._parent)
            count += 1
            yield event
        counts.append(count)

    monkeypatch.setattr(KernelRunner, "run", counted)

    def kernel(tl: Any, delays: list[float]) -> None:
        for delay in delays:
            tl.delay(delay)

    ctx.launch(kernel, [1, 2, 3])
    assert counts == [3] and ctx.engine.env.now == 6
    ctx.launch(kernel, [5, 5], num_programs=3)
    assert counts == [3, 6] and ctx.engine.env.now == 16, "programs run side by side"
    worker = greenlet(lambda: ctx.launch(kernel, [1]))
    worker.switch()
    _drain_pending(ctx)
    worker.switch()
    assert worker.dead and all(parent is getcurrent() for parent in parents) and len(parents) == 3


def test_two_blocking_launches_that_need_each_other() -> None:
    from kernbench.ccl.algorithms.ring_allreduce import Ipcq

    ctx = context()
    there, back = (Ipcq(ctx.engine.env, n_slots=1, slot_size=8, vc=0) for _ in range(2))
    got: dict[int, Any] = {}

    def kernel(tl: Any, rank: int) -> None:
        if rank == 0:
            tl.send(there, np.arange(6, dtype=np.float32))
            got[0] = tl.recv(back)
        else:
            got[1] = tl.recv(there)
            tl.send(back, got[1] * 2)

    def worker(rank: int) -> None:
        # One rank comes later by a few waits.
        for _ in range(3 * rank):
            ctx.zeros((2,))
        ctx.launch(kernel, rank)

    ctx.multiprocessing.spawn(worker, nprocs=2)
    ctx.engine.env.run()
    assert got[0].tolist() == [0, 2, 4, 6, 8, 10] and there.credits == back.credits == 1
    assert there.most_taken == 1


def test_a_failing_program_of_a_kernel_ends_the_others() -> None:
    ctx = context()
    ended: list[int] = []

    def kernel(tl: Any) -> None:
        try:
            if tl.program_id(0) == 1:
                tl.delay(5)
                raise KeyError("program 1")
            tl.delay(1000)
        finally:
            ended.append(tl.program_id())

    with pytest.raises(KeyError, match="program 1"):
        ctx.launch(kernel, num_programs=3)
    assert sorted(ended) == [0, 1, 2] and not ctx.engine.env._processes


def test_a_kernel_that_waits_with_its_context_says_so() -> None:
    ctx = context()
    with pytest.raises(RuntimeError, match="methods of tl"):
        ctx.launch(lambda tl: ctx.zeros((4,)))


def test_leaving_a_context_ends_what_is_left() -> None:
    ended: list[str] = []

    def kernel(tl: Any) -> None:
        try:
            tl.delay(1e9)
        finally:
            ended.append("kernel")

    with context() as ctx:
        tensor = ctx.zeros((4,))
        worker = greenlet(lambda: ctx.launch(kernel))
        worker.switch()
        handle = ctx.engine.submit("op", 5)
        ctx.wait(handle)
    assert ended == ["kernel"] and ctx._pending_worker_waits == []
    assert tensor.numpy().tolist() == [0.0] * 4


def test_two_runs_have_one_log() -> None:
    def run() -> list[Any]:
        ctx = context(3)

        def worker(rank: int) -> None:
            tensor = ctx.zeros((rank + 4,)).copy_(np.full(rank + 4, rank))
            ctx.launch(lambda tl, x: tl.store(x, tl.add(tl.load(x), tl.load(x))), tensor)
            other = ctx.zeros((8,))
            ctx.distributed.all_reduce(other)

        ctx.multiprocessing.spawn(worker, nprocs=3)
        return ctx.engine.op_log

    first = run()
    assert first and first == run() and {op.kind for op in first} >= {"MmuMap", "MemoryWrite", "Kernel"}


def test_times_without_numbers() -> None:
    def run(enable_data: bool) -> float:
        ctx = context(2, enable_data)

        def worker(rank: int) -> None:
            tensor = ctx.zeros((64,)).copy_(np.ones(64))
            ctx.distributed.all_reduce(tensor)
            if enable_data:
                assert tensor.numpy().tolist() == [2.0] * 64
            else:
                with pytest.raises(NoDataError):
                    tensor.numpy()
                assert "shape=(64,)" in repr(tensor)

        ctx.multiprocessing.spawn(worker, nprocs=2)
        return ctx.engine.env.now

    assert run(True) == run(False) > 0


def test_processes_as_in_simpy() -> None:
    env = context().engine.env
    order: list[Any] = []

    def child(delay: float) -> Any:
        yield env.timeout(delay)
        order.append((env.now, delay))
        return delay

    def parent() -> Any:
        processes = [env.process(child(delay)) for delay in (3, 1, 2)]
        first = env.any_of(processes)
        yield first
        order.append(("first", first.value))
        yield env.all_of(processes)
        return "done"

    process = env.process(parent())
    assert env.run(until=process) == "done" and not process.is_alive
    assert order == [(1.0, 1), ("first", 1), (2.0, 2), (3.0, 3)]
    env.run(until=10)
    assert env.now == 10
    with pytest.raises(TypeError, match="no event"):
        env.run(until=env.process(part for part in [5]))  # type: ignore[misc]


def test_a_worker_that_fails_in_a_spawn_leaves_nothing_put_off() -> None:
    ctx = context()

    def worker(rank: int) -> None:
        ctx.zeros((4,))
        raise RuntimeError(f"rank {rank}")

    with pytest.raises(SpawnException) as caught:
        ctx.multiprocessing.spawn(worker, nprocs=2)
    assert ctx._pending_worker_waits == [] and sorted(caught.value.errors) == [0, 1]
