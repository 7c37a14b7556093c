"""The Python that the peers run on, and the environment their packages live in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from programs import HERE, BenchError, run_checked

PYTHON_VARIABLE = "PHALANX_PEERS_PYTHON"
OLDEST = [3, 11]  # what the pinned numpy needs
PROBE = """
import heapq, importlib.util, json, sys, timeit
class Event:
    def __init__(self, time):
        self.time, self.callbacks = time, []
def process(queue):
    for number in range(20000):
        heapq.heappush(queue, (number % 97, number, Event(number)))
        yield heapq.heappop(queue)[2].callbacks
print(json.dumps({
    "version": sys.version_info[:2],
    "pip": importlib.util.find_spec("ensurepip") is not None,
    "seconds": min(timeit.repeat(lambda: sum(map(len, process([]))), number=1, repeat=40)),
}))
"""


def python_with(requirements: Path) -> Path:
    """The interpreter of the bench's own environment, made on first use and when the pins change."""
    home = HERE / ".venv"
    python = home / "bin" / "python"
    stamp = home / "installed.txt"
    pins = requirements.read_text()
    if not (python.exists() and stamp.exists() and stamp.read_text() == pins):
        run_checked([base_python(), "-m", "venv", "--clear", home])
        run_checked([python, "-m", "pip", "install", "--quiet", "--requirement", requirements])
        stamp.write_text(pins)
    return python


def base_python(environment: Mapping[str, str] = os.environ) -> str:
    """The interpreter to build on: the one asked for, else the fastest one found.

    The build of a Python is worth up to 1.3 times to SimPy; a slow one would flatter us.
    """
    if environment.get(PYTHON_VARIABLE):
        return environment[PYTHON_VARIABLE]
    seconds = {python: time for python in candidates(environment) if (time := probe(python)) is not None}
    if not seconds:
        wanted = ".".join(map(str, OLDEST))
        raise BenchError(f"no Python {wanted} or newer with `venv` and `pip`; `{PYTHON_VARIABLE}` can name one")
    return min(seconds, key=lambda python: seconds[python])


def candidates(environment: Mapping[str, str]) -> list[str]:
    """This interpreter and every other `python3` on the path."""
    directories = filter(None, environment.get("PATH", "").split(os.pathsep))
    found = [sys.executable, *(str(Path(directory) / "python3") for directory in directories)]
    by_file = {os.path.realpath(python): python for python in found if os.access(python, os.X_OK)}
    return list(by_file.values())


def probe(python: str) -> float | None:
    """Seconds for a little event loop; nothing if it is too old or cannot make an environment."""
    try:
        finished = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=30, check=True)
        facts = json.loads(finished.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError):
        return None
    return facts["seconds"] if facts["pip"] and facts["version"] >= OLDEST else None
