"""Functions that the tests of workers run in children."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from phalanx import runtime

PATIENCE = 600.0
kept: list[Any] = []


def nothing() -> None:
    """Does nothing."""


def double(x: Any, by: float = 2) -> None:
    x *= by


def fill(x: Any, value: float) -> None:
    x[...] = value


def add(a: Any, b: Any, out: Any) -> None:
    out[...] = a + b


def note_process(out: Any) -> None:
    out[0] = os.getpid()


def fail(x: Any) -> None:
    raise ValueError(f"number {x[0]:g} is wrong")


def fail_in_a_chain(x: Any) -> None:
    try:
        fail(x)
    except ValueError as error:
        raise RuntimeError("because of that") from error


def keep(x: Any) -> None:
    kept.append(x)


def keep_a_part(x: Any) -> None:
    kept.append(x.reshape(-1)[1:].view("u1"))


def keep_in_a_thread(x: Any) -> None:
    """A thread that nobody tells to go on has the array."""
    threading.Thread(target=lambda: (threading.Event().wait(), x.sum()), daemon=True).start()


def keep_a_copy(x: Any) -> None:
    kept.append(x.copy())


def make_a_cycle(x: Any) -> None:
    ring: list[Any] = [x]
    ring.append(ring)


def write_input(x: Any) -> None:
    x[0] = 1


def change_copied(x: runtime.Copied) -> None:
    x.write(x.read() + 1)


def use_kept_array(x: Any, out: Any) -> None:
    """The array that an earlier task has kept is not the memory any more."""
    array = kept[-1]
    out[:2] = [array.sum(), x.sum()]
    array[...] = 9
    x += 1
    out[2:] = [array.sum(), x.sum()]


def keep_copied(x: runtime.Copied) -> None:
    kept.append(x)


def use_kept(out: Any) -> None:
    try:
        kept[-1].read()
    except runtime.WorkerError as error:
        out[: len(str(error))] = list(str(error).encode())


def exit_with(code: Any) -> None:
    sys.exit(code)


def exit_at_once(code: int) -> None:
    os._exit(code)


def kill_self(number: int) -> None:
    os.kill(os.getpid(), number)


def stop_self() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def announce_and_sleep(x: runtime.Copied, seconds: float) -> None:
    x.write(os.getpid())
    time.sleep(seconds)


def create_and_sleep(path: str, seconds: float) -> None:
    Path(path).touch()
    time.sleep(seconds)


def until_told(flag: runtime.Copied) -> None:
    while not flag.read().any():
        time.sleep(0.001)


def announce_until_told(x: runtime.Copied, flag: runtime.Copied) -> None:
    x.write(os.getpid())
    until_told(flag)


def die_once(calls: Any) -> None:
    calls[0] += 1
    if calls[0] == 1:
        os._exit(3)


def move_on(seconds: float, said: runtime.Copied) -> None:
    """Writes when it said last that it moves, and the longest time in which it did not."""
    task = runtime.current_task()
    last, longest = time.monotonic(), 0.0
    end = last + seconds
    while last < end:
        time.sleep(0.01)
        task.progress()
        now = time.monotonic()
        last, longest = now, max(longest, now - last)
        said.write([last, longest])


def report_time(picoseconds: int) -> None:
    runtime.current_task().simulated(picoseconds)


@runtime.task(collective=True)
def mark(x: Any) -> None:
    task = runtime.current_task()
    assert task.members == 2
    x[...] = task.member * 10


@runtime.task(collective=True)
def all_reduce() -> None:
    domain = runtime.current_task().domain()
    data = domain.read("data")
    for peer in range(domain.ranks):
        domain.put(peer, "inbox", data, domain.rank * len(data))
        domain.notify(peer, 0, 1)
    for peer in range(domain.ranks):
        domain.wait(peer, 0, 1, PATIENCE)
    domain.write("data", domain.read("inbox").reshape(domain.ranks, -1).sum(0))
    domain.barrier(PATIENCE)


@runtime.task(collective=True)
def die_or_wait() -> None:
    domain = runtime.current_task().domain()
    if domain.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    domain.barrier(PATIENCE)


@runtime.graph
def spread(graph: runtime.Orchestrator, data: Any, value: float) -> None:
    for chip in range(graph.chips):
        graph.submit_next_level(chip, fill, data[chip * 4 : chip * 4 + 4].output(), value + chip)


def set_up(chip: runtime.Chip) -> dict[str, Any]:
    chip.context = 100 + chip.device_id
    chip.buffer("weights", b"abcd" * chip.setting["words"])
    chip.buffer("scratch", 64)
    return {"rank": chip.rank, "of": chip.nranks, **chip.setting}


def set_up_badly(chip: runtime.Chip) -> None:
    if chip.rank == 1:
        raise OSError("no such device")


def look_at_device(out: Any) -> None:
    device = runtime.current_task().device
    out[:] = [device["rank"], device["of"], device["words"]]


def look_at_weights(weights: Any, out: Any) -> None:
    out[0] = bytes(weights) == b"abcd" * 2


def double_below(out: Any) -> None:
    """Has a worker of its own."""
    with runtime.Worker([double], sub_workers=1, memory=1 << 16, ring=(8, 0)) as worker:
        x = worker.from_numpy(out)
        worker.call(double, x.in_out())
        out[...] = worker.read(x)


def say(text: str) -> None:
    print(text)
