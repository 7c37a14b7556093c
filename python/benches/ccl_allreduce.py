"""An all-reduce of all ranks: as many as the spec has SIPs, with the algorithm of ``ccl.yaml`` in the current directory."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernbench.ccl import config
from kernbench.policy.placement.dp import DPPolicy

__all__ = ["run", "worker"]

#: Elements per rank, unless ``ccl.yaml`` has ``n_elem``.
N_ELEM = 64


def worker(rank: int, world_size: int, torch: Any) -> None:
    """One rank: combines a vector of its own number, and checks the result."""
    torch.distributed.init_process_group(backend="kernbench", world_size=world_size, rank=rank)
    count = config.load()["n_elem"] or N_ELEM
    policy = DPPolicy(cube="replicate", pe="replicate", num_cubes=1, num_pes=1)
    tensor = torch.zeros((count,), dtype="f16", dp=policy, name=f"vector{rank}")
    tensor.copy_(np.full((count,), rank + 1, np.float16))
    torch.distributed.all_reduce(tensor, op="sum")
    expected = world_size * (world_size + 1) / 2
    found = tensor.numpy()
    if not np.allclose(found.astype(np.float64), expected, rtol=1e-2):
        raise AssertionError(f"rank {rank}: all_reduce gave {found[:4]}..., not {expected}")


def run(ctx: Any) -> None:
    """Runs one worker a SIP."""
    world_size = int(ctx.spec["system"]["sips"]["count"])
    # Looked up now: programs replace it.
    ctx.multiprocessing.spawn(worker, args=(world_size, ctx), nprocs=world_size)
