"""The ``phalanx`` program: ``python -m phalanx run tp-mlp``."""

from __future__ import annotations

import os
import signal
import sys

from ._core import run_cli

__all__ = ["main"]


def main() -> int:
    """Runs the program with the arguments of this process; returns the exit code."""
    # Ctrl-C and closed pipes are the program's own business.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("PHALANX_PYTHON", sys.executable)
    return run_cli(["phalanx", *sys.argv[1:]], [sys.executable, "-m", "phalanx"])


if __name__ == "__main__":
    sys.exit(main())
