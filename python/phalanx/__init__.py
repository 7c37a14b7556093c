"""Phalanx runs programs for multi-chip AI accelerators on a computer that has no accelerator.

A program looks like PyTorch. It computes real numbers, bit for bit the same every time, and predicts its time on the machine
that you describe.

>>> import phalanx, phalanx.distributed as dist
>>> def worker(rank):
...     dist.init_process_group()
...     x = phalanx.full(1024, rank, dtype="f16")
...     dist.all_reduce(x)
...     return float(x.numpy()[0])
>>> context = phalanx.Context("quad-sip")
>>> context.spawn(worker, nprocs=4)
[6.0, 6.0, 6.0, 6.0]
"""

from . import distributed, errors, multiprocessing, tp
from ._context import Context, current_context, report
from ._core import __version__
from ._dtypes import DType, bf16, bfloat16, f16, f32, float16, float32, i32, int32
from ._kernel import Grid, Kernel, explain, kernel, launch
from ._machines import MachineSpec, machine, presets
from ._sweep import SweepRow, sweep
from ._tensor import (
    DPPolicy,
    Event,
    Stream,
    Tensor,
    Work,
    arange,
    empty,
    from_dlpack,
    from_numpy,
    full,
    manual_seed,
    named_range as range,
    ones,
    rand,
    randn,
    sleep,
    synchronize,
    tensor,
    zeros,
)
from .errors import PhalanxError
from .report import Report

__all__ = [
    "Context", "DPPolicy", "DType", "Event", "Grid", "Kernel", "MachineSpec", "PhalanxError", "Report", "Stream", "SweepRow", "Tensor", "Work", "__version__", "arange", "bf16", "bfloat16",
    "current_context", "distributed", "empty", "errors", "explain", "f16", "f32", "float16", "float32", "from_dlpack", "from_numpy", "full", "i32",
    "int32", "kernel", "launch", "machine", "manual_seed", "multiprocessing", "ones", "presets", "rand", "randn", "range", "report", "sleep", "sweep", "synchronize",
    "tensor", "tp", "zeros",
]
