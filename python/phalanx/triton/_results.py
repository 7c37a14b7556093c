"""Results of torch's functions in a benchmark, which Triton repeats eight times.

A function of the same, unchanged tensors gives the same result: it is computed in the first call. Later calls get that result, as long as nobody holds or has
changed what an earlier call got.
"""
# mypy: disable-error-code="import-untyped,import-not-found,misc,no-untyped-call,unused-ignore"

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Results", "repeated"]

#: Results of one benchmark that are kept: their most bytes.
_MOST_BYTES = 2 << 30


class _Kept:
    """The results of a call, the launches with numbers before it, and its operands, which keep their addresses while they are here.

    Both are tensors of our own over the memories, so that other owners of a memory can be counted.
    """

    __slots__ = ("is_one", "operands", "runs", "tensors")

    def __init__(self, made: Any, operands: Any, runs: int) -> None:
        self.is_one = not isinstance(made, (tuple, list))
        self.tensors = [tensor.detach() for tensor in _tensors([made])]
        self.operands = [tensor.detach() for tensor in _tensors(operands)]
        self.runs = runs


class Results:
    """The results of one benchmark, by function and operands."""

    def __init__(self) -> None:
        self._kept: dict[Any, _Kept] = {}
        #: The function and the operands of the result at an address.
        self._places: dict[int, Any] = {}
        #: Our own tensors over the memory at an address.
        self._ours: Counter[int] = Counter()
        self._bytes = 0
        self.runs = 0

    def clear(self) -> None:
        """Forgets all results."""
        self._kept.clear()
        self._places.clear()
        self._ours.clear()
        self._bytes = 0

    def find(self, key: Any) -> Any:
        """The results of an earlier call, in memory that nobody else has; ``None`` if they must be computed."""
        import torch

        kept = self._kept.get(key)
        if kept is None:
            return None
        # A part of torch that is not public: without it, every result is copied.
        owners = getattr(torch._C, "_storage_Use_Count", None)
        given = []
        for tensor in kept.tensors:
            storage = tensor.untyped_storage()
            # Memory that an array of numpy shares cannot be resized: it may have been written.
            if kept.runs != self.runs or not storage.resizable():
                self._drop(key)
                return None
            # The question is an owner, too.
            is_ours = owners is not None and owners(storage._cdata) == self._ours[storage.data_ptr()] + 1
            given.append(tensor.detach() if is_ours else tensor.clone())
        return given[0] if kept.is_one else tuple(given)

    def keep(self, key: Any, operands: Any, made: Any) -> None:
        """Keeps what a function returned."""
        kept = _Kept(made, operands, self.runs)
        size = _bytes_of(kept)
        if self._bytes + size > _MOST_BYTES:
            return
        self._bytes += size
        self._kept[key] = kept
        self._ours.update(_addresses(kept))
        for tensor in kept.tensors:
            self._places[tensor.untyped_storage().data_ptr()] = key

    def written(self, tensor: Any) -> None:
        """Forgets a result that is changed in place."""
        self._drop(self._places.pop(tensor.untyped_storage().data_ptr(), None))

    def _drop(self, key: Any) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= _bytes_of(kept)
            self._ours.subtract(_addresses(kept))


def _addresses(kept: _Kept) -> list[int]:
    return [tensor.untyped_storage().data_ptr() for tensor in (*kept.tensors, *kept.operands)]


def _bytes_of(kept: _Kept) -> int:
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.tensors)


def operand(value: Any) -> Any:
    """The key of an operand: a tensor is the place, the shape and the version of its elements.

    Raises `TypeError` for what has no key.
    """
    import torch

    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or not value.is_cpu or value.layout != torch.strided or value.is_complex():
            raise TypeError
        return value.data_ptr(), value.dtype, tuple(value.shape), value.stride(), value._version
    if isinstance(value, (list, tuple)):
        return tuple(map(operand, value))
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, (bool, int, str, torch.dtype, torch.device, torch.memory_format, torch.layout)):
        return type(value), value
    raise TypeError


def repeated(results: Callable[[], Results]) -> Any:
    """A mode of torch in which a function of the same tensors is computed once."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    kinds: dict[Any, tuple[bool, list[Any]]] = {}

    def kind_of(function: Any) -> tuple[bool, list[Any]]:
        """True if a function only returns new tensors that its operands tell, and the parameters that it writes."""
        known = kinds.get(function)
        if known is None:
            schema = getattr(function, "_schema", None)
            if schema is None:
                return False, []
            written = [(place, each.name) for place, each in enumerate(schema.arguments) if each.alias_info is not None and each.alias_info.is_write]
            is_plain = all(each.alias_info is None for each in (*schema.arguments, *schema.returns))
            tells = torch.Tag.nondeterministic_seeded not in function.tags and "empty" not in schema.name
            returns = bool(schema.returns) and all(str(each.type) in ("Tensor", "List[Tensor]") for each in schema.returns)
            known = kinds[function] = (is_plain and tells and returns, written)
        return known

    class Repeated(TorchDispatchMode):
        """Returns the results of an earlier call."""

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """False: torch's compiler, which takes over a second to load, need not be told to leave this mode alone."""
            return False

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            options = kwargs or {}
            is_plain, written = kind_of(function)
            for place, name in written:
                for tensor in _tensors(args[place] if place < len(args) else options.get(name)):
                    results().written(tensor)
            if not is_plain or not any(True for _ in _tensors(args)):
                return function(*args, **options)
            try:
                key = (function, operand(args), tuple((name, operand(value)) for name, value in sorted(options.items())))
            except TypeError:
                return function(*args, **options)
            made = results().find(key)
            if made is None:
                made = function(*args, **options)
                if all(isinstance(tensor, torch.Tensor) for tensor in (made if isinstance(made, (tuple, list)) else [made])):
                    results().keep(key, args, made)
            return made

    return Repeated()


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in an argument."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
    elif hasattr(value, "untyped_storage"):
        yield value
