"""Reports of launches: which kernels ran, how long, and where the time went."""

from __future__ import annotations

import atexit
import json
import os
from contextlib import suppress
from typing import Any

from ..report import Report, _time
from ._device import Device, Launch, current

__all__ = ["TritonReport", "report"]


class TritonReport:
    """The launches of Triton kernels so far. ``print`` it, or take its numbers with ``to_dict``."""

    def __init__(self, device: Device) -> None:
        self.machine = device.machine.name
        self.launches: list[Launch] = device.launches
        #: The report of the simulation: where the time went.
        self.run: Report | None = device.context.report() if self.launches else None

    @property
    def simulated_ps(self) -> int:
        """Picoseconds of all launches."""
        return sum(launch.simulated_ps for launch in self.launches)

    @property
    def kernels(self) -> list[str]:
        """The kernels, in the order of their first launch."""
        return list(dict.fromkeys(launch.kernel for launch in self.launches))

    def of(self, kernel: str) -> Report:
        """The report of the simulation from the first launch of a kernel to its last: for ``use(..., record=True)``."""
        if self.run is None:
            raise RuntimeError("no kernel of Triton has run yet")
        return self.run.within(kernel)

    def to_dict(self) -> dict[str, Any]:
        """Every number: the launches with their times, and the report of the simulation."""
        return {
            "machine": self.machine,
            "simulated_ps": self.simulated_ps,
            "launches": [
                {
                    "kernel": launch.kernel, "grid": list(launch.grid), "simulated_ps": launch.simulated_ps,
                    "num_warps": launch.num_warps, "num_stages": launch.num_stages,
                }
                for launch in self.launches
            ],
            "run": None if self.run is None else self.run.to_dict(),
        }  # fmt: skip

    def __str__(self) -> str:
        if not self.launches:
            return "no kernel of Triton has run yet\n"
        rows = [("kernel", "launches", "time", "each", "programs")]
        for name in self.kernels:
            runs = [launch for launch in self.launches if launch.kernel == name]
            total = sum(launch.simulated_ps for launch in runs)
            x, y, z = runs[-1].grid
            rows.append((name, str(len(runs)), _time(total), _time(total // len(runs)), str(x * y * z)))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = [f"{self.machine}: {_count(len(self.launches))}, simulated {_time(self.simulated_ps)}"]
        for row in rows:
            first, *rest = (text.ljust(width) if place == 0 else text.rjust(width) for place, (text, width) in enumerate(zip(row, widths, strict=True)))
            lines.append("  ".join(["", first, *rest]).rstrip())
        return "\n".join(lines) + f"\n\n{self.run}"

    def __repr__(self) -> str:
        return f"<phalanx.triton.TritonReport {len(self.launches)} launches, {self.simulated_ps} ps>"


def _count(launches: int) -> str:
    return "1 launch" if launches == 1 else f"{launches} launches"


def report() -> TritonReport:
    """The report of the launches of this thread since the machine was chosen."""
    return TritonReport(current())


@atexit.register
def _at_exit() -> None:
    """Writes the report to the file that ``phalanx triton`` waits for."""
    path = os.environ.get("PHALANX_TRITON_REPORT")
    if not path:
        return
    kind, _, path = path.partition(":")
    made = report()
    text = json.dumps(made.to_dict(), indent=2) + "\n" if kind == "json" else str(made)
    with suppress(OSError), open(path, "w", encoding="utf-8") as file:
        file.write(text)
