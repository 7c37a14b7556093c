"""Keeps only what was measured while the machine stood still.

A hypervisor may put two virtual cores on one physical core for a while. The round trip of a cache line between them then
drops to a fifth and every cost of handing a task over with it, so the round trip is measured before and after each run.
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
    """Runs things and drops them when the round trip of a cache line was out of bounds."""

    def __init__(
        self, line_ns: Callable[[], float], bounds: tuple[float, float], pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.line_ns = line_ns
        self.low, self.high = bounds
        self.pause = pause
        self.dropped = 0

    def run(self, work: Callable[[], T]) -> T | None:
        """What `work` returns, from the first attempt that counts; nothing if none does."""
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
        """Whether the round trip is plausible now."""
        return self.low <= self.line_ns() <= self.high

    def note(self) -> str:
        """One sentence on the bounds and what they cost."""
        return f"cache-line round trip kept within {self.low:.0f}..{self.high:.0f} ns; runs dropped: {self.dropped}"


def bounds(line_ns: Callable[[], float], environment: Mapping[str, str]) -> tuple[float, float]:
    """The plausible round trips: as told, or around what this machine shows now."""
    text = environment.get(BOUNDS_VARIABLE)
    if text:
        return parse_bounds(text)
    usual = statistics.median(line_ns() for _ in range(SAMPLES))
    return usual * SPREAD[0], usual * SPREAD[1]


def parse_bounds(text: str) -> tuple[float, float]:
    """Bounds such as `150-330`."""
    low, _, high = text.partition("-")
    try:
        return float(low), float(high)
    except ValueError as error:
        raise BenchError(f"`{BOUNDS_VARIABLE}` must be two numbers such as `150-330`, not `{text}`") from error
