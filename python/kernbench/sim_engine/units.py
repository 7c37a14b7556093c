"""The engines, memories and wires that kernels take turns at."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

__all__ = ["Units", "home_cubes"]


class Units:
    """The occupation of each unit, in the order of the requests."""

    def __init__(self) -> None:
        #: The picosecond at which a unit is free again.
        self._free: dict[Hashable, int] = {}

    def take(self, now: int, uses: Iterable[tuple[Hashable, int]]) -> int:
        """Takes several units together, each for so many picoseconds, as soon as all are free; returns the picosecond of the last one's end."""
        listed = list(uses)
        start = max([now, *(self._free.get(unit, 0) for unit, _ in listed)])
        for unit, picoseconds in listed:
            self._free[unit] = start + picoseconds
        return max([start, *(start + picoseconds for _, picoseconds in listed)])


def home_cubes(policy: Sequence[object] | None, own: int) -> list[int]:
    """The cubes whose memory a PE of the cube ``own`` reads: its own copy, the first copy, or every part."""
    if policy is None:
        return [0]
    spread, _, cubes, _ = policy
    count = int(str(cubes))
    if spread == "replicate":
        return [own if own < count else 0]
    return list(range(count))
