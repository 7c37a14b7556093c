"""Faults of workers: processes that end, stop, or do not leave; Ctrl-C; and what is left behind. All on real children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import worker_functions as functions
from phalanx import runtime
from phalanx.runtime import Budgets, Call, RunError, Worker

SMALL: dict[str, Any] = {"memory": 1 << 20, "ring": (64, 1 << 16)}
PATIENCE = 600.0


def until(is_so: Callable[[], Any]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it is never so"
        time.sleep(0.01)


def is_gone(process: int) -> bool:
    """True if no process has this number, not even a zombie."""
    return not Path(f"/proc/{process}").exists()


def open_files() -> list[str]:
    """The files behind the descriptors of this process."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return sorted(found)


def children() -> set[int]:
    """The processes that this one has started and not reaped."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(number) for number in (task / "children").read_text().split()}
    return found


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call(functions.exit_with, 3), "the process has exited with 3"),
        (Call(functions.exit_with, None), "the process has exited with 0"),
        (Call(functions.exit_with, "enough"), "the process has exited with 1"),
        (Call(functions.exit_at_once, 4), "the process has exited with 4"),
        (Call(functions.kill_self, signal.SIGKILL), "killed by signal 9"),
        (Call(functions.kill_self, signal.SIGINT), "killed by signal 2"),
        (Call(functions.kill_self, signal.SIGSEGV), "killed by signal 11"),
    ],
    ids=["exit-3", "exit-none", "exit-text", "_exit", "kill", "interrupt", "fault"],
)
def test_a_process_that_ends_fails_its_task_and_is_named(call: Call, words: str) -> None:
    with Worker([functions.exit_with, functions.exit_at_once, functions.kill_self, functions.nothing], chips=2, **SMALL) as worker:
        with pytest.raises(RunError, match=r"on chip 0 \(process \d+\)"):
            worker.run(lambda graph: graph.submit_next_level(0, call))
        until(lambda: worker.lost)
        assert words in worker.lost[0].words
        # The other goes on, and a task for the lost one is refused with its fate.
        worker.run(lambda graph: graph.submit_next_level(1, functions.nothing))
        with pytest.raises(runtime.WorkerError, match="its worker is lost: chip 0"):
            worker.run(lambda graph: graph.submit_next_level(0, functions.nothing))


def test_a_child_that_is_killed_from_outside() -> None:
    with Worker([functions.announce_and_sleep, functions.nothing], sub_workers=2, **SMALL) as worker:
        x = worker.tensor(1, "i32")
        handle = worker.submit(lambda graph: graph.submit_sub(functions.announce_and_sleep, x.no_dep(), PATIENCE))
        until(lambda: worker.read_unordered(x)[0])
        victim = int(worker.read_unordered(x)[0])
        assert victim in [child.process for child in worker.startup.children]
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(RunError, match=f"process {victim}"):
            handle.wait(PATIENCE)
        until(lambda: is_gone(victim))
        worker.call(functions.nothing)


def test_a_lost_process_is_replaced_and_idempotent_tasks_run_again() -> None:
    with Worker([functions.die_once, functions.nothing], sub_workers=1, restart=True, **SMALL) as worker:
        calls = worker.tensor(1, "i32")
        worker.call(Call(functions.die_once, calls.in_out()).idempotent())
        assert worker.read(calls).tolist() == [2]
        assert "has exited with 3" in worker.replaced[0].words and not worker.lost


def test_a_process_that_is_stopped_is_reported_as_stuck() -> None:
    budgets = Budgets(progress=0.2, operation=0.5, wait=10.0, guard=0.1)
    with Worker([functions.stop_self, functions.nothing], sub_workers=2, budgets=budgets, close_within=0.5, **SMALL) as worker:
        with pytest.raises(RunError, match="sub worker") as caught:
            worker.call(functions.stop_self)
        assert caught.value.stall is not None
        # The one that is stuck is ended, the other goes on.
        until(lambda: worker.lost)
        worker.call(Call(functions.nothing).expected(PATIENCE))
        processes = [child.process for child in worker.startup.children]
    assert all(map(is_gone, processes))


def test_a_long_task_that_moves_is_not_stuck() -> None:
    while not moves(0.5):
        pass


def moves(budget: float) -> bool:
    """Runs tasks that are longer than their budget; false if the one that moves got no processor for half of it."""
    budgets = Budgets(progress=0.2, operation=budget, wait=10.0, guard=0.1)
    with Worker([functions.move_on, functions.sleep], sub_workers=1, budgets=budgets, **SMALL) as worker:
        said = worker.from_numpy([time.monotonic(), 0.0])
        try:
            worker.call(functions.move_on, 2 * budget, said.no_dep())
        except RunError:
            now = time.monotonic()
            last, longest = worker.read_unordered(said)
            if max(longest, now - last) > budget / 2:
                return False
            raise
        worker.call(Call(functions.sleep, 1.5 * budget).expected(PATIENCE))
    return True


def test_a_peer_that_dies_ends_the_waits_of_the_others() -> None:
    with Worker([functions.die_or_wait], chips=2, **SMALL) as worker:

        def graph(graph: runtime.Orchestrator) -> None:
            domain = graph.allocate_domain("pair", [0, 1], {"x": ("f32", 1)})
            graph.submit_next_level_group((chip, Call(functions.die_or_wait).domain(domain)) for chip in range(2))

        with pytest.raises(RunError, match="chip 1"):
            worker.run(graph)


def test_a_chip_that_cannot_be_set_up_fails_the_start() -> None:
    before = children()
    with pytest.raises(runtime.StartError, match="chip 1") as caught:
        Worker([functions.nothing], chips=2, bootstrap=functions.set_up_badly, **SMALL)
    assert "OSError: no such device" in str(caught.value) and "worker_functions.py" in str(caught.value)
    assert children() == before


def test_nothing_is_left_behind() -> None:
    with Worker([functions.nothing], sub_workers=1, **SMALL):
        pass
    files, before = open_files(), children()
    for closes in (True, False):
        worker = Worker([functions.nothing, functions.kill_self], sub_workers=2, **SMALL)
        processes = [child.process for child in worker.startup.children]
        with pytest.raises(RunError):
            worker.call(functions.kill_self, signal.SIGKILL)
        if closes:
            worker.close()
            worker.close()
            assert worker.closed and repr(worker) == "Worker(closed)"
            with pytest.raises(runtime.ClosedError, match="the worker is closed"):
                worker.tensor(4)
        del worker
        assert all(map(is_gone, processes)), "no zombie"
        assert children() == before
        assert open_files() == files, "no memory, no socket"


def test_closing_ends_a_task_that_does_not() -> None:
    worker = Worker([functions.sleep], sub_workers=1, close_within=0.2, **SMALL)
    (child,) = worker.startup.children
    worker.submit(lambda graph: graph.submit_sub(functions.sleep, PATIENCE))
    with pytest.raises(runtime.CloseError, match="killed: sub worker 0"):
        worker.close()
    assert is_gone(child.process)


PROGRAM = """
import contextlib, os, signal, sys, time
sys.path.insert(0, {tests!r})
import worker_functions as functions
from phalanx import runtime

worker = runtime.Worker([functions.nothing, functions.create_and_sleep], sub_workers=1, memory=1 << 20, ring=(8, 0))
print(os.getpid(), worker.startup.children[0].process, flush=True)
{body}
"""


def begin(tmp_path: Path, body: str) -> tuple[subprocess.Popen[str], int]:
    """Starts a program with a worker; returns it and its child."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(tests=str(Path(__file__).parent), body=body))
    program = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert program.stdout is not None
    line = program.stdout.readline()
    own, child = map(int, line.split())
    assert own == program.pid
    return program, child


WAITS = {
    "run": "worker.call(functions.create_and_sleep, {begun!r}, 600)",
    "submit": "worker.run(lambda graph: [graph.submit_sub(functions.create_and_sleep, {begun!r}, 600) for _ in range(50)])",
    "wait": "worker.submit(lambda graph: graph.submit_sub(functions.create_and_sleep, {begun!r}, 600)).wait()",
}


CAUGHT = """
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", worker.stats()["tasks"] > 0)
    with contextlib.suppress(runtime.CloseError):
        worker.close(0.1)
    sys.exit(7)
"""


@pytest.mark.parametrize("where", WAITS)
def test_ctrl_c_ends_a_wait_and_leaves_the_interpreter_usable(tmp_path: Path, where: str) -> None:
    program, child = begin(tmp_path, CAUGHT.format(wait=WAITS[where].format(begun=str(tmp_path / "begun"))))
    interrupt(program, tmp_path / "begun")
    output, _ = program.communicate(timeout=PATIENCE)
    assert (output, program.returncode) == ("interrupted True\n", 7)
    until(lambda: is_gone(child))


def test_ctrl_c_in_a_block_ends_the_processes_at_once(tmp_path: Path) -> None:
    wait = WAITS["run"].format(begun=str(tmp_path / "begun"))
    program, child = begin(tmp_path, f"signal.signal(signal.SIGINT, signal.default_int_handler)\nwith worker:\n    {wait}")
    interrupt(program, tmp_path / "begun")
    output, _ = program.communicate(timeout=PATIENCE)
    assert output.rstrip().endswith("KeyboardInterrupt") and program.returncode == -signal.SIGINT
    until(lambda: is_gone(child))


def interrupt(program: subprocess.Popen[str], begun: Path) -> None:
    """Sends the signal of Ctrl-C when a task of the program has begun and the program sleeps."""
    until(begun.exists)
    until(lambda: Path(f"/proc/{program.pid}/stat").read_text().rpartition(") ")[2].startswith("S"))
    program.send_signal(signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_leave_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    program, child = begin(tmp_path, WAITS["run"].format(begun=str(tmp_path / "begun")))
    assert not is_gone(child)
    program.send_signal(number)
    program.wait(PATIENCE)
    until(lambda: is_gone(child))


def test_a_program_that_forgets_to_close_ends(tmp_path: Path) -> None:
    program, child = begin(tmp_path, "worker.call(functions.nothing)\nprint('end')")
    output, _ = program.communicate(timeout=PATIENCE)
    assert (output, program.returncode) == ("end\n", 0)
    until(lambda: is_gone(child))
