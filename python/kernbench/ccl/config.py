"""The settings of collectives: ``ccl.yaml`` of the current directory."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

from phalanx import _core
from phalanx.errors import MachineError

__all__ = ["FILE", "load", "module_of"]

FILE = "ccl.yaml"
#: The name of the algorithm without a file, and its module.
RING, RING_MODULE = "ring_allreduce", "kernbench.ccl.algorithms.ring_allreduce"


def load(path: str | Path = FILE) -> dict[str, Any]:
    """The chosen algorithm with its settings: its ``name``, ``module``, ``n_slots``, ``slot_size``, ``vc_chunk_size``, ``n_elem``, ..."""
    file = Path(path)
    text = file.read_text(encoding="utf-8") if file.exists() else "defaults: {}\n"
    modules = [RING, *{name for name in re.findall(r"module:\s*['\"]?([\w.]+)", text) if _is_module(name)}]
    read = _core.read_ccl(str(file), text, modules)
    name = read["algorithm"]
    if name == "auto" and not re.search(r"\balgorithm:", text):
        name = RING
    if name == "auto":
        return {**read["defaults"], "name": name, "module": name, "n_elem": None, "topology": None}
    for settings in read["algorithms"]:
        if settings["name"] == name:
            return dict(settings)
    raise MachineError(f"{file}: no algorithm `{name}`")


def _is_module(name: str) -> bool:
    if "." not in name:
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def module_of(settings: dict[str, Any]) -> Any:
    """The Python module of an algorithm; ``None`` if Phalanx itself has it."""
    name = settings["module"]
    if name == RING:
        name = RING_MODULE
    if "." not in name:
        return None
    module = importlib.import_module(name)
    if not callable(getattr(module, "kernel", None)):
        raise MachineError(f"the module `{name}` has no function `kernel(tl, rank, world_size, tensor, send_q, recv_q, op)`")
    return module
