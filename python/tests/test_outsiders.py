"""Programs as users of torch write them, who have not read the guide."""

from __future__ import annotations

from typing import Any

import numpy as np
import phalanx
import phalanx.distributed as dist
import phalanx.multiprocessing as mp
import pytest
from phalanx.errors import ArgumentError


@pytest.fixture
def quad() -> phalanx.Context:
    return phalanx.Context("quad-sip")


def test_lists_of_tensors_are_reduced_and_scattered(quad: phalanx.Context) -> None:
    def worker(rank: int) -> list[float]:
        dist.init_process_group("nccl", rank=rank, world_size=4)
        own = phalanx.empty(3)
        dist.reduce_scatter(own, [phalanx.full(3, rank + 10 * part) for part in range(4)])
        largest = phalanx.empty(2, 2)
        work = dist.reduce_scatter(largest, [phalanx.full((2, 2), rank * part) for part in range(4)], dist.ReduceOp.MAX, async_op=True)
        assert work is not None
        work.wait()
        return [own[0].item(), largest[1, 1].item()]

    assert quad.spawn(worker) == [[6 + 40 * rank, 3 * rank] for rank in range(4)]


@pytest.mark.parametrize("count, length", [(3, 3), (4, 2)])
def test_lists_that_do_not_fit_say_what_fits(quad: phalanx.Context, count: int, length: int) -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        with pytest.raises(ArgumentError, match=r"needs 4 of f32\[3\]"):
            dist.reduce_scatter(phalanx.empty(3), [phalanx.ones(length) for _ in range(count)])

    quad.spawn(worker)


def test_objects_travel_between_ranks(quad: phalanx.Context) -> None:
    def worker(rank: int) -> tuple[list[Any], list[Any]]:
        dist.init_process_group()
        gathered: list[Any] = [None] * 4
        dist.all_gather_object(gathered, {"rank": rank, "text": "x" * 100 * rank})
        given: list[Any] = [{"lr": 0.5}, "adam"] if rank == 2 else [None, None]
        dist.broadcast_object_list(given, src=2)
        return [len(one["text"]) for one in gathered], given

    assert quad.spawn(worker) == [([0, 100, 200, 300], [{"lr": 0.5}, "adam"])] * 4


def test_objects_in_a_group_and_lists_of_other_lengths(quad: phalanx.Context) -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        group = dist.new_group([1, 3])
        if rank in (1, 3):
            gathered: list[Any] = [None] * 2
            dist.all_gather_object(gathered, rank, group)
            assert gathered == [1, 3]
        with pytest.raises(ArgumentError, match="4 ranks"):
            dist.all_gather_object([None], rank)
        box: list[Any] = ["a"] if rank == 0 else [None, None]
        if rank == 0:
            dist.broadcast_object_list(box)
        else:
            with pytest.raises(ArgumentError, match="gives 1 objects"):
                dist.broadcast_object_list(box)

    quad.spawn(worker)


def test_tensors_have_the_small_words_of_torch() -> None:
    with phalanx.Context("pair"):
        x = phalanx.arange(24, dtype="f32").reshape(2, 3, 4)
        expected = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        assert (x.dim(), x.element_size(), x.size(), x.size(1)) == (3, 4, (2, 3, 4), 3)
        for turned in (x.permute(2, 0, 1), x.permute((2, 0, 1)), x.permute(-1, 0, 1)):
            assert np.array_equal(turned.numpy(), expected.transpose(2, 0, 1))
        assert x.unsqueeze(1).shape == (2, 1, 3, 4) and x.unsqueeze(-1).shape == (2, 3, 4, 1)
        assert np.array_equal(x.unsqueeze(0).squeeze().numpy(), expected)
        assert x.unsqueeze(0).squeeze(0).shape == (2, 3, 4) and x.squeeze(0).shape == (2, 3, 4)
        with pytest.raises(ArgumentError, match="each of the 3 dimensions"):
            x.permute(0, 0, 1)
        with pytest.raises(IndexError, match="no place 7"):
            x.unsqueeze(7)


def test_events_are_made_first_and_recorded_later() -> None:
    def worker(rank: int) -> None:
        event, first, second = phalanx.Event(), phalanx.Stream(), phalanx.Stream()
        assert event.query()
        event.synchronize()
        event.wait(second)
        x = phalanx.zeros(64)
        with first:
            x.fill_(2.0)
        event.record(first)
        event.wait(second)
        with second:
            y = phalanx.ones(64)
        event.synchronize()
        assert event.query() and x.numpy()[0] == 2.0 and y.numpy()[0] == 1.0

    mp.spawn(worker, nprocs=2)


def test_a_notebook_drives_until_a_tensor_is_written() -> None:
    context = phalanx.Context("pair").use()
    try:
        x = phalanx.ones(4)
        context.drive_until(x.fill_(3.0))
        assert context.now_ps > 0 and x.numpy().tolist() == [3.0] * 4
    finally:
        context.close()
