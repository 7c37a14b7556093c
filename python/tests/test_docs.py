"""The examples of the documentation: docstrings, the guide and the README."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import phalanx
import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["phalanx", *(info.name for info in pkgutil.walk_packages(phalanx.__path__, "phalanx.") if info.name != "phalanx.__main__")]
PAGES = [*sorted((ROOT / "docs" / "guide").glob("1[1-9]-python*.md")), ROOT / "README.md"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page(page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    assert blocks, "the page has no Python"
    if any("runtime.Worker(" in block for block in blocks):
        # Children load the script.
        script = tmp_path / "page.py"
        script.write_text("\n".join(blocks))
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def test_public_names_have_docstrings() -> None:
    missing = []
    for name in MODULES:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if callable(thing) and not getattr(thing, "__doc__", None):
                missing.append(f"{name}.{public}")
    assert missing == []


# Without a cache mypy reads all of numpy too.
@pytest.mark.timeout(600)
def test_mypy_accepts_the_package(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    home = Path(phalanx.__file__).parents[1]
    # An installed package is found by its name; one in a clone, in the directory of the clone.
    directory = tmp_path if home.name == "site-packages" else home
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache"), "-p", "phalanx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program() -> None:
    def program(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "phalanx", *arguments], capture_output=True, text=True, check=False)

    listed = program("machines")
    assert listed.returncode == 0 and "quad-sip" in listed.stdout
    wrong = program("run", "ring", "--set", "system.sips.link.latency=500nm")
    assert wrong.returncode == 2 and "did you mean `ns`?" in wrong.stderr
    ran = program("run", "vector-add", "--machine", "pair")
    assert ran.returncode == 0 and "correct" in ran.stdout
