"""Memory of the host that kernels use: the storages of arguments, and those that tables of addresses point into.

Triton's kernels take pointers into arrays of the host's programs, which are treated as resident in the HBM of the SIP. A *span* is
the whole memory that an array or a tensor is a part of; it is recognised by address and size.
"""

# mypy: disable-error-code="import-untyped,import-not-found,misc,unused-ignore"

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._tensor import Tensor
from ..errors import ArgumentError

__all__ = ["ARRAYS", "DEVICE_TYPES", "Array", "Span", "alignment", "deaths", "placed", "remembers", "spans_of_tables", "specialized"]

#: The element types of Triton: the type of a tensor here, the type of the array that its elements are copied from, and the bytes of an
#: element. Signs do not matter to memory.
DEVICE_TYPES: dict[str, tuple[str, str, int]] = {
    "fp32": ("f32", "float32", 4), "fp16": ("f16", "uint16", 2), "bf16": ("bf16", "uint16", 2), "fp64": ("f64", "uint8", 8),
    "fp8e4nv": ("f8e4m3", "uint8", 1), "fp8e5": ("f8e5m2", "uint8", 1), "i64": ("i64", "uint8", 8), "i32": ("i32", "int32", 4),
    "i16": ("i16", "uint8", 2), "i8": ("i8", "uint8", 1), "i1": ("i8", "uint8", 1),
}  # fmt: skip

_TRITON_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5", "f64": "fp64", "bool": "i1"}


#: The arguments that Triton itself does not know.
ARRAYS = frozenset((np.ndarray, Tensor))


class Array:
    """An array of numpy, or a tensor of phalanx, in the words that Triton asks arguments in: a type and an address."""

    __slots__ = ("array", "dtype")

    def __init__(self, array: Any) -> None:
        self.array = array
        name = array._core.dtype if type(array) is Tensor else array.dtype.name
        self.dtype = _TRITON_NAMES.get(name, name)

    def data_ptr(self) -> int:
        """The address of the first element. Tensors of a SIP begin at aligned addresses: what is beyond counts."""
        return _beyond(self.array) if type(self.array) is Tensor else address_of(self.array)


def alignment(array: Any) -> int:
    """The distance of an array's or a tensor's first byte from a multiple of 16 bytes."""
    return (_beyond(array) if type(array) is Tensor else address_of(array)) % 16


def _beyond(tensor: Tensor) -> int:
    return tensor._core.storage_offset * tensor.dtype.itemsize


def address_of(argument: Any) -> int:
    """The address of the first element of an argument in the memory of the host."""
    if type(argument) is np.ndarray:
        known = _passed.get(id(argument))
        if known is not None and known.array() is argument:
            return known.address
        return int(argument.__array_interface__["data"][0])
    return int(argument.data_ptr())


def placed(argument: Any) -> tuple[Span, int]:
    """The memory that an argument is a part of, and the address of its first element."""
    if type(argument) is np.ndarray:
        known = _passed.get(id(argument))
        if known is not None and known.array() is argument and known.span.writable == argument.flags.writeable:
            return known.span, known.address
    return Span.of(argument), address_of(argument)


def specialized(array: Any) -> dict[tuple[bool, bool, bool], Any] | None:
    """Triton's specializations of an array of numpy that was an argument before, by the flags of the question."""
    known = _passed.get(id(array))
    if known is not None and known.array() is array and known.dtype is array.dtype:
        return known.specialized
    return None


class Span:
    """Memory of the host, and the type of the array that it was found by."""

    __slots__ = ("address", "array_type", "size", "writable")

    def __init__(self, address: int, size: int, writable: bool, array_type: Any) -> None:
        self.address, self.size, self.writable, self.array_type = address, size, writable, array_type

    @property
    def kind(self) -> str:
        """The type in Triton's words, without its sign."""
        from triton._utils import canonicalize_dtype

        name: str = canonicalize_dtype(self.array_type)
        return f"i{name[1:]}" if name[0] == "u" else name

    def elements(self, kind: str, itemsize: int) -> npt.NDArray[Any]:
        """Its elements of so many bytes, as an array of this type of numpy over the same memory."""
        return _over(self.address, self.size - self.size % itemsize, kind, self.writable)

    def held(self, kind: str) -> _core.HostMemory:
        """The memory as kernels of this type of Triton's find it."""
        name, array_kind, itemsize = DEVICE_TYPES[kind]
        size = self.size - self.size % itemsize
        key = (self.address, size, name, self.writable)
        found = _held.get(key)
        if found is None:
            if len(_held) >= 4096:
                _held.clear()
            found = _held[key] = _core.HostMemory(self.address, _over(self.address, size, array_kind, self.writable), name)
        return found

    @staticmethod
    def of(argument: Any) -> Span:
        """The memory that an argument is a part of."""
        storage = getattr(argument, "untyped_storage", None)
        if storage is not None:
            if not argument.is_cpu:
                raise ArgumentError(f"a tensor on {argument.device} is no memory of this host: move it with `.cpu()`")
            whole = storage()
            return Span(whole.data_ptr(), whole.nbytes(), True, argument.dtype)
        if type(argument) is np.ndarray:
            return _of_numpy(argument)
        base = getattr(argument, "base", None)
        if base is not None and hasattr(argument, "data_ptr"):
            # A result of `triton.reinterpret`.
            return Span.of(base)
        raise ArgumentError(
            f"a kernel's pointer is a tensor of torch on the CPU, an array of numpy or a tensor of phalanx, not a {type(argument).__name__}"
        )


class _Raw:
    """Memory as numpy's array interface describes it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, count: int, kind: str, writable: bool) -> None:
        self.__array_interface__ = {
            "data": (address, not writable), "shape": (count,), "typestr": np.dtype(kind).str, "version": 3,
        }  # fmt: skip


#: Arrays over memory that is alive whenever it is looked up.
_arrays: dict[tuple[int, int, str, bool], npt.NDArray[Any]] = {}


#: The same, as Rust takes it.
_held: dict[tuple[int, int, str, bool], _core.HostMemory] = {}


def _over(address: int, size: int, kind: str, writable: bool) -> npt.NDArray[Any]:
    key = (address, size, kind, writable)
    found = _arrays.get(key)
    if found is None:
        if len(_arrays) >= 4096:
            _arrays.clear()
        found = np.asarray(_Raw(address, size // np.dtype(kind).itemsize, kind, writable))
        _arrays[key] = found
    return found


class _Passed:
    """An array of numpy that was an argument, by a weak reference: the memory that it is a part of, its own address, and what Triton said of it."""

    __slots__ = ("address", "array", "dtype", "span", "specialized")

    def __init__(self, array: Any, span: Span, address: int, dtype: Any) -> None:
        self.array, self.span, self.address, self.dtype = array, span, address, dtype
        self.specialized: dict[tuple[bool, bool, bool], Any] = {}


#: The arrays of numpy that were arguments and are alive.
_passed: dict[int, _Passed] = {}
#: Grows whenever one of them dies. While it stays, the identity of an array among them is its own.
_deaths = [0]


def remembers(arguments: Iterable[Any]) -> bool:
    """True if all of these are arrays of numpy that were arguments before."""
    return all(type(argument) is np.ndarray and id(argument) in _passed for argument in arguments)


def deaths() -> list[int]:
    """The number of dead arrays of numpy that were arguments, as a list of one number that grows."""
    return _deaths


def _of_numpy(array: npt.NDArray[Any]) -> Span:
    key = id(array)
    known = _passed.get(key)
    if known is not None and known.array() is array and known.span.writable == array.flags.writeable:
        return known.span
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = np.lib.array_utils.byte_bounds(root)
    span = Span(low, high - low, bool(array.flags.writeable), array.dtype)

    def forget(_: Any) -> None:
        _passed.pop(key, None)
        _deaths[0] += 1

    # `resize` gives an array other memory; one that has a weak reference refuses.
    _passed[key] = _Passed(weakref.ref(array, forget), span, int(array.__array_interface__["data"][0]), array.dtype)
    return span


#: The tensors of torch that were found, by the address of their storage.
_tensors: dict[int, Any] = {}


def spans_of_tables(tables: Iterable[npt.NDArray[Any]]) -> dict[int, Span]:
    """The memories that the whole numbers of these arrays are addresses in, by address."""
    found: dict[int, Span] = {}
    waiting = [table.view("int64") for table in tables]
    known = _Places(_alive())
    looked = False
    while waiting:
        numbers = np.unique(waiting.pop())
        spans, others = known.containing(numbers)
        if not looked and np.any((others > _LEAST_ADDRESS) & (others < _END_OF_ADDRESSES)):
            _look()
            known, looked = _Places(_alive()), True
            spans, _ = known.containing(numbers)
        for span in spans:
            if span.address not in found:
                found[span.address] = span
                # A table may hold the addresses of tables. Larger memories hold numbers.
                if span.size % 8 == 0 and span.address % 8 == 0 and span.size <= 1 << 16:
                    waiting.append(span.elements("int64", 8))
    return found


#: Numbers outside of these bounds are no addresses of a program.
_LEAST_ADDRESS, _END_OF_ADDRESSES = 1 << 16, 1 << 47


class _Places:
    """Memories by address, to find those of many addresses at once."""

    def __init__(self, spans: list[Span]) -> None:
        # A memory inside of another one is a part of it.
        self._spans: list[Span] = []
        end = 0
        for span in sorted(spans, key=lambda span: (span.address, -span.size)):
            if span.address + span.size > end:
                end = span.address + span.size
                self._spans.append(span)
        self._begins = np.array([span.address for span in self._spans], "int64")
        self._ends = np.array([span.address + span.size for span in self._spans], "int64")

    def containing(self, numbers: npt.NDArray[Any]) -> tuple[list[Span], npt.NDArray[Any]]:
        """The memories that these numbers are addresses in, and the numbers that are none."""
        if not self._spans:
            return [], numbers
        places = np.searchsorted(self._begins, numbers, side="right") - 1
        inside = (places >= 0) & (numbers < self._ends[places])
        return [self._spans[place] for place in np.unique(places[inside])], numbers[~inside]


def _alive() -> list[Span]:
    """The memories that are known and alive."""

    def spans() -> Iterator[Span]:
        for key, reference in list(_tensors.items()):
            tensor = reference()
            if tensor is None:
                del _tensors[key]
            else:
                yield Span.of(tensor)
        for passed in list(_passed.values()):
            if passed.array() is not None:
                yield passed.span

    return [span for span in spans() if span.size]


def _look() -> None:
    """Finds all tensors of torch on the CPU."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for thing in gc.get_objects():
        # Proxies may do anything when they are asked for their class.
        if issubclass(type(thing), torch.Tensor) and thing.is_cpu and thing.layout == torch.strided:
            try:
                address = thing.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):
                # A tensor without memory of its own.
                continue
            if address:
                _tensors[address] = weakref.ref(thing)
