"""The progress of long runs, on a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["shower"]


def shower(wanted: bool | None) -> Callable[[int | None], None] | None:
    """The function that shows the progress of a run; ``None`` if nobody would see it."""
    if wanted is False or (wanted is None and not (sys.stderr is not None and sys.stderr.isatty() or "ipykernel" in sys.modules)):
        return None
    begun: list[float] = []

    def show(picoseconds: int | None) -> None:
        """Shows the simulated time; ``None`` is the end of the run."""
        if picoseconds is None:
            begun.clear()
            sys.stderr.write("\r\x1b[K")
        else:
            if not begun:
                begun.append(time.monotonic() - 0.5)
            passed = time.monotonic() - begun[0]
            sys.stderr.write(f"\rsimulated {picoseconds / 1e6:.3f} us, {passed:.0f} s\x1b[K")
        sys.stderr.flush()

    return show
