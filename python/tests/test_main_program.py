"""Main programs: tensors between runs, time in slices, a notebook cell by cell."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from typing import Any

import phalanx
import phalanx.distributed as dist
import pytest
from phalanx.errors import StuckError


@phalanx.kernel
def double(tl: Any, x: Any) -> None:
    tl.store(x, tl.load(x) * 2.0)


def test_a_main_program_is_a_rank() -> None:
    def program() -> Any:
        x = phalanx.arange(4.0)
        double[1](x).wait()
        x[0] = 5
        return x.tolist()

    with phalanx.Context("pair") as context:
        here = program()
        slices = context.now_ps
    whole = phalanx.Context("pair")
    assert whole.run(program) == here == [5, 2, 4, 6]
    assert whole.now_ps == slices, "slices of time take the time of the whole"


def test_cells_of_a_notebook() -> None:
    context = phalanx.Context("pair").use()
    try:
        x = phalanx.ones(4)
        work = double[1](x)
        assert context.now_ps == 0
        context.drive_until(work)
        first = context.now_ps
        assert first > 0 and work.is_completed()
        assert context.drive_to(1e-3) is False
        context.drain()
        assert x.tolist() == [2] * 4
        # Ranks that are spawned later use the tensors of the main program.
        assert context.spawn(lambda rank: rank, nprocs=2) == [0, 1]
        assert repr(x) == "tensor([2., 2., 2., 2.], dtype=f32, rank=0)"
    finally:
        context.close()


def test_results_of_ranks_are_read_afterwards() -> None:
    with phalanx.Context("pair") as context:
        tensors = context.spawn(lambda rank: phalanx.full(2, rank))
        with context.as_rank(0, 2):
            assert tensors[0].tolist() == [0, 0]
        with context.as_rank(1):
            assert tensors[1].tolist() == [1, 1]


def test_a_main_program_plays_several_ranks() -> None:
    with phalanx.Context("pair") as context:
        works = []
        for rank in range(2):
            with context.as_rank(rank, 2):
                dist.init_process_group()
                x = phalanx.full(2, rank + 1)
                works.append((x, dist.all_reduce(x, async_op=True)))
        for rank, (x, work) in enumerate(works):
            with context.as_rank(rank):
                assert work is not None and work.wait()
                assert x.tolist() == [3, 3]


def test_waiting_for_what_nobody_does_is_an_error_and_can_be_mended() -> None:
    with phalanx.Context("pair") as context:
        with context.as_rank(0, 2):
            dist.init_process_group()
            work = dist.barrier(async_op=True)
            assert work is not None
            with pytest.raises(StuckError, match="barrier"):
                work.wait()
        with context.as_rank(1):
            dist.init_process_group()
            dist.barrier()
        with context.as_rank(0):
            work.wait()


def test_ctrl_c_in_a_run_that_never_enters_python() -> None:
    program = textwrap.dedent(
        """
        import phalanx, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        context = phalanx.Context("pair", data=False, progress=True)
        @phalanx.kernel
        def long(tl, x):
            for _ in range(4000):
                tl.store(x, tl.load(x))
        def many():
            x = phalanx.ones(64)
            for _ in range(100000):
                work = long[1](x)
                print("ready", flush=True)
                work.wait()
        try:
            context.run(many)
        except KeyboardInterrupt:
            print("interrupted", context.run(lambda: 42))
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline() == "ready\n"
    # The progress of the run is shown after a while.
    shown = ""
    while "simulated" not in shown:
        shown += child.stderr.read(1)
        assert child.poll() is None, shown
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=600)
    assert out.splitlines()[-1] == "interrupted 42"
    assert child.returncode == 0
