"""Parallel layers, against the same layers on one rank in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import phalanx
import phalanx.distributed as dist
import pytest
from phalanx import tp
from phalanx.errors import ArgumentError

CONTEXT = phalanx.Context("quad-sip")
RNG = np.random.default_rng(5)


def exact(*shape: int) -> Any:
    """Numbers that f16 holds exactly, and whose products are exact too."""
    return RNG.integers(-4, 5, shape).astype(np.float32) / 4


def spawn(program: Callable[[int], Any], tensor: int = 4) -> list[Any]:
    def worker(rank: int) -> Any:
        dist.init_process_group()
        tp.parallel_state.initialize_model_parallel(tensor)
        return program(rank)

    return CONTEXT.spawn(worker)


def test_column_and_row_linear() -> None:
    x, up, down = exact(6, 8), exact(16, 8), exact(8, 16)

    def program(rank: int) -> Any:
        column = tp.ColumnParallelLinear(8, 16, bias=False, init_method=up)
        row = tp.RowParallelLinear(16, 8, bias=False, init_method=lambda shape: down)
        assert column.weight is not None and column.weight.shape == (4, 8) and column.bias is None
        hidden, bias = column(phalanx.tensor(x, dtype="f16"))
        assert bias is None
        y, _ = row(hidden)
        gathered, _ = column(phalanx.tensor(x, dtype="f16"), runtime_gather_output=True)
        return gathered.numpy(), y.numpy()

    for gathered, y in spawn(program):
        assert (gathered == x @ up.T).all()
        assert (y == (x @ up.T) @ down.T).all()


def test_mlp_and_config() -> None:
    x, up, down = exact(8, 8), exact(16, 8), exact(8, 16)

    def program(rank: int) -> Any:
        config = tp.Config(dtype="f32", cubes=1, pes=2)
        mlp = tp.MLP(8, 16, activation="relu", bias=False, init_method=[up, down], config=config)
        return mlp(phalanx.tensor(x, dtype="f32")).numpy()

    expected = np.maximum(x @ up.T, 0) @ down.T
    assert all((y == expected).all() for y in spawn(program))


def test_embedding_and_block_are_the_same_on_all_ranks() -> None:
    table = exact(16, 8)

    def program(rank: int) -> Any:
        embedding = tp.VocabParallelEmbedding(16, 8, init_method=table)
        ids = phalanx.tensor([[1, 5], [15, 0]], dtype="i32")
        block = tp.TransformerBlock(8, 4, causal=True, config=tp.Config(seed=3))
        x = embedding(ids)
        return x.numpy(), block(x.contiguous()).numpy()

    results = spawn(program)
    assert (results[0][0] == table[[[1, 5], [15, 0]]]).all()
    assert all((block == results[0][1]).all() for _, block in results)


def test_parallel_state() -> None:
    def program(rank: int) -> Any:
        state = tp.parallel_state
        return (
            state.get_tensor_model_parallel_rank(),
            state.get_tensor_model_parallel_world_size(),
            state.get_data_parallel_rank(),
            state.get_tensor_model_parallel_group().ranks,
            state.get_data_parallel_group().ranks,
            state.is_pipeline_first_stage() and state.is_pipeline_last_stage() and state.model_parallel_is_initialized(),
        )

    assert spawn(program, tensor=2) == [
        (0, 2, 0, [0, 1], [0, 2], True),
        (1, 2, 0, [0, 1], [1, 3], True),
        (0, 2, 1, [2, 3], [0, 2], True),
        (1, 2, 1, [2, 3], [1, 3], True),
    ]


def test_mappings() -> None:
    x = exact(4, 8)

    def program(rank: int) -> Any:
        maps = tp.mappings
        part = maps.scatter_to_tensor_model_parallel_region(phalanx.tensor(x, dtype="f16"))
        assert (part.numpy() == x[:, 2 * rank : 2 * rank + 2]).all()
        assert (maps.gather_from_tensor_model_parallel_region(part).numpy() == x).all()
        total = maps.reduce_from_tensor_model_parallel_region(phalanx.tensor(x, dtype="f16"))
        return (total.numpy() == 4 * x).all()

    assert all(spawn(program))


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda: tp.ColumnParallelLinear(8, 9), "9 is not divisible by 4"),
        (lambda: tp.MLP(8, 16, activation="swish"), "no activation `swish`"),
        (lambda: tp.ColumnParallelLinear(8, 16, init_method=np.zeros((8, 16))), "shape"),
        (lambda: tp.parallel_state.initialize_model_parallel(2), "already initialized"),
    ],
)
def test_wrong_layers_are_errors(use: Callable[[], Any], words: str) -> None:
    def program(rank: int) -> None:
        with pytest.raises(ArgumentError, match=words):
            use()

    spawn(program)
