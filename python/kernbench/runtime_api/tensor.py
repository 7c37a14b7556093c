"""Tensors on the SIPs of ranks, and the closed set of ways to read one on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from phalanx._dtypes import resolve
from phalanx._tensor import _array, _buffer, _printed
from phalanx.errors import ArgumentError, NoDataError

if TYPE_CHECKING:
    from .context import RuntimeContext

__all__ = ["Tensor"]

#: The ways to see a tensor's numbers on the host. Each first lets every wait that was put off end; every other way goes through these.
_HOST_READ_BARRIERS = frozenset({"numpy", "data", "__getitem__", "__repr__"})


class Tensor:
    """A tensor in the memory of a SIP."""

    def __init__(self, ctx: RuntimeContext, core: Any, rank: int, policy: Any, name: str) -> None:
        self._ctx = ctx
        self._core = core
        self._policy = policy
        self.rank = rank
        self.name = name
        self.shape = tuple(core.shape)
        self.dtype: str = core.dtype
        ctx.engine._tensors.add(self)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of one copy."""
        return self.numel() * resolve(self.dtype).itemsize

    def numel(self) -> int:
        """The number of elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one dimension of it."""
        return self.shape if dim is None else self.shape[dim]

    # Reading on the host.

    def numpy(self) -> np.ndarray:
        """The elements, in a new array."""
        self._ctx._host_read_barrier()
        return self._peek()

    @property
    def data(self) -> np.ndarray:
        """The same as :meth:`numpy`."""
        self._ctx._host_read_barrier()
        return self._peek()

    def __getitem__(self, index: Any) -> Any:
        """Elements, as numpy has them."""
        self._ctx._host_read_barrier()
        return self._peek()[index]

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype}, rank={self.rank}" + (f", name={self.name!r}" if self.name else "")
        self._ctx._host_read_barrier()
        try:
            array = self._peek()
        except NoDataError:
            array = None
        return _printed(array, self.shape, kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def tolist(self) -> Any:
        """The elements as lists of numbers."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The only element."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self.numpy())

    # Writing: no barrier. A write that waited for others' collectives, which wait for this rank, would never end.

    def copy_(self, source: Any) -> Tensor:
        """Takes the elements of an array or of a tensor; reads a tensor as the host does."""
        array = source.numpy() if isinstance(source, Tensor) else np.asarray(source)
        if array.shape != self.shape:
            if array.size != 1:
                raise ArgumentError(f"copy_: {self.dtype}{list(self.shape)} cannot take an array of shape {list(array.shape)}")
            array = np.broadcast_to(array, self.shape)
        self._ctx._write(self, self._bytes(array))
        return self

    def fill_(self, number: float) -> Tensor:
        """Sets every element to one number."""
        return self.copy_(np.asarray(number))

    def zero_(self) -> Tensor:
        """Sets every element to 0."""
        return self.fill_(0)

    # The memory, at once.

    def _bytes(self, array: Any) -> np.ndarray:
        return _buffer(np, np.asarray(array), resolve(self.dtype))

    def _peek(self) -> np.ndarray:
        return _array(np, self._core.peek(), resolve(self.dtype), self.shape)

    def _poke(self, array: Any) -> None:
        self._core.place(self._bytes(array))

    def _move(self, rank: Any) -> None:
        """Moves to the same SIP of another machine."""
        try:
            held = self._peek()
        except Exception:
            # Nothing was written yet, or there are no numbers.
            held = None
        self._core = rank.empty(list(self.shape), self.dtype, self._policy)
        if held is not None:
            self._poke(held)
