"""Queues between PEs: slots at the receiver, a credit for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

import numpy as np

from ..sim_engine.env import Env, Event
from ..sim_engine.units import Units

__all__ = ["Ipcq"]


class Ipcq:
    """A directed queue of ``n_slots`` slots of ``slot_size`` bytes.

    A sender takes a credit for each slot; the receiver gives it back when the slot is free. A longer message takes several slots. ``vc`` is
    the number of bytes in which a message moves; 0 is the whole message. The wire is a link of the machine; queues of one ``wire``, by default
    a wire of their own, take turns at it.
    """

    def __init__(
        self, env: Env, n_slots: int = 4, slot_size: int = 16384, vc: int = 0, *, credit_size: int = 0, buffer_kind: str = "tcm",
        wire: Any = None,
    ) -> None:
        if int(n_slots) < 1 or int(slot_size) < 1:
            raise ValueError(f"a queue of {n_slots} slots of {slot_size} bytes: it has at least one of each")
        self.env = env
        self.n_slots, self.slot_size, self.vc = int(n_slots), int(slot_size), int(vc or 0)
        self.credits = self.n_slots
        self.credit_size, self.buffer_kind = int(credit_size), buffer_kind
        #: The most slots that were taken at once.
        self.most_taken = 0
        self._slots: deque[tuple[Any, bool]] = deque()
        self._wire = ("link", wire)
        self._units = Units() if wire is None else env.engine._units
        self._credited: Event | None = None
        self._arrived: Event | None = None

    def _time(self, what: str, amount: int) -> int:
        return int(self.env.engine.machine.time(what, amount))

    def _on_wire(self, amount: int) -> int:
        """The picoseconds that bytes occupy the wire."""
        if not amount:
            return 0
        if not self.vc or amount <= self.vc:
            return self._time("link", amount)
        whole, rest = divmod(amount, self.vc)
        return whole * self._time("link", self.vc) + (self._time("link", rest) if rest else 0)

    def _send(self, array: np.ndarray) -> Generator[Event, None, None]:
        flat = array.copy().reshape(-1)
        each = max(1, self.slot_size // max(flat.itemsize, 1))
        parts = [flat[start : start + each] for start in range(0, flat.size, each)] or [flat]
        for number, part in enumerate(parts):
            while not self.credits:
                if self._credited is None or self._credited.triggered:
                    self._credited = self.env.event("a free slot")
                yield self._credited
            self.credits -= 1
            self.most_taken = max(self.most_taken, self.n_slots - self.credits)
            is_last = number + 1 == len(parts)
            now = self.env._now_ps()
            sent = self._units.take(now, [(self._wire, self._on_wire(part.nbytes))])
            self._after(sent - now + self._time("link", 0), self._put, (part, array.shape if is_last else None))

    def _after(self, picoseconds: int, act: Any, *args: Any) -> None:
        self.env.timeout(picoseconds / 1000)._then(lambda _: act(*args))

    def _put(self, slot: tuple[Any, Any]) -> None:
        self._slots.append(slot)
        if self._arrived is not None and not self._arrived.triggered:
            self._arrived.succeed()

    def _credit(self) -> None:
        self.credits += 1
        if self._credited is not None and not self._credited.triggered:
            self._credited.succeed()

    def _recv(self) -> Generator[Event, None, Any]:
        parts: list[Any] = []
        while True:
            while not self._slots:
                if self._arrived is None or self._arrived.triggered:
                    self._arrived = self.env.event("a message")
                yield self._arrived
            part, shape = self._slots.popleft()
            if self.buffer_kind == "hbm":
                yield self.env.timeout((self._time("hbm", 0) + self._time("hbm", max(part.nbytes, 1))) / 1000)
            parts.append(part)
            self._after(self._on_wire(self.credit_size) + self._time("link", 0), self._credit)
            if shape is not None:
                whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
                return whole.reshape(shape)
