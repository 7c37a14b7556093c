"""Element types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import DTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DType", "bf16", "bfloat16", "f16", "f32", "float16", "float32", "i32", "int32", "resolve"]


class DType:
    """An element type: ``f32``, ``f16``, ``bf16`` or ``i32``."""

    __slots__ = ("itemsize", "name")

    def __init__(self, name: str, itemsize: int) -> None:
        self.name = name
        self.itemsize = itemsize

    def __repr__(self) -> str:
        return f"phalanx.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """True for floating-point numbers."""
        return self.name != "i32"

    def to_numpy(self) -> np.dtype[Any]:
        """The type of the arrays that ``Tensor.numpy`` returns: bf16 becomes ``float32``, which holds it exactly."""
        import numpy as np

        return np.dtype(_NUMPY[self.name])


f32 = float32 = DType("f32", 4)
f16 = float16 = DType("f16", 2)
bf16 = bfloat16 = DType("bf16", 2)
i32 = int32 = DType("i32", 4)

_NUMPY = {"f32": "float32", "f16": "float16", "bf16": "float32", "i32": "int32"}
_NAMES = {
    "f32": f32, "float32": f32, "float": f32,
    "f16": f16, "float16": f16, "half": f16,
    "bf16": bf16, "bfloat16": bf16,
    "i32": i32, "int32": i32, "int": i32,
}


def resolve(dtype: Any) -> DType:
    """The element type that a ``DType``, a name, a numpy type or a torch type means.

    >>> resolve("float16"), resolve("bf16")
    (phalanx.f16, phalanx.bf16)
    """
    if type(dtype) is DType:
        return dtype
    if isinstance(dtype, type):
        text = dtype.__name__
    else:
        text = str(getattr(dtype, "name", dtype))
    found = _NAMES.get(text.removeprefix("torch."))
    if found is None:
        raise DTypeError(f"no element type `{text}`, expected one of `f32`, `f16`, `bf16`, `i32`")
    return found
