"""The placement of the elements of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DPPolicy"]


@dataclass(frozen=True)
class DPPolicy:
    """Elements are spread over cubes, and over the PEs of each cube: ``"replicate"``, ``"row_wise"`` or ``"column_wise"``.

    Without a number of cubes or PEs, copies are on the first, and parts on all.
    """

    cube: str = "replicate"
    pe: str = "replicate"
    num_cubes: int | None = None
    num_pes: int | None = None

    def on(self, cubes: int, pes: int) -> tuple[str, str, int, int]:
        """The policy on a SIP of so many cubes with so many PEs each, as Phalanx takes it."""

        def count(given: int | None, spread: str, most: int) -> int:
            if given is not None:
                return int(given)
            return 1 if spread == "replicate" else most

        return self.cube, self.pe, count(self.num_cubes, self.cube, cubes), count(self.num_pes, self.pe, pes)
