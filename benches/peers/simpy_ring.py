#!/usr/bin/env python3
"""The bounded-slot ring all-reduce on SimPy, written the way SimPy's own examples are.

Three processes a rank (sender, link, receiver), a `Store` between each two of them, a
`Container` of credits, and a process for each message or credit in flight, as in SimPy's
"Event Latency" example. With `--greenlets` sender and receiver are kernels in greenlets, which
hand their waits to a process. Prints one JSON object: simulated_ns, cpu_s, wall_s, hops.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import simpy
from greenlet import getcurrent, greenlet

BYTES = 16 << 20  # per rank
SLOT = 16 << 10
SLOTS = 4
BANDWIDTH = 128  # bytes per ns, a link
VECTOR = 512  # bytes per ns, the reducing engine
LATENCY = 500  # ns, a link
CREDIT_LATENCY = 500  # ns, a credit on its way back

Process = Iterator[simpy.Event]
Apply = Callable[["Chunk"], None]


@dataclass(frozen=True)
class Shape:
    """The cut of the vector for a number of ranks."""

    ranks: int

    @property
    def chunks(self) -> int:
        """Chunks in one step."""
        return BYTES // (self.ranks * SLOT)

    @property
    def reducing_steps(self) -> int:
        """Steps that reduce; as many follow that gather."""
        return self.ranks - 1

    def schedule(self) -> Iterator[tuple[int, int]]:
        """Every (step, index) that one rank sends, in order."""
        return ((step, index) for step in range(2 * self.reducing_steps) for index in range(self.chunks))

    @property
    def hops(self) -> int:
        """Chunks over links, all ranks together."""
        return self.ranks * 2 * self.reducing_steps * self.chunks


class Chunk(NamedTuple):
    """One slot's worth on its way to the next rank."""

    step: int
    index: int
    payload: Any


class Rank:
    """One rank and the queues around it."""

    def __init__(self, env: simpy.Environment, shape: Shape) -> None:
        self.env = env
        self.shape = shape
        self.credits = simpy.Container(env, capacity=SLOTS, init=SLOTS)
        self.wire = simpy.Store(env)
        self.inbox = simpy.Store(env)
        self.ready = simpy.Store(env)
        self.load: Callable[[int, int], Any] = lambda step, index: None
        self.apply: Apply = lambda chunk: None

    def sender(self) -> Process:
        """Hands each chunk to the wire once it is ready and a slot is free."""
        for step, index in self.shape.schedule():
            if step > 0:
                yield self.ready.get()
            yield self.credits.get(1)
            yield self.wire.put(Chunk(step, index, self.load(step, index)))

    def link(self, to: Rank) -> Process:
        """Moves one chunk at a time over the wire."""
        for _ in self.shape.schedule():
            chunk = yield self.wire.get()
            yield self.env.timeout(SLOT // BANDWIDTH)
            self.env.process(arrive(self.env, to, chunk))

    def receiver(self, source: Rank) -> Process:
        """Takes chunks in order, reduces in the first half, gives the credit back."""
        for _ in self.shape.schedule():
            chunk = yield self.inbox.get()
            if chunk.step < self.shape.reducing_steps:
                yield self.env.timeout(SLOT // VECTOR)
            self.apply(chunk)
            yield self.ready.put((chunk.step, chunk.index))
            self.env.process(give_back(self.env, source))


class Kernels(Rank):
    """A rank whose sender and receiver are greenlets: functions that wait where they call."""

    def sender(self) -> Process:
        """The sender, as a process."""
        return in_greenlet(self.send)

    def receiver(self, source: Rank) -> Process:
        """The receiver, as a process."""
        return in_greenlet(lambda: self.receive(source))

    def send(self) -> None:
        """Hands each chunk to the wire once it is ready and a slot is free."""
        for step, index in self.shape.schedule():
            if step > 0:
                wait(self.ready.get())
            wait(self.credits.get(1))
            wait(self.wire.put(Chunk(step, index, self.load(step, index))))

    def receive(self, source: Rank) -> None:
        """Takes chunks in order, reduces in the first half, gives the credit back."""
        for _ in self.shape.schedule():
            chunk = wait(self.inbox.get())
            if chunk.step < self.shape.reducing_steps:
                wait(self.env.timeout(SLOT // VECTOR))
            self.apply(chunk)
            wait(self.ready.put((chunk.step, chunk.index)))
            self.env.process(give_back(self.env, source))


def wait(event: simpy.Event) -> Any:
    """Hands an event to the process that runs this greenlet, and returns its value."""
    return getcurrent().parent.switch(event)


def in_greenlet(body: Callable[[], None]) -> Process:
    """A function in a greenlet, as a process."""
    running = greenlet(body)
    event = running.switch()
    while not running.dead:
        value = yield event
        event = running.switch(value)


def arrive(env: simpy.Environment, to: Rank, chunk: Chunk) -> Process:
    """A chunk in flight."""
    yield env.timeout(LATENCY)
    yield to.inbox.put(chunk)


def give_back(env: simpy.Environment, source: Rank) -> Process:
    """A credit in flight."""
    yield env.timeout(CREDIT_LATENCY)
    yield source.credits.put(1)


def build(env: simpy.Environment, shape: Shape, kind: type[Rank] = Rank) -> list[Rank]:
    """The ranks of a ring, not yet started."""
    return [kind(env, shape) for _ in range(shape.ranks)]


def start(env: simpy.Environment, ranks: list[Rank]) -> None:
    """Starts the three processes of every rank."""
    for number, rank in enumerate(ranks):
        env.process(rank.sender())
        env.process(rank.link(ranks[(number + 1) % len(ranks)]))
        env.process(rank.receiver(ranks[number - 1]))


def sent_segment(shape: Shape, number: int, step: int) -> int:
    """The segment that rank `number` sends in `step`."""
    if step < shape.reducing_steps:
        return (number - step) % shape.ranks
    return (number + 1 - (step - shape.reducing_steps)) % shape.ranks


def attach_data(shape: Shape, ranks: list[Rank]) -> list[Any]:
    """Gives every rank an f32 vector of small integers; returns the vectors."""
    import numpy

    pattern = numpy.arange(BYTES // 4, dtype=numpy.int32) % 251
    vectors = [(pattern + number).astype(numpy.float32) for number in range(shape.ranks)]
    for number, rank in enumerate(ranks):
        rank.load, rank.apply = slot_access(shape, number, vectors[number], numpy)
    return vectors


def slot_access(shape: Shape, number: int, vector: Any, numpy: Any) -> tuple[Callable[[int, int], Any], Apply]:
    """The functions by which a rank reads the slot that it sends and applies the slot that it received."""
    slots = vector.reshape(shape.ranks, shape.chunks, SLOT // 4)

    def load(step: int, index: int) -> Any:
        return slots[sent_segment(shape, number, step), index]

    def apply(chunk: Chunk) -> None:
        mine = slots[sent_segment(shape, number - 1, chunk.step), chunk.index]
        if chunk.step < shape.reducing_steps:
            numpy.add(mine, chunk.payload, out=mine)
        else:
            numpy.copyto(mine, chunk.payload)

    return load, apply


def check_data(shape: Shape, vectors: list[Any]) -> None:
    """Compares every vector with the exact sum; every sum here is an exact f32."""
    import numpy

    pattern = numpy.arange(BYTES // 4, dtype=numpy.int32) % 251
    total = (pattern * shape.ranks + shape.ranks * (shape.ranks - 1) // 2).astype(numpy.float32)
    for number, vector in enumerate(vectors):
        if not numpy.array_equal(vector, total):
            raise SystemExit(f"error: rank {number} does not hold the exact sum")


def run(shape: Shape, data: bool, greenlets: bool = False) -> dict[str, float]:
    """Runs the ring once; filling and checking the data is not timed."""
    env = simpy.Environment()
    ranks = build(env, shape, Kernels if greenlets else Rank)
    vectors = attach_data(shape, ranks) if data else []
    wall, cpu = time.perf_counter(), time.process_time()
    start(env, ranks)
    env.run()
    cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
    check_data(shape, vectors)
    return {"simulated_ns": env.now, "cpu_s": cpu_s, "wall_s": wall_s, "hops": shape.hops}


def ranks_argument(text: str) -> int:
    """A number of ranks that cuts the vector into whole slots."""
    ranks = int(text)
    if ranks < 2 or BYTES % (ranks * SLOT):
        raise argparse.ArgumentTypeError(f"ranks must be at least 2 and divide {BYTES // SLOT}: {ranks}")
    return ranks


def main() -> None:
    """Reads the arguments and prints the result."""
    parser = argparse.ArgumentParser(description="ring all-reduce through bounded slots, on SimPy")
    parser.add_argument("ranks", type=ranks_argument, help="number of ranks")
    parser.add_argument("--data", action="store_true", help="carry f32 numbers with numpy and check the sum")
    parser.add_argument("--greenlets", action="store_true", help="kernels in greenlets, which hand their waits to processes")
    arguments = parser.parse_args()
    print(json.dumps(run(Shape(arguments.ranks), arguments.data, arguments.greenlets)))


if __name__ == "__main__":
    main()
