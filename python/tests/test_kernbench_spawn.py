"""kernbench: spawn, its errors, and collectives between its ranks."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from greenlet import getcurrent, greenlet
from kernbench.ccl import config
from kernbench.runtime_api.multiprocessing import SpawnException, _drain_pending, spawn
from kernbench.triton_emu.kernel_runner import KernelRunner
from phalanx.errors import MachineError, MismatchError, ProcessExitedException

from kernbench_fixtures import ccl, context


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ccl.yaml").write_text(ccl())


def test_every_rank_runs_once_and_knows_its_number() -> None:
    ctx = context()
    seen: list[Any] = []

    def worker(rank: int, size: int) -> None:
        assert ctx.distributed._rank_by_greenlet.get(getcurrent()) == rank == ctx.distributed.get_rank()
        ctx.zeros((2,))
        seen.append((rank, size, ctx.distributed.get_world_size()))

    assert ctx.multiprocessing.spawn(worker, args=(3,), nprocs=3) is None
    assert sorted(seen) == [(0, 3, 3), (1, 3, 3), (2, 3, 3)]
    assert ctx.distributed._rank_by_greenlet == {} and ctx.distributed.get_world_size() == 2
    assert ctx.multiprocessing.spawn(worker, nprocs=0) is None


def test_join_false_runs_when_joined_and_other_start_methods_warn() -> None:
    ctx = context()
    seen: list[int] = []
    processes = ctx.multiprocessing.spawn(seen.append, nprocs=2, join=False)
    assert processes is not None and seen == []
    assert processes.join() and seen == [0, 1]
    with pytest.warns(FutureWarning, match="start_method=spawn"):
        ctx.multiprocessing.spawn(seen.append, nprocs=1, start_method="fork")
    with context() as entered:
        spawn(lambda rank: entered.zeros((1,)), nprocs=1)
        assert entered.engine.op_log


def test_only_root_causes_are_errors_and_finally_blocks_run() -> None:
    ctx = context()
    log: list[Any] = []
    failure = ValueError("rank 1")

    def worker(rank: int) -> None:
        try:
            try:
                if rank == 1:
                    raise failure
                ctx.wait(ctx.engine.submit("op", 5))
                log.append("a rank went on")
            except Exception:
                if rank != 1:
                    log.append("the end of a sibling is an Exception")
                raise
        finally:
            log.append(rank)
            if rank == 2:
                # A wait in a finally block is cancelled as well.
                ctx.wait(ctx.engine.submit("op", 5))
                log.append("waited")

    with pytest.raises(SpawnException) as caught:
        ctx.multiprocessing.spawn(worker, nprocs=3)
    assert caught.value.errors == {1: failure} and caught.value.__cause__ is failure
    assert caught.value.cancelled == [0, 2] and sorted(log) == [0, 1, 2]
    assert ctx._pending_worker_waits == [] and ctx.distributed._rank_by_greenlet == {}
    ctx.multiprocessing.spawn(lambda rank: ctx.zeros((2,)), nprocs=3)


def test_a_failure_cancels_kernels_and_clears_collectives() -> None:
    ctx = context()
    ended: list[str] = []

    def kernel(tl: Any) -> None:
        try:
            tl.delay(1e6)
        finally:
            ended.append("kernel")

    def worker(rank: int) -> None:
        if rank == 0:
            ctx.launch(kernel)
        elif rank == 1:
            ctx.distributed.all_reduce(ctx.zeros((2,)))
        else:
            raise ValueError("rank 2")

    with pytest.raises(SpawnException) as caught:
        ctx.multiprocessing.spawn(worker, nprocs=3)
    assert list(caught.value.errors) == [2]
    assert ended in (["kernel"], []) and not ctx.engine.env._processes
    assert ctx._pending_worker_waits == [] == ctx.distributed._pending_collectives


def test_exits_and_interrupts() -> None:
    ctx = context()

    def leave(rank: int, code: Any) -> None:
        raise SystemExit(code)

    ctx.multiprocessing.spawn(leave, args=(0,), nprocs=2)
    with pytest.raises(ProcessExitedException, match="exit code 3"):
        ctx.multiprocessing.spawn(leave, args=(3,), nprocs=2)

    def interrupt(rank: int) -> None:
        if rank == 1:
            raise KeyboardInterrupt
        ctx.zeros((2,))

    with pytest.raises(KeyboardInterrupt):
        ctx.multiprocessing.spawn(interrupt, nprocs=2)
    assert ctx._pending_worker_waits == [] and ctx.distributed._rank_by_greenlet == {}


def test_a_desync_names_the_rank_and_the_operation() -> None:
    ctx = context()

    def worker(rank: int) -> None:
        if rank != 1:
            ctx.distributed.all_reduce(ctx.zeros((2,)))

    with pytest.raises(SpawnException, match=r"rank 0 is in all_reduce\(sum, f16\[2\]\), which ranks \[1\] have not joined") as caught:
        ctx.multiprocessing.spawn(worker, nprocs=3)
    assert "rank 1 has returned" in str(caught.value) and sorted(caught.value.errors) == [0, 2]
    assert ctx._pending_worker_waits == [] == ctx.distributed._pending_collectives


def test_ranks_in_different_collectives_are_told() -> None:
    ctx = context()

    def worker(rank: int) -> None:
        ctx.distributed.all_reduce(ctx.zeros((2 + rank,)))

    with pytest.raises(SpawnException) as caught:
        ctx.multiprocessing.spawn(worker, nprocs=2)
    assert isinstance(caught.value.errors[0], MismatchError)
    assert "rank 1 is in all_reduce(sum, f16[3])" in str(caught.value.errors[1])
    with pytest.raises(SpawnException, match="allowed are sum, prod"):
        ctx.multiprocessing.spawn(lambda rank: ctx.distributed.all_reduce(ctx.zeros((2,)), op="xor"), nprocs=2)


def test_a_collective_waits_for_all_and_a_read_does_not_run_it() -> None:
    ctx = context()
    seen: list[str] = []

    def worker(rank: int) -> None:
        tensor = ctx.zeros((4,)).copy_(np.ones(4))
        if rank == 0:
            ctx.distributed.all_reduce(tensor)
            seen.append("reduced")
            return
        for _ in range(3):
            assert tensor.numpy().tolist() == [1.0] * 4
            ctx.zeros((2,))
            assert seen == [] and len(ctx.distributed._pending_collectives) == 1
        tensor.copy_(np.full(4, 2.0))
        ctx.distributed.all_reduce(tensor)
        assert tensor.numpy().tolist() == [3.0] * 4

    ctx.multiprocessing.spawn(worker, nprocs=2)
    assert seen == ["reduced"]


def test_bare_greenlets_can_be_ranks() -> None:
    ctx = context(2)
    tensors: dict[int, Any] = {}

    def work(rank: int) -> None:
        tensors[rank] = ctx.zeros((4,)).copy_(np.full(4, rank + 1))
        ctx.distributed.all_reduce(tensors[rank])

    workers = [greenlet(work) for _ in range(2)]
    for rank, worker in enumerate(workers):
        ctx.distributed._rank_by_greenlet[worker] = rank
        worker.switch(rank)
    rounds = 0
    while not all(worker.dead for worker in workers):
        rounds += 1
        assert rounds < 20
        _drain_pending(ctx)
        for worker in workers:
            if not worker.dead:
                worker.switch()
    assert tensors[0].rank == 0 and tensors[1].rank == 1
    assert tensors[0].numpy().tolist() == tensors[1].numpy().tolist() == [3.0] * 4


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("n_slots", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 200])
def test_the_ring_is_exact(world: int, n_slots: int, count: int) -> None:
    Path("ccl.yaml").write_text(ccl(n_slots, 64, count, "hbm" if count == 33 else "tcm"))
    ctx = context(2)
    found: dict[int, Any] = {}

    def worker(rank: int) -> None:
        tensor = ctx.zeros((count,)).copy_(np.arange(count) % 7 + rank)
        ctx.distributed.all_reduce(tensor)
        found[rank] = tensor.numpy()

    ctx.multiprocessing.spawn(worker, nprocs=world)
    expected = sum((np.arange(count) % 7 + rank for rank in range(world)), np.zeros(count))
    for rank in range(world):
        assert found[rank].dtype == np.float16 and (found[rank] == expected).all()


@pytest.mark.parametrize(("op", "fold"), [("sum", np.add), ("prod", np.multiply), ("min", np.minimum), ("max", np.maximum)])
def test_all_ranks_have_the_same_bits(op: str, fold: Any) -> None:
    ctx = context(4)
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(4, 37)).astype(np.float16)
    found: dict[int, Any] = {}

    def worker(rank: int) -> None:
        tensor = ctx.zeros((37,)).copy_(inputs[rank])
        ctx.distributed.all_reduce(tensor, op=op)
        found[rank] = tensor.numpy()

    ctx.multiprocessing.spawn(worker, nprocs=4)
    assert all(found[rank].tobytes() == found[0].tobytes() for rank in range(4))
    expected = fold.reduce(inputs.astype(np.float64))
    assert np.allclose(found[0], expected, atol=2e-2)


def test_average_and_barrier() -> None:
    ctx = context(4)

    def worker(rank: int) -> None:
        tensor = ctx.zeros((6,), dtype="f32").copy_(np.full(6, rank))
        ctx.distributed.all_reduce(tensor, op="avg")
        assert tensor.numpy().tolist() == [1.5] * 6
        ctx.distributed.barrier()

    ctx.multiprocessing.spawn(worker, nprocs=4)
    alone = ctx.zeros((2,)).copy_(np.ones(2))
    ctx.distributed.all_reduce(alone)
    assert alone.numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("algorithm", ["ring", "auto", "direct"])
def test_the_algorithms_of_phalanx_serve_too(algorithm: str) -> None:
    Path("ccl.yaml").write_text(f"defaults: {{ algorithm: {algorithm} }}\n")
    ctx = context(4)
    early = ctx.zeros((3,)).copy_(np.arange(3))

    def worker(rank: int) -> None:
        tensor = ctx.zeros((50,), dtype="f32").copy_(np.arange(50) + rank)
        ctx.distributed.all_reduce(tensor)
        assert tensor.numpy().tolist() == (3 * np.arange(50) + 3).tolist()

    ctx.multiprocessing.spawn(worker, nprocs=3)
    assert early.numpy().tolist() == [0.0, 1.0, 2.0] and ctx.engine.op_log[-1].kind == "AllReduce"


def test_more_ranks_than_sips_keep_tensors_and_time() -> None:
    ctx = context(2)
    tensor = ctx.zeros((3,)).copy_(np.arange(3))
    before = ctx.engine.env.now
    ctx.multiprocessing.spawn(lambda rank: ctx.zeros((2,)), nprocs=6)
    assert tensor.numpy().tolist() == [0.0, 1.0, 2.0] and ctx.engine.env.now > before


def test_an_algorithm_of_a_module_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "my_ccl"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "gossip.py").write_text(
        "def kernel(tl, rank, world_size, tensor, send_q, recv_q, op):\n"
        "    total = own = tl.load(tensor)\n"
        "    for _ in range(world_size - 1):\n"
        "        tl.send(send_q, own)\n"
        "        own = tl.recv(recv_q)\n"
        "        total = total + own\n"
        "    tl.store(tensor, total)\n"
    )
    (package / "empty.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    Path("ccl.yaml").write_text("defaults: { algorithm: mine }\nalgorithms:\n  mine: { module: my_ccl.gossip, n_elem: 5 }\n")
    ctx = context(3)

    def worker(rank: int) -> None:
        tensor = ctx.zeros((5,)).copy_(np.full(5, rank))
        ctx.distributed.all_reduce(tensor)
        assert tensor.numpy().tolist() == [3.0] * 5

    ctx.multiprocessing.spawn(worker, nprocs=3)
    Path("ccl.yaml").write_text("defaults: { algorithm: mine }\nalgorithms:\n  mine: { module: my_ccl.empty }\n")
    with pytest.raises(SpawnException, match="has no function `kernel"):
        ctx.multiprocessing.spawn(worker, nprocs=3)


def test_a_wrong_file_names_file_and_key() -> None:
    Path("ccl.yaml").write_text("defaults: { algorithm: ring_allreduce, n_slotz: 3 }\n")
    with pytest.raises(MachineError, match=r"n_slotz(.|\n)*ccl.yaml"):
        config.load()
    Path("ccl.yaml").write_text("algorithms:\n  mine: { module: no.such.module }\n")
    with pytest.raises(MachineError, match=r"no.such.module"):
        config.load()
    Path("ccl.yaml").unlink()
    assert config.load()["module"] == "ring_allreduce"


def test_the_bench_runs_the_worker_of_the_moment_on_every_sip(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = importlib.import_module("benches.ccl_allreduce")
    parents: list[Any] = []
    original = KernelRunner.run

    def spied(self: KernelRunner, env: Any, fn: Any, args: Any, programs: int) -> Any:
        run = original(self, env, fn, args, programs)
        first = next(run)
        parents.append(self._parent)
        yield first
        yield from run

    monkeypatch.setattr(KernelRunner, "run", spied)
    ctx = context("3")
    bench.run(ctx)
    assert len(parents) == 3 and all(parent is getcurrent() for parent in parents)
    calls: list[Any] = []
    monkeypatch.setattr(bench, "worker", lambda rank, size, torch: calls.append((rank, size, torch)))
    bench.run(ctx)
    assert calls == [(rank, 3, ctx) for rank in range(3)] and ctx._pending_worker_waits == []
