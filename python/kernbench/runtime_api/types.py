"""Small types."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceSelector"]


@dataclass(frozen=True)
class DeviceSelector:
    """The SIPs that a context may use: ``"all"``."""

    selector: object = "all"
