"""The operations of a kernel. Values are numpy arrays; each operation takes the time of its engine, by the figures of the machine.

Programs run on the PEs of a SIP, one after another in turn. Programs of one PE take turns at its engines, PEs of one cube at its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._workers import step_aside
from ..sim_engine.env import Env, Event
from ..sim_engine.units import home_cubes

__all__ = ["REDUCTIONS", "Tl"]

#: The functions that combine two arrays, by name.
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.add, "avg": np.add, "prod": np.multiply, "product": np.multiply, "min": np.minimum, "max": np.maximum,
}


class Tl:
    """One program of a kernel."""

    def __init__(self, env: Env, number: int, count: int, sip: int = 0) -> None:
        self._env = env
        self._number = number
        self._count = count
        machine = env.engine.machine
        #: SIP, cube, number in the cube.
        self._pe = (sip, number // machine.pes % machine.cubes, number % machine.pes)

    def _wait(self, event: Event) -> Any:
        if not event.processed:
            step_aside(event)
        if event.error is not None:
            raise event.error
        return event.value

    def _takes(self, engine: str, amount: int, tensor: Any = None) -> None:
        """Takes an engine of the PE, and the memory of a tensor that the engine moves."""
        machine = self._env.engine.machine
        uses: list[tuple[Any, int]] = [((engine, *self._pe), machine.time(engine, amount) if amount else 0)]
        latency = 0
        if tensor is not None:
            latency = machine.time(engine, 0)
            cubes = home_cubes(tensor._policy, self._pe[1])
            part = -(-amount // len(cubes))
            uses += [(("hbm", tensor.rank, cube), machine.time("hbm", part) if part else 0) for cube in cubes]
        now = self._env._now_ps()
        picoseconds = self._env.engine._units.take(now, uses) - now + latency
        if picoseconds:
            self.delay(picoseconds / 1000)

    def program_id(self, axis: int = 0) -> int:
        """The number of this program."""
        return self._number if axis == 0 else 0

    def num_programs(self, axis: int = 0) -> int:
        """The number of programs."""
        return self._count if axis == 0 else 1

    @property
    def now(self) -> float:
        """The time, in nanoseconds."""
        return self._env.now

    def delay(self, nanoseconds: float) -> None:
        """Takes time."""
        self._wait(self._env.timeout(nanoseconds))

    # Memory.

    def load(self, tensor: Any, index: Any = None) -> Any:
        """The elements of a tensor, or those at an index."""
        self._takes("dma", _bytes(tensor, index), tensor)
        if not self._env.engine.enable_data:
            whole = np.zeros(tensor.shape, _numpy_type(tensor.dtype))
        else:
            whole = tensor._peek()
        return whole if index is None else whole[index]

    def store(self, tensor: Any, value: Any, index: Any = None) -> None:
        """Sets the elements of a tensor, or those at an index."""
        self._takes("dma", _bytes(tensor, index), tensor)
        if not self._env.engine.enable_data:
            return
        if index is None:
            tensor._poke(np.broadcast_to(np.asarray(value), tensor.shape))
        else:
            whole = tensor._peek()
            whole[index] = value
            tensor._poke(whole)

    # Computing.

    def dot(self, left: Any, right: Any, acc: Any = None) -> Any:
        """A product of matrices, summed as f32 and rounded to the type of ``left``; ``acc`` is added before."""
        left, right = np.asarray(left), np.asarray(right)
        if left.shape[-1] != right.shape[0]:
            raise ValueError(f"dot: {list(left.shape)} does not fit {list(right.shape)}: {left.shape[-1]} columns, {right.shape[0]} rows")
        self._takes("gemm", 2 * left.size * (right.size // max(right.shape[0], 1)))
        with np.errstate(over="ignore"):
            product = left.astype(np.float32) @ right.astype(np.float32)
            if acc is not None:
                product = product + np.asarray(acc, np.float32)
            return product.astype(left.dtype)

    def _vector(self, fn: Callable[..., Any], *operands: Any) -> Any:
        with np.errstate(all="ignore"):
            value = fn(*operands)
        self._takes("vector", max(np.asarray(part).nbytes for part in (*operands, value)))
        return value

    def combine(self, op: str, left: Any, right: Any) -> Any:
        """Two arrays combined: ``sum``, ``prod``, ``min``, ``max``."""
        return self._vector(REDUCTIONS[op], left, right)

    def add(self, left: Any, right: Any) -> Any:
        """The sum."""
        return self._vector(np.add, left, right)

    def sub(self, left: Any, right: Any) -> Any:
        """The difference."""
        return self._vector(np.subtract, left, right)

    def mul(self, left: Any, right: Any) -> Any:
        """The product of elements."""
        return self._vector(np.multiply, left, right)

    def div(self, left: Any, right: Any) -> Any:
        """The quotient of elements."""
        return self._vector(np.divide, left, right)

    def maximum(self, left: Any, right: Any) -> Any:
        """The larger elements."""
        return self._vector(np.maximum, left, right)

    def minimum(self, left: Any, right: Any) -> Any:
        """The smaller elements."""
        return self._vector(np.minimum, left, right)

    def exp(self, value: Any) -> Any:
        """The exponential."""
        return self._vector(np.exp, value)

    def sqrt(self, value: Any) -> Any:
        """The square root."""
        return self._vector(np.sqrt, value)

    def relu(self, value: Any) -> Any:
        """The elements, or 0 where they are negative."""
        return self._vector(lambda given: np.maximum(given, np.zeros((), np.asarray(given).dtype)), value)

    def sum(self, value: Any, axis: int | None = None) -> Any:
        """The sum along an axis."""
        return self._vector(lambda given: np.sum(given, axis=axis), value)

    def max(self, value: Any, axis: int | None = None) -> Any:
        """The largest along an axis."""
        return self._vector(lambda given: np.max(given, axis=axis), value)

    def zeros(self, shape: Any, dtype: str = "f32") -> Any:
        """An array of zeros."""
        return np.zeros(shape, _numpy_type(dtype))

    def arange(self, *bounds: int) -> Any:
        """Whole numbers."""
        return np.arange(*bounds)

    # Messages.

    def send(self, queue: Any, value: Any) -> None:
        """Sends an array; waits for free slots."""
        for event in queue._send(np.asarray(value)):
            self._wait(event)

    def recv(self, queue: Any) -> Any:
        """Receives the next array; waits for it."""
        messages = queue._recv()
        while True:
            try:
                event = next(messages)
            except StopIteration as stop:
                return stop.value
            self._wait(event)


def _bytes(tensor: Any, index: Any) -> int:
    if index is None:
        return int(tensor.nbytes)
    picked = np.broadcast_to(np.zeros((), np.uint8), tensor.shape)[index]
    return int(np.asarray(picked).size * (tensor.nbytes // max(tensor.numel(), 1)))


def _numpy_type(name: str) -> Any:
    from phalanx._dtypes import resolve

    return resolve(name).to_numpy()
