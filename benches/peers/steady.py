"""Keeps only what was measured while the machine stood still.

A hypervisor may put two virtual cores on one physical core for a while. The round trip of a cache line between them
then drops to a fifth and every cost of handing a task over with it, so it is measured before and after each run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from programs import BenchError

BOUNDS_VARIABLE = "PHALANX_PEERS_LINE_NS"
SAMPLES = 15
SPREAD = (0.6, 1.4)  # of the median: 143 to 333 ns where a round trip takes 238
ATTEMPTS = 4
PAUSE_S = 1.0

T = TypeVar("T")


class Steady:
    """Runs things and drops them when the round trip of a cache line was out of bounds.

    The bounds are as told, or around what the machine shows. A machine that moves to another level and stays there takes
    bounds of its own making along, and the note says so.
    """

    def __init__(
        self,
        line_ns: Callable[[], float],
        told: tuple[float, float] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.line_ns = line_ns
        self.may_move = told is None
        self.low, self.high = told or self.usual()
        self.pause = pause
        self.dropped = 0
        self.moves = 0

    def run(self, work: Callable[[], T]) -> T | None:
        """The result of `work` in the first attempt that counts; nothing if none does."""
        result = self.attempt(work)
        if result is None and self.may_move:
            self.low, self.high = self.usual()
            self.moves += 1
            result = self.attempt(work)
        return result

    def attempt(self, work: Callable[[], T]) -> T | None:
        """A bounded number of attempts within the bounds of now."""
        for attempt in range(ATTEMPTS):
            if attempt:
                self.pause(PAUSE_S)
            if self.holds():
                result = work()
                if self.holds():
                    return result
                self.dropped += 1
        return None

    def holds(self) -> bool:
        """True if the round trip is plausible now."""
        return self.low <= self.line_ns() <= self.high

    def usual(self) -> tuple[float, float]:
        """Bounds around the round trip of now."""
        middle = statistics.median(self.line_ns() for _ in range(SAMPLES))
        return middle * SPREAD[0], middle * SPREAD[1]

    def note(self) -> str:
        """One sentence on the bounds and what they cost."""
        text = f"cache-line round trip kept within {self.low:.0f}..{self.high:.0f} ns; runs dropped: {self.dropped}"
        return text + (f"; the machine moved to another level {self.moves} times" if self.moves else "")


def told_bounds(environment: Mapping[str, str]) -> tuple[float, float] | None:
    """Bounds such as `150-330`, if the variable is set."""
    text = environment.get(BOUNDS_VARIABLE)
    if not text:
        return None
    low, _, high = text.partition("-")
    try:
        return float(low), float(high)
    except ValueError as error:
        raise BenchError(f"`{BOUNDS_VARIABLE}` must be two numbers such as `150-330`, not `{text}`") from error
