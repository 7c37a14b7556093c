"""Algorithms of collectives in Python, beside the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import phalanx
import phalanx.distributed as dist
import pytest
from phalanx.errors import ArgumentError, KernelError, MachineError, MismatchError, SpawnException


@pytest.fixture(autouse=True)
def _nothing_stays_registered() -> Iterator[None]:
    yield
    for name in dist.registered_algorithms():
        dist.unregister_algorithm(name)


def ring(tl: Any, part: Any) -> None:
    """An all-reduce around a ring, chunk by chunk."""
    if part.ranks == 1:
        return part.copy()
    ahead, behind = part.to(part.rank + 1), part.source(part.rank - 1)
    length, last = part.output_length, 2 * part.ranks - 3
    for chunk in part.chunks(part.segment(length, part.rank)):
        part.send(ahead, part.load(chunk))
    for step in range(2 * (part.ranks - 1)):
        for chunk in part.chunks(part.segment(length, part.rank - step - 1 + 2 * part.ranks)):
            tile = part.recv(behind, len(chunk))
            if step < part.ranks - 1:
                tile = part.combine(tile, part.load(chunk))
            if step == part.ranks - 2:
                tile = part.finish(tile)
            if step < last:
                part.send(ahead, tile)
            if step >= part.ranks - 2:
                part.store(chunk, tile)
    return None


def all_reduced(context: phalanx.Context, inputs: np.ndarray, op: str = "sum", dtype: str = "f32") -> list[Any]:
    """The results of an all-reduce, by rank."""

    def worker(rank: int) -> Any:
        dist.init_process_group()
        x = phalanx.tensor(inputs[rank], dtype=dtype)
        dist.all_reduce(x, op)
        return x.numpy()

    return context.spawn(worker, nprocs=len(inputs))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("length", [1, 7, 20_000])
def test_a_ring_in_python_is_right_and_equal_on_all_ranks(ranks: int, channels: int, length: int) -> None:
    dist.register_algorithm(ring, name="my_ring", channels=channels)
    context = phalanx.Context("quad-sip", ccl={"defaults": {"algorithm": "my_ring", "slot_size": 4096}})
    inputs = np.random.default_rng(3).normal(size=(ranks, length)).astype(np.float32)
    found = all_reduced(context, inputs)
    assert all(part.tobytes() == found[0].tobytes() for part in found)
    assert np.allclose(found[0], inputs.sum(axis=0), atol=1e-4)


@pytest.mark.parametrize(("op", "expected"), [("avg", 2.5), ("prod", 24.0), ("min", 1.0), ("max", 4.0)])
def test_reductions(op: str, expected: float) -> None:
    dist.register_algorithm(ring)
    context = phalanx.Context("quad-sip", ccl={"defaults": {"algorithm": "ring"}})
    found = all_reduced(context, np.repeat(np.arange(1.0, 5.0)[:, None], 50, axis=1), op, "f16")
    assert all((part == expected).all() for part in found)
    assert dist.registered_algorithms() == ["ring"], "of two with one name, that of the program counts"


def test_a_file_configures_it_by_its_name(tmp_path: Any) -> None:
    dist.register_algorithm(ring, name="my_ring")
    file = tmp_path / "ccl.yaml"
    file.write_text("defaults: { algorithm: small }\nalgorithms:\n  small: { module: my_ring, slot_size: 256, n_slots: 2 }\n")
    inputs = np.ones((4, 999))
    slow, fast = phalanx.Context("quad-sip", ccl=file), phalanx.Context("quad-sip", ccl={"defaults": {"algorithm": "my_ring"}})
    assert all((part == 4).all() for context in (slow, fast) for part in all_reduced(context, inputs))
    assert slow.now_ps > fast.now_ps
    file.write_text("defaults: { algorithm: my_rong }\n")
    with pytest.raises(MachineError, match="did you mean `my_ring`"):
        phalanx.Context("quad-sip", ccl=file)


def test_auto_takes_it_where_it_is_fastest() -> None:
    taken: list[int] = []

    def impossibly_fast(tl: Any, part: Any) -> None:
        taken.append(part.rank)

    machine = phalanx.machine("pair", system__sips__link__latency="50 us")
    dist.register_algorithm(impossibly_fast)
    context = phalanx.Context(machine, data=False)

    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(phalanx.empty(64))

    context.spawn(worker)
    assert sorted(set(taken)) == [0, 1] and context.now < 50e-6
    taken.clear()
    dist.unregister_algorithm("impossibly_fast")
    dist.register_algorithm(impossibly_fast, fits=lambda machine, members: "it is a fraud")
    again = phalanx.Context(machine, data=False)
    again.spawn(worker)
    assert taken == [] and again.now > 50e-6


def test_what_it_cannot_do_is_said() -> None:
    dist.register_algorithm(ring, name="my_ring", fits=lambda machine, members: None if len(members) < 3 else f"{machine.sips} SIPs are many")
    context = phalanx.Context("quad-sip", ccl={"defaults": {"algorithm": "my_ring"}})
    with pytest.raises(SpawnException, match="4 SIPs are many"):
        all_reduced(context, np.ones((4, 8)))
    assert (all_reduced(context, np.ones((2, 8)))[0] == 2).all()

    def others(rank: int) -> Any:
        dist.init_process_group()
        x = phalanx.full(4, rank + 1)
        dist.broadcast(x, 0)
        return x.numpy().tolist()

    assert context.spawn(others, nprocs=2) == [[1.0] * 4] * 2, "a built-in one does the other operations"
    with pytest.raises(ArgumentError, match="no operation `all_reduse`: there are all_reduce"):
        dist.register_algorithm(ring, operations=["all_reduse"])
    with pytest.raises(ArgumentError, match="number or `all`"):
        dist.register_algorithm(ring, channels="many")
    with pytest.raises(ArgumentError, match="no algorithm `other` was registered: there are my_ring"):
        dist.unregister_algorithm("other")


def test_an_exception_in_the_kernel_reaches_every_rank_that_waits() -> None:
    @dist.register_algorithm
    def broken(tl: Any, part: Any) -> None:
        part.load(range(part.input_length))
        raise ZeroDivisionError("at work")

    context = phalanx.Context("quad-sip", ccl={"defaults": {"algorithm": "broken"}})
    with pytest.raises(SpawnException) as caught:
        all_reduced(context, np.ones((4, 8)))
    error = caught.value.errors[min(caught.value.errors)]
    assert isinstance(error, KernelError) and isinstance(error.__cause__, ZeroDivisionError)
    dist.unregister_algorithm("broken")


def test_ranks_in_different_collectives_are_told_apart() -> None:
    dist.register_algorithm(ring, name="my_ring")
    context = phalanx.Context("quad-sip", ccl={"defaults": {"algorithm": "my_ring"}})

    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(phalanx.ones(8 + rank))

    with pytest.raises(SpawnException) as caught:
        context.spawn(worker, nprocs=2)
    assert any(isinstance(error, MismatchError) for error in caught.value.errors.values())


def test_a_look_at_a_number_and_a_failing_operation() -> None:
    seen: list[float] = []

    @dist.register_algorithm
    def looking(tl: Any, part: Any) -> None:
        ahead, behind = part.to(part.rank + 1), part.source(part.rank - 1)
        (chunk,) = part.chunks(range(part.input_length))
        own = part.load(chunk)
        seen.append(tl.item(own, 0))
        part.send(ahead, own)
        part.store(chunk, part.combine(part.recv(behind, len(chunk)), own))

    context = phalanx.Context("pair", ccl={"defaults": {"algorithm": "looking"}})
    found = all_reduced(context, np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    assert [part.tolist() for part in found] == [[4.0, 6.0]] * 2 and sorted(seen) == [1.0, 3.0]

    @dist.register_algorithm
    def failing(tl: Any, part: Any) -> None:
        part.to(part.rank + 1)
        part.send(part.to(part.rank + 1), part.load(range(2)))
        part.recv(part.source(part.rank - 1), 3)

    broken = phalanx.Context("pair", ccl={"defaults": {"algorithm": "failing"}})
    with pytest.raises(SpawnException) as caught:
        all_reduced(broken, np.ones((2, 2)))
    assert all(isinstance(error, KernelError) for error in caught.value.errors.values())
