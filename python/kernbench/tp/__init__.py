"""Layers spread over ranks, with the names of Megatron-LM."""

from __future__ import annotations

from . import mappings, parallel_state, primitives
from .layers import ColumnParallelLinear, RowParallelLinear

__all__ = ["ColumnParallelLinear", "RowParallelLinear", "mappings", "parallel_state", "primitives"]
