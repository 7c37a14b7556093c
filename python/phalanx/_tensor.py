"""Tensors on a rank's SIP."""

from __future__ import annotations

import operator
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._context import current_rank
from ._dtypes import DType, f32, resolve
from ._fibers import awaiting, wait
from .errors import ArgumentError, NoDataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "DPPolicy", "Event", "Stream", "Tensor", "Work", "arange", "empty", "from_dlpack", "from_numpy", "full", "manual_seed", "named_range", "ones",
    "rand", "randn", "sleep", "synchronize", "tensor", "zeros",
]


class Work:
    """An operation that was asked for: ``wait()`` for its end, or ``await`` it in an ``async def``."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.Work) -> None:
        self._core = core

    def wait(self) -> bool:
        """Waits until the operation is over; raises its error."""
        wait(self._core.wait())
        return True

    def is_completed(self) -> bool:
        """True if the operation is over. Other programs go on meanwhile, so a polling loop ends."""
        return bool(wait(self._core.is_completed()))

    def event(self) -> Event:
        """The end of the operation, for streams to wait for."""
        return Event(self._core.event())

    def source_rank(self) -> int:
        """The sending rank, for a receive; -1 otherwise."""
        source = self._core.source_rank()
        return -1 if source is None else source

    def __await__(self) -> Generator[Any, None, None]:
        return awaiting(self._core.wait())


class Event:
    """A point on a stream, or the end of operations."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.Event | None = None) -> None:
        #: Nothing before it was recorded.
        self._core = core

    def record(self, stream: Stream) -> None:
        """Makes it the point after all operations of a stream so far."""
        self._core = stream._core.record()

    def wait(self, stream: Stream) -> None:
        """Lets later operations of a stream begin after it; the program does not wait."""
        stream.wait_event(self)

    def query(self) -> bool:
        """True if everything before it is over."""
        return self._core is None or self._core.is_over()

    def synchronize(self) -> None:
        """Waits until everything before it is over."""
        if self._core is not None:
            wait(self._core.wait())


class Stream:
    """A queue of operations of the current rank that begin in order, without waits of the program.

    Operations that are asked for in ``with stream:`` go to it. Others wait only for what they share bytes with.
    """

    __slots__ = ("_core",)

    def __init__(self, name: str = "stream") -> None:
        self._core = current_rank().stream(name)

    def __enter__(self) -> Stream:
        self._core.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self._core.leave()

    def record_event(self) -> Event:
        """The point after all operations so far."""
        return Event(self._core.record())

    def wait_event(self, event: Event) -> None:
        """Lets later operations of the stream begin after an event; the program does not wait."""
        if event._core is None:
            return
        self._core.wait_event(event._core)

    def wait_stream(self, stream: Stream) -> None:
        """Lets later operations of the stream begin after those that another stream has so far."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """Waits for all operations of the stream."""
        wait(self._core.synchronize())


class DPPolicy:
    """The places of a tensor's elements: spread over cubes, and over the PEs of each cube.

    ``cube`` and ``pe`` are ``"replicate"`` (each has all), ``"row_wise"`` or ``"column_wise"``.
    """

    __slots__ = ("cube", "num_cubes", "num_pes", "pe")

    def __init__(self, cube: str = "replicate", pe: str = "replicate", num_cubes: int = 1, num_pes: int = 1) -> None:
        self.cube, self.pe = cube, pe
        self.num_cubes, self.num_pes = num_cubes, num_pes

    def __repr__(self) -> str:
        return f"DPPolicy(cube={self.cube!r}, pe={self.pe!r}, num_cubes={self.num_cubes}, num_pes={self.num_pes})"

    @property
    def _tuple(self) -> tuple[str, str, int, int]:
        return self.cube, self.pe, self.num_cubes, self.num_pes


def _policy(dp: DPPolicy | None) -> tuple[str, str, int, int] | None:
    return None if dp is None else dp._tuple


def _printed(array: Any, shape: Any, kind: str) -> str:
    """A tensor as text: its elements, or its shape if they are not known, and of what kind it is."""
    if array is None:
        return f"tensor(shape={shape}, {kind})"
    import numpy as np

    return f"tensor({np.array2string(array, separator=', ', prefix='tensor(', threshold=100)}, {kind})"


def _dims(shape: tuple[Any, ...]) -> list[int]:
    """The dimensions of ``f(2, 3)`` and of ``f((2, 3))``."""
    dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) and hasattr(shape[0], "__iter__") else shape
    return [_dim(dim) for dim in dims]


def _dim(dim: Any) -> int:
    number = operator.index(dim)
    if number < 0:
        raise ArgumentError(f"a dimension of {number} elements")
    return number


class Tensor:
    """A tensor on a rank's SIP. Making one does not wait; reading its numbers does.

    Views (``x[1:3]``, ``x.T``) share its memory.
    """

    __slots__ = ("_core",)
    __array_priority__ = 100

    def __init__(self, core: _core.Tensor) -> None:
        self._core = core

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return resolve(self._core.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each dimension."""
        return tuple(self._core.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._core.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self._core.shape)

    def element_size(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one dimension of it."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self) -> tuple[int, ...]:
        """The distance of neighbours along each dimension, in elements."""
        return tuple(self._core.strides)

    def numel(self) -> int:
        """The number of elements."""
        count = 1
        for dim in self._core.shape:
            count *= dim
        return count

    @property
    def rank(self) -> int:
        """The rank that the tensor belongs to."""
        return self._core.owner

    def is_contiguous(self) -> bool:
        """True if the elements are adjacent, in order."""
        return self._core.is_contiguous()

    # Reading: every name below waits for the writer of the tensor, and for nothing else.

    def numpy(self) -> npt.NDArray[Any]:
        """The elements as an array; bf16 and 8-bit floats as ``float32``, which holds them exactly."""
        import numpy as np

        elements = wait(self._core.read())
        return _array(np, elements, self.dtype, self.shape)

    async def read(self) -> npt.NDArray[Any]:
        """The same as :meth:`numpy`, for ``await``."""
        import numpy as np

        elements = await _Awaitable(self._core.read())
        return _array(np, elements, self.dtype, self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the elements of a tensor are on a SIP: an array of them is a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def tolist(self) -> Any:
        """The elements as lists of numbers."""
        return self.numpy().tolist()

    def item(self) -> float | int:
        """The only element."""
        if self.numel() != 1:
            raise ArgumentError(f"item: {self.dtype}{list(self.shape)} has {self.numel()} elements, not one")
        number: float | int = self.numpy().item()
        return number

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

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        try:
            array = self.numpy()
        except (NoDataError, RuntimeError):
            # Without data, or where nobody can wait.
            array = None
        return _printed(array, self.shape, f"dtype={self.dtype}, rank={self.rank}")

    # Views.

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one dimension may be -1."""
        dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        dims = [operator.index(dim) for dim in dims]
        if dims.count(-1) == 1:
            rest = 1
            for dim in dims:
                rest *= dim if dim != -1 else 1
            if rest and self.numel() % rest == 0:
                dims[dims.index(-1)] = self.numel() // rest
        return Tensor(self._core.reshape([_dim(dim) for dim in dims]))

    view = reshape

    def flatten(self) -> Tensor:
        """All elements in one dimension."""
        return self.reshape(-1)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """The indices ``start`` to ``start + length`` of a dimension."""
        return Tensor(self._core.narrow(self._axis(dim), start, length))

    def select(self, dim: int, index: int) -> Tensor:
        """One index of a dimension, without that dimension."""
        dim = self._axis(dim)
        return Tensor(self._core.select(dim, _position(index, self.shape[dim])))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions exchanged."""
        return Tensor(self._core.transpose(self._axis(dim0), self._axis(dim1)))

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse."""
        turned = self
        for dim in range(self.ndim // 2):
            turned = turned.transpose(dim, self.ndim - 1 - dim)
        return turned

    def permute(self, *dims: Any) -> Tensor:
        """The dimensions in another order."""
        order = [self._axis(dim) for dim in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
        if sorted(order) != list(range(self.ndim)):
            raise ArgumentError(f"permute: {order} does not name each of the {self.ndim} dimensions once")
        shape, strides = self._core.shape, self._core.strides
        return Tensor(self._core.as_strided([shape[dim] for dim in order], [strides[dim] for dim in order], 0))

    def unsqueeze(self, dim: int) -> Tensor:
        """The same elements with a new dimension of one element."""
        if not -self.ndim - 1 <= dim <= self.ndim:
            raise IndexError(f"unsqueeze: there is no place {dim} among {self.ndim} dimensions")
        place = dim % (self.ndim + 1)
        return self[(slice(None),) * place + (None,)]

    def squeeze(self, dim: int | None = None) -> Tensor:
        """The same elements without the dimensions of one element, or without this one if it has one element."""
        gone = range(self.ndim) if dim is None else [self._axis(dim)]
        return self[tuple(0 if axis in gone and size == 1 else slice(None) for axis, size in enumerate(self.shape))]

    def chunk(self, chunks: int, dim: int = 0) -> list[Tensor]:
        """Equal parts along a dimension."""
        return [Tensor(part) for part in self._core.chunk(chunks, self._axis(dim))]

    def contiguous(self) -> Tensor:
        """The same elements, adjacent: this tensor if they are, a copy otherwise."""
        return Tensor(self._core.contiguous())

    def clone(self) -> Tensor:
        """A copy."""
        copy = empty(self.shape, dtype=self.dtype)
        copy.copy_(self)
        return copy

    def __getitem__(self, index: Any) -> Tensor:
        """A view by whole numbers, slices, ``None`` and ``...``, as in numpy; steps must be positive."""
        index = index if isinstance(index, tuple) else (index,)
        shape, strides, offset = _indexed(self.shape, self.stride(), index)
        return Tensor(self._core.as_strided(shape, strides, offset))

    def __setitem__(self, index: Any, value: Any) -> None:
        part = self[index]
        if isinstance(value, Tensor):
            part.copy_(value)
        elif isinstance(value, (int, float)):
            part.fill_(value)
        else:
            import numpy as np

            array = np.broadcast_to(np.asarray(value), part.shape)
            part.copy_(tensor(array, dtype=self.dtype))

    # Writing.

    def copy_(self, source: Any) -> Tensor:
        """Takes the elements of a tensor, or of anything that is an array."""
        if not isinstance(source, Tensor):
            source = tensor(source, dtype=self.dtype)
        self._core.copy(source._core)
        return self

    def fill_(self, number: float) -> Tensor:
        """Sets every element to one number."""
        self._core.fill(float(number))
        return self

    def zero_(self) -> Tensor:
        """Sets every element to 0."""
        return self.fill_(0.0)

    def ready(self) -> Tensor:
        """Waits for the last operation that writes the tensor."""
        wait(self._core.ready())
        return self

    def _axis(self, dim: int) -> int:
        return _position(dim, self.ndim) if self.ndim else dim


class _Awaitable:
    """An answer of the Rust side, for ``await``."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __await__(self) -> Generator[Any, None, Any]:
        return awaiting(self._answer)


def _array(np: Any, elements: _core.Elements, dtype: DType, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The elements that were read, in a new array: one copy."""
    name = dtype.name
    if name == "bf16":
        half = np.empty(shape, np.uint16)
        elements.copy_to(half.reshape(-1))
        return (half.astype(np.uint32) << 16).view(np.float32)  # type: ignore[no-any-return]
    array = np.empty(shape, dtype.to_numpy())
    # 8-bit floats are widened on the way; all others are copied as they are.
    flat = array.reshape(-1)
    elements.copy_to(flat if name in ("f32", "i32", "f8e4m3", "f8e5m2") else flat.view(np.uint8))
    return array  # type: ignore[no-any-return]


def _buffer(np: Any, array: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """The elements of an array as the Rust side takes them."""
    name = dtype.name
    if name == "bf16":
        bits = np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint32)
        # To the nearest, ties to even; a NaN stays one.
        rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
        nan = (bits & 0x7FFFFFFF) > 0x7F800000
        return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)  # type: ignore[no-any-return]
    with np.errstate(over="ignore"):
        dense = np.ascontiguousarray(array, dtype.to_numpy()).reshape(-1)
    return dense if name in ("f32", "i32", "f8e4m3", "f8e5m2") else dense.view(np.uint8)  # type: ignore[no-any-return]


def _position(index: int, size: int) -> int:
    position = operator.index(index)
    if not -size <= position < size:
        raise IndexError(f"index {position} is out of range: there are {size}")
    return position % size


def _indexed(
    shape: Sequence[int], strides: Sequence[int], index: tuple[Any, ...]
) -> tuple[list[int], list[int], int]:
    """Shape, strides and offset of a view by numpy's basic indexing."""
    named = sum(1 for part in index if part is not None and part is not Ellipsis)
    if named > len(shape):
        raise IndexError(f"too many indices: the tensor has {len(shape)} dimensions, and {named} were indexed")
    dots = sum(part is Ellipsis for part in index)
    if dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not dots:
        index = (*index, Ellipsis)
    new_shape: list[int] = []
    new_strides: list[int] = []
    offset = axis = 0
    for part in index:
        if part is None:
            new_shape.append(1)
            new_strides.append(0)
        elif part is Ellipsis:
            rest = len(shape) - named
            new_shape += shape[axis : axis + rest]
            new_strides += strides[axis : axis + rest]
            axis += rest
        elif isinstance(part, slice):
            start, stop, step = part.indices(shape[axis])
            if step < 1:
                raise ArgumentError("a slice of a tensor has a positive step")
            count = len(range(start, stop, step))
            offset += start * strides[axis] if count else 0
            new_shape.append(count)
            new_strides.append(strides[axis] * step)
            axis += 1
        else:
            try:
                position = _position(part, shape[axis])
            except TypeError:
                raise IndexError(f"a tensor is indexed by whole numbers, slices, None and ..., not {part!r}") from None
            offset += position * strides[axis]
            axis += 1
    return new_shape, new_strides, offset


def empty(*shape: Any, dtype: Any = f32, dp: DPPolicy | None = None) -> Tensor:
    """A tensor without initial elements; reading one before it was written is an error."""
    return Tensor(current_rank().empty(_dims(shape), resolve(dtype).name, _policy(dp)))


def full(shape: Any, fill_value: float, *, dtype: Any = f32, dp: DPPolicy | None = None) -> Tensor:
    """A tensor filled with one number."""
    dims = _dims((shape,) if isinstance(shape, int) else tuple(shape))
    return Tensor(current_rank().full(dims, float(fill_value), resolve(dtype).name, _policy(dp)))


def zeros(*shape: Any, dtype: Any = f32, dp: DPPolicy | None = None) -> Tensor:
    """A tensor full of zeros."""
    return full(_dims(shape), 0.0, dtype=dtype, dp=dp)


def ones(*shape: Any, dtype: Any = f32, dp: DPPolicy | None = None) -> Tensor:
    """A tensor full of ones."""
    return full(_dims(shape), 1.0, dtype=dtype, dp=dp)


def tensor(data: Any, *, dtype: Any = None, dp: DPPolicy | None = None) -> Tensor:
    """A tensor of numbers, lists of numbers, or an array. The type is that of the array; ``f32`` or ``i32`` for lists."""
    import numpy as np

    if isinstance(data, np.ma.MaskedArray):
        raise ArgumentError("a tensor has no mask: give `array.filled(value)`, or `array.data` to ignore the mask")
    array = np.asarray(data)
    if dtype is None:
        dtype = {"f": f32, "i": "i32", "u": "i32", "b": "i32"}.get(array.dtype.kind, array.dtype)
        if array.dtype.kind == "f" and array.dtype.itemsize == 2:
            dtype = "f16"
    kind = resolve(dtype)
    buffer = _buffer(np, array, kind)
    return Tensor(current_rank().from_buffer(buffer, list(array.shape), kind.name, _policy(dp)))


def from_numpy(array: npt.NDArray[Any], *, dp: DPPolicy | None = None) -> Tensor:
    """A tensor of the elements and the type of an array."""
    return tensor(array, dtype=array.dtype, dp=dp)


def from_dlpack(source: Any, *, dp: DPPolicy | None = None) -> Tensor:
    """A tensor of the elements of an object with ``__dlpack__``, such as a tensor of torch on the CPU."""
    import numpy as np

    return from_numpy(np.from_dlpack(source), dp=dp)


def arange(*bounds: float, dtype: Any = None) -> Tensor:
    """``arange(end)``, ``arange(start, end)`` or ``arange(start, end, step)``."""
    if not 1 <= len(bounds) <= 3:
        raise TypeError(f"arange takes 1 to 3 numbers, not {len(bounds)}")
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if dtype is None:
        dtype = "i32" if all(isinstance(bound, int) for bound in bounds) else f32
    return Tensor(current_rank().arange(float(start), float(end), float(step), resolve(dtype).name))


def rand(*shape: Any, dtype: Any = f32) -> Tensor:
    """Random numbers between 0 and 1, from the rank's own generator."""
    return Tensor(current_rank().rand(_dims(shape), resolve(dtype).name))


def randn(*shape: Any, dtype: Any = f32) -> Tensor:
    """Random numbers with mean 0 and variance 1, from the rank's own generator."""
    return Tensor(current_rank().randn(_dims(shape), resolve(dtype).name))


def manual_seed(seed: int) -> None:
    """Sets the seed of the rank's random numbers."""
    current_rank().manual_seed(seed)


def sleep(seconds: float) -> None:
    """Waits for simulated time: host work that is not modelled."""
    wait(current_rank().sleep(round(seconds * 1e12)))


def synchronize() -> None:
    """Waits for all operations of the rank."""
    wait(current_rank().synchronize())


class named_range:  # noqa: N801 (a function to its users)
    """A named part of a rank's program, which reports add up by name: ``with phalanx.range("step"): ...``."""

    __slots__ = ("_name", "_open")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._open = current_rank().range(self._name)

    def __exit__(self, *_: object) -> None:
        self._open.close()
