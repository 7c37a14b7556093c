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

from . import distributed, errors, multiprocessing, runtime, tp
from ._context import Context, current_context, report
from ._core import __version__
from ._dtypes import (
    DType, bf16, bfloat16, bool_, f8e4m3, f8e5m2, f16, f32, f64, float8_e4m3fn, float8_e5m2, float16, float32, float64, i8, i16, i32, i64,
    int8, int16, int32, int64, u8, u16, u32, u64, uint8, uint16, uint32, uint64,
)
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
    "Context", "DPPolicy", "DType", "Event", "Grid", "Kernel", "MachineSpec", "PhalanxError", "Report", "Stream", "SweepRow", "Tensor", "Work", "__version__",
    "arange", "bf16", "bfloat16", "bool_", "current_context", "distributed", "empty", "errors", "explain", "f16", "f32", "f64", "f8e4m3", "f8e5m2",
    "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "from_dlpack", "from_numpy", "full", "i16", "i32", "i64", "i8", "int16", "int32",
    "int64", "int8", "kernel", "launch", "machine", "manual_seed", "multiprocessing", "ones", "presets", "rand", "randn", "range", "report", "runtime", "sleep",
    "sweep", "synchronize", "tensor", "tp", "u16", "u32", "u64", "u8", "uint16", "uint32", "uint64", "uint8", "zeros",
]
