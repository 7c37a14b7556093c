"""Layers spread over ranks, with the names of Megatron-LM.

>>> import numpy as np, phalanx, phalanx.distributed as dist
>>> from phalanx import tp
>>> weight = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
>>> def worker(rank):
...     dist.init_process_group()
...     tp.parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
...     layer = tp.ColumnParallelLinear(4, 8, bias=False, gather_output=True, init_method=weight)
...     y, _ = layer(phalanx.ones(3, 4, dtype="f16"))
...     return y.numpy()
>>> outputs = phalanx.Context("pair").spawn(worker)
>>> bool((outputs[0] == np.ones((3, 4)) @ weight.T).all())
True
"""

from __future__ import annotations

from . import mappings, parallel_state
from .layers import (
    MLP,
    ColumnParallelLinear,
    Config,
    RowParallelLinear,
    TransformerBlock,
    VocabParallelEmbedding,
    normal,
    uniform,
    zeros,
)

__all__ = [
    "MLP", "ColumnParallelLinear", "Config", "RowParallelLinear", "TransformerBlock", "VocabParallelEmbedding", "mappings", "normal",
    "parallel_state", "uniform", "zeros",
]
