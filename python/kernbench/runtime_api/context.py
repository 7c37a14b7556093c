"""Contexts: an engine and the programs that use it.

Programs run in greenlets. The main greenlet waits by making time pass. Any other greenlet, a *worker*, puts its wait off: the handle goes to
``_pending_worker_waits`` and the worker switches to its parent, until the main program has driven the handle (``_drain_pending``). So one
driver makes time pass, and the parent of every kernel is the main greenlet.

- A wait for what is over returns at once.
- When a wait returns, its handle is in ``_completed``.
- A read on the host first lets all waits end that were put off, of all ranks; collectives that not every rank has joined are not among them.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from phalanx._dtypes import resolve
from phalanx.errors import StuckError

from ..policy.placement.dp import DPPolicy
from ..sim_engine.engine import GraphEngine, Handle
from ..triton_emu.kernel_runner import KernelRunner
from .._workers import is_main, step_aside
from .distributed import Distributed
from .multiprocessing import Multiprocessing
from .tensor import Tensor
from .types import DeviceSelector

__all__ = ["RuntimeContext", "current_context"]

#: The contexts that exist, latest last. It keeps none alive.
_contexts: list[weakref.ref[RuntimeContext]] = []
#: The contexts that were entered, latest last.
_entered: list[weakref.ref[RuntimeContext]] = []

#: Finished handles that a context holds on to; older ones still count as completed.
_HELD = 4096


class _Completed(set):  # type: ignore[type-arg]
    """The handles that are over."""

    def __init__(self) -> None:
        super().__init__()
        self._order: deque[Any] = deque()

    def add(self, handle: Any) -> None:
        if not super().__contains__(handle):
            self._order.append(handle)
            super().add(handle)
            if len(self._order) > _HELD:
                self.discard(self._order.popleft())

    def __contains__(self, handle: object) -> bool:
        return super().__contains__(handle) or (isinstance(handle, Handle) and handle.done)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._order))


class RuntimeContext:
    """An engine with its ranks. Methods can be replaced by assigning attributes: calls inside go through them."""

    def __init__(
        self,
        engine: GraphEngine | None = None,
        target_device: Any = None,
        correlation_id: Any = None,
        spec: Any = None,
    ) -> None:
        self.engine = GraphEngine(spec) if engine is None else engine
        self.target_device = DeviceSelector("all") if target_device is None else target_device
        self.correlation_id = correlation_id
        self.spec = self.engine.spec if spec is None else spec
        self._pending_worker_waits: list[Any] = []
        self._completed = _Completed()
        self.distributed = Distributed(self)
        self.multiprocessing = Multiprocessing(self)
        _contexts[:] = [known for known in _contexts if known() is not None]
        _contexts.append(weakref.ref(self))

    def __enter__(self) -> RuntimeContext:
        _entered.append(weakref.ref(self))
        return self

    def __exit__(self, *_: object) -> None:
        _entered[:] = [entered for entered in _entered if entered() not in (None, self)]
        self._clear()
        self.engine.env._cancel(())

    def _clear(self) -> None:
        self._pending_worker_waits.clear()
        self.distributed._clear()

    # Waiting.

    def wait(self, h: Any, *, _meta: Any = None) -> Any:
        """Waits for a handle; raises the error of its operation."""
        if h not in self._completed:
            if is_main():
                self._drive(h)
            else:
                self._put_off(h)
        error = getattr(h, "error", None)
        if isinstance(error, BaseException):
            raise error
        return getattr(h, "result", None)

    def _put_off(self, h: Any) -> None:
        """Waits in a worker: somebody drains, and switches back."""
        while h not in self._completed:
            if not any(h is pending for pending in self._pending_worker_waits):
                self._pending_worker_waits.append(h)
            step_aside()

    def _drive(self, h: Any) -> None:
        """Makes time pass until a handle is over. Its error stays with it."""
        try:
            self.engine.wait(h)
        except BaseException:
            if not getattr(h, "done", False) or getattr(h, "error", None) is None:
                raise
        self._completed.add(h)

    def _drain_waits(self) -> None:
        """Makes time pass until every wait that was put off is over, or can only go on when a worker does."""
        while self._pending_worker_waits:
            h = self._pending_worker_waits.pop(0)
            if h in self._completed:
                self._completed.add(h)
                continue
            try:
                self._drive(h)
            except StuckError:
                # It needs what another worker has yet to ask for; its own worker asks again.
                h._stuck = True

    def _host_read_barrier(self) -> None:
        """Lets the waits that were put off end before the host sees a number."""
        if is_main():
            self._drain_waits()
            return
        while any(not getattr(h, "_stuck", False) and h not in self._completed for h in self._pending_worker_waits):
            step_aside()

    # Tensors.

    def zeros(self, shape: Any, dtype: Any = "f16", dp: DPPolicy | None = None, name: str = "") -> Tensor:
        """A tensor full of zeros."""
        return self._made(shape, dtype, dp, name, 0.0)

    def full(self, shape: Any, fill_value: float, dtype: Any = "f16", dp: DPPolicy | None = None, name: str = "") -> Tensor:
        """A tensor filled with one number."""
        return self._made(shape, dtype, dp, name, float(fill_value))

    def ones(self, shape: Any, dtype: Any = "f16", dp: DPPolicy | None = None, name: str = "") -> Tensor:
        """A tensor full of ones."""
        return self._made(shape, dtype, dp, name, 1.0)

    def empty(self, shape: Any, dtype: Any = "f16", dp: DPPolicy | None = None, name: str = "") -> Tensor:
        """A tensor whose elements nobody has set; they are zeros."""
        return self._made(shape, dtype, dp, name, 0.0)

    def from_numpy(self, array: Any, dtype: Any = None, dp: DPPolicy | None = None, name: str = "") -> Tensor:
        """A tensor of the elements of an array."""
        array = np.asarray(array)
        kind = {"float64": "f32", "int64": "i32"}.get(array.dtype.name, array.dtype) if dtype is None else dtype
        return self._made(array.shape, kind, dp, name, 0.0).copy_(array)

    tensor = from_numpy

    def _made(self, shape: Any, dtype: Any, dp: DPPolicy | None, name: str, number: float) -> Tensor:
        dims = [int(shape)] if isinstance(shape, (int, np.integer)) else [int(dim) for dim in shape]
        place = self.distributed._place()
        rank = self.engine._rank(place)
        machine = self.engine.machine
        policy = None if dp is None else dp.on(machine.cubes, machine.pes)
        tensor = Tensor(self, rank.empty(dims, resolve(dtype).name, policy), place, policy, name)
        self._request("MmuMap", tensor, tensor._core.ready())
        self._request("MemoryWrite", tensor, tensor._core.fill(number).wait())
        return tensor

    def _write(self, tensor: Tensor, elements: Any) -> None:
        self._request("MemoryWrite", tensor, tensor._core.write(elements).wait())

    def _request(self, kind: str, tensor: Tensor, answer: Any) -> None:
        """Waits for a request to a SIP, as for any other operation."""
        what = f"{tensor.dtype}{list(tensor.shape)}" + (f" {tensor.name}" if tensor.name else "")
        end = self.engine.env.request(self.engine._rank(tensor.rank), answer, f"{kind} of {what}")
        h = self.engine.submit(kind, end, rank=tensor.rank, what=what)
        self.wait(h, _meta={"op": kind, "tensor": tensor.name})

    # Kernels.

    def launch(self, kernel: Callable[..., Any], *args: Any, num_programs: int = 1) -> Any:
        """Runs ``kernel(tl, *args)`` as so many programs, and waits for their end."""
        h = self._launch(kernel, args, num_programs, self.distributed._place())
        return self.wait(h, _meta={"op": "Kernel", "kernel": h.kind})

    def _launch(self, kernel: Callable[..., Any], args: tuple[Any, ...], num_programs: int, rank: int) -> Handle:
        name = getattr(kernel, "__name__", "kernel")

        def start() -> Any:
            # Looked up now: programs replace it.
            runner = KernelRunner()
            runner.sip = rank
            return (yield from runner.run(self.engine.env, kernel, args, num_programs))

        return self.engine.submit("Kernel", 0, start, rank=rank, what=name)


def current_context() -> RuntimeContext:
    """The context of the rank that runs; otherwise that which was entered last, or made last."""
    known = [ctx for ctx in (made() for made in _contexts) if ctx is not None]
    for ctx in reversed(known):
        if ctx.distributed._bound() is not None:
            return ctx
    for entered in reversed(_entered):
        ctx = entered()
        if ctx is not None:
            return ctx
    if not known:
        raise RuntimeError("there is no RuntimeContext")
    return known[-1]
