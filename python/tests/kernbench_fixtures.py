"""Fixtures of the tests of kernbench."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kernbench.runtime_api.context import RuntimeContext
from kernbench.runtime_api.types import DeviceSelector
from kernbench.sim_engine.engine import GraphEngine

CCL = """\
defaults:
  algorithm: ring_allreduce
  buffer_kind: {kind}
  backpressure: sleep
  n_slots: {n_slots}
  slot_size: {slot_size}
  vc_chunk_size: 256
  ipcq_credit_size_bytes: 64
algorithms:
  ring_allreduce:
    module: kernbench.ccl.algorithms.ring_allreduce
    topology: ring_1d
    buffer_kind: {kind}
    n_elem: {n_elem}
"""


def ccl(n_slots: int = 4, slot_size: int = 4096, n_elem: int = 64, kind: str = "tcm") -> str:
    """A ``ccl.yaml``."""
    return CCL.format(n_slots=n_slots, slot_size=slot_size, n_elem=n_elem, kind=kind)


def spec(sips: Any = 2) -> dict[str, Any]:
    """A machine of so many SIPs."""
    return {"system": {"sips": {"count": sips}}, "sip": {"cubes": 1, "pes_per_cube": 1}}


def context(sips: Any = 2, enable_data: bool = True) -> RuntimeContext:
    """A context, as programs of kernbench make it."""
    topology = SimpleNamespace(topology_obj=SimpleNamespace(spec=spec(sips)))
    engine = GraphEngine(topology.topology_obj, enable_data=enable_data)
    return RuntimeContext(engine=engine, target_device=DeviceSelector("all"), correlation_id="test", spec=topology.topology_obj.spec)
