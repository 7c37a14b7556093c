"""Ranks: spawning, failing, waiting, reports."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import phalanx
import phalanx.distributed as dist
import phalanx.multiprocessing as mp
import pytest
from interrupts import interrupted


@pytest.fixture
def quad() -> phalanx.Context:
    return phalanx.Context("quad-sip")


def test_spawn_calls_the_function_once_for_each_rank(quad: phalanx.Context) -> None:
    calls: list[tuple[int, str]] = []
    assert mp.spawn(lambda rank, word: calls.append((rank, word)), ("x",), 4, context=quad) is None
    assert calls == [(rank, "x") for rank in range(4)]
    assert quad.spawn(lambda rank: rank * rank) == [0, 1, 4, 9]
    assert quad.spawn(lambda rank: rank, nprocs=0) == []


def test_spawn_without_a_context_makes_one_with_enough_sips() -> None:
    seen: list[int] = []
    mp.spawn(lambda rank: seen.append(rank), nprocs=9)
    assert seen == list(range(9))
    assert phalanx.report().simulated_ps >= 0


def test_join_false_runs_in_join(quad: phalanx.Context) -> None:
    seen: list[int] = []
    waiting = mp.spawn(lambda rank: seen.append(rank), nprocs=2, join=False, context=quad)
    assert waiting is not None
    assert (seen, waiting.pids()) == ([], [os.getpid()] * 2)
    assert waiting.join() and waiting.join()
    assert seen == [0, 1]


def test_another_start_method_warns(quad: phalanx.Context) -> None:
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(lambda rank: None, start_method="fork", context=quad)


def test_errors_are_the_exception_objects_with_their_tracebacks(quad: phalanx.Context) -> None:
    raised = {rank: ValueError(f"of {rank}") for rank in (1, 3)}

    def worker(rank: int) -> None:
        if rank in raised:
            raise raised[rank]

    with pytest.raises(mp.SpawnException) as caught:
        quad.spawn(worker)
    error = caught.value
    assert error.errors == raised
    assert (error.error_index, error.error_pid, error.__cause__) == (1, os.getpid(), raised[1])
    assert "-- Process 1 terminated" in error.msg and "[rank3]: ValueError: of 3" in error.msg
    assert error.errors[1].__traceback__ is not None
    assert error.errors[1].__traceback__.tb_frame.f_code.co_name == "worker"


def test_siblings_finally_blocks_run_and_except_exception_does_not_catch(quad: phalanx.Context) -> None:
    log: list[Any] = []

    def worker(rank: int) -> None:
        dist.init_process_group()
        try:
            if rank == 2:
                raise KeyError("two")
            dist.barrier()
        except Exception as error:  # noqa: BLE001
            log.append((rank, "caught", type(error).__name__))
            raise
        finally:
            log.append((rank, "finally"))

    with pytest.raises(mp.SpawnException) as caught:
        quad.spawn(worker)
    assert (list(caught.value.errors), caught.value.cancelled) == ([2], [0, 1, 3])
    assert sorted(log) == [(0, "finally"), (1, "finally"), (2, "caught", "KeyError"), (2, "finally"), (3, "finally")]


def test_waiting_in_finally_of_a_cancelled_rank_is_cancelled_again(quad: phalanx.Context) -> None:
    log: list[Any] = []

    def worker(rank: int) -> None:
        dist.init_process_group()
        try:
            if rank == 0:
                raise ValueError
            dist.barrier()
        finally:
            try:
                phalanx.zeros(4).numpy()
                dist.barrier()
            finally:
                log.append(rank)
                if rank == 1:
                    raise KeyError("in finally")

    with pytest.raises(mp.SpawnException) as caught:
        quad.spawn(worker, nprocs=2)
    assert sorted(log) == [0, 1]
    assert isinstance(caught.value.secondary[1], KeyError)
    assert list(caught.value.errors) == [0]
    assert quad.spawn(lambda rank: rank, nprocs=2) == [0, 1]


def test_exit_codes(quad: phalanx.Context) -> None:
    quad.spawn(lambda rank: sys.exit(0) if rank else sys.exit())
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with exit code 3") as caught:
        quad.spawn(lambda rank: sys.exit(3) if rank == 1 else None)
    assert (caught.value.exit_code, caught.value.error_index, caught.value.signal_name) == (3, 1, None)


def test_a_desync_says_who_waits_for_whom(quad: phalanx.Context) -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        if rank != 2:
            dist.all_reduce(phalanx.zeros(4))

    with pytest.raises(mp.DesyncError, match="rank 2 returned without joining all_reduce #1") as caught:
        quad.spawn(worker)
    assert caught.value.errors == {}
    assert quad.spawn(lambda rank: rank) == [0, 1, 2, 3]


def test_different_operations_show_both_sides(quad: phalanx.Context) -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(phalanx.zeros(4 + rank % 2))

    with pytest.raises(mp.SpawnException, match="the ranks do not do the same") as caught:
        quad.spawn(worker)
    assert all(isinstance(error, phalanx.errors.MismatchError) for error in caught.value.errors.values())


def test_keyboard_interrupt_of_a_rank_is_itself(quad: phalanx.Context) -> None:
    def worker(rank: int) -> None:
        if rank == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quad.spawn(worker)
    assert quad.spawn(lambda rank: rank) == [0, 1, 2, 3]


def test_one_keyboard_interrupt_keeps_the_other_ranks_from_beginning(quad: phalanx.Context) -> None:
    begun: list[int] = []

    def worker(rank: int) -> None:
        begun.append(rank)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quad.spawn(worker)
    assert begun == [0]
    assert quad.spawn(lambda rank: rank) == [0, 1, 2, 3]


def test_ctrl_c_ends_a_long_run_and_leaves_the_interpreter_usable() -> None:
    program = """
        import phalanx
        context = phalanx.Context("pair")
        def forever():
            print("ready", flush=True)
            while True:
                phalanx.sleep(1e-6)
        try:
            context.run(forever)
        except KeyboardInterrupt:
            print("interrupted", context.run(lambda: 42))
    """
    assert interrupted(program) == "interrupted 42\n"


def test_ctrl_c_while_numbers_are_computed_leaves_the_interpreter_usable() -> None:
    program = """
        import phalanx
        @phalanx.kernel
        def products(tl, x, out):
            tile = tl.load(x)
            for row in range(out.shape[0] // x.shape[0]):
                tl.store(out[row * x.shape[0] : (row + 1) * x.shape[0]], tl.dot(tile, tile))
        def program():
            x, out = phalanx.ones(64, 64), phalanx.empty(64 * 500, 64)
            while True:
                products[1](x, out).wait()
                print("ready", flush=True)
                out.numpy()
        context = phalanx.Context("pair")
        try:
            context.run(program)
        except KeyboardInterrupt:
            print("interrupted", context.run(lambda: float(phalanx.ones(3).numpy().sum())))
    """
    assert interrupted(program) == "interrupted 3.0\n"


def test_ctrl_c_while_an_algorithm_is_chosen_leaves_the_interpreter_usable() -> None:
    program = """
        import phalanx
        import phalanx.distributed as dist
        def worker(rank):
            dist.init_process_group()
            if rank == 0:
                print("ready", flush=True)
            # No time of an earlier size answers for the next one.
            for count in range(1 << 22, 1 << 30, 1 << 21):
                dist.all_reduce(phalanx.empty(count, dtype="f16"))
        context = phalanx.Context("pod-64", data=False)
        try:
            context.spawn(worker, nprocs=64)
        except KeyboardInterrupt:
            print("interrupted", context.spawn(lambda rank: rank, nprocs=2))
    """
    assert interrupted(program) == "interrupted [0, 1]\n"


def test_async_ranks(quad: phalanx.Context) -> None:
    log: list[int] = []

    async def worker(rank: int) -> list[float]:
        dist.init_process_group()
        x = phalanx.full(2, rank)
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        try:
            await work
        finally:
            log.append(rank)
        return (await x.read()).tolist()  # type: ignore[no-any-return]

    assert quad.spawn(worker) == [[6.0, 6.0]] * 4
    assert log == [0, 1, 2, 3] or sorted(log) == [0, 1, 2, 3]


def test_an_async_rank_that_is_cancelled_runs_its_finally(quad: phalanx.Context) -> None:
    log: list[int] = []

    async def worker(rank: int) -> None:
        dist.init_process_group()
        try:
            if rank == 0:
                raise ValueError
            work = dist.barrier(async_op=True)
            assert work is not None
            await work
        finally:
            log.append(rank)

    with pytest.raises(mp.SpawnException):
        quad.spawn(worker, nprocs=2)
    assert sorted(log) == [0, 1]


def test_an_async_rank_awaits_only_phalanx(quad: phalanx.Context) -> None:
    import asyncio

    async def worker(rank: int) -> None:
        await asyncio.sleep(0)

    with pytest.raises(mp.SpawnException, match="can await operations of phalanx only"):
        quad.spawn(worker, nprocs=1)


def test_a_rank_cannot_run_its_own_context(quad: phalanx.Context) -> None:
    with pytest.raises(mp.SpawnException, match="the context is running"):
        quad.spawn(lambda rank: quad.run(lambda: None), nprocs=1)
    assert quad.spawn(lambda rank: phalanx.Context("pair").run(lambda: rank + 1), nprocs=2) == [1, 2]


def test_tensors_outside_of_a_rank_say_where_they_belong() -> None:
    with pytest.raises(RuntimeError, match="no rank runs here"):
        phalanx.zeros(4)


def test_ten_thousand_ranks_half_failing_leave_nothing_behind(quad: phalanx.Context) -> None:
    def worker(rank: int, fails: bool) -> None:
        dist.init_process_group()
        x = phalanx.zeros(4)
        if fails and rank == 1:
            raise ValueError(x)
        dist.barrier()

    def rounds(count: int) -> None:
        for number in range(count):
            try:
                quad.spawn(worker, (number % 2 == 0,))
            except mp.SpawnException:
                pass

    rounds(20)
    gc.collect()
    before = len(gc.get_objects())
    rounds(100)
    gc.collect()
    assert len(gc.get_objects()) <= before + 20


def test_two_runs_are_the_same() -> None:
    def run() -> str:
        context = phalanx.Context("quad-sip", record=True)

        def worker(rank: int) -> None:
            dist.init_process_group()
            x = phalanx.randn(1000)
            dist.all_reduce(x)
            x.numpy()

        context.spawn(worker)
        return context.report().op_log()

    assert run() == run() != ""


def test_a_report_shows_itself(quad: phalanx.Context) -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        with phalanx.range("reduce & all"):
            dist.all_reduce(phalanx.ones(4096, dtype="f16"))

    quad.spawn(worker)
    report = quad.report()
    assert str(report).startswith("simulated  ") and "critical path" in str(report)
    facts = report.to_dict()
    assert 0 < facts["simulated_ps"] == report.simulated_ps <= quad.now_ps
    for row in facts["stalls"]:
        assert sum(row["time_ps"].values()) + row["idle_ps"] == report.simulated_ps
    assert [row["range"] for row in facts["ranges"]] == ["reduce & all"]
    html = report._repr_html_()
    assert html.count("<svg") == html.count("</svg>") > 4
    assert html.count("<rect") == html.count("</rect>") + html.count("/></svg>")
    assert f"{report.simulated_ps} ps" in html and "critical path" in html


def test_data_off_gives_the_same_time_and_no_numbers() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(phalanx.ones(1000))

    times = set()
    for data in (True, False):
        context = phalanx.Context("quad-sip", data=data)
        context.spawn(worker)
        times.add(context.now_ps)
    assert len(times) == 1
    with pytest.raises(phalanx.errors.NoDataError):
        context.run(lambda: phalanx.ones(4).numpy())
    assert "shape=(4,)" in context.run(lambda: repr(phalanx.ones(4)))
