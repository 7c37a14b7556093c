"""kernbench: programs as their authors write them, from the names that the ancestor has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kernbench.tp as tp
import numpy as np
import pytest
from greenlet import getcurrent, greenlet
from kernbench.ccl.algorithms.ring_allreduce import Ipcq
from kernbench.runtime_api.context import RuntimeContext
from kernbench.runtime_api.multiprocessing import SpawnException, _drain_pending
from kernbench.runtime_api.types import DeviceSelector
from kernbench.sim_engine.engine import GraphEngine
from kernbench.triton_emu.kernel_runner import KernelRunner
from phalanx.errors import ArgumentError

from kernbench_fixtures import ccl


def made(sips: Any = 2, cubes: Any = 1, pes: Any = 1) -> RuntimeContext:
    """A context on a machine of so many SIPs, cubes and PEs."""
    spec = {"system": {"sips": {"count": sips}}, "sip": {"cubes": cubes, "pes_per_cube": pes}}
    engine = GraphEngine(SimpleNamespace(spec=spec), enable_data=True)
    return RuntimeContext(engine=engine, target_device=DeviceSelector("all"), correlation_id="program", spec=spec)


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ccl.yaml").write_text(ccl())


def rounds(ctx: RuntimeContext, workers: list[greenlet], most: int = 40) -> None:
    """Drives workers by hand to their ends."""
    for _ in range(most):
        _drain_pending(ctx)
        for worker in workers:
            if not worker.dead:
                worker.switch()
    assert all(worker.dead for worker in workers)


def test_a_runner_is_driven_by_hand_or_as_a_process() -> None:
    ctx = made()

    def kernel(tl: Any) -> None:
        tl.delay(5)
        tl.delay(6)

    runner = KernelRunner()
    seen = [runner._parent for _ in runner.run(ctx.engine.env, kernel, (), 1)]
    assert seen == [getcurrent()] * 2
    before = ctx.engine.env.now
    ctx.engine.env.run(until=ctx.engine.env.process(KernelRunner().run(ctx.engine.env, kernel, [], 3)))
    assert ctx.engine.env.now == before + 11


def test_a_runner_that_a_program_replaces_is_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = made()

    def run(self: KernelRunner, env: Any, kernel_fn: Any, kernel_args: Any, num_programs: int) -> Any:
        yield env.timeout(7)
        kernel_args[0].append((kernel_fn.__name__, num_programs))

    monkeypatch.setattr(KernelRunner, "run", run)
    seen: list[Any] = []

    def kernel(tl: Any, into: Any) -> None:
        raise AssertionError("the kernel itself does not run")

    ctx.launch(kernel, seen, num_programs=4)
    assert seen == [("kernel", 4)] and ctx.engine.env.now == 7


def test_every_inner_call_goes_through_the_replaced_method(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = made()
    calls: list[str] = []

    def spied(owner: Any, name: str) -> None:
        before = getattr(owner, name)

        def spy(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return before(*args, **kwargs)

        monkeypatch.setattr(owner, name, spy)

    for owner, name in ((ctx, "zeros"), (ctx, "launch"), (ctx, "wait"), (ctx.engine, "submit"), (ctx.engine, "wait"), (ctx.distributed, "all_reduce")):
        spied(owner, name)

    def worker(rank: int) -> None:
        tp.parallel_state.initialize_model_parallel(2)
        layer = tp.RowParallelLinear(8, 4, config=None, init_method=np.ones((4, 8)), bias=False, input_is_parallel=True, skip_bias_add=False)
        y, _ = layer(ctx.zeros((2, 4)).copy_(np.ones((2, 4))))
        assert (y.numpy() == 8).all()

    ctx.multiprocessing.spawn(worker, nprocs=2)
    assert set(calls) == {"zeros", "launch", "wait", "submit", "all_reduce"}
    assert calls.count("all_reduce") == 2 and calls.count("launch") == 2


def test_a_replaced_wait_of_the_class_drives_each_handle_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = made()
    driven: list[Any] = []
    drive = GraphEngine.wait
    monkeypatch.setattr(GraphEngine, "wait", lambda self, h: (driven.append(h), drive(self, h))[1])
    ctx._completed = set()  # type: ignore[assignment]
    ctx.zeros((2,))
    assert len(driven) == len(set(driven)) == len(ctx._completed) == 2


def test_bare_greenlets_name_their_rank_and_reduce() -> None:
    ctx = made()
    found: dict[int, Any] = {}

    def work(rank: int) -> None:
        ctx.distributed.init_process_group(backend="any", rank=rank, world_size=2)
        tensor = ctx.zeros((4,), "f32")
        tensor.copy_(np.full(4, rank + 1.0))
        ctx.distributed.all_reduce(tensor)
        found[rank] = tensor.numpy().tolist()

    workers = [greenlet(work) for _ in range(2)]
    for rank, worker in enumerate(workers):
        worker.switch(rank)
    rounds(ctx, workers)
    assert found == {0: [3.0] * 4, 1: [3.0] * 4}


def test_time_passes_in_slices_between_switches() -> None:
    ctx = made()
    seen: list[Any] = []

    def work(step: float) -> None:
        for _ in range(3):
            ctx.wait(ctx.engine.submit("op", step))
            seen.append((step, ctx.engine.env.now))

    workers = [greenlet(work) for _ in range(2)]
    for worker, step in zip(workers, (10, 25), strict=True):
        worker.switch(step)
    _drain_pending(ctx)
    assert ctx.engine.env.now == 25 and not seen
    rounds(ctx, workers)
    assert sorted(seen)[-1] == (25, ctx.engine.env.now) and ctx._pending_worker_waits == []


def test_errors_of_a_rank_reach_the_spawn_while_others_are_in_a_collective_a_kernel_and_a_read() -> None:
    ctx = made()
    ended: list[int] = []

    def kernel(tl: Any) -> None:
        tl.delay(1e9)

    def worker(rank: int) -> None:
        try:
            tensor = ctx.zeros((4,))
            if rank == 0:
                ctx.distributed.all_reduce(tensor)
            elif rank == 1:
                ctx.launch(kernel)
            elif rank == 2:
                tensor.numpy()
                tensor.numpy()
            else:
                raise LookupError("rank 3")
        finally:
            ended.append(rank)

    with pytest.raises(SpawnException) as caught:
        ctx.multiprocessing.spawn(worker, nprocs=4)
    assert list(caught.value.errors) == [3] and sorted(ended) == [0, 1, 2, 3]
    assert ctx._pending_worker_waits == [] == ctx.distributed._pending_collectives and ctx.distributed._rank_by_greenlet == {}
    ctx.multiprocessing.spawn(lambda rank: ctx.distributed.all_reduce(ctx.zeros((4,))), nprocs=4)


def test_a_rank_that_holds_on_to_its_end_is_given_up() -> None:
    ctx = made()

    def worker(rank: int) -> None:
        if rank == 1:
            raise ValueError("rank 1")
        while True:
            try:
                ctx.wait(ctx.engine.submit("op", 5))
            except BaseException:
                continue

    with pytest.raises(SpawnException) as caught:
        ctx.multiprocessing.spawn(worker, nprocs=2)
    assert list(caught.value.errors) == [1]


def test_greenlets_of_a_rank_are_of_that_rank() -> None:
    ctx = made()
    seen: list[Any] = []

    def helper() -> None:
        seen.append((ctx.distributed.get_rank(), ctx.zeros((2,)).rank))

    def worker(rank: int) -> None:
        inner = greenlet(helper)
        while not inner.dead:
            inner.switch()
            if not inner.dead:
                getcurrent().parent.switch()  # type: ignore[union-attr]

    ctx.multiprocessing.spawn(worker, nprocs=3)
    assert sorted(seen) == [(0, 0), (1, 1), (2, 2)]


def test_a_sender_waits_for_slots_and_messages_stay_in_order() -> None:
    ctx = made()
    queue = Ipcq(ctx.engine.env, 2, 64, 1)
    log: list[str] = []

    def send(tl: Any) -> None:
        for number in range(6):
            tl.send(queue, np.full(8, number, np.float32))
            log.append("sent")

    def receive(tl: Any) -> None:
        for number in range(6):
            tl.delay(1000)
            assert (tl.recv(queue) == number).all()
            log.append("received")

    workers = [greenlet(lambda: ctx.launch(send)), greenlet(lambda: ctx.launch(receive))]
    for worker in workers:
        worker.switch()
    rounds(ctx, workers)
    for place in range(len(log)):
        assert log[: place + 1].count("sent") - log[: place + 1].count("received") <= 3
    ctx.engine.env.run()
    assert log.count("received") == 6 and queue.credits == 2


def test_element_types_by_their_usual_names() -> None:
    ctx = made()
    for name in ("f16", "f32", "bf16", "i32", "i8", "float16", "float32", "fp16", "fp32", "half", np.float16, np.int32):
        assert (np.asarray(ctx.zeros((2,), dtype=name).numpy(), float) == 0).all()
    assert ctx.zeros(3).numpy().shape == (3,) and ctx.zeros((0,)).numpy().shape == (0,) and ctx.zeros(()).numpy().shape == ()


def test_programs_take_turns_at_engines_and_memories() -> None:
    def spent(act: Any, pes: int, programs: int, elements: int = 1 << 16) -> float:
        ctx = made(1, 1, pes)
        tensors = [ctx.zeros((elements,), dtype="f32") for _ in range(programs)]
        before = ctx.engine.env.now
        ctx.launch(act, tensors, num_programs=programs)
        return ctx.engine.env.now - before

    def load(tl: Any, tensors: Any) -> None:
        tl.load(tensors[tl.program_id(0)])

    def vector(tl: Any, tensors: Any) -> None:
        tl.add(np.ones(1 << 16, np.float32), np.ones(1 << 16, np.float32))

    one = spent(vector, 1, 1)
    assert spent(vector, 1, 4) == pytest.approx(4 * one), "programs of one PE take turns at its engine"
    assert spent(vector, 4, 4) == pytest.approx(one), "PEs compute side by side"
    alone, crowd = spent(load, 8, 1), spent(load, 8, 8)
    machine = made(1, 1, 8).engine.machine
    at_memory = 8 * machine.time("hbm", 4 << 16) / 1000
    assert crowd >= at_memory and crowd >= alone, "PEs of one cube share its memory"
    assert spent(load, 1, 2) > 1.5 * alone


def test_queues_of_one_wire_take_turns_at_it() -> None:
    def spent(wires: list[Any]) -> float:
        ctx = made(2)
        queues = [Ipcq(ctx.engine.env, 4, 1 << 20, 0, wire=wire) for wire in wires]
        payload = np.ones(1 << 16, np.float32)

        def kernel(tl: Any) -> None:
            queue = queues[tl.program_id(0) // 2]
            if tl.program_id(0) % 2:
                tl.recv(queue)
            else:
                tl.send(queue, payload)

        ctx.launch(kernel, num_programs=2 * len(queues))
        return ctx.engine.env.now

    one = spent([None])
    assert spent([None, None]) == one
    assert spent([(0, 1), (0, 1)]) > 1.5 * one
    assert spent([(0, 1), (1, 0)]) == one


@pytest.mark.parametrize("how", ["in place", "returned", "shape", "array"])
def test_initial_weights_are_filled_in_or_returned(how: str) -> None:
    whole = np.arange(32, dtype=np.float32).reshape(8, 4) / 8
    methods: dict[str, Any] = {
        "in place": lambda weight: weight.copy_(whole) and None,
        "returned": lambda weight: weight.fill_(0).copy_(whole),
        "shape": lambda shape: np.zeros(shape) + whole,
        "array": whole,
    }
    ctx = made()

    def worker(rank: int) -> None:
        tp.parallel_state.initialize_model_parallel(2)
        layer = tp.ColumnParallelLinear(4, 8, config=None, init_method=methods[how])
        assert (layer.weight.numpy() == whole[4 * rank : 4 * rank + 4]).all()
        drawn = tp.ColumnParallelLinear(4, 8, init_method=lambda weight: weight.normal_(0.0, 0.5))
        assert drawn.weight.numpy().std() > 0.1

    ctx.multiprocessing.spawn(worker, nprocs=2)


def test_groups_that_are_set_and_sizes_that_kernbench_has_not() -> None:
    ctx = made()

    def worker(rank: int) -> None:
        state = tp.parallel_state
        with pytest.raises(ArgumentError, match="context_parallel_size is 2"):
            state.initialize_model_parallel(1, context_parallel_size=2)
        state.initialize_model_parallel(2, context_parallel_size=1, order="tp-cp-ep-dp-pp")
        with pytest.raises(AssertionError, match="data parallel group is already initialized"):
            state.initialize_model_parallel(2)
        assert state.get_context_parallel_world_size() == 1 and state.get_context_parallel_rank() == 0
        state.set_tensor_model_parallel_rank(7)
        state.set_tensor_model_parallel_world_size(9)
        assert (state.get_tensor_model_parallel_rank(), state.get_tensor_model_parallel_world_size()) == (7, 9)
        state.set_tensor_model_parallel_rank(None)
        assert state.get_tensor_model_parallel_rank() == rank
        state.destroy_model_parallel()
        with pytest.raises(AssertionError, match="data parallel group is not initialized"):
            state.get_data_parallel_rank()

    ctx.multiprocessing.spawn(worker, nprocs=2)
