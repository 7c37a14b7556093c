"""The programs a suite runs: found, built, started, and their JSON read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIME_LIMIT_S = 600
# A build from nothing, on a busy machine.
BUILD_LIMIT_S = 3600


class BenchError(Exception):
    """The comparison cannot be made; the text says why and what to do."""


class Progress:
    """One line on a terminal that says what runs now; nothing when the stream is piped."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.shown = stream.isatty()

    def say(self, text: str) -> None:
        """Replaces the line."""
        if self.shown:
            print(f"\r\033[K{text}", end="", file=self.stream, flush=True)

    def note(self, text: str) -> None:
        """Leaves a line for good, on a terminal or not."""
        self.clear()
        print(text, file=self.stream, flush=True)

    def clear(self) -> None:
        """Removes the line."""
        self.say("")


@dataclass(frozen=True)
class Outcome:
    """The output of a program and its time from start to exit."""

    values: dict[str, Any]
    wall_s: float


def run_json(command: Sequence[str | Path]) -> Outcome:
    """Runs a program that prints one JSON object."""
    start = time.perf_counter()
    finished = run_checked(command)
    wall_s = time.perf_counter() - start
    try:
        values = json.loads(finished.stdout)
    except json.JSONDecodeError:
        values = None
    if not isinstance(values, dict):
        raise BenchError(f"`{command_text(command)}` did not print one JSON object: {finished.stdout[:200]!r}")
    return Outcome(values, wall_s)


def field(outcome: Outcome, key: str) -> Any:
    """One value a program printed."""
    if key not in outcome.values:
        raise BenchError(f"a program printed no `{key}`, only: {', '.join(sorted(outcome.values))}")
    return outcome.values[key]


def run_checked(
    command: Sequence[str | Path],
    directory: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; a failure shows the end of what it said. A program that is ended early takes its children with it."""
    output = subprocess.PIPE
    try:
        program = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=output, text=True, start_new_session=True
        )
    except OSError as error:
        raise BenchError(f"cannot start `{command_text(command)}`: {error.strerror}") from error
    try:
        said, complaints = program.communicate(timeout=limit_s)
    except BaseException as error:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise BenchError(f"`{command_text(command)}` did not end within {limit_s:g} s") from error
    if program.returncode != 0:
        last = "\n".join(complaints.strip().splitlines()[-12:])
        raise BenchError(f"`{command_text(command)}` failed with exit code {program.returncode}\n{last}".rstrip())
    return subprocess.CompletedProcess(program.args, program.returncode, said, complaints)


def command_text(command: Sequence[str | Path]) -> str:
    """A command as a reader would type it, with the program's name alone."""
    return " ".join([Path(command[0]).name, *map(str, command[1:])])


def cargo_program(name: str, directory: Path, arguments: Sequence[str]) -> Path:
    """Builds a Rust program in release mode and returns its path."""
    command = ["cargo", "build", "--release", "--message-format=json-render-diagnostics", *arguments]
    finished = run_checked(command, directory, limit_s=BUILD_LIMIT_S)
    for line in finished.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return Path(message["executable"])
    raise BenchError(f"`{command_text(command)}` built no program `{name}`")


def given_program(variable: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The program that an environment variable names, if it is set."""
    text = environment.get(variable)
    if not text:
        return None
    path = Path(text).absolute()
    if not os.access(path, os.X_OK) or path.is_dir():
        raise BenchError(f"`{variable}` names no program: `{text}`")
    return path
