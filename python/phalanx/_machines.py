"""Machines: by name, by file, as a dict, changed by keyword."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core
from .errors import MachineError

__all__ = ["MachineSpec", "machine", "presets"]

MachineSpec = _core.MachineSpec


def presets() -> list[str]:
    """The names of the machines that come with phalanx.

    >>> presets()[:3]
    ['pair', 'quad-sip', 'octo-ring']
    """
    return _core.presets()


def machine(source: str | os.PathLike[str] | Mapping[str, Any] | MachineSpec = "quad-sip", /, **changes: Any) -> MachineSpec:
    """A machine.

    ``source`` is the name of a preset, the path of a machine file (a text with a ``/`` or an ending, or a ``Path``), the
    contents of a file as a dict, or a machine. Keywords change single values: the parts of a path are joined by two underscores,
    or by dots in ``**{...}``; a dict changes a whole section.

    >>> machine("quad-sip", system__sips__link__latency="1us") == machine("quad-sip", **{"system.sips.link.latency": "1us"})
    True
    >>> machine("pair", system={"sips": {"count": 4}}).sips
    4
    """
    made = _read(source)
    if not changes:
        return made
    texts = [f"{path}={_scalar(value)}" for key, value in changes.items() for path, value in _flat(key.replace("__", "."), value)]
    try:
        return made.changed(texts)
    except MachineError as error:
        raise MachineError(str(error).replace("--> --set:", "--> change:")) from None


def _read(source: Any) -> MachineSpec:
    if isinstance(source, MachineSpec):
        return source
    if isinstance(source, Mapping):
        return MachineSpec.parse("dict", "\n".join(_yaml(source, 0)) + "\n")
    if isinstance(source, os.PathLike):
        return MachineSpec.load(source)
    if not isinstance(source, str):
        raise MachineError(f"a machine is a name, a path, a dict or a MachineSpec, not {source!r}")
    if os.sep in source or source.endswith((".yaml", ".yml")):
        return MachineSpec.load(source)
    return MachineSpec.preset(source)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The single values of a section."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}", inner)
    else:
        yield path, value


def _yaml(node: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield f"{'  ' * depth}{key}:"
            yield from _yaml(value, depth + 1)
        else:
            yield f"{'  ' * depth}{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_scalar(item) for item in value) + "]"
    return str(value)
