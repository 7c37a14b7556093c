"""Programs that get the signal of Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping

# Python ignores an exception in a destructor: the program says so, and gets the signal once more. numpy is imported first, because it turns an
# exception in its import into another one.
_PRELUDE = """
import signal, sys
import numpy
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.unraisablehook = lambda _: print("ignored", flush=True)
"""


def interrupted(program: str, environment: Mapping[str, str] | None = None) -> str:
    """Runs a program and interrupts it after its first line, ``ready``; returns what it prints afterwards, other such lines left out."""
    command = [sys.executable, "-c", _PRELUDE + textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        try:
            lines = iter(child.stdout)
            assert next(lines) == "ready\n"
            child.send_signal(signal.SIGINT)
            printed = ""
            for line in lines:
                if line == "ignored\n":
                    child.send_signal(signal.SIGINT)
                elif line != "ready\n":
                    printed += line
            assert child.wait(600) == 0
            return printed
        finally:
            child.kill()
