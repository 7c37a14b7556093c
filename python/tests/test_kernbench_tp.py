"""kernbench: tensor-parallel layers against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernbench import tp
from kernbench.runtime_api.multiprocessing import SpawnException
from kernbench.tp import parallel_state

from kernbench_fixtures import context

RNG = np.random.default_rng(11)


def each(world: int, worker: Any, sips: int = 2) -> Any:
    """Runs a worker on every rank, after the groups were made; returns its results."""
    ctx = context(sips)
    results: dict[int, Any] = {}

    def run(rank: int) -> None:
        ctx.distributed.init_process_group()
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=world)
        results[rank] = worker(rank, ctx)

    ctx.multiprocessing.spawn(run, nprocs=world)
    return results


def halves(*shape: int) -> np.ndarray:
    """Multiples of 1/8, whose sums are exact in f16."""
    return RNG.integers(-8, 8, shape).astype(np.float32) / 8


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("gather", [False, True])
def test_columns_are_those_of_the_whole_product(world: int, gather: bool) -> None:
    weight, x = halves(8, 6), halves(3, 6)

    def worker(rank: int, ctx: Any) -> Any:
        layer = tp.ColumnParallelLinear(6, 8, init_method=weight, gather_output=gather)
        y, bias = layer(ctx.zeros((3, 6)).copy_(x))
        assert bias is None and layer.weight.shape == (8 // world, 6)
        return y.numpy()

    found = each(world, worker)
    whole = found[0] if gather else np.concatenate([found[rank] for rank in range(world)], axis=-1)
    assert (whole == x @ weight.T).all()
    if gather:
        assert all((found[rank] == whole).all() for rank in range(world))


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("parallel", [False, True])
def test_rows_are_summed_and_the_bias_is_added_once(world: int, parallel: bool) -> None:
    weight, x, bias = halves(5, 8), halves(2, 3, 8), halves(5)

    def worker(rank: int, ctx: Any) -> Any:
        layer = tp.RowParallelLinear(8, 5, init_method=lambda shape: weight, input_is_parallel=parallel)
        layer.bias.copy_(bias)
        width = 8 // world
        part = x[..., rank * width : (rank + 1) * width] if parallel else x
        y, _ = layer(ctx.zeros(part.shape).copy_(part))
        return y.numpy()

    found = each(world, worker)
    for rank in range(world):
        assert (found[rank] == x @ weight.T + bias).all()


def test_skipped_biases_are_returned_and_given_weights_are_checked() -> None:
    def worker(rank: int, ctx: Any) -> None:
        x = ctx.zeros((2, 4)).copy_(np.ones((2, 4)))
        column = tp.ColumnParallelLinear(4, 6, skip_bias_add=True)
        y, bias = column(x)
        assert bias is column.bias and y.shape == (2, 3)
        _, none = tp.RowParallelLinear(4, 6, bias=False, input_is_parallel=False)(x)
        assert none is None
        with pytest.raises(RuntimeError, match=r"supplied weight's shape is \(2, 4\), not \(3, 4\) as expected"):
            column(x, weight=ctx.zeros((2, 4)))
        with pytest.raises(AssertionError, match="7 is not divisible by 2"):
            tp.ColumnParallelLinear(4, 7)

    each(2, worker)


def test_an_mlp_is_that_of_numpy_on_every_rank() -> None:
    up, down, x = (RNG.normal(0, 0.2, shape).astype(np.float16) for shape in ((16, 8), (8, 16), (4, 8)))

    def worker(rank: int, ctx: Any) -> Any:
        first = tp.ColumnParallelLinear(8, 16, init_method=up.astype(np.float32), bias=False)
        second = tp.RowParallelLinear(16, 8, init_method=down.astype(np.float32), bias=False)
        hidden, _ = first(ctx.zeros((4, 8)).copy_(x))
        ctx.launch(lambda tl, h: tl.store(h, tl.relu(tl.load(h))), hidden)
        return second(hidden)[0].numpy()

    found = each(4, worker, sips=4)
    expected = np.maximum(x.astype(np.float32) @ up.astype(np.float32).T, 0) @ down.astype(np.float32).T
    assert all(found[rank].tobytes() == found[0].tobytes() for rank in range(4))
    assert np.allclose(found[0], expected, atol=5e-3)


def test_weights_do_not_depend_on_the_number_of_ranks() -> None:
    def worker(rank: int, ctx: Any) -> Any:
        return tp.ColumnParallelLinear(4, 8).weight.numpy()

    one, four = each(1, worker), each(4, worker)
    assert (np.concatenate([four[rank] for rank in range(4)]) == one[0]).all()
    assert len(np.unique(one[0])) > 8


def test_mappings() -> None:
    def worker(rank: int, ctx: Any) -> None:
        x = ctx.zeros((2, 4)).copy_(np.full((2, 4), rank))
        assert tp.mappings.copy_to_tensor_model_parallel_region(x) is x
        assert tp.mappings.scatter_to_tensor_model_parallel_region(x).shape == (2, 1)
        gathered = tp.mappings.gather_from_tensor_model_parallel_region(x).numpy()
        assert (gathered == np.repeat(np.arange(4), 4)).all()
        assert (tp.mappings.reduce_from_tensor_model_parallel_region(x).numpy() == 6).all()

    each(4, worker)


@pytest.mark.parametrize(("world", "tensor", "pipeline"), [(8, 2, 2), (8, 4, 1), (4, 1, 4), (6, 3, 2), (1, 1, 1)])
def test_groups_are_those_of_megatron(world: int, tensor: int, pipeline: int) -> None:
    ctx = context()
    found: dict[int, Any] = {}

    def worker(rank: int) -> None:
        with pytest.raises(AssertionError, match="tensor model parallel group is not initialized"):
            parallel_state.get_tensor_model_parallel_rank()
        parallel_state.initialize_model_parallel(tensor, pipeline)
        with pytest.raises(AssertionError, match="already initialized"):
            parallel_state.initialize_model_parallel(tensor, pipeline)
        ctx.zeros((1,))
        found[rank] = (
            parallel_state.get_tensor_model_parallel_group(),
            parallel_state.get_pipeline_model_parallel_group(),
            parallel_state.get_data_parallel_group(),
        )
        assert parallel_state.get_tensor_model_parallel_world_size() == tensor
        assert parallel_state.get_pipeline_model_parallel_world_size() == pipeline
        assert parallel_state.get_data_parallel_world_size() == world // (tensor * pipeline)
        assert parallel_state.is_pipeline_first_stage() == (rank < world // pipeline)

    ctx.multiprocessing.spawn(worker, nprocs=world)
    data = world // (tensor * pipeline)
    for rank, groups in found.items():
        # Rank = tensor place + tensor size * (data place + data size * stage).
        place, rest = rank % tensor, rank // tensor
        replica, stage = rest % data, rest // data
        assert groups == (
            [other + tensor * rest for other in range(tensor)],
            [place + tensor * (replica + data * other) for other in range(pipeline)],
            [place + tensor * (other + data * stage) for other in range(data)],
        )
    assert not ctx.distributed._parallel


def test_a_group_that_does_not_fit_and_contexts_apart() -> None:
    ctx, other = context(), context()

    def worker(rank: int) -> None:
        parallel_state.initialize_model_parallel(2)

    with pytest.raises(SpawnException, match=r"world_size \(3\) is not divisible by 2"):
        ctx.multiprocessing.spawn(worker, nprocs=3)

    def inside(rank: int) -> None:
        parallel_state.initialize_model_parallel(2)
        assert rank in ctx.distributed._parallel and not other.distributed._parallel

    ctx.multiprocessing.spawn(inside, nprocs=2)
