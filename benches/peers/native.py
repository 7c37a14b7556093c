"""The C++ programs of a suite, built where their runtime is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from programs import HERE, BenchError, run_checked

BUILD = HERE / ".build"
FLAGS = ("-O2", "-std=c++20")


class Missing(Exception):
    """A runtime is not installed here; the text says which package has it."""


@dataclass(frozen=True)
class Native:
    """One C++ program: what it is built from and what must be installed."""

    name: str
    source: Path
    package: str  # as Debian calls it
    header: str = ""  # found if the runtime is installed
    compiler: str = "g++"
    flags: tuple[str, ...] = ("-pthread",)
    pkg_config: str = ""  # where the flags come from, if they depend on the version

    def build(self, directory: Path = BUILD) -> Path:
        """Compiles the program unless nothing changed since the last time."""
        directory.mkdir(exist_ok=True)
        program, recipe = directory / self.name, directory / f"{self.name}.command"
        folder = self.source.parent
        sources = [self.source, folder / "kernel.cpp"]
        command = [self.compiler, *FLAGS, *map(str, sources), "-o", str(program), *self.all_flags()]
        text = "\n".join(command)
        if is_fresh(program, list(folder.iterdir())) and recipe.exists() and recipe.read_text() == text:
            return program
        self.probe(directory)
        run_checked(command)
        recipe.write_text(text)
        return program

    def all_flags(self) -> list[str]:
        """The flags that find the runtime's headers and libraries."""
        if not self.pkg_config:
            return list(self.flags)
        return [*self.flags, *self.try_run(["pkg-config", "--cflags", "--libs", self.pkg_config]).split()]

    def probe(self, directory: Path) -> None:
        """Builds an empty program with the runtime's header and libraries."""
        probe = directory / "probe.cpp"
        probe.write_text(f"#include <{self.header}>\nint main() {{}}\n" if self.header else "int main() {}\n")
        self.try_run([self.compiler, *FLAGS, str(probe), "-o", str(probe.with_suffix("")), *self.all_flags()])

    def try_run(self, command: Sequence[str]) -> str:
        """The output of a command; its failure means that something is not installed."""
        try:
            return run_checked(command).stdout
        except BenchError as error:
            raise Missing(f"{self.name} is not installed (`{self.package}` on Debian)") from error


def is_fresh(program: Path, sources: Sequence[Path]) -> bool:
    """True if `program` is there and no source is newer."""
    return program.exists() and all(source.stat().st_mtime <= program.stat().st_mtime for source in sources)
