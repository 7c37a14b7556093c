"""Triton kernels on a machine that does not exist.

With this package installed, ``TRITON_DEFAULT_BACKEND=phalanx`` makes stock Triton run its kernels here: ``@triton.jit``,
``kernel[grid](...)``, ``autotune``, ``heuristics``, ``warmup``, ``do_bench`` and ``perf_report`` stay Triton's own, and see simulated
time. Arguments are tensors of torch on the CPU, arrays of numpy, or tensors of phalanx. ``PHALANX_MACHINE`` names the machine
(``hgx-h100``), or :func:`use` does.

>>> import phalanx.triton
>>> phalanx.triton.use("hgx-a100").machine.name
'hgx-a100'
>>> phalanx.triton.use().machine.name
'hgx-h100'
"""
# mypy: disable-error-code="import-untyped,import-not-found,misc,unused-ignore"

from contextlib import suppress

# Triton imports the two halves of the plugin when it is imported itself, and cannot do so while one of them is half imported.
with suppress(ModuleNotFoundError):
    import triton as _triton

from ._device import Device, Launch, use
from ._report import TritonReport, report

__all__ = ["Device", "Launch", "TritonReport", "report", "use"]
