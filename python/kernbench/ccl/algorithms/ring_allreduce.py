"""All-reduce around a ring: segments are combined on their way round, then go round once more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from ..ipcq import Ipcq

__all__ = ["Ipcq", "kernel"]


def kernel(tl: Any, rank: int, world_size: int, tensor: Any, send_q: Ipcq, recv_q: Ipcq, op: str = "sum") -> None:
    """One rank's part: ``send_q`` leads to the next rank, ``recv_q`` comes from the one before.

    Every element is combined in the order of the ring, by one rank: results are equal on all ranks to the last bit.
    """
    whole = tl.load(tensor)
    data = whole.reshape(-1).copy()
    if world_size > 1:
        bounds = [data.size * part // world_size for part in range(world_size + 1)]
        each = max(1, send_q.slot_size // max(data.itemsize, 1))

        def chunks(segment: int) -> Iterator[slice]:
            start, end = bounds[segment % world_size], bounds[segment % world_size + 1]
            return (slice(at, min(at + each, end)) for at in range(start, end, each))

        # Sends and receives take turns, slot by slot: no rank waits for a slot while it could free one.
        for step in range(world_size - 1):
            for out, into in zip_longest(chunks(rank - step), chunks(rank - step - 1)):
                if out is not None:
                    tl.send(send_q, data[out])
                if into is not None:
                    data[into] = tl.combine(op, tl.recv(recv_q), data[into])
        for step in range(world_size - 1):
            for out, into in zip_longest(chunks(rank + 1 - step), chunks(rank - step)):
                if out is not None:
                    tl.send(send_q, data[out])
                if into is not None:
                    data[into] = tl.recv(recv_q)
    if op == "avg":
        data = tl.div(data, data.dtype.type(world_size)).astype(data.dtype)
    tl.store(tensor, data.reshape(whole.shape))
